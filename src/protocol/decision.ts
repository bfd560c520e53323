import { z } from "zod";
import { AgentId, SessionId } from "./ids.ts";

/** One step on the way to an effective priority: where it came from and what it made of the number. */
export const PriorityStep = z.object({
  step: z.string().meta({ description: "`agent`, `override`, `rule:<name>` or `clamp`" }),
  adjust: z.number().optional(),
  value: z.number(),
});
export type PriorityStep = z.infer<typeof PriorityStep>;

export const OUTCOMES = ["granted", "rejected", "queued"] as const;

export const REASONS = [
  "floor_free",
  "already_holder",
  "preempted",
  "resumed",
  "dequeued",
  "unknown_agent",
  "agent_disabled",
  "lower_priority",
  "equal_priority",
  "not_interruptible",
  "stack_full",
  "queue_full",
  "queue_timeout",
] as const;
export type Reason = (typeof REASONS)[number];

/**
 * What the arbiter decided and why: logged on the floor, in the challenger's session if there is one afterwards, and
 * returned to whoever asked. `rule` is the row of the table in docs/arbitration.md that applied.
 */
export const Decision = z
  .object({
    outcome: z.enum(OUTCOMES),
    reason: z.enum(REASONS),
    rule: z.number().int().optional(),
    challenger: z.object({
      sessionId: SessionId.optional(),
      agentId: AgentId,
      priority: z.number(),
      explained: z.array(PriorityStep),
    }),
    holder: z
      .object({ sessionId: SessionId, agentId: AgentId, priority: z.number(), interruptible: z.boolean() })
      .optional(),
    wouldNeed: z.string().optional(),
    say: z.string().meta({ description: "a sentence fit to be spoken" }),
  })
  .meta({ id: "Decision" });
export type Decision = z.infer<typeof Decision>;
