import { z } from "zod";
import { Decision } from "./decision.ts";
import { ERROR_CODES } from "./errors.ts";
import { MessageId, RunId, SessionId } from "./ids.ts";
import { RunTask, Standing } from "./run.ts";
import { AgentInfo, Session } from "./session.ts";

/** What a `switch_agent` came to: it is always understood, so its outcome is part of a success. */
export const SwitchOutcome = z.object({
  errorCode: z.enum(ERROR_CODES).optional(),
  message: z.string().optional(),
  availableAgents: z.array(AgentInfo).optional(),
  previousAgentId: z.string().optional(),
  currentAgentId: z.string().optional(),
  agentName: z.string().optional(),
});
export type SwitchOutcome = z.infer<typeof SwitchOutcome>;

/** A floor's answer to a command; a receipt keeps it word for word. */
export const Reply = z.discriminatedUnion("ok", [
  z.object({
    ok: z.literal(true),
    sessionId: SessionId.optional(),
    session: Session.optional(),
    /** Where the session's log stands with this answer. */
    seq: z.number().int().optional(),
    messageId: MessageId.optional(),
    runId: RunId.optional(),
    decision: Decision.optional(),
    outcome: SwitchOutcome.optional(),
    interrupted: z.object({ runId: RunId, messageId: MessageId }).optional(),
    archived: z.array(SessionId).optional(),
    deleted: z.boolean().optional(),
    flags: z.record(z.string(), z.boolean()).optional(),
    /** To a `run.claim`: the task, or nothing when the run is not wanted any more. */
    task: RunTask.optional(),
    /** To a `run.claim`: somebody claimed it before; ask the run's topic for a driver first. */
    isClaimed: z.boolean().optional(),
    standing: Standing.optional(),
  }),
  z.object({
    ok: z.literal(false),
    code: z.enum(ERROR_CODES),
    message: z.string().optional(),
    facts: z.record(z.string(), z.unknown()).optional(),
  }),
]);
export type Reply = z.infer<typeof Reply>;
export type Accepted = Extract<Reply, { ok: true }>;
