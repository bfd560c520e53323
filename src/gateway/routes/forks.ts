import { z } from "zod";
import { ImageInput, MAX_IMAGES } from "../../protocol/client-message.ts";
import { AppError } from "../../protocol/errors.ts";
import { AgentId, CommandId, ConnectionId, floorOf, MessageId, type RunId, SessionId } from "../../protocol/ids.ts";
import type { CommandOf, TurnInput } from "../../protocol/internal/command.ts";
import type { Accepted } from "../../protocol/internal/reply.ts";
import type { Message } from "../../protocol/message.ts";
import { NEW_TITLE, type Origin, type Session } from "../../protocol/session.ts";
import { cleanText } from "../../protocol/text.ts";
import type { Caller } from "../access/caller.ts";
import type { Identity } from "../commands.ts";
import type { Door, Routes } from "../door.ts";
import { type CopyEnd, copyHistory, copyImages, isFinished } from "../histories/copied-history.ts";
import type { StagedHistory } from "../histories/staged-history.ts";
import { checkContent, keepImages } from "../histories/turn-content.ts";
import { SessionAnswer, sessionAnswer, TurnAnswer, turnAnswer } from "./command-answer.ts";

/** The maximum number of turns that one rollback can remove. */
const MAX_TURNS = 1_000;
/** Messages per read in the search for the turns to remove. */
const PAGE = 100;

const WithId = z.object({ id: SessionId });
const WithMessage = z.object({ id: SessionId, messageId: MessageId });

/** The settings of the source that a copy begins with. */
interface Copy {
  source: Session;
  end: CopyEnd;
  by: Origin["by"];
  agentId?: AgentId | undefined;
  activate?: boolean;
  /** Whether the source is archived and replaced by the copy. */
  replaces?: boolean;
}

