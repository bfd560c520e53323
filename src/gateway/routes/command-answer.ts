import { z } from "zod";
import { Decision } from "../../protocol/decision.ts";
import { MessageId, RunId, SessionId } from "../../protocol/ids.ts";
import type { Accepted } from "../../protocol/internal/reply.ts";
import { Session } from "../../protocol/session.ts";
import type { Commands } from "../commands.ts";

/** The answer to a command about a whole session. */
export const SessionAnswer = z.object({
  success: z.literal(true),
  session: Session,
  decision: Decision.optional(),
  position: z.string().optional(),
});

/** The answer to a command that may begin a turn. */
export const TurnAnswer = z.object({
  success: z.literal(true),
  sessionId: SessionId.optional(),
  messageId: MessageId.optional(),
  runId: RunId.optional(),
  decision: Decision.optional(),
  interrupted: z.object({ runId: RunId, messageId: MessageId }).optional(),
  position: z.string().optional(),
});

/** The answer of a route, from the floor's reply. */
export function sessionAnswer(commands: Commands, reply: Accepted): z.infer<typeof SessionAnswer> {
  const { session, decision } = reply;
  if (!session) throw new Error("the floor's answer has no session");
  return { success: true, session, ...(decision && { decision }), ...commands.positionOf(reply) };
}

/** The same for a command that may begin a turn. */
export function turnAnswer(commands: Commands, reply: Accepted): z.infer<typeof TurnAnswer> {
  const { sessionId, messageId, runId, decision, interrupted } = reply;
  return {
    success: true,
    ...(sessionId !== undefined && { sessionId }),
    ...(messageId !== undefined && { messageId }),
    ...(runId !== undefined && { runId }),
    ...(decision && { decision }),
    ...(interrupted && { interrupted }),
    ...commands.positionOf(reply),
  };
}
