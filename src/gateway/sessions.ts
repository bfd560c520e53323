import { z } from "zod";
import { BOUNDS } from "../config/bounds.ts";
import { Decision } from "../protocol/decision.ts";
import { AppError } from "../protocol/errors.ts";
import { AgentId, CommandId, ConnectionId, floorOf, MessageId, Name, SessionId } from "../protocol/ids.ts";
import { LogLine, Message } from "../protocol/message.ts";
import { logPosition } from "../protocol/position.ts";
import { Session, STATES } from "../protocol/session.ts";
import { cleanText } from "../protocol/text.ts";
import { type Caller, checkUser, maySee, ownerOf } from "./auth.ts";
import type { Door, Routes } from "./door.ts";
import { plainAnswer } from "./openapi.ts";

const Title = z.string().trim().min(1).max(256).overwrite(cleanText);
const WithId = z.object({ id: SessionId });
const Keyed = z.object({ commandId: CommandId.optional() }).default({});

const CreateBody = z.object({
  id: SessionId.optional(),
  agentId: AgentId.optional(),
  initialAgentId: AgentId.optional(),
  userId: Name.optional(),
  zone: Name.optional(),
  workspaceId: Name.optional(),
  title: Title.optional(),
  connectionId: ConnectionId.optional(),
  activate: z.boolean().default(false),
  commandId: CommandId.optional(),
});

const ListQuery = z.object({
  page: z.coerce.number().int().min(0).max(1_000_000).default(0),
  pageSize: z.coerce.number().int().min(1).max(200).default(20),
  q: z.string().max(1_024).overwrite(cleanText).optional(),
  state: z.enum(STATES).optional(),
  agentId: AgentId.optional(),
  userId: Name.optional(),
  workspaceId: Name.optional(),
  includeArchived: z.stringbool().default(false),
});

const SessionAnswer = z.object({
  success: z.literal(true),
  session: Session,
  decision: Decision.optional(),
  position: z.string().optional(),
});

const VERBS = ["activate", "pause", "resume", "archive", "stop"] as const;