/** Copies sessions, repeats and edits messages, and takes turns back. */
export function forkRoutes(app: Routes, door: Door): void {
  const { commands, store, clock, visibleTo, histories } = door;

  app.post(
    "/session/:id/fork",
    {
      schema: {
        tags: ["sessions"],
        operationId: "forkSession",
        summary: "Copy a session",
        description:
          "The copy has the finished messages up to `messageId`, or all of them, under new ids. Its `origin` names the session that was copied.",
        params: WithId,
        body: z
          .object({
            messageId: MessageId.optional().meta({ description: "the last message to copy" }),
            agentId: AgentId.optional().meta({ description: "default: the session's" }),
            connectionId: ConnectionId.optional(),
            activate: z.boolean().default(false),
            commandId: CommandId.optional(),
          })
          .prefault({}),
        response: { 200: SessionAnswer },
      },
    },
    async (request) => {
      const caller = await door.authenticate(request);
      const { messageId, agentId, activate, connectionId } = request.body;
      const identity = commands.identify(caller, request, request.body);
      const reply = await histories.create(identity, connectionId, async (history) => {
        const { session: source } = await visibleTo(caller).view(request.params.id, 0);
        const end = messageId === undefined ? "newest" : { upTo: messageId };
        return await copy(caller, history, { source, end, by: "fork", agentId, activate });
      });
      return sessionAnswer(commands, reply);
    },
  );

  app.post(
    "/session/:id/rollback",
    {
      schema: {
        tags: ["sessions"],
        operationId: "rollBackSession",
        summary: "Take back the last turns of a session",
        description:
          "A copy without these turns replaces the session, which is archived. The copy gets the session's connections, and its floor if it held the floor.",
        params: WithId,
        body: z
          .object({
            turns: z.number().int().min(1).max(MAX_TURNS).default(1),
            commandId: CommandId.optional(),
          })
          .prefault({}),
        response: { 200: SessionAnswer },
      },
    },
    async (request) => {
      const caller = await door.authenticate(request);
      const { turns } = request.body;
      const identity = commands.identify(caller, request, request.body);
      const reply = await histories.create(identity, undefined, async (history) => {
        const { session: source } = await visibleTo(caller).view(request.params.id, 0);
        const before = await findTurn(caller, source.id, turns);
        return await copy(caller, history, { source, end: { before }, by: "rollback", replaces: true });
      });
      await supersede(caller, identity, reply);
      return sessionAnswer(commands, reply);
    },
  );

  app.post(
    "/session/:id/messages/:messageId/resend",
    {
      schema: {
        tags: ["messages"],
        operationId: "resendMessage",
        summary: "Send a user message again",
        description: "Starts a new turn of the same session, with the same text and images.",
        params: WithMessage,
        body: z.object({ commandId: CommandId.optional() }).prefault({}),
        response: { 200: TurnAnswer },
      },
    },
    async (request) => {
      const caller = await door.authenticate(request);
      const identity = commands.identify(caller, request, request.body);
      const { id, messageId } = request.params;
      const reply = await commands.carryOut(identity, async () => {
        const { content, images } = await userMessage(caller, id, messageId);
        const { sessionId, floorId } = await visibleTo(caller).locate(id);
        const turn = { ...turnIds(identity), content, ...(images && { images }) };
        return { floorId, command: { type: "session.chat", sessionId, turn } };
      });
      return turnAnswer(commands, reply);
    },
  );

  app.post(
    "/session/:id/messages/:messageId/edit",
    {
      schema: {
        tags: ["messages"],
        operationId: "editMessage",
        summary: "Send an edited user message",
        description:
          "A copy of the session up to this message continues with the new text. The session itself is unchanged; with `replace` it is archived. If the floor is refused, no copy is created.",
        params: WithMessage,
        body: z.object({
          content: z.string().overwrite(cleanText),
          images: z
            .array(ImageInput)
            .max(MAX_IMAGES)
            .optional()
            .meta({ description: "default: the images of the message" }),
          replace: z.boolean().default(false),
          connectionId: ConnectionId.optional(),
          commandId: CommandId.optional(),
        }),
        response: { 200: TurnAnswer },
      },
    },
    async (request) => {
      const caller = await door.authenticate(request);
      const { content, images, replace, connectionId } = request.body;
      const identity = commands.identify(caller, request, request.body);
      const { id, messageId } = request.params;
      const reply = await histories.create(identity, connectionId, async (history) => {
        const { session: source } = await visibleTo(caller).view(id, 0);
        const edited = await userMessage(caller, source.id, messageId);
        checkContent(content, (images ?? edited.images)?.length ?? 0);
        const of = { source, end: { before: messageId }, by: "edit" as const, replaces: replace };
        const { floorId, command } = await copy(caller, history, of);
        if (!images) await copyImages({ store, clock, source: source.id, into: history }, edited.images ?? []);
        const shown = images ? await keepImages(door, history.sessionId, images) : (edited.images ?? []);
        const turn: TurnInput = { ...turnIds(identity), content, ...(shown.length > 0 && { images: shown }) };
        return { floorId, command: { ...command, turn, activate: true } };
      });
      if (replace) await supersede(caller, identity, reply);
      return turnAnswer(commands, reply);
    },
  );

  /** Copy a session's messages, and make the command that creates a session with them. */
  async function copy(caller: Caller, history: StagedHistory, { source, end, by, ...of }: Copy) {
    const sessions = visibleTo(caller);
    const messageId = await copyHistory({ store, clock, sessions, source: source.id, into: history }, end);
    const { userId, zone, ownerId, workspaceId, title } = source;
    const { sessionId } = history;
    const floorId = floorOf(sessionId, userId, zone);
    const command: CommandOf<"session.continue"> = {
      type: "session.continue",
      sessionId,
      session: {
        sessionId,
        agentId: of.agentId ?? source.agentId,
        ...{ userId, zone, ownerId, workspaceId },
        ...(title !== NEW_TITLE && { title }),
      },
      history: await history.finish({ by, sessionId: source.id, ...(messageId !== undefined && { messageId }) }),
      // A session without a user has its own floor, so it passes no floor on.
      activate: of.activate ?? (of.replaces === true && floorId !== source.floorId && source.state === "active"),
      ...(of.replaces && floorId === source.floorId && { replaces: source.id }),
    };
    return { floorId, command };
  }

  /**
   * Archive the session that a copy replaces, if it is on another floor. The two floors commit one after the other; if
   * the node is lost in between, a repeat of the request continues here.
   */
  async function supersede(caller: Caller, identity: Identity, { sessionId }: Accepted): Promise<void> {
    const sessions = visibleTo(caller);
    const made = sessionId && (await sessions.find(sessionId));
    // The copy may be deleted before a late repeat.
    if (!made || made.tombstone) return;
    const { session: copied } = await sessions.view(made.sessionId, 0);
    const from = copied.origin?.sessionId;
    const place = from && (await sessions.find(from));
    if (!place || place.tombstone || place.floorId === copied.floorId) return;
    const by = { sessionId: copied.id, agentId: copied.agentId };
    const own = { ...identity, commandId: commands.deriveId<MessageId>(identity, "supersede"), isKeyed: true };
    await commands.carryOut(own, async () => ({
      floorId: place.floorId,
      command: { type: "session.supersede", sessionId: place.sessionId, by },
    }));
  }

  const turnIds = (identity: Identity) => ({
    messageId: commands.deriveId<MessageId>(identity, "message"),
    runId: commands.deriveId<RunId>(identity, "run"),
  });

  /** @throws AppError `not_found`; `illegal_command` for a message of an agent, or a queued message */
  async function userMessage(caller: Caller, id: SessionId, messageId: MessageId): Promise<Message> {
    const message = await visibleTo(caller).message(id, messageId);
    if (message.role === "user" && isFinished(message)) return message;
    throw new AppError("illegal_command", "Only a user message that is not queued can be sent again.");
  }

  /**
   * The user message that begins the last `turns` turns. @throws AppError `illegal_command` if the session has fewer
   */
  async function findTurn(caller: Caller, id: SessionId, turns: number): Promise<MessageId> {
    let left = turns;
    let before: MessageId | undefined;
    for (;;) {
      const { messages, hasMore } = await visibleTo(caller).messages(id, { before, limit: PAGE });
      for (const message of messages.toReversed()) {
        if (message.role === "user" && isFinished(message)) left -= 1;
        if (left === 0) return message.id;
      }
      before = messages[0]?.id;
      if (hasMore && before !== undefined) continue;
      throw new AppError("illegal_command", `The session has only ${turns - left} turns that can be taken back.`);
    }
  }
}
