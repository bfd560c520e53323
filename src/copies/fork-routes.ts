import { z } from "zod";
import type { VisibleSessions } from "../gateway/access/visible-sessions.ts";
import { newTurn } from "../gateway/chat-commands.ts";
import type { Routes, TurnContext } from "../gateway/route-context.ts";
import { SessionAnswerSchema, sessionAnswer, TurnAnswer, turnAnswer } from "../gateway/routes/command-answer.ts";
import { CommandBody, commandFields, SessionParams } from "../gateway/routes/session-command.ts";
import { ImageInput, MAX_IMAGES } from "../protocol/client-message.ts";
import { AppError } from "../protocol/errors.ts";
import { AgentId, CommandId, ConnectionId, EVERY_ZONE, MessageId, Name, SessionId } from "../protocol/ids.ts";
import type { Message } from "../protocol/message.ts";
import { cleanText } from "../shared/text.ts";
import { isFinished } from "./copied-history.ts";
import type { Copies } from "./copies.ts";

/** The maximum number of turns that one rollback can remove. */
const MAX_TURNS = 1_000;
/** Messages per read in the search for the turns to remove. */
const PAGE = 100;

const WithMessage = z.object({ id: SessionId, messageId: MessageId });

/** Copies sessions, repeats and edits messages, and takes turns back. */
export function forkRoutes(app: Routes, context: TurnContext & { copies: Copies }): void {
  const { commands, visibleTo, copies } = context;

  app.post(
    "/session/:id/fork",
    {
      schema: {
        tags: ["sessions"],
        operationId: "forkSession",
        summary: "Copy a session",
        description:
          "The copy has the finished messages up to `messageId`, or all of them, under new ids. Its `origin` names the session that was copied.",
        params: SessionParams,
        body: z
          .strictObject({
            messageId: MessageId.optional().meta({ description: "the last message to copy" }),
            agentId: AgentId.optional().meta({ description: "default: the session's" }),
            connectionId: ConnectionId.optional(),
            activate: z.boolean().default(false),
            commandId: CommandId.optional(),
          })
          .prefault({}),
        response: { 200: SessionAnswerSchema },
      },
    },
    async (request) => {
      const caller = context.callerOf(request);
      const { messageId, agentId, activate, connectionId } = request.body;
      const identity = await commands.identify(caller, request, request.body);
      const reply = await copies.histories.create(identity, connectionId, async (history) => {
        const { session: source } = await visibleTo(caller).view(request.params.id, 0);
        const end = messageId === undefined ? "newest" : { upTo: messageId };
        return await copies.copy(caller, history, { source, end, by: "fork", agentId, activate });
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
        params: SessionParams,
        body: z
          .strictObject({
            turns: z.number().int().min(1).max(MAX_TURNS).default(1),
            commandId: CommandId.optional(),
          })
          .prefault({}),
        response: { 200: SessionAnswerSchema },
      },
    },
    async (request) => {
      const caller = context.callerOf(request);
      const { turns } = request.body;
      const identity = await commands.identify(caller, request, request.body);
      const reply = await copies.rollBack(identity, request.params.id, (sessions, id) => findTurn(sessions, id, turns));
      return sessionAnswer(commands, reply);
    },
  );

  app.post(
    "/session/:id/move",
    {
      schema: {
        tags: ["sessions"],
        operationId: "moveSession",
        summary: "Move a session to another floor of its user",
        description:
          "It requests the other floor, and leaves its own only if it is granted or waits there. It goes on in a new session, with its messages, its connections and its unfinished turns.",
        params: SessionParams,
        body: z.strictObject({
          zone: Name.refine((zone) => zone !== EVERY_ZONE, "one zone")
            .nullable()
            .meta({ description: "null: the user's floor without a zone" }),
          ...commandFields,
        }),
        response: { 200: SessionAnswerSchema },
      },
    },
    async (request) => {
      const caller = context.callerOf(request);
      const { zone, ifSeq } = request.body;
      const identity = await commands.identify(caller, request, request.body);
      const reply = await copies.move(identity, request.params.id, { zone: zone ?? undefined, ifSeq });
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
        body: CommandBody,
        response: { 200: TurnAnswer },
      },
    },
    async (request) => {
      const caller = context.callerOf(request);
      const identity = await commands.identify(caller, request, request.body);
      const { id, messageId } = request.params;
      const reply = await commands.carryOut(identity, async () => {
        const { content, images } = await copies.userMessage(caller, id, messageId);
        const { sessionId, floorId } = await visibleTo(caller).locate(id);
        const turn = newTurn(commands, identity, { content, images });
        return { floorId, command: { type: "session.chat", sessionId, turn }, ifSeq: request.body.ifSeq };
      });
      return turnAnswer(context, reply);
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
        body: z.strictObject({
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
      const caller = context.callerOf(request);
      const { content, images, replace, connectionId } = request.body;
      const identity = await commands.identify(caller, request, request.body);
      const { id, messageId } = request.params;
      const edit = { source: id, messageId, content, images, connectionId, ...(replace && { replaces: id }) };
      const reply = await copies.edit(identity, edit);
      return turnAnswer(context, reply);
    },
  );
}

/** The user's message with which the last so many turns begin. @throws AppError `illegal_command` if there are fewer */
async function findTurn(sessions: VisibleSessions, id: SessionId, turns: number): Promise<MessageId> {
  let left = turns;
  for await (const message of newestFirst(sessions, id)) {
    if (message.role === "user" && isFinished(message)) left -= 1;
    if (left === 0) return message.id;
  }
  throw new AppError("illegal_command", `The session has only ${turns - left} turns that can be taken back.`);
}

async function* newestFirst(sessions: VisibleSessions, id: SessionId): AsyncGenerator<Message> {
  let before: MessageId | undefined;
  for (;;) {
    const { messages, hasMore } = await sessions.messages(id, { before, limit: PAGE });
    yield* messages.toReversed();
    before = messages[0]?.id;
    if (!hasMore || before === undefined) return;
  }
}
