import { z } from "zod";
import { Decision } from "../../protocol/decision.ts";
import { MessageId, RunId, SessionId } from "../../protocol/ids.ts";
import type { Accepted } from "../../protocol/internal/reply.ts";
import { Session } from "../../protocol/session.ts";
import type { IdempotentCommands } from "../idempotent-commands.ts";
import type { TurnContext } from "../route-context.ts";

/** The answer to a command about a whole session. */
export const SessionAnswerSchema = z.object({
  success: z.literal(true),
  session: Session,
  decision: Decision.optional(),
  position: z.string().optional(),
});

/** A fact beside the answer that the caller may not expect. */
export const Notice = {
  notice: z
    .string()
    .optional()
    .meta({ description: "what the request may not have meant, or what its effect waits for" }),
};

/** The answer to a command that may begin a turn. */
export const TurnAnswer = z.object({
  success: z.literal(true),
  sessionId: SessionId.optional(),
  messageId: MessageId.optional(),
  runId: RunId.optional(),
  decision: Decision.optional(),
  interrupted: z.object({ runId: RunId, messageId: MessageId }).optional(),
  position: z.string().optional(),
  ...Notice,
});

const ALONE = "Without a userId the session has a floor of its own: it competes with no other session.";
const NO_WORKER = "No worker answers: the turn waits until one starts.";

/** The notice about a session that competes with no other. */
export const noticeOf = (session: { userId?: string | undefined }): { notice?: string } =>
  session.userId === undefined ? { notice: ALONE } : {};

/** The notice about a turn that no node starts; undefined: one does. */
export const noticeOfWait = ({ absentRoles }: Pick<TurnContext, "absentRoles">): string | undefined =>
  absentRoles().includes("worker") ? NO_WORKER : undefined;

/** The answer of a route, from the floor's reply. */
export function sessionAnswer(commands: IdempotentCommands, reply: Accepted): z.infer<typeof SessionAnswerSchema> {
  const { session, decision } = reply;
  if (!session) throw new Error("the floor's answer has no session");
  return { success: true, session, ...(decision && { decision }), ...commands.positionOf(reply) };
}

/**
 * The same for a command that may begin a turn.
 * @param made the session that the command created, if it did
 */
export function turnAnswer(
  context: Pick<TurnContext, "commands" | "absentRoles">,
  reply: Accepted,
  made?: { userId?: string | undefined },
): z.infer<typeof TurnAnswer> {
  const { sessionId, messageId, runId, decision, interrupted } = reply;
  const { notice: alone } = made ? noticeOf(made) : {};
  const waits = runId === undefined ? undefined : noticeOfWait(context);
  const notice = [alone, waits].filter((each) => each !== undefined).join(" ");
  return {
    success: true,
    ...(sessionId !== undefined && { sessionId }),
    ...(messageId !== undefined && { messageId }),
    ...(runId !== undefined && { runId }),
    ...(decision && { decision }),
    ...(interrupted && { interrupted }),
    ...(notice && { notice }),
    ...context.commands.positionOf(reply),
  };
}
