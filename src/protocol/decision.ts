import { z } from "zod";
import { AgentId, SessionId } from "./ids.ts";

/** One step of computing an effective priority: its source and the resulting value. */
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
  "lease_expired",
  "restricted",
  "critical",
  "replaced",
  "beneath",
] as const;
export type Reason = (typeof REASONS)[number];

/**
 * The arbiter's decision and its reason. It is logged on the floor and in the challenger's session, if that exists
 * afterwards, and returned to the caller. `rule` is the row of the table in docs/use/arbitration.md that applied.
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
    level: z.number().optional().meta({ description: "dB below its own volume at which the challenger is heard" }),
    effects: z
      .array(
        z.object({
          sessionId: SessionId,
          agentId: AgentId,
          becomes: z.enum(["active", "ducked", "paused", "archived"]),
          level: z.number().optional(),
        }),
      )
      .optional()
      .meta({ description: "what happens to other sessions, in this order" }),
    say: z.string().meta({ description: "a sentence fit to be spoken" }),
  })
  .meta({ id: "Decision" });
export type Decision = z.infer<typeof Decision>;

/** The floor makes these decisions by itself: they answer no request. */
const OWN_DECISIONS: ReadonlySet<Reason> = new Set(["resumed", "dequeued", "queue_timeout", "lease_expired"]);

/** Whether a decision answers a request. */
export const isRequest = ({ reason }: Pick<Decision, "reason">): boolean => !OWN_DECISIONS.has(reason);
