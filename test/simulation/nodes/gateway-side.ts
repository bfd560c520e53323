import type { ServerResponse } from "node:http";
import type { Bus } from "../../../src/bus/bus.ts";
import type { Caller } from "../../../src/gateway/access/caller.ts";
import { LOCAL } from "../../../src/gateway/access/caller.ts";
import { KnownAddresses } from "../../../src/gateway/access/known-addresses.ts";
import { VisibleSessions } from "../../../src/gateway/access/visible-sessions.ts";
import { ConnectionStream } from "../../../src/gateway/streams/connection-stream.ts";
import { Connections } from "../../../src/gateway/streams/connections.ts";
import { Followers } from "../../../src/gateway/streams/followers.ts";
import {
  FollowedFloorLog,
  FollowedSessionLog,
  LogStream,
  type LogStreamOptions,
  startAfter,
} from "../../../src/gateway/streams/log-stream.ts";
import { type Stream, Streams } from "../../../src/gateway/streams/open-streams.ts";
import { SseWriter } from "../../../src/gateway/streams/sse-writer.ts";
import { AppError } from "../../../src/protocol/errors.ts";
import { positionedFrame, toWire } from "../../../src/protocol/frames.ts";
import type { ConnectionId, FloorId, SessionId } from "../../../src/protocol/ids.ts";
import { type ConnectionPosition, logPosition, parseConnectionPosition } from "../../../src/protocol/position.ts";
import { LogThrottle } from "../../../src/shared/log-throttle.ts";
import type { Clock } from "../../../src/shared/ports/clock.ts";
import type { Logger } from "../../../src/shared/ports/logger.ts";
import type { ConnectionRow, Store } from "../../../src/store/store.ts";
import type { Wire } from "../clients/wire.ts";

/** What a reader wants to follow. */
export type Target = { floorId: FloorId; sessionId?: SessionId };
/** `over`: no event follows this position (204); `unknown`: there is no such session (404). */
export type Opening = "open" | "over" | "unknown";

const AGENTS = { agents: [], defaultAgentId: "music" };

export interface GatewaySideOptions {
  bus: Bus;
  store: Store;
  clock: Clock;
  log: Logger;
  /** Short enough to name a connection. */
  newId: () => string;
  random: () => number;
  resumePosition: (position: ConnectionPosition) => ConnectionPosition;
  respond: (response: ServerResponse) => ServerResponse;
}

/** A gateway's streams without its routes: what `GET …/events` does after the request is checked. */
export class GatewaySide {
  readonly followers: Followers;
  readonly streams: Streams;
  readonly #connections: Connections;
  readonly #options: GatewaySideOptions;

