import type { FastifyError, FastifyReply, FastifyRequest } from "fastify";
import { z } from "zod";
import type { Bus } from "../../bus/bus.ts";
import { type Catalog, listAgents } from "../../config/catalog/catalog.ts";
import { AppError } from "../../protocol/errors.ts";
import type { ByeReason } from "../../protocol/event.ts";
import { positionedFrame, toWire } from "../../protocol/frames.ts";
import { type FloorId, Name, SessionId } from "../../protocol/ids.ts";
import {
  type ConnectionPosition,
  DELETED_INCARNATION,
  incarnationOf,
  logPosition,
  parseConnectionPosition,
} from "../../protocol/position.ts";
import { LogThrottle } from "../../shared/log-throttle.ts";
import type { Clock } from "../../shared/ports/clock.ts";
import type { Logger } from "../../shared/ports/logger.ts";
import type { ConnectionRow, FloorRow, LogStore } from "../../store/store.ts";
import type { Caller } from "../access/caller.ts";
import { checkUserZone } from "../chat-commands.ts";
import { toAppError } from "../http/problem.ts";
import type { Routes, SightContext } from "../route-context.ts";
import { ConnectionStream } from "../streams/connection-stream.ts";
import type { Connections } from "../streams/connections.ts";
import type { FloorWatch } from "../streams/floor-watch.ts";
import { FloorsStream } from "../streams/floors-stream.ts";
import type { Followers } from "../streams/followers.ts";
import {
  FollowedFloorLog,
  FollowedSessionLog,
  LogStream,
  type LogStreamOptions,
  startAfter,
} from "../streams/log-stream.ts";
import type { Stream, Streams } from "../streams/open-streams.ts";
import { SseWriter } from "../streams/sse-writer.ts";
import { ConnectionStreamEvent, FloorStreamEvent, FloorsStreamEvent, SessionStreamEvent } from "./event-schemas.ts";
import { FloorParams } from "./floors.ts";
import { streamAnswer } from "./openapi.ts";

/** Sessions that one request may name. The stream reports the ones it has no room for. */
const MAX_REQUESTED = 64;

/**
 * A position of any length: a malformed one leads to a `reset`, not to a refusal. Clients that reconnect by themselves
 * add the newest one to an address that has one already.
 */
const LastEventId = z
  .union([z.string(), z.array(z.string())])
  .optional()
  .meta({ description: "the position to continue after; of several, the last" });
const NoMore = { 204: z.null().meta({ description: "no event will follow this position" }) };
const Ticket = z.string().optional().meta({ description: "from POST /ticket, for clients that cannot send headers" });
const LogQuery = z.object({ lastEventId: LastEventId, ticket: Ticket });
const ConnectionQuery = z.object({
  sessionId: z
    .union([z.string(), z.array(z.string()).max(MAX_REQUESTED)])
    .optional()
    .meta({ description: "repeatable: bind these sessions now" }),
  userId: Name.optional(),
  zone: Name.optional(),
  lastEventId: LastEventId,
  ticket: Ticket,
});

/** What these routes depend on. */
interface Context extends SightContext {
  catalog: () => Catalog;
  connections: Connections;
  floorWatch: FloorWatch;
  followers: Followers;
  streams: Streams;
  store: LogStore;
  bus: Bus;
  clock: Clock;
  stopwatch: Clock;
  log: Logger;
}

