import { z } from "zod";
import { type Catalog, listAgents } from "../../config/catalog/catalog.ts";
import { ClientMessage } from "../../protocol/client-message.ts";
import { AppError, type ErrorCode } from "../../protocol/errors.ts";
import { envelopeJson } from "../../protocol/frames.ts";
import { type SessionId, userOf } from "../../protocol/ids.ts";
import { confirmationAnswer, questionAnswer } from "../../protocol/interaction.ts";
import type { Command } from "../../protocol/internal/command.ts";
import { type Accepted, SwitchOutcome } from "../../protocol/internal/reply.ts";
import { Routed } from "../../protocol/routed.ts";
import { STATES } from "../../protocol/session.ts";
import { flow } from "../../shared/flow.ts";
import { isObject } from "../../shared/json.ts";
import type { Clock } from "../../shared/ports/clock.ts";
import type { Trace } from "../../shared/ports/tracer.ts";
import type { BlobStore, ConnectionRow } from "../../store/store.ts";
import type { Caller } from "../access/caller.ts";
import { chatCommand, newTarget, type Target, userZoneOf } from "../chat-commands.ts";
import { toAppError } from "../http/problem.ts";
import type { Identity, Write } from "../idempotent-commands.ts";
import type { Routes, TurnContext } from "../route-context.ts";
import type { Sentences } from "../sentences.ts";
import { type Connections, liveSlots } from "../streams/connections.ts";
import { TurnAnswer, turnAnswer } from "./command-answer.ts";

/**
 * A message that is being carried out, and what it is for, as far as that was found: the readers that receive a
 * failure, in addition to the caller. A session is set only after the caller was allowed to see it, or if the message
 * creates it.
 */
interface Asked<M extends ClientMessage = ClientMessage> {
  readonly message: M;
  readonly identity: Identity;
  /** The id of the session, if the message creates one. */
  readonly newSessionId: SessionId;
  connection?: ConnectionRow | undefined;
  target?: Target | undefined;
}

/** Take a session back to the message of this index. A copy replaces the session. */
export type RollBack = (identity: Identity, id: SessionId, messageIndex: number) => Promise<Accepted>;

/** The error of a message that failed. `outcome`: what it is answered with in place of the error. */
export type FailedMessage = (message: ClientMessage, error: AppError) => { error: AppError; outcome?: SwitchOutcome };

/** Failures whose event lists the available agents. */
const AGENT_ERRORS: ReadonlySet<ErrorCode> = new Set([
  "agent_busy",
  "agent_not_found",
  "invalid_agent_id",
  "invalid_agent_id_format",
]);

const MessageAnswer = TurnAnswer.extend({
  outcome: SwitchOutcome.optional(),
  routed: Routed.optional().meta({ description: "which agent hears a sentence that named none, and why" }),
  state: z.enum(STATES).optional().meta({ description: "in reply to `heartbeat`: the session's state" }),
  level: z.number().optional().meta({ description: "in reply to `heartbeat`: a ducked session's level" }),
  leaseMs: z.number().optional().meta({ description: "in reply to `heartbeat`: as in the session" }),
  lapsed: z
    .boolean()
    .optional()
    .meta({ description: "in reply to `heartbeat`: the lease ran out, so only a request brings the session back" }),
  playedUpTo: z
    .int()
    .optional()
    .meta({ description: "in reply to `played`: the position that counts; other than `upTo`: `upTo` changed nothing" }),
  leaseUntil: z
    .number()
    .optional()
    .meta({ description: "in reply to `heartbeat`: as in the session; absent for a session without a place to lose" }),
});

/** What a participant may not have heard while it was away. */
const LAPSED =
  "The session lost its place, because its program sent no heartbeats. Heartbeats do not bring it back; ask with";

/** What these routes depend on. */
interface Context extends TurnContext {
  catalog: () => Catalog;
  store: BlobStore;
  clock: Clock;
  sentences: Sentences;
  connections: Connections;
  rollBack: RollBack | undefined;
  failed: FailedMessage;
}

