import type { FastifyReply, FastifyRequest } from "fastify";
import { z } from "zod";
import type { Copies } from "../../copies/copies.ts";
import type { Caller } from "../../gateway/access/caller.ts";
import type { Identity } from "../../gateway/idempotent-commands.ts";
import type { Routes } from "../../gateway/route-context.ts";
import { streamAnswer } from "../../gateway/routes/openapi.ts";
import { AppError, type ErrorCode } from "../../protocol/errors.ts";
import { type AgentId, SessionId } from "../../protocol/ids.ts";
import type { BlobStore, LogStore } from "../../store/store.ts";
import { headersOf, LiveRuns, type LiveRunsContext, type RunAddress } from "../live-runs.ts";
import { mustHaveRoom, type RunStreamContext, streamRun } from "../run-stream.ts";
import { ChatSessions } from "./chat-sessions.ts";
import { refusedReply, UiTranslator } from "./ui-message-stream.ts";
import { readLast, type SentChat, UiChatBody } from "./ui-request.ts";

const PROTOCOL = { "x-vercel-ai-ui-message-stream": "v1" };
const HEADERS = { ...PROTOCOL, "cache-control": "no-cache, no-transform" };

/**
 * Refusals of a turn, which the page shows to its user as the sentence of an answer: another turn may be taken later.
 */
const SAID_TO_USERS: ReadonlySet<ErrorCode> = new Set([
  "rejected",
  "agent_busy",
  "budget_exhausted",
  "session_archived",
  "illegal_command",
]);

/** One chunk of the stream. Further types may appear; docs/use/doors.md lists those of Interlock. */
const Chunk = z.looseObject({ type: z.string() }).meta({ id: "UiMessageChunk" });
const CHUNKS = streamAnswer(Chunk);
const NOTHING = { 204: z.null().meta({ description: "no reply is in progress" }) };

/** What these routes depend on. */
interface Context extends LiveRunsContext, RunStreamContext {
  copies: Copies;
  store: BlobStore & LogStore;
}

/** `/api/chat`: the protocol of `useChat`, including resumption. */
export function uiChatRoutes(app: Routes, context: Context): void {
  const runs = new LiveRuns(context);
  const { commands, copies, streams } = context;
  const params = z.object({ id: SessionId });

  app.post(
    "/api/chat",
    {
      schema: {
        tags: ["doors"],
        operationId: "postChat",
        summary: "Answer the last message, for useChat",
        description: "The reply is a UI message stream of the AI SDK. A disconnect does not abort it.",
        body: UiChatBody,
        response: { 200: CHUNKS },
      },
      config: { conversation: { list: "messages" } },
    },
    async (request, reply) => {
      const caller = context.callerOf(request);
      mustHaveRoom(streams, request.caller);
      const { agentId, userId, zone, workspaceId } = request.body;
      const identity = await commands.identify(caller, request, request.body);
      const last = readLast(request.body, request.isConversationCut);
      const sessions = await ChatSessions.of(context.visibleTo(caller), request.body.id);
      const sessionId = sessions.newest?.id ?? request.body.id;
      if ("answers" in last) {
        const { answers, openParts } = last;
        return runs.answer(identity, sessionId, answers, (address) => follow(request, reply, address, openParts));
      }
      try {
        const again = await repeat(identity, sessions, last, agentId);
        if (again) return await follow(request, reply, again);
        const { chat, playedUpTo } = last;
        const wanted = { sessionId, agentId, userId, zone, workspaceId, chat, playedUpTo };
        return await runs.begin(identity, wanted, (address) => follow(request, reply, address));
      } catch (error) {
        if (!(error instanceof AppError && SAID_TO_USERS.has(error.code))) throw error;
        const messageId = commands.deriveId(identity, "refusal");
        return reply.headers(HEADERS).type("text/event-stream; charset=utf-8").send(refusedReply(messageId, error));
      }
    },
  );

  app.get(
    "/api/chat/:id/stream",
    {
      schema: {
        tags: ["doors"],
        operationId: "resumeChat",
        summary: "Read the current reply from its beginning",
        description: "For useChat after a lost connection, or on another page.",
        params,
        response: { 200: CHUNKS, ...NOTHING },
      },
    },
    async (request, reply) => {
      const caller = context.callerOf(request);
      mustHaveRoom(streams, request.caller);
      const address = await find(caller, request.params.id);
      return address ? follow(request, reply, address) : reply.code(204).send(null);
    },
  );

  app.delete(
    "/api/chat/:id/stream",
    {
      schema: {
        tags: ["doors"],
        operationId: "abortChat",
        summary: "Abort the current reply",
        description: "Closing a stream does not abort the reply, because the page may reconnect.",
        params,
        response: { 200: z.object({ success: z.literal(true), aborted: z.boolean() }) },
      },
    },
    async (request) => {
      const caller = context.callerOf(request);
      const address = await find(caller, request.params.id);
      if (address) await runs.abort(await commands.identify(caller, request), address);
      return { success: true as const, aborted: address !== undefined };
    },
  );

  /** The current run. A chat without a message has no session yet. */
  async function find(caller: Caller, id: SessionId): Promise<RunAddress | undefined> {
    const { newest } = await ChatSessions.of(context.visibleTo(caller), id);
    return newest && (await runs.find(caller, newest.id));
  }

  /**
   * Run a message in a copy that replaces the chat's session, so that the session has the page's messages: an edited or
   * regenerated one, and one after messages that the page has taken back.
   * @returns undefined if the page has only added the message, or if the chat does not have the one that it repeats, as
   *   after a refusal of the floor
   */
  async function repeat(
    identity: Identity,
    sessions: ChatSessions,
    { chat: { id, content, images }, isRepeated, earlier }: SentChat,
    agentId: AgentId | undefined,
  ): Promise<RunAddress | undefined> {
    const { newest } = sessions;
    if (!newest) return undefined;
    const holder = isRepeated && id ? await sessions.holderOf(id) : undefined;
    const repeated = holder && id && { source: holder, messageId: id, images };
    const removal = isRepeated || !earlier ? undefined : await sessions.takenBackFrom(earlier, id);
    const from = repeated ?? (removal && { ...removal, images: images ?? [] });
    if (!from) return undefined;
    const edit = { ...from, id, content, agentId, replaces: newest.id };
    return await runs.addressOf(identity.caller, await copies.edit(identity, edit));
  }

  async function follow(
    request: FastifyRequest,
    reply: FastifyReply,
    address: RunAddress,
    openParts?: ReadonlySet<string>,
  ): Promise<FastifyReply> {
    void reply.headers({ ...PROTOCOL, ...headersOf(address) });
    const translator = new UiTranslator(address, openParts);
    return streamRun(address, { context, runs, request, reply, translator, onClose: () => {} });
  }
}