  constructor(options: GatewaySideOptions) {
    this.#options = options;
    const { clock, random } = options;
    this.followers = new Followers(options);
    this.streams = new Streams({ clock, stopwatch: clock, random, onCut: () => {} });
    const newConnectionId = () => options.newId() as ConnectionId;
    this.#connections = new Connections({ ...options, newConnectionId });
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
    return this.#orSendAway(wire, () =>
      sessionId === undefined ? this.#openFloor(floorId, position, wire) : this.#openSession(sessionId, position, wire),
    );
  }

  openConnection(position: string | undefined, wire: Wire): Promise<Opening> {
    return this.#orSendAway(wire, () => this.#openConnection(position, wire));
  }

  /** Bind a session that was created through a connection. @returns false if the connection has no room for it */
  async bind(connectionId: ConnectionId, sessionId: SessionId, floorId: FloorId): Promise<boolean> {
    const row = await this.#connections.find(connectionId, undefined);
    await this.#connections.bindMade(row, { sessionId, floorId });
    const { slots } = await this.#connections.find(connectionId, undefined);
    return slots.some((slot) => slot.sessionId === sessionId);
  }

  /** A read that fails at the moment is no reason to refuse a stream. */
  async #orSendAway(wire: Wire, open: () => Promise<Opening>): Promise<Opening> {
    try {
      return await open();
    } catch (error) {
      if (!(error instanceof AppError) || error.status !== 503) throw error;
      const { clock } = this.#options;
      const writer = new SseWriter(this.#options.respond(wire.asResponse), {}, clock.now(), { opening: "" });
      writer.endEarly("overloaded", clock.now(), this.streams.reconnectInMs());
      return "open";
    }
  }

  async #openSession(id: SessionId, position: string | undefined, wire: Wire): Promise<Opening> {
    const { store, clock } = this.#options;
    const where = await store.whereIs(id);
    if (!where) return "unknown";
    if (where.tombstone) {
      const { head, last } = where.tombstone;
      if (startAfter(position, { epoch: store.epoch, head, lowWater: 0 }).after === head) return "over";
      const writer = new SseWriter(this.#options.respond(wire.asResponse), {}, clock.now());
      writer.write(positionedFrame(logPosition(store.epoch, head), toWire(last).frame));
      writer.endEarly("ended", clock.now());
      return "open";
    }
    const view = await store.viewSession(id, 0);
    const slice = await store.readSessionLog(id, 0, 1);
    // It was deleted between two reads.
    if (!view || !slice) return this.#openSession(id, position, wire);
    const start = startAfter(position, { epoch: store.epoch, head: view.head, lowWater: slice.lowWater });
    const isOver = view.session.state === "archived" && start.after === view.head;
    if (isOver && !start.reset) return "over";
    return this.#follow(where.floorId, wire, (options) => {
      const stream = new LogStream(options, new FollowedSessionLog(options.store, id), start);
      if (isOver) stream.writer.endEarly("ended", clock.now());
      return stream;
    });
  }

  async #openConnection(text: string | undefined, wire: Wire): Promise<"open"> {
    const { store, clock, bus, log } = this.#options;
    const parsed = text === undefined ? undefined : parseConnectionPosition(text);
    const position = parsed && this.#options.resumePosition(parsed);
    const resumed = position && (await this.#findResumed(position.connectionId));
    const row = resumed ?? (await this.#connections.open({}));
    const isReset = text !== undefined && !resumed;
    const writer = new SseWriter(this.#options.respond(wire.asResponse), {}, clock.now());
    const connections = this.#connections;
    const { followers } = this;
    const agents = () => AGENTS;
    const places = new KnownAddresses(clock);
    const visibleTo = (caller: Caller) => new VisibleSessions(caller, { store, addresses: places });
    const faultNotes = new LogThrottle();
    const shared = { visibleTo, connections, followers, store, bus, clock, agents, log, faultNotes };
    const stream = new ConnectionStream({ writer, caller: LOCAL, row }, shared);
    try {
      this.streams.add(stream);
      await stream.listen();
      await stream.begin(row, { resumed: resumed && position, isReset });
    } catch {
      // The head is sent, so the stream can only end: the client reconnects with its position.
      writer.destroy();
    }
    return "open";
  }

  async #findResumed(id: ConnectionId): Promise<ConnectionRow | undefined> {
    try {
      return await this.#connections.find(id, undefined);
    } catch (error) {
      if (error instanceof AppError && error.code === "connection_not_found") return undefined;
      throw error;
    }
  }

  async #openFloor(floorId: FloorId, position: string | undefined, wire: Wire): Promise<"open"> {
    const { store } = this.#options;
    const { head, lowWater } = await store.readFloorLog(floorId, 0, 1);
    const start = startAfter(position, { epoch: store.epoch, head, lowWater });
    return this.#follow(
      floorId,
      wire,
      (options) => new LogStream(options, new FollowedFloorLog(options.store, floorId), start),
    );
  }

  async #follow(
    floorId: FloorId,
    wire: Wire,
    make: (options: LogStreamOptions) => Stream & { begin(): void },
  ): Promise<"open"> {
    const { store, clock } = this.#options;
    const follower = await this.followers.join(floorId);
    const writer = new SseWriter(this.#options.respond(wire.asResponse), {}, clock.now());
    const stream = make({ writer, follower, followers: this.followers, store, clock });
    this.streams.add(stream);
    stream.begin();
    return "open";
  }
}