/** `POST /message`: a client's message, to a session or to a new one. */
export function messageRoutes(app: Routes, context: Context): void {
  const { commands, connections, sentences } = context;

  const schema = {
    tags: ["messages"],
    operationId: "sendMessage",
    summary: "Send a client message",
    description:
      "A turn of the user, an answer to a question, or a command for the session. The request is answered when the message is committed; its effects appear on the streams.",
    body: ClientMessage,
    response: { 200: MessageAnswer },
  };
  /** What a person says needs no `type`. The document of the API requires it: a union without it is ambiguous. */
  const preValidation = async ({ body }: { body: unknown }) => {
    if (isObject(body) && "content" in body && !("type" in body)) {
      Object.assign(body, { type: "chat" });
    }
  };
  app.post("/message", { schema, preValidation }, async (request) => {
    const caller = context.callerOf(request);
    const message = request.body;
    flow.onHop?.("message", message.type);
    if (message.type === "ping") return { success: true as const };
    if (message.type === "heartbeat") return renewLease(caller, message.sessionId, request.trace);
    if (message.type === "played") return notePlayed(caller, message, request.trace);
    const identity = await commands.identify(caller, request, message);
    const newSessionId = commands.deriveId<SessionId>(identity, "session");
    if (message.type === "rollback") return rollBack({ message, identity, newSessionId });
    const asked: Asked = { message, identity, newSessionId };
    try {
      return await answer(asked);
    } catch (thrown) {
      const { error, outcome } = context.failed(message, toAppError(thrown));
      await notify(error.code, error.message, asked);
      if (!outcome) throw error;
      return { success: true as const, outcome };
    }
  });

  async function answer(asked: Asked): Promise<z.infer<typeof MessageAnswer>> {
    const { message, identity, newSessionId } = asked;
    const { caller } = identity;
    const choice = { connectionId: message.connectionId, newSessionId };
    const reply = await commands.carryOut(identity, () => planWrite(asked), choice);
    const { outcome, routed, sessionId } = reply;
    // Undefined for a repeat, which gets the first answer.
    const { target } = asked;
    if (target && outcome?.errorCode) await notify(outcome.errorCode, outcome.message ?? "", asked);
    const created =
      sessionId === newSessionId ? (target ?? (await context.visibleTo(caller).findLiving(sessionId))) : undefined;
    const user = created && { userId: userOf(created.floorId) };
    return { ...turnAnswer(context, reply, user), ...(outcome && { outcome }), ...(routed && { routed }) };
  }

  async function planWrite(asked: Asked): Promise<Write> {
    const { message } = asked;
    const target = await findTarget(asked);
    const command = await commandOf(asked, target);
    return { floorId: target.floorId, command, ifSeq: "ifSeq" in message ? message.ifSeq : undefined };
  }

  /**
   * The named session, or else the one bound last, unless the message says `null`. A chat without either creates a
   * session, or goes on in the one that `routing` names.
   */
  async function findTarget(asked: Asked): Promise<Target> {
    const { message, identity } = asked;
    const { caller } = identity;
    const { connectionId } = message;
    const connection = connectionId === undefined ? undefined : await connections.find(connectionId, caller.ownerId);
    asked.connection = connection;
    const sessionId = await findNamed(asked);
    if (sessionId !== undefined) {
      asked.target = await context.visibleTo(caller).locate(sessionId);
      return asked.target;
    }
    if (message.type !== "chat" && message.type !== "image") throw new AppError("session_not_found");
    const { agentId, workspaceId, locale = identity.locale } = message;
    const wanted = { agentId, ...userZoneOf(message, connection), workspaceId, locale };
    const target = newTarget(caller, asked.newSessionId, wanted);
    asked.target = agentId === undefined ? await sentences.route(caller, message.content, target) : target;
    return asked.target;
  }

  /** The session that a message names, or that its connection is bound to. */
  async function findNamed({ message, identity, connection }: Asked): Promise<SessionId | undefined> {
    if (message.sessionId === null) return undefined;
    if (message.sessionId !== undefined) return message.sessionId;
    const isAnswer = message.type === "tool_confirmation_response" || message.type === "user_question_response";
    // A client may have several sessions that ask, and name the question alone.
    const asking = isAnswer ? await context.visibleTo(identity.caller).asking(message.requestId) : undefined;
    return asking?.sessionId ?? (connection && liveSlots(connection).at(-1)?.sessionId);
  }

  async function commandOf({ message, identity }: Asked, target: Target): Promise<Command> {
    const { sessionId } = target;
    switch (message.type) {
      case "chat":
      case "image":
        return chatCommand(context, message, target, identity);
      case "abort":
      case "pause":
      case "resume":
      case "archive":
        return { type: `session.${message.type}`, sessionId };
      case "switch_agent":
        return { type: "session.switch_agent", sessionId, agentId: message.agentId };
      case "tool_confirmation_response": {
        const { requestId, response } = message;
        return { type: "session.answer", sessionId, requestId, answer: confirmationAnswer(requestId, response) };
      }
      case "user_question_response": {
        const { requestId, response } = message;
        return { type: "session.answer", sessionId, requestId, answer: questionAnswer(requestId, response) };
      }
      default:
        throw new AppError("bad_request");
    }
  }

  /** Its event has the outcome too, also for a repeat, because clients wait for the event. */
  async function rollBack(
    asked: Asked<Extract<ClientMessage, { type: "rollback" }>>,
  ): Promise<z.infer<typeof TurnAnswer>> {
    const { message, identity } = asked;
    try {
      const target = await findTarget(asked);
      if (!context.rollBack) throw new AppError("bad_request");
      const reply = await context.rollBack(identity, target.sessionId, message.rollback.messageIndex);
      await send(asked, "rollback_result", { success: true, sessionId: reply.sessionId });
      return turnAnswer(context, reply);
    } catch (thrown) {
      const error = toAppError(thrown);
      const sessionId = asked.target?.sessionId ?? message.sessionId;
      await send(asked, "rollback_result", { success: false, sessionId, error: error.message });
      throw error;
    }
  }

  /** Report the failure on a stream too. */
  async function notify(errorCode: ErrorCode, text: string, asked: Asked): Promise<void> {
    // What the caller may not see is not named. A new session does not exist yet.
    const isKnown = errorCode !== "session_not_found" && !asked.target?.creates;
    const isAboutAgents = AGENT_ERRORS.has(errorCode);
    const data = { errorCode, message: text, ...(isAboutAgents && { availableAgents: listAgents(context.catalog()) }) };
    const isUnread = !isKnown || errorCode === "session_archived";
    await send(isKnown ? asked : { ...asked, target: undefined }, "error", data, isUnread);
  }

  /**
   * Send an event that is not logged to the connection whose stream reports what became of a message: the named one.
   * Clients of other servers name none and wait for the event: theirs is the caller's own that counts for such
   * requests, if it is bound to the session, or if nobody reads the session's stream. Other readers did not ask.
   */
  async function send(
    { identity, connection: named, target }: Asked,
    type: "error" | "rollback_result",
    data: object,
    isUnread = target === undefined,
  ): Promise<void> {
    const own = named ? undefined : await connections.openOf(identity.caller.ownerId);
    const isOwn = isUnread || own?.slots.some(({ sessionId }) => sessionId === target?.sessionId);
    const connection = named ?? (isOwn ? own : undefined);
    if (!connection) return;
    const about = target && { sessionId: target.sessionId };
    const json = envelopeJson({ type, json: JSON.stringify(data), at: context.clock.now(), ...about });
    await connections.send(connection.id, { kind: "live", body: json });
  }

  /**
   * Renew a session's lease. It is idempotent by nature, so it needs no key and leaves no receipt. Without leases in
   * the catalogue, or without a session, it means nothing.
   */
  async function renewLease(
    caller: Caller,
    sessionId: SessionId | undefined,
    trace: Trace | undefined,
  ): Promise<z.infer<typeof MessageAnswer>> {
    if (sessionId === undefined || !context.catalog().hasLeases) return { success: true };
    const { floorId } = await context.visibleTo(caller).locate(sessionId);
    const renewed = await commands.sendRepeatable(caller, floorId, { type: "session.heartbeat", sessionId }, trace);
    const { session, lapsed } = renewed;
    if (!session) return { success: true, sessionId };
    const { state, level, leaseMs, leaseUntil } = session;
    return {
      success: true,
      sessionId,
      state,
      ...(level !== undefined && { level }),
      ...(leaseMs !== undefined && { leaseMs }),
      ...(leaseUntil !== undefined && { leaseUntil }),
      ...(lapsed && { lapsed, notice: `${LAPSED} ${state === "created" ? "activate" : "resume"}` }),
    };
  }

  /** Only a later position counts, so a repeat is harmless: it needs no key and leaves no receipt. */
  async function notePlayed(
    caller: Caller,
    { sessionId: named, connectionId, messageId, upTo }: Extract<ClientMessage, { type: "played" }>,
    trace: Trace | undefined,
  ): Promise<z.infer<typeof MessageAnswer>> {
    const connection = connectionId && (await connections.find(connectionId, caller.ownerId));
    const sessionId = named ?? (connection && liveSlots(connection).at(-1)?.sessionId);
    if (sessionId === undefined) throw new AppError("session_not_found");
    const { floorId } = await context.visibleTo(caller).locate(sessionId);
    const command = { type: "session.played", sessionId, messageId, upTo } as const;
    const { playedUpTo } = await commands.sendRepeatable(caller, floorId, command, trace);
    return { success: true, sessionId, messageId, ...(playedUpTo !== undefined && { playedUpTo }) };
  }
}
