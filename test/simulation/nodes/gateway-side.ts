import type { ServerResponse } from "node:http";
import type { FastifyReply, FastifyRequest, RouteShorthandOptions } from "fastify";
import type { Bus } from "../../../src/bus/bus.ts";
import { LOCAL } from "../../../src/gateway/access/caller.ts";
import { KnownAddresses } from "../../../src/gateway/access/known-addresses.ts";
import { VisibleSessions } from "../../../src/gateway/access/visible-sessions.ts";
import type { Routes } from "../../../src/gateway/route-context.ts";
import { eventRoutes } from "../../../src/gateway/routes/events.ts";
import { Connections } from "../../../src/gateway/streams/connections.ts";
import { Followers } from "../../../src/gateway/streams/followers.ts";
import { Streams } from "../../../src/gateway/streams/open-streams.ts";
import { AppError } from "../../../src/protocol/errors.ts";
import type { ConnectionId, FloorId, SessionId } from "../../../src/protocol/ids.ts";
import type { Clock } from "../../../src/shared/ports/clock.ts";
import type { Logger } from "../../../src/shared/ports/logger.ts";
import type { Store } from "../../../src/store/store.ts";
import { EXAMPLE_AGENTS, makeCatalog } from "../../support/catalogs/catalog.ts";
import type { Wire } from "../clients/wire.ts";

/** What a reader wants to follow. */
export type Target = { floorId: FloorId; sessionId?: SessionId };
/** `over`: no event follows this position (204); `unknown`: there is no such session (404). */
export type Opening = "open" | "over" | "unknown";

const CATALOG = makeCatalog(EXAMPLE_AGENTS);

type Handler = (request: FastifyRequest, reply: FastifyReply) => Promise<unknown>;
type ErrorHandler = (error: unknown, request: FastifyRequest, reply: FastifyReply) => void;
type Route = { handle: Handler; errorHandler: ErrorHandler };

export interface GatewaySideOptions {
  bus: Bus;
  store: Store;
  clock: Clock;
  log: Logger;
  /** Short enough to name a connection. */
  newId: () => string;
  random: () => number;
  /** The position with which a client of a connection reconnects, as it arrives. */
  resumePosition: (position: string) => string;
  respond: (response: ServerResponse) => ServerResponse;
}

/** A gateway's routes of event streams, without its server: a request comes in when the server has checked it. */
export class GatewaySide {
  readonly followers: Followers;
  readonly streams: Streams;
  readonly #connections: Connections;
  readonly #options: GatewaySideOptions;
  readonly #routes = new Map<string, Route>();

  constructor(options: GatewaySideOptions) {
    this.#options = options;
    const { clock, random, store } = options;
    this.followers = new Followers(options);
    this.streams = new Streams({ clock, stopwatch: clock, random, onCut: () => {} });
    const newConnectionId = () => options.newId() as ConnectionId;
    this.#connections = new Connections({ ...options, newConnectionId });
    const get = (path: string, { errorHandler }: RouteShorthandOptions, handle: Handler) =>
      this.#routes.set(path, { handle, errorHandler: errorHandler as ErrorHandler });
    const addresses = new KnownAddresses(clock);
    eventRoutes({ get } as unknown as Routes, {
      ...options,
      stopwatch: clock,
      followers: this.followers,
      streams: this.streams,
      connections: this.#connections,
      callerOf: () => LOCAL,
      visibleTo: (caller) => new VisibleSessions(caller, { store, addresses }),
      catalog: () => CATALOG,
      // Nobody asks for the list of all floors.
      floorWatch: undefined as never,
    });
  }

  start(): void {
    this.followers.start();
    this.streams.start();
  }

  stop(): void {
    this.streams.stop();
    this.followers.stop();
  }

  open({ floorId, sessionId }: Target, position: string | undefined, wire: Wire): Promise<Opening> {
    if (sessionId === undefined) return this.#ask("/floor/:id/events", floorId, position, wire);
    return this.#ask("/session/:id/events", sessionId, position, wire);
  }

  openConnection(position: string | undefined, wire: Wire): Promise<Opening> {
    return this.#ask("/events", "", position && this.#options.resumePosition(position), wire);
  }

  /** Bind a session that was created through a connection. @returns false if the connection has no room for it */
  async bind(connectionId: ConnectionId, sessionId: SessionId, floorId: FloorId): Promise<boolean> {
    const row = await this.#connections.find(connectionId, undefined);
    await this.#connections.bindMade(row, { sessionId, floorId });
    const { slots } = await this.#connections.find(connectionId, undefined);
    return slots.some((slot) => slot.sessionId === sessionId);
  }

  async #ask(path: string, id: string, position = "", wire: Wire): Promise<Opening> {
    const { handle, errorHandler } = this.#routes.get(path)!;
    const headers = { "user-agent": "Mozilla/5.0", "last-event-id": position };
    const request = { id: "", headers, params: { id }, query: {}, caller: undefined } as unknown as FastifyRequest;
    let answer: Opening = "open";
    const send = () => {
      answer = "over";
    };
    const raw = this.#options.respond(wire.asResponse);
    const parts = { request, raw, hijack() {}, getHeaders: () => ({}), code: () => ({ send }) };
    const reply = parts as unknown as FastifyReply;
    try {
      await handle(request, reply).catch((error) => errorHandler(error, request, reply));
    } catch (error) {
      if (!(error instanceof AppError) || error.code !== "session_not_found") throw error;
      answer = "unknown";
    }
    return answer;
  }
}
