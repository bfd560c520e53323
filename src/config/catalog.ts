import { z } from "zod";
import { AgentId, Name } from "../protocol/ids.ts";
import type { AgentInfo } from "../protocol/session.ts";
import { Adapter } from "./adapter.ts";
import { duration } from "./duration.ts";

/** The schema of `config/agents_config.yaml`, and the catalogue it becomes. Every key: docs/arbitration.md. */

const priority = z.int().min(0).max(100);
const sentence = z.string().min(1).max(500);

/**
 * Sentences an agent says of itself. `{challenger}` and `{holder}` stand for the labels of the two,
 * `{challenger.description}` and `{holder.description}` for their descriptions.
 */
const Sayings = z.strictObject({
  /** Said when this agent holds the floor and keeps it. */
  rejected: sentence.optional(),
  /** Said when this agent holds the floor and another waits for it. */
  queued: sentence.optional(),
  /** Said when this agent gets the floor. */
  granted: sentence.optional(),
  /** Said when this agent is paused for another. */
  preempted: sentence.optional(),
  /** Said when this agent gets the floor back. */
  resumed: sentence.optional(),
});

const AgentFields = z.strictObject({
  name: AgentId,
  label: z.string().min(1).max(128).optional(),
  description: z.string().max(1_024).default(""),
  priority: priority.default(50),
  interruptible: z.boolean().default(true),
  enabled: z.boolean().default(true),
  capabilities: z.array(z.string().min(1).max(128)).max(100).default([]),
  preemption_threshold: priority.optional(),
  when_blocked: z.enum(["reject", "queue"]).default("reject"),
  queue_timeout: duration({ max: "7d" }).optional(),
  when_busy: z.enum(["reject", "enqueue", "interrupt"]).default("reject"),
  resume: z.enum(["auto", "manual"]).default("auto"),
  max_pause: duration({ max: "365d" }).optional(),
  idle_timeout: duration({ max: "365d" }).optional(),
  after_turn: z.enum(["keep", "yield", "archive"]).default("keep"),
  messages: Sayings.default({}),
  instructions: z.string().max(262_144).optional(),
  max_steps: z.int().min(1).max(1_000).default(10),
  sub_agents: z.array(AgentId).max(100).default([]),
  max_depth: z.int().min(1).max(16).default(4),
  adapter: Adapter.prefault({ kind: "scripted" }),
});

/** What the rest of the house knows of an agent. */
function toAgentEntry(entry: z.infer<typeof AgentFields>) {
  return {
    id: entry.name,
    label: entry.label ?? labelOf(entry.name),
    description: entry.description,
    priority: entry.priority,
    interruptible: entry.interruptible,
    enabled: entry.enabled,
    capabilities: entry.capabilities,
    preemptionThreshold: entry.preemption_threshold,
    whenBlocked: entry.when_blocked,
    queueTimeoutMs: entry.queue_timeout,
    whenBusy: entry.when_busy,
    resume: entry.resume,
    maxPauseMs: entry.max_pause,
    idleTimeoutMs: entry.idle_timeout,
    afterTurn: entry.after_turn,
    messages: entry.messages,
    instructions: entry.instructions,
    maxSteps: entry.max_steps,
    subAgents: entry.sub_agents,
    maxDepth: entry.max_depth,
    adapter: entry.adapter,
  };
}
export type AgentEntry = ReturnType<typeof toAgentEntry>;

const Policy = z
  .strictObject({
    ties: z.enum(["reject", "newest"]).default("reject"),
    resume_delay: duration({ max: "1h" }).default(0),
    max_paused: z.int().min(1).max(256).default(32),
    max_queued: z.int().min(0).max(256).default(16),
  })
  .transform((policy) => ({
    ties: policy.ties,
    resumeDelayMs: policy.resume_delay,
    maxPaused: policy.max_paused,
    maxQueued: policy.max_queued,
  }));
export type Policy = z.infer<typeof Policy>;

const CLOCK_RANGE = /^([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]):([0-5]\d)$/;

const clockRange = z
  .string()
  .regex(CLOCK_RANGE, "HH:MM-HH:MM, as in 22:00-07:00")
  .transform((text) => {
    const [, fromHour, fromMinute, toHour, toMinute] = CLOCK_RANGE.exec(text) ?? [];
    return {
      fromMinute: Number(fromHour) * 60 + Number(fromMinute),
      toMinute: Number(toHour) * 60 + Number(toMinute),
    };
  });

const timezone = z.string().refine((name) => {
  try {
    return Boolean(new Intl.DateTimeFormat("en", { timeZone: name }));
  } catch {
    return false;
  }
}, "must be an IANA time zone, as in Asia/Shanghai");

const PriorityRule = z.strictObject({
  name: z.string().min(1).max(64),
  /** Left out: all agents. */
  agents: z.array(AgentId).min(1).max(1_000).optional(),
  between: clockRange.optional(),
  timezone: timezone.default("UTC"),
  /** A context flag of the floor. */
  when: z
    .string()
    .regex(/^[a-z0-9_-]{1,64}$/, "1 to 64 of a-z 0-9 _ -")
    .optional(),
  adjust: z.int().min(-100).max(100),
});
export type PriorityRule = z.infer<typeof PriorityRule>;

const UserPreferences = z.record(
  Name,
  z.strictObject({ agent_priority_overrides: z.record(AgentId, priority).default({}) }),
);

/** The file as it stands; `findStrayNames` (stray-names.ts) says whether its names mean anything. */
export const CatalogFile = z.strictObject({
  agents: z.array(AgentFields).min(1).max(1_000),
  default_agent: AgentId.optional(),
  policy: Policy.prefault({}),
  priority_rules: z.array(PriorityRule).max(1_000).default([]),
  user_preferences: UserPreferences.default({}),
});

/** What the arbiter, the workers and the gateway decide by. Immutable: a reload makes a new one. */
export interface Catalog {
  /** In the order of the file; disabled ones too. */
  readonly agents: ReadonlyMap<string, AgentEntry>;
  readonly defaultAgentId: AgentId;
  readonly policy: Policy;
  readonly priorityRules: readonly PriorityRule[];
  readonly overrides: ReadonlyMap<string, ReadonlyMap<string, number>>;
  /** Tells two catalogues apart, in logs and at `/ready`. */
  readonly hash: string;
}

/** Of a file without stray names. */
export function toCatalog(file: z.infer<typeof CatalogFile>, hash: string): Catalog {
  const agents = file.agents.map(toAgentEntry);
  const fallback = agents.find((agent) => agent.enabled) ?? agents[0]!;
  return {
    agents: new Map(agents.map((agent) => [agent.id, agent])),
    defaultAgentId: file.default_agent ?? fallback.id,
    policy: file.policy,
    priorityRules: file.priority_rules,
    overrides: new Map(
      Object.entries(file.user_preferences).map(([user, preferences]) => [
        user,
        new Map(Object.entries(preferences.agent_priority_overrides)),
      ]),
    ),
    hash,
  };
}

/** The agents a client may choose from. */
export function listAgents(catalog: Catalog): AgentInfo[] {
  return [...catalog.agents.values()]
    .filter((agent) => agent.enabled)
    .map(({ id, label, description }) => ({ id, name: label, description }));
}

/** `requirement_analyzer` → `Requirement Analyzer`. */
function labelOf(name: string): string {
  const words = name.split(/[_-]+/).filter(Boolean);
  return words.map((word) => word[0]!.toUpperCase() + word.slice(1)).join(" ") || name;
}
