import type { FastifyError, FastifyReply, FastifyRequest } from "fastify";
import { z } from "zod";
import { listAgents } from "../config/catalog.ts";
import { connectionTopic } from "../protocol/connection-message.ts";
import { AppError } from "../protocol/errors.ts";
import type { ByeReason } from "../protocol/event.ts";
import { toWire } from "../protocol/floor-message.ts";
import { type FloorId, Name, SessionId } from "../protocol/ids.ts";
import { type ConnectionPosition, logPosition, parseConnectionPosition } from "../protocol/position.ts";
import type { ConnectionRow } from "../store/store.ts";
import { type Caller, checkUser, maySee, visibleTo } from "./auth.ts";
import { ConnectionStream } from "./connection-stream.ts";
import type { Door, Routes } from "./door.ts";
import { FloorStream } from "./floor-stream.ts";
import { floorIdOf } from "./floors.ts";
import { placeFrame } from "./follower.ts";
import { keepListening } from "./keep-listening.ts";
import { plainAnswer } from "./openapi.ts";
import { toAppError } from "./problem.ts";
import { type LogStreamOptions, SessionStream, startAfter } from "./session-stream.ts";
import { SseWriter } from "./sse-writer.ts";
import type { Stream } from "./streams.ts";

/** Sessions one request may name; those there is no room for are told of. */
const MAX_ASKED = 64;

/** Of any length: what is no position is answered with a `reset`, not with a refusal. */
const LastEventId = z.string().optional();
const StreamAnswer = { 200: plainAnswer("text/event-stream", "events, each a frame with one line of data") };
const NoMore = { 204: z.null().meta({ description: "nothing comes after this position, ever" }) };
const Ticket = z.string().optional().meta({ description: "from POST /ticket, where no header can be sent" });
const LogQuery = z.object({ lastEventId: LastEventId, ticket: Ticket });
const ConnectionQuery = z.object({
  sessionId: z
    .union([z.string(), z.array(z.string()).max(MAX_ASKED)])
    .optional()
    .meta({ description: "repeatable: bind these sessions now" }),
  userId: Name.optional(),
  zone: Name.optional(),
  lastEventId: LastEventId,
  ticket: Ticket,
});

