import { createHash } from "node:crypto";
import { z } from "zod";
import { listAgents } from "../config/catalog.ts";
import { ClientMessage, findAgentIdFault, MAX_CONTENT, MAX_IMAGE } from "../protocol/client-message.ts";
import type { Command, NewSession } from "../protocol/command.ts";
import { Decision } from "../protocol/decision.ts";
import { AppError, type ErrorCode } from "../protocol/errors.ts";
import { envelopeJson } from "../protocol/event.ts";
import { dataFrame, encodeFloorMessage, floorTopic } from "../protocol/floor-message.ts";
import { type FloorId, floorOf, MessageId, RunId, SessionId } from "../protocol/ids.ts";
import { confirmationAnswer, questionAnswer } from "../protocol/interaction.ts";
import type { ImageRef } from "../protocol/message.ts";
import { type Accepted, SwitchOutcome } from "../protocol/reply.ts";
import type { ConnectionRow } from "../store/store.ts";
import { type Caller, checkUser, ownerOf } from "./auth.ts";
import type { Identity } from "./commands.ts";
import { liveSlots } from "./connections.ts";
import type { Door, Routes } from "./door.ts";
import { toAppError } from "./problem.ts";

type Chat = Extract<ClientMessage, { type: "chat" | "image" }>;

/** What a message is about: a session that is there, or one that it brings. */
interface Target {
  sessionId: SessionId;
  floorId: FloorId;
  brings?: NewSession | undefined;
}

/** Who hears of a failure beside the caller; a session only once the caller turned out to be allowed to see it. */
interface Heard {
  row: ConnectionRow | undefined;
  target: Target | undefined;
}

const MessageAnswer = z.object({
  success: z.literal(true),
  sessionId: SessionId.optional(),
  messageId: MessageId.optional(),
  runId: RunId.optional(),
  decision: Decision.optional(),
  outcome: SwitchOutcome.optional(),
  interrupted: z.object({ runId: RunId, messageId: MessageId }).optional(),
  position: z.string().optional(),
});

