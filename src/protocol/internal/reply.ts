import { z } from "zod";
import { Decision } from "../decision.ts";
import { ERROR_CODES } from "../errors.ts";
import { MessageId, RunId, SessionId } from "../ids.ts";
import { Routed } from "../routed.ts";
import { AgentInfo, Session } from "../session.ts";
import { Directive, RunTask } from "./run.ts";

/** The outcome of a `switch_agent`. A failed switch is not a refusal, so the outcome is part of a successful reply. */
export const SwitchOutcome = z.object({
  errorCode: z.enum(ERROR_CODES).optional(),
  message: z.string().optional(),
  availableAgents: z.array(AgentInfo).optional(),
  previousAgentId: z.string().optional(),
  currentAgentId: z.string().optional(),
  agentName: z.string().optional(),
});
export type SwitchOutcome = z.infer<typeof SwitchOutcome>;

const Refusal = z.object({
  code: z.enum(ERROR_CODES),
  message: z.string().optional(),
  facts: z.record(z.string(), z.unknown()).optional(),
});

/** A floor's reply to a command. The receipt stores it unchanged. */
export const Reply = z.discriminatedUnion("ok", [
  z.object({
    ok: z.literal(true),
    sessionId: SessionId.optional(),
    session: Session.optional(),
    /** The position of the session's log after this command. */
    seq: z.number().int().optional(),
    /** When the session was created, in ms since 1970: part of its positions. */
    sessionCreatedAt: z.number().int().optional(),
    messageId: MessageId.optional(),
    runId: RunId.optional(),
    decision: Decision.optional(),
    /** In reply to `floor.what_if`: why the request would be refused, if not by a decision. */
    refused: Refusal.optional(),
    routed: Routed.optional(),
    outcome: SwitchOutcome.optional(),
    /** In reply to `session.played`, and to a turn that says what was played: the position that counts. */
    playedUpTo: z.number().int().optional(),
    interrupted: z.object({ runId: RunId, messageId: MessageId }).optional(),
    archived: z.array(SessionId).optional(),
    deleted: z.boolean().optional(),
    flags: z.record(z.string(), z.boolean()).optional(),
    /** In reply to `session.heartbeat`: the session's lease ran out, and it has not asked for the floor since. */
    lapsed: z.boolean().optional(),
    /** In reply to `run.claim`: the task; absent when the run is no longer needed. */
    task: RunTask.optional(),
    /** In reply to `run.claim`: another worker claimed the run before; look for its driver on the run's topic first. */
    isClaimed: z.boolean().optional(),
    directive: Directive.optional(),
  }),
  Refusal.extend({ ok: z.literal(false) }),
]);
export type Reply = z.infer<typeof Reply>;
export type Accepted = Extract<Reply, { ok: true }>;

/** The reply to a what-if whose request would get this one. */
export function previewOf(reply: Reply): Accepted {
  const decision = reply.ok ? reply.decision : (reply.facts?.["decision"] as Decision | undefined);
  if (decision) return { ok: true, decision };
  if (reply.ok) return { ok: true };
  const { ok: _, ...refused } = reply;
  return { ok: true, refused };
}