/** Sessions: making, finding and ending them. */
export function sessionRoutes(app: Routes, door: Door): void {
  const { commands, connections, store } = door;
  const position = (seq: number) => logPosition(store.epoch, seq);

  app.post(
    "/session/create",
    { schema: { body: CreateBody.prefault({}), response: { 200: SessionAnswer } } },
    async (request) => {
      const caller = await door.authenticate(request);
      const { body } = request;
      const identity = commands.identify(caller, request, body);
      const row = body.connectionId && (await connections.find(body.connectionId, caller.ownerId));
      const { userId, zone } = body.userId === undefined && row ? { ...row, ...withZone(body.zone) } : body;
      checkUser(caller, userId);
      if (zone !== undefined && userId === undefined) throw new AppError("bad_request", "A zone needs a userId.");
      const sessionId = body.id ?? commands.deriveId<SessionId>(identity, "session");
      if (row) connections.checkRoom(row, sessionId);
      const floorId = floorOf(sessionId, userId, zone);
      const { title, workspaceId, activate } = body;
      const session = {
        sessionId,
        agentId: body.agentId ?? body.initialAgentId,
        userId,
        zone,
        ownerId: ownerOf(caller, userId),
        workspaceId,
        title,
      };
      const reply = await commands.ask(floorId, { type: "session.create", sessionId, session, activate }, identity);
      if (row) await connections.bindMade(row, { sessionId, floorId });
      return answerOf(door, reply);
    },
  );

  app.post(
    "/session/load",
    {
      schema: {
        body: z.object({ sessionId: SessionId, connectionId: ConnectionId.optional() }),
        response: {
          200: z.object({
            success: z.literal(true),
            session: Session.extend({ messages: z.array(Message), hasMore: z.boolean() }),
            position: z.string(),
          }),
        },
      },
    },
    async (request) => {
      const caller = await door.authenticate(request);
      const { sessionId, connectionId } = request.body;
      const row = connectionId && (await connections.find(connectionId, caller.ownerId));
      const { session, head, messages, hasMore } = await viewOf(caller, sessionId, BOUNDS.loadedMessages);
      if (row) await connections.bind(row.id, caller.ownerId, { sessionId, floorId: session.floorId, from: head });
      return { success: true as const, session: { ...session, messages, hasMore }, position: position(head) };
    },
  );

  app.get(
    "/session/list",
    {
      schema: {
        querystring: ListQuery,
        response: {
          200: z.object({
            success: z.literal(true),
            page: z.number(),
            pageSize: z.number(),
            total: z.number(),
            hasMore: z.boolean(),
            sessions: z.array(Session),
          }),
        },
      },
    },
    async (request) => {
      const caller = await door.authenticate(request);
      const { query } = request;
      const ownerId = caller.isOperator ? undefined : caller.ownerId;
      const { sessions, total } = await store.listSessions({
        ...query,
        // A search for nothing is none.
        q: query.q?.trim() || undefined,
        includeArchived: query.includeArchived || query.state === "archived",
        ownerId,
      });
      const { page, pageSize } = query;
      return { success: true as const, page, pageSize, total, hasMore: (page + 1) * pageSize < total, sessions };
    },
  );

  app.get("/session/:id", { schema: { params: WithId, response: { 200: SessionAnswer } } }, async (request) => {
    const { session, head } = await viewOf(await door.authenticate(request), request.params.id, 0);
    return { success: true as const, session, position: position(head) };
  });

  app.patch(
    "/session/:id",
    {
      schema: {
        params: WithId,
        body: z.object({ title: Title, commandId: CommandId.optional() }),
        response: { 200: SessionAnswer },
      },
    },
    async (request) => {
      const caller = await door.authenticate(request);
      const { id: sessionId } = request.params;
      const { title } = request.body;
      const identity = commands.identify(caller, request, request.body);
      const { floorId } = await commands.locate(caller, sessionId);
      return answerOf(door, await commands.ask(floorId, { type: "session.rename", sessionId, title }, identity));
    },
  );

  app.delete(
    "/session/:id",
    {
      schema: {
        params: WithId,
        body: Keyed,
        response: { 200: z.object({ success: z.literal(true), deleted: z.boolean() }) },
      },
    },
    async (request) => {
      const caller = await door.authenticate(request);
      const { id: sessionId } = request.params;
      const identity = commands.identify(caller, request, request.body);
      const before = await commands.findAnswer(identity);
      if (before) return { success: true as const, deleted: before.deleted === true };
      const where = await store.whereIs(sessionId);
      if (!where || where.tombstone || !maySee(caller, where.ownerId))
        return { success: true as const, deleted: false };
      try {
        await commands.ask(where.floorId, { type: "session.delete", sessionId }, identity);
        return { success: true as const, deleted: true };
      } catch (error) {
        // Somebody else was first.
        if (error instanceof AppError && error.code === "session_not_found") {
          return { success: true as const, deleted: false };
        }
        throw error;
      }
    },
  );

  for (const verb of VERBS) {
    app.post(
      `/session/:id/${verb}`,
      { schema: { params: WithId, body: Keyed, response: { 200: SessionAnswer } } },
      async (request) => {
        const caller = await door.authenticate(request);
        const { id: sessionId } = request.params;
        const identity = commands.identify(caller, request, request.body);
        const { floorId } = await commands.locate(caller, sessionId);
        return answerOf(door, await commands.ask(floorId, { type: `session.${verb}`, sessionId }, identity));
      },
    );
  }

  app.get(
    "/session/:id/messages",
    {
      schema: {
        params: WithId,
        querystring: z.object({
          after: MessageId.optional(),
          before: MessageId.optional(),
          limit: z.coerce.number().int().min(1).max(500).default(100),
        }),
        response: {
          200: z.object({
            success: z.literal(true),
            messages: z.array(Message),
            hasMore: z.boolean(),
            position: z.string(),
          }),
        },
      },
    },
    async (request) => {
      const caller = await door.authenticate(request);
      const { id } = request.params;
      await commands.locate(caller, id);
      const { after, before } = request.query;
      if (after !== undefined && before !== undefined) throw new AppError("bad_request", "after or before, not both.");
      const page = await store.listMessages(id, request.query);
      if (!page) throw new AppError("session_not_found");
      return { success: true as const, messages: page.messages, hasMore: page.hasMore, position: position(page.head) };
    },
  );

  app.delete(
    "/session/:id/messages/:messageId",
    {
      schema: {
        params: z.object({ id: SessionId, messageId: MessageId }),
        body: Keyed,
        response: { 200: z.object({ success: z.literal(true), deleted: z.literal(true) }) },
      },
    },
    async (request) => {
      const caller = await door.authenticate(request);
      const { id: sessionId, messageId } = request.params;
      const identity = commands.identify(caller, request, request.body);
      const { floorId } = await commands.locate(caller, sessionId);
      await commands.ask(floorId, { type: "session.withdraw", sessionId, messageId }, identity);
      return { success: true as const, deleted: true as const };
    },
  );

  app.get(
    "/session/:id/messages/:messageId/logs",
    {
      schema: {
        params: z.object({ id: SessionId, messageId: MessageId }),
        querystring: z.object({
          after: z.string().max(64).optional(),
          limit: z.coerce.number().int().min(1).max(1_000).default(200),
        }),
        response: { 200: z.object({ success: z.literal(true), logs: z.array(LogLine), hasMore: z.boolean() }) },
      },
    },
    async (request) => {
      const caller = await door.authenticate(request);
      const { id, messageId } = request.params;
      await commands.locate(caller, id);
      const { after, limit } = request.query;
      const page = await store.listLogs(id, messageId, { ...(after !== undefined && { after }), limit });
      return { success: true as const, ...page };
    },
  );

  app.get(
    "/session/:id/images/:hash",
    {
      schema: {
        params: z.object({ id: SessionId, hash: z.string().regex(/^[a-f0-9]{64}$/) }),
        response: { 200: plainAnswer("image/*", "the bytes of the image") },
      },
    },
    async (request, reply) => {
      const caller = await door.authenticate(request);
      const { id, hash } = request.params;
      // Images go some time after their session.
      const where = await store.whereIs(id);
      if (!where || where.tombstone || !maySee(caller, where.ownerId)) throw new AppError("session_not_found");
      const blob = await store.getBlob(id, hash);
      if (!blob) throw new AppError("not_found");
      return reply
        .type(blob.mimeType)
        .header("Cache-Control", "private, max-age=31536000, immutable")
        .header("X-Content-Type-Options", "nosniff")
        .header("Content-Security-Policy", "default-src 'none'; sandbox")
        .send(Buffer.from(blob.bytes));
    },
  );

  async function viewOf(caller: Caller, id: SessionId, messages: number) {
    const view = await store.viewSession(id, messages);
    if (!view || !maySee(caller, view.session.ownerId)) throw new AppError("session_not_found");
    return view;
  }
}

const withZone = (zone: string | undefined) => (zone === undefined ? {} : { zone });

function answerOf(
  { commands }: Door,
  reply: { session?: Session | undefined; decision?: Decision | undefined; seq?: number | undefined },
) {
  const { session, decision } = reply;
  if (!session) throw new Error("the floor answered without the session");
  return { success: true as const, session, ...(decision && { decision }), ...commands.positionOf(reply) };
}