/** `POST /message`: what a client says, to a session or to nobody yet. */
export function messageRoutes(app: Routes, door: Door): void {
  const { commands, connections, store } = door;

  app.post("/message", { schema: { body: ClientMessage, response: { 200: MessageAnswer } } }, async (request) => {
    const caller = await door.authenticate(request);
    const message = request.body;
    if (message.type === "ping" || message.type === "heartbeat") return { success: true as const };
    const identity = commands.identify(caller, request, message);
    const row = message.connectionId && (await connections.find(message.connectionId, caller.ownerId));
    const heard: Heard = { row: row || undefined, target: undefined };
    try {
      return await answer(caller, message, identity, heard);
    } catch (thrown) {
      const error = inOrder(message, toAppError(thrown));
      await notify(error.code, error.message, heard);
      if (message.type !== "switch_agent" || !SWITCH_OUTCOMES.has(error.code)) throw error;
      const { code: errorCode, message: text } = error;
      const availableAgents = listAgents(door.catalog());
      return { success: true as const, outcome: { errorCode, message: text, availableAgents } };
    }
  });

  async function answer(
    caller: Caller,
    message: ClientMessage,
    identity: Identity,
    heard: Heard,
  ): Promise<z.infer<typeof MessageAnswer>> {
    const { row } = heard;
    const before = message.sessionId === undefined ? await commands.findAnswer(identity) : undefined;
    if (before) {
      if (row) await bindAgain(row, before, identity);
      return toAnswer(before);
    }
    const target = await findTarget(caller, message, identity, row);
    if (!target.brings) heard.target = target;
    else if (row) connections.checkRoom(row, target.sessionId);
    const reply = await commands.ask(target.floorId, await commandOf(message, target, identity), identity);
    if (target.brings && row) await connections.bindMade(row, target);
    const { outcome } = reply;
    if (outcome?.errorCode) await notify(outcome.errorCode, outcome.message ?? "", heard);
    return toAnswer(reply);
  }

  /** The first answer to a quick chat may have been lost before its session was bound. */
  async function bindAgain(row: ConnectionRow, before: Accepted, identity: Identity): Promise<void> {
    const sessionId = commands.deriveId<SessionId>(identity, "session");
    const where = before.sessionId === sessionId ? await store.whereIs(sessionId) : undefined;
    if (where && !where.tombstone) await connections.bindMade(row, { sessionId, floorId: where.floorId });
  }

  /** The session that is named, else the one bound last; a chat without either brings one. */
  async function findTarget(
    caller: Caller,
    message: ClientMessage,
    identity: Identity,
    row: ConnectionRow | undefined,
  ): Promise<Target> {
    const sessionId = message.sessionId ?? (row && liveSlots(row).at(-1)?.sessionId);
    if (sessionId !== undefined) return { sessionId, floorId: (await commands.locate(caller, sessionId)).floorId };
    if (message.type !== "chat" && message.type !== "image") throw new AppError("session_not_found");
    const { userId, zone } = message.userId === undefined && row ? { ...row, ...zoneOf(message) } : message;
    checkUser(caller, userId);
    if (zone !== undefined && userId === undefined) throw new AppError("bad_request", "A zone needs a userId.");
    const made = commands.deriveId<SessionId>(identity, "session");
    const { agentId, workspaceId } = message;
    const brings = { sessionId: made, agentId, userId, zone, ownerId: ownerOf(caller, userId), workspaceId };
    return { sessionId: made, floorId: floorOf(made, userId, zone), brings };
  }

  async function commandOf(message: ClientMessage, target: Target, identity: Identity): Promise<Command> {
    const { sessionId } = target;
    switch (message.type) {
      case "chat":
      case "image":
        return chatCommand(message, target, identity);
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

  async function chatCommand(message: Chat, target: Target, identity: Identity): Promise<Command> {
    const { sessionId, brings } = target;
    if (message.content.length > MAX_CONTENT) throw new AppError("too_large", `content is at most ${MAX_CONTENT} long`);
    if (message.content.trim() === "" && !message.images?.length) {
      const issues = [{ path: "body.content", message: "must not be empty without images" }];
      throw new AppError("bad_request", undefined, { facts: { issues } });
    }
    const images = await keepImages(sessionId, message.images ?? []);
    const turn = {
      messageId: message.id ?? commands.deriveId<MessageId>(identity, "message"),
      runId: commands.deriveId<RunId>(identity, "run"),
      content: message.content,
      ...(images.length > 0 && { images }),
    };
    return { type: "session.chat", sessionId, turn, ...(brings && { session: brings }) };
  }

  /** Stored first, so that only a reference travels (rule C22). */
  async function keepImages(sessionId: SessionId, images: NonNullable<Chat["images"]>): Promise<ImageRef[]> {
    if (images.some(({ data }) => data.length > MAX_IMAGE)) {
      throw new AppError("too_large", `an image is at most ${MAX_IMAGE} characters of base64`);
    }
    const refs: ImageRef[] = [];
    for (const { data, mimeType } of images) {
      const bytes = Buffer.from(data, "base64");
      const hash = createHash("sha256").update(bytes).digest("hex");
      await store.putBlob(sessionId, { hash, mimeType, bytes, createdAt: door.clock.now() });
      refs.push({ hash, mimeType, bytes: bytes.byteLength });
    }
    return refs;
  }

  /** What failed is told on the stream too: to the connection that was named, else to the session's live readers. */
  async function notify(errorCode: ErrorCode, text: string, { row, target }: Heard): Promise<void> {
    if (!row && !target) return;
    const isAboutAgents = errorCode.includes("agent");
    const data = { errorCode, message: text, ...(isAboutAgents && { availableAgents: listAgents(door.catalog()) }) };
    const about = target ? { sessionId: target.sessionId } : {};
    const json = envelopeJson({ type: "error", json: JSON.stringify(data), at: door.clock.now(), ...about });
    if (row) return connections.tell(row.id, { kind: "notice", body: json });
    const { floorId, sessionId } = target!;
    const frame = dataFrame(json);
    await door.bus.publish(
      floorTopic(store.epoch, floorId),
      encodeFloorMessage({ kind: "notice", floorId, sessionId, frame }),
    );
  }

  function toAnswer(reply: Accepted): z.infer<typeof MessageAnswer> {
    const { sessionId, messageId, runId, decision, outcome, interrupted } = reply;
    return {
      success: true,
      ...(sessionId !== undefined && { sessionId }),
      ...(messageId !== undefined && { messageId }),
      ...(runId !== undefined && { runId }),
      ...(decision && { decision }),
      ...(outcome && { outcome }),
      ...(interrupted && { interrupted }),
      ...commands.positionOf(reply),
    };
  }
}

/** Failures of a `switch_agent` that are found here; like those the session finds they are outcomes of a success. */
const SWITCH_OUTCOMES: ReadonlySet<ErrorCode> = new Set([
  "invalid_agent_id",
  "invalid_agent_id_format",
  "session_not_found",
]);

/** What is wrong with the id of an agent is told before a session is missed. */
function inOrder(message: ClientMessage, error: AppError): AppError {
  if (message.type !== "switch_agent" || error.code !== "session_not_found") return error;
  const fault = findAgentIdFault(message.agentId);
  return fault ? new AppError(fault) : error;
}

const zoneOf = ({ zone }: { zone?: string | undefined }) => (zone === undefined ? {} : { zone });