/** The event streams. Refused only for good reasons: a browser never comes back after anything but 200. */
export function eventRoutes(app: Routes, door: Door): void {
  const { store, clock, followers, streams, connections, commands, bus, log } = door;
  const config = { isStream: true } as const;

  app.get(
    "/session/:id/events",
    {
      schema: {
        params: z.object({ id: SessionId }),
        querystring: LogQuery,
        response: { ...StreamAnswer, ...NoMore },
      },
      config,
      errorHandler: sendAwayOrRefuse,
    },
    async (request, reply) => {
      const caller = await admit(request);
      const { id } = request.params;
      const position = positionOf(request);
      for (;;) {
        const where = await store.whereIs(id);
        if (!where || !maySee(caller, where.ownerId)) throw new AppError("session_not_found");
        if (where.tombstone) {
          const { head, last } = where.tombstone;
          if (startAfter(position, { epoch: store.epoch, head, lowWater: 0 }).after === head) return noMore(reply);
          return withWriter(request, reply, (writer) => {
            writer.write(placeFrame(logPosition(store.epoch, head), toWire(last).frame));
            writer.bye("ended", clock.now());
          });
        }
        const view = await store.viewSession(id, 0);
        const slice = await store.readSessionLog(id, 0, 1);
        // It was deleted between two looks: the next one finds what is left of it.
        if (!view || !slice) continue;
        const start = startAfter(position, { epoch: store.epoch, head: view.head, lowWater: slice.lowWater });
        const isOver = view.session.state === "archived" && start.after === view.head;
        if (isOver && !start.reset) return noMore(reply);
        return followFloor(where.floorId, request, reply, (options) => {
          const stream = new SessionStream(options, id, start);
          if (isOver) stream.writer.bye("ended", clock.now());
          return stream;
        });
      }
    },
  );

  app.get(
    "/floor/:id/events",
    {
      schema: { params: z.object({ id: z.string().max(2_600) }), querystring: LogQuery, response: StreamAnswer },
      config,
      errorHandler: sendAwayOrRefuse,
    },
    async (request, reply) => {
      const caller = await admit(request);
      const floorId = await floorIdOf(caller, request.params.id, store);
      const { head, lowWater } = await store.readFloorLog(floorId, 0, 1);
      const start = startAfter(positionOf(request), { epoch: store.epoch, head, lowWater });
      return followFloor(floorId, request, reply, (options) => new FloorStream(options, floorId, start));
    },
  );

  const schema = { querystring: ConnectionQuery, response: StreamAnswer };
  app.get("/events", { schema, config, errorHandler: sendAwayOrRefuse }, async (request, reply) => {
    const caller = await admit(request);
    const { userId, zone, sessionId } = request.query;
    checkUser(caller, userId);
    const text = positionOf(request);
    const position = text === undefined ? undefined : parseConnectionPosition(text);
    const resumed = position?.epoch === store.epoch ? await findResumed(position, caller) : undefined;
    const row = resumed ?? (await connections.open({ ownerId: caller.ownerId, userId, zone }));
    const isReset = text !== undefined && !resumed;
    const isVisible = visibleTo(caller);
    return withWriter(request, reply, async (writer) => {
      const stream = new ConnectionStream(
        { writer, connections, followers, store, clock, isVisible, agents: agentsNow, log },
        row,
      );
      streams.add(stream, request.caller);
      const topic = connectionTopic(store.epoch, row.id);
      await stream.listen((listener) => keepListening(bus, topic, listener, () => stream.reconcile()));
      await stream.begin(resumed && position, isReset);
      const known = new Set<string>(row.slots.map((slot) => slot.sessionId));
      for (const asked of [sessionId ?? []].flat()) {
        // A browser that comes back asks for the same again: what has ended since is not bound once more.
        if (!known.has(asked)) await bindAsked(stream, row, caller, asked);
      }
    });
  });

  /** Who asks, if this is a request for an event stream at all. */
  async function admit(request: FastifyRequest): Promise<Caller> {
    const caller = await door.authenticate(request);
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

  /** `?sessionId=`: a session that cannot be bound is told of, and the stream opens all the same. */
  async function bindAsked(stream: ConnectionStream, row: ConnectionRow, caller: Caller, asked: string): Promise<void> {
    try {
      const parsed = SessionId.safeParse(asked);
      if (!parsed.success) throw new AppError("session_not_found");
      const { floorId } = await commands.locate(caller, parsed.data);
      const view = await store.viewSession(parsed.data, 0);
      if (!view) throw new AppError("session_not_found");
      const slot = { sessionId: parsed.data, floorId, from: view.head };
      await stream.sync(await connections.bind(row.id, caller.ownerId, slot));
    } catch (thrown) {
      const { code, message } = toAppError(thrown);
      stream.writer.tell("error", { errorCode: code, message }, clock.now());
    }
  }

  function agentsNow() {
    const catalog = door.catalog();
    return { agents: listAgents(catalog), defaultAgentId: catalog.defaultAgentId };
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
        const stream = open({ writer, follower, store, clock, onClose: () => followers.leave(floorId) });
        streams.add(stream, request.caller);
        stream.begin();
      },
      () => followers.leave(floorId),
    );
  }

  /** Opens the stream, or sends the client away for a while. */
  async function withWriter(
    request: FastifyRequest,
    reply: FastifyReply,
    run: (writer: SseWriter) => void | Promise<void>,
    onRefused?: () => void,
  ): Promise<FastifyReply> {
    const refusal = streams.refusalOf(request.caller);
    if (refusal) {
      onRefused?.();
      sendAway(reply, refusal);
      return reply;
    }
    const writer = writerOf(reply);
    try {
      await run(writer);
    } catch (error) {
      // The head is sent, so all that is left is to end: the client comes back by its position.
      log.warn({ err: error, traceId: request.id }, "an event stream could not be opened");
      writer.destroy();
    }
    return reply;
  }

  /** What cannot be had just now is no reason to refuse a stream. */
  function sendAwayOrRefuse(error: FastifyError, request: FastifyRequest, reply: FastifyReply): void {
    const { code, status, facts } = toAppError(error);
    if (code === "too_many_requests") return sendAway(reply, "overloaded", facts["retryAfterMs"] as number);
    // Thrown on, it is answered like any other failure.
    if (status !== 503) throw error;
    log.warn({ err: error, traceId: request.id }, "an event stream could not be opened");
    sendAway(reply, "overloaded");
  }

  /** With 200, since anything else a browser would never get over. */
  function sendAway(reply: FastifyReply, reason: ByeReason, afterMs = 0): void {
    writerOf(reply).bye(reason, clock.now(), afterMs + streams.reconnectInMs());
  }

  function writerOf(reply: FastifyReply): SseWriter {
    reply.hijack();
    return new SseWriter(reply.raw, reply.getHeaders() as Record<string, string>, clock.now());
  }
}

/** There is nothing after this position and never will be: it ends a browser's reconnecting. */
const noMore = (reply: FastifyReply): FastifyReply => reply.code(204).send();

/** The header wins: a browser that reconnects keeps the query it began with. */
function positionOf(request: FastifyRequest): string | undefined {
  const header = request.headers["last-event-id"];
  const query = (request.query as { lastEventId?: string }).lastEventId;
  const position = typeof header === "string" && header !== "" ? header : query;
  return position === "" ? undefined : position;
}

/** Whether an `Accept` header lets event streams through. */
function acceptsEvents(accept: string | undefined): boolean {
  if (accept === undefined || accept.trim() === "") return true;
  return accept.split(",").some((range) => {
    const [type = "", ...parameters] = range.split(";").map((part) => part.trim().toLowerCase());
    const isRefused = parameters.some((parameter) => /^q=0(\.0*)?$/.test(parameter));
    return !isRefused && ["text/event-stream", "text/*", "*/*"].includes(type);
  });
}