/** The event streams. They rarely refuse, because a browser reconnects only after a 200. */
export function eventRoutes(app: Routes, context: Context): void {
  const { store, clock, stopwatch, followers, streams, connections, bus, log } = context;
  const faultNotes = new LogThrottle();
  const config = { isStream: true } as const;

  app.get(
    "/session/:id/events",
    {
      schema: {
        tags: ["streams"],
        operationId: "streamSession",
        summary: "Stream the events of a session",
        description: "From its first event, or after the position.",
        params: z.object({ id: SessionId }),
        querystring: LogQuery,
        response: { 200: streamAnswer(SessionStreamEvent), ...NoMore },
      },
      config,
      errorHandler: sendAwayOrRefuse,
    },
    async (request, reply) => {
      const caller = await streamCallerOf(request);
      const found = await context.visibleTo(caller).log(request.params.id);
      if (!found) throw new AppError("session_not_found");
      const { head, address } = found;
      const { epoch } = store;
      const lowWater = found.kind === "gone" ? 0 : found.lowWater;
      const incarnation = found.kind === "gone" ? undefined : incarnationOf(found.createdAt);
      const start = startAfter(positionOf(request), { epoch, head, lowWater, incarnation });
      if (found.kind === "gone") {
        if (start.after === head) return noMore(reply);
        return withWriter(request, reply, (writer) => {
          writer.write(positionedFrame(logPosition(epoch, head, DELETED_INCARNATION), toWire(found.last).frame));
          writer.endEarly("ended", clock.now());
        });
      }
      const isOver = found.isArchived && start.after === head;
      if (isOver && !start.reset) return noMore(reply);
      return followFloor(address.floorId, request, reply, (options) => {
        const stream = new LogStream(options, new FollowedSessionLog(store, address.sessionId, incarnation), start);
        if (isOver) stream.writer.endEarly("ended", clock.now());
        return stream;
      });
    },
  );

  app.get(
    "/floor/:id/events",
    {
      schema: {
        tags: ["streams"],
        operationId: "streamFloor",
        summary: "Stream the events of a floor",
        description: "Its decisions, and the transitions of all its sessions.",
        params: FloorParams,
        querystring: LogQuery,
        response: { 200: streamAnswer(FloorStreamEvent) },
      },
      config,
      errorHandler: sendAwayOrRefuse,
    },
    async (request, reply) => {
      const caller = await streamCallerOf(request);
      const floorId = await context.visibleTo(caller).floor(request.params.id);
      const { head, lowWater } = await store.readFloorLog(floorId, 0, 1);
      const start = startAfter(positionOf(request), { epoch: store.epoch, head, lowWater });
      return followFloor(
        floorId,
        request,
        reply,
        (options) => new LogStream(options, new FollowedFloorLog(store, floorId), start),
      );
    },
  );

  app.get(
    "/floors/events",
    {
      schema: {
        tags: ["streams"],
        operationId: "streamFloors",
        summary: "Stream the state of all floors",
        description: "A `reset`, then a `floor` for each floor in use, then one for each change.",
        querystring: z.object({ ticket: Ticket }),
        response: { 200: streamAnswer(FloorsStreamEvent) },
      },
      config,
      errorHandler: sendAwayOrRefuse,
    },
    async (request, reply) => {
      const sessions = context.visibleTo(await streamCallerOf(request));
      await context.floorWatch.ready();
      return withWriter(request, reply, (writer) => {
        const isVisible = (floor: FloorRow) => sessions.seesFloor(floor);
        const position = logPosition(store.epoch, 0);
        const stream = new FloorsStream({
          writer,
          watch: context.floorWatch,
          isVisible,
          position,
          now: () => clock.now(),
        });
        streams.add(stream, request.caller);
        if (!writer.isClosed) stream.begin();
      });
    },
  );

  const { visibleTo } = context;
  const rowNotes = new LogThrottle();
  const shared = { visibleTo, connections, followers, store, bus, clock, agents: agentsNow, log, faultNotes: rowNotes };
  const schema = {
    tags: ["streams"],
    operationId: "streamConnection",
    summary: "Open or resume a connection",
    description: "One stream with the events of every session that is bound to the connection.",
    querystring: ConnectionQuery,
    response: { 200: streamAnswer(ConnectionStreamEvent) },
  };
  app.get("/events", { schema, config, errorHandler: sendAwayOrRefuse }, async (request, reply) => {
    const caller = await streamCallerOf(request);
    const { userId, zone, sessionId } = request.query;
    checkUserZone(caller, { userId, zone });
    const text = positionOf(request);
    const position = text === undefined ? undefined : parseConnectionPosition(text);
    const resumed = position?.epoch === store.epoch ? await findResumed(position, caller) : undefined;
    const row = resumed ?? (await connections.open({ ownerId: caller.ownerId, userId, zone }));
    const isReset = text !== undefined && !resumed;
    return withWriter(request, reply, async (writer) => {
      const stream = new ConnectionStream({ writer, caller, row }, shared);
      streams.add(stream, request.caller);
      await stream.listen();
      const requested = [sessionId ?? []].flat();
      const about = resumed ? undefined : SessionId.safeParse(requested[0]).data;
      await stream.begin(row, { resumed: resumed && position, isReset, about });
      const known = new Set<string>(row.slots.map((slot) => slot.sessionId));
      for (const each of requested) await bindRequested(stream, row, caller, each, known);
    });
  });

  /** The caller, if the request accepts an event stream. */
  async function streamCallerOf(request: FastifyRequest): Promise<Caller> {
    const caller = context.callerOf(request);
    if (!acceptsEvents(request.headers.accept)) throw new AppError("not_acceptable");
    return caller;
  }

  async function findResumed(position: ConnectionPosition, caller: Caller): Promise<ConnectionRow | undefined> {
    try {
      return await connections.find(position.connectionId, caller.ownerId);
    } catch (error) {
      if (error instanceof AppError && error.code === "connection_not_found") return undefined;
      throw error;
    }
  }

  /**
   * Bind the sessions of `?sessionId=`. A session that cannot be bound is reported on the stream, which opens anyway.
   * @param known sessions that the connection was bound to: a reconnecting browser repeats its query, and a session
   *   that has ended since is not bound again
   */
  async function bindRequested(
    stream: ConnectionStream,
    row: ConnectionRow,
    caller: Caller,
    requested: string,
    known: ReadonlySet<string>,
  ): Promise<void> {
    if (known.has(requested)) return;
    try {
      const parsed = SessionId.safeParse(requested);
      if (!parsed.success) throw new AppError("session_not_found");
      const { session, head } = await context.visibleTo(caller).view(parsed.data, 0);
      if (known.has(session.id)) return;
      const slot = { sessionId: session.id, floorId: session.floorId, from: head, sessionCreatedAt: session.createdAt };
      await stream.sync(await connections.bind(row.id, caller.ownerId, slot));
    } catch (thrown) {
      const { code, message } = toAppError(thrown);
      stream.writer.send("error", { errorCode: code, message }, clock.now());
    }
  }

  function agentsNow(workspaceId: string | undefined) {
    const catalog = context.catalog();
    return { agents: listAgents(catalog, workspaceId), defaultAgentId: catalog.defaultAgentId };
  }

  async function followFloor(
    floorId: FloorId,
    request: FastifyRequest,
    reply: FastifyReply,
    open: (options: LogStreamOptions) => Stream & { begin(): void },
  ): Promise<FastifyReply> {
    const follower = await followers.join(floorId);
    return withWriter(
      request,
      reply,
      (writer) => {
        const stream = open({ writer, follower, followers, store, clock });
        streams.add(stream, request.caller);
        stream.begin();
      },
      () => followers.leave(floorId),
    );
  }

  /** Open the stream, or tell the client to reconnect later. */
  async function withWriter(
    request: FastifyRequest,
    reply: FastifyReply,
    run: (writer: SseWriter) => void | Promise<void>,
    onRefused?: () => void,
  ): Promise<FastifyReply> {
    const refusal = streams.makeRoom(request.caller);
    if (refusal) {
      onRefused?.();
      sendAway(reply, refusal);
      return reply;
    }
    const writer = writerOf(reply);
    try {
      await run(writer);
    } catch (error) {
      // The head has been sent, so only ending the stream is left. The client reconnects with its position.
      noteNotOpened(error, request);
      writer.destroy();
    }
    return reply;
  }

  /** Every client reconnects within seconds, and finds the same fault. */
  function noteNotOpened(error: unknown, request: FastifyRequest): void {
    if (!faultNotes.isDue(clock.now())) return;
    log.warn({ err: error, traceId: request.id }, "an event stream could not be opened");
  }

  /** Answer a temporary failure on the stream, and refuse the request for any other failure. */
  function sendAwayOrRefuse(error: FastifyError, request: FastifyRequest, reply: FastifyReply): void {
    const { code, status, retryAfterMs } = toAppError(error);
    if (code === "too_many_requests") return sendAway(reply, "overloaded", retryAfterMs);
    // Thrown again, the error is answered like any other failure.
    if (status !== 503) throw error;
    noteNotOpened(error, request);
    sendAway(reply, "overloaded");
  }

  /** Answered with 200, because browsers do not reconnect after any other status. */
  function sendAway(reply: FastifyReply, reason: ByeReason, afterMs = 0): void {
    writerOf(reply, "").endEarly(reason, clock.now(), afterMs + streams.reconnectInMs());
  }

  function writerOf(reply: FastifyReply, opening?: string): SseWriter {
    reply.hijack();
    const isChunked = !BROWSER.test(reply.request.headers["user-agent"] ?? "");
    const options = { isChunked, ...(opening !== undefined && { opening }) };
    return new SseWriter(reply.raw, reply.getHeaders() as Record<string, string>, stopwatch.now(), options);
  }
}

/**
 * All browsers call themselves so. Of other clients, some read blocks of a fixed size unless the body comes in chunks,
 * so that they would get an event only together with later ones: Python's requests and urllib3.
 */
const BROWSER = /^Mozilla\//;

/** 204: no event follows this position. It ends a browser's reconnecting. */
const noMore = (reply: FastifyReply): FastifyReply => reply.code(204).send();

/** The header takes precedence: a reconnecting browser keeps its first query. */
function positionOf(request: FastifyRequest): string | undefined {
  const { lastEventId } = request.query as { lastEventId?: string | string[] };
  // Node.js joins headers of this name. No position has a comma.
  const header = [request.headers["last-event-id"] ?? ""].flat().join().split(",").at(-1)!.trim();
  const position = header === "" ? [lastEventId ?? ""].flat().at(-1) : header;
  return position === "" ? undefined : position;
}

/** Whether an `Accept` header allows event streams. */
function acceptsEvents(accept: string | undefined): boolean {
  if (accept === undefined || accept.trim() === "") return true;
  return accept.split(",").some((range) => {
    const [type = "", ...parameters] = range.split(";").map((part) => part.trim().toLowerCase());
    const isRefused = parameters.some((parameter) => /^q=0(\.0*)?$/.test(parameter));
    return !isRefused && ["text/event-stream", "text/*", "*/*"].includes(type);
  });
}
