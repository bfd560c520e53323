/** The schema of `config/agents_config.yaml`, and the catalogue it becomes. Every key: docs/use/arbitration.md. */

import { createHash } from "node:crypto";
import { z } from "zod";
import { AgentId, Name, SHORT_NAME, SHORT_NAME_FORM } from "../../protocol/ids.ts";
import { Locale } from "../../protocol/locale.ts";
import type { AgentInfo } from "../../protocol/session.ts";
import { WEEKDAYS } from "../../shared/wall-clock.ts";
import { quote } from "../fault.ts";
import { suggest } from "../nearest.ts";
import { duration, quantity } from "../quantities.ts";
import { Adapter, resolveAdapter } from "./adapter.ts";
import { hasHours, isDuring } from "./hours.ts";
import { PolicyClaim } from "./policy-claims.ts";
import { Routing, RoutingRows } from "./routing.ts";
import { AgentMode, McpServer, ToolEntry } from "./tool-entry.ts";

const priority = z.int().min(0).max(100);
/** A text, or one per language, the default first: `{ en: …, zh: … }`. */
export const localText = (max: number) => {
  const text = z.string().min(1).max(max);
  const texts = z.record(Locale, text).refine((each) => Object.keys(each).length > 0, "must name a language");
  return z.union([text, texts]);
};
const sentence = localText(500);

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
  /** Said when this agent goes on beneath another. */
  ducked: sentence.optional(),
  /** Said when this agent gets the floor back. */
  resumed: sentence.optional(),
});

/** How much quieter a session is heard, in dB, or that it is paused; -60 is hardly audible. */
const level = z.union([
  z.number().min(-60).max(0),
  z.literal("pause", { error: "must be pause, or a number from -60 to 0" }),
]);

/** What a session does when it is blocked: one way, or several that are tried in this order. */
const way = z.enum(["reject", "queue", "duck"]);
const whenBlocked = z.union([
  way.transform((one) => [one]),
  z
    .array(way)
    .min(1)
    .refine((ways) => new Set(ways).size === ways.length, {
      error: ({ input }) => `must not name ${twiceIn(input)} twice`,
    }),
]);

const twiceIn = (ways: unknown): unknown => (ways as unknown[]).find((each, index, all) => all.indexOf(each) < index);

/** A flag of a floor, as a client sets it. */
const flag = z.string().regex(SHORT_NAME, SHORT_NAME_FORM);

const answerTime = duration({ min: "1s", max: "7d" });

const AgentFields = z.strictObject({
  name: AgentId,
  label: z.string().min(1).max(128).optional().describe("Shown to people. Default: made from the name."),
  description: z.string().max(1_024).default("").describe("What the agent is for."),
  priority: priority.default(50).describe("The larger wins."),
  interruptible: z.boolean().default(true).describe("false: it keeps the floor until it is done."),
  enabled: z.boolean().default(true).describe("false: not listed, and refused."),
  capabilities: z
    .array(z.string().min(1).max(128))
    .max(100)
    .default([])
    .describe("Shown to people; decisions do not use them."),
  preemption_threshold: priority
    .optional()
    .describe("An agent that is not interruptible yields to challengers of at least this priority."),
  when_blocked: whenBlocked
    .default(["reject"])
    .describe("What it does while another agent keeps the floor: one way, or several that are tried in this order."),
  when_preempted: z
    .enum(["pause", "duck"])
    .default("pause")
    .describe("duck: it goes on, quieter, beneath a challenger that allows it."),
  beneath: z
    .record(AgentId, level)
    .default({})
    .describe("Agents that may be heard while it has the floor, and how much quieter, in dB. A name overrides `all`."),
  critical: z
    .boolean()
    .default(false)
    .describe("true: other agents never refuse, queue or pause it, or make it quieter."),
  replaces: z
    .array(AgentId)
    .max(100)
    .default([])
    .describe("Agents whose sessions end when one of it asks after them and is granted or queued."),
  yields_to: z
    .array(AgentId)
    .max(100)
    .default([])
    .describe("Agents that its sessions give way to, although they are not interruptible."),
  max_hold: duration({ min: "100ms", max: "365d" })
    .optional()
    .describe("The longest time that it is heard, in front or beneath."),
  lease: duration({ min: "1s", max: "1d" })
    .optional()
    .describe("A session without a heartbeat for this long loses its place on the floor."),
  queue_timeout: duration({ max: "7d" }).optional().describe("How long it waits for the floor."),
  resume_within: duration({ max: "365d" })
    .optional()
    .describe("A preempted session that is silent for longer does not come back by itself."),
  answer_within: z
    .union([answerTime, z.strictObject({ heard: answerTime })])
    .optional()
    .describe(
      "How long a question or a confirmation waits; heard: only while it could be heard. Default: the node's setting.",
    ),
  when_busy: z
    .enum(["reject", "enqueue", "interrupt"])
    .default("reject")
    .describe("What happens to a message during a run."),
  resume: z
    .enum(["auto", "manual"])
    .default("auto")
    .describe("Whether it resumes by itself when the interruption ends."),
  max_pause: duration({ max: "365d" }).optional().describe("Archived when paused for longer."),
  idle_timeout: duration({ max: "365d" })
    .optional()
    .describe("It gives the floor up when nothing happens for this long."),
  idle_yields: z
    .boolean()
    .default(false)
    .describe("true: it gives the floor up when nothing runs and a session waits for the floor."),
  after_turn: z
    .enum(["keep", "yield", "archive"])
    .default("keep")
    .describe("What it does with the floor after a turn; with archive, a failed turn yields."),
  messages: Sayings.default({}).describe(
    "Sentences that it says of itself: a text, or one text per language, the default first.",
  ),
  instructions: z.string().max(262_144).optional().describe("For models and programs."),
  tools: z.array(ToolEntry).max(64).default([]).describe("What a model may call."),
  modes: z.array(AgentMode).max(16).default([]).describe("Choices among its tools."),
  max_steps: z.int().min(1).max(1_000).default(10).describe("Calls of its model in one turn."),
  sub_agents: z.array(AgentId).max(100).default([]).describe("Agents that it may delegate to; empty: all."),
  max_depth: z.int().min(1).max(16).default(4).describe("How deep sub-agents may be nested."),
  adapter: Adapter.prefault({ kind: "scripted" }).describe("What answers."),
});

/** Levels by agent, `all` for the others. Pairs, because an agent's name may be any word. */
export type Beneath = readonly (readonly [agentId: string, level: number | "pause"])[];

/** An agent, as the actors, the workers and the gateway see it. */
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
    whenBlocked: entry.when_blocked as readonly z.infer<typeof way>[],
    whenPreempted: entry.when_preempted,
    beneath: Object.entries(entry.beneath) as Beneath,
    critical: entry.critical,
    replaces: entry.replaces,
    yieldsTo: entry.yields_to,
    maxHoldMs: entry.max_hold,
    leaseMs: entry.lease,
    queueTimeoutMs: entry.queue_timeout,
    resumeWithinMs: entry.resume_within,
    answerWithinMs: typeof entry.answer_within === "object" ? entry.answer_within.heard : entry.answer_within,
    /** Whether that time counts only while the session is heard. */
    answersWhileHeard: typeof entry.answer_within === "object",
    whenBusy: entry.when_busy,
    resume: entry.resume,
    maxPauseMs: entry.max_pause,
    idleTimeoutMs: entry.idle_timeout,
    idleYields: entry.idle_yields,
    afterTurn: entry.after_turn,
    messages: entry.messages,
    instructions: entry.instructions,
    tools: entry.tools,
    /** Empty: the agent always has all of its tools. */
    modes: entry.modes,
    maxSteps: entry.max_steps,
    subAgents: entry.sub_agents,
    maxDepth: entry.max_depth,
    /** The workspace whose sessions may use it; undefined for an agent of the file, which all may use. */
    workspaceId: undefined as string | undefined,
    adapter: resolveAdapter(entry.adapter, entry.tools.length > 0),
  };
}
export type AgentEntry = ReturnType<typeof toAgentEntry>;

/** Whether the agent answers messages. An external agent does not. */
export const acceptsTurns = ({ adapter }: AgentEntry): boolean => adapter.kind !== "external";

/** When its model summarises sessions; undefined for an agent that writes no summaries. */
export const summaryKeysOf = ({ adapter }: AgentEntry) => (adapter.kind === "ai-sdk" ? adapter.summary : undefined);

const Policy = z
  .strictObject({
    ties: z
      .enum(["reject", "newest"])
      .optional()
      .describe("Of two equal priorities the holder stays (reject) or the newer wins. Default: reject."),
    resume_delay: duration({ max: "1h" }).default(0),
    max_paused: z.int().min(1).max(256).default(32),
    max_queued: z.int().min(0).max(256).default(16),
  })
  .transform((policy) => ({
    ties: policy.ties ?? "reject",
    /** Whether the file says so. */
    areTiesSet: policy.ties !== undefined,
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

/** The name of an IANA time zone. */
export const timezone = z.string().refine(
  (name) => {
    try {
      return Boolean(new Intl.DateTimeFormat("en", { timeZone: name }));
    } catch {
      return false;
    }
  },
  { error: ({ input }) => `must be an IANA time zone, as in Asia/Shanghai, not ${zoneFault(String(input))}` },
);

const zoneFault = (name: string): string => `${quote(name)}${suggest(name, Intl.supportedValuesOf("timeZone"))}`;

const PriorityRule = z.strictObject({
  name: z.string().min(1).max(64),
  /** Left out: all agents. */
  agents: z.array(AgentId).min(1).max(1_000).optional(),
  between: clockRange.optional(),
  timezone: timezone.default("UTC"),
  /** A context flag of the floor. */
  when: flag.optional(),
  adjust: z.int().min(-100).max(100),
});
export type PriorityRule = z.infer<typeof PriorityRule>;

const Restriction = z
  .strictObject({
    name: z.string().regex(SHORT_NAME, SHORT_NAME_FORM),
    /** The flag of the floor that switches it on. Together with hours or days it is on while both say so. */
    when: flag.optional(),
    between: clockRange.optional(),
    /** Days of the week; hours over midnight belong to the day on which they begin. */
    days: z
      .array(z.enum(WEEKDAYS))
      .min(1)
      .max(7)
      .refine((days) => new Set(days).size === days.length, "must not name a day twice")
      .optional(),
    timezone: timezone.default("UTC"),
    /** The agents that are heard while it is on, in addition to critical agents. */
    allow: z.array(AgentId).max(1_000).default([]),
    /** What happens to the other sessions: they are paused and resume later, are archived, or go on until they end. */
    others: z.enum(["pause", "stop", "finish"]).default("pause"),
  })
  .refine(
    (entry) => entry.when !== undefined || hasHours(entry),
    "needs when, between or days: else it would be on always",
  );
export type Restriction = z.infer<typeof Restriction>;

/** The largest number of runs or tokens that a budget can have. */
const MAX_BUDGET = 1_000_000_000_000;

const Budget = z
  .strictObject({
    /** Whose turns count together: those of an owner, or those of an agent. */
    per: z.enum(["owner", "agent"]),
    /** Only turns of this agent count. Left out: each agent has the budget, or an owner has it for all agents. */
    agent: AgentId.optional(),
    runs: quantity(MAX_BUDGET).optional(),
    tokens: quantity(MAX_BUDGET).optional(),
    within: duration({ min: "1s", max: "365d" }),
  })
  .refine(({ runs, tokens }) => runs !== undefined || tokens !== undefined, "needs runs or tokens, or both")
  .transform(({ agent, within, ...rest }) => ({ ...rest, agentId: agent, withinMs: within }));
export type Budget = z.infer<typeof Budget>;

const UserPreferences = z.record(
  Name,
  z.strictObject({ agent_priority_overrides: z.record(AgentId, priority).default({}) }),
);

/** The schema of the file. `findStrayNames` (stray-names.ts) checks the names that it refers to. */
export const CatalogFile = z.strictObject({
  agents: z
    .array(AgentFields)
    .min(1)
    .max(1_000)
    .describe("The agents, each with its priority and what it does when it meets another."),
  default_agent: AgentId.optional().describe(
    "The agent of a session that names none. Default: the first enabled one that takes turns.",
  ),
  routing: RoutingRows.default([]).describe(
    "Which agent hears a sentence that names none: rows that are tried in this order.",
  ),
  mcp_servers: z.array(McpServer).max(64).default([]).describe("Programs and addresses whose tools agents may use."),
  policy: Policy.prefault({}).describe("What applies to every floor."),
  priority_rules: z
    .array(PriorityRule)
    .max(1_000)
    .default([])
    .describe("Priorities that change with the time of day or a flag of the floor."),
  restrictions: z
    .array(Restriction)
    .max(100)
    .default([])
    .describe("Flags of a floor, hours and days at which only some agents are heard."),
  user_preferences: UserPreferences.default({}).describe("Priorities of one user, by user id."),
  budgets: z
    .array(Budget)
    .max(100)
    .default([])
    .describe("How many turns may begin, and how many tokens they may use, per owner or agent within a time."),
  claims: z
    .array(PolicyClaim)
    .max(100)
    .default([])
    .describe("What `interlock prove` checks. The server does not use it."),
});

/** The catalogue that the arbiter, the workers and the gateway use. Immutable: a reload makes a new one. */
export interface Catalog {
  /** In the order of the file; disabled ones too. */
  readonly agents: ReadonlyMap<string, AgentEntry>;
  readonly defaultAgentId: AgentId;
  /** Which agent hears a sentence that names none. Without rows: the default agent. */
  readonly routing: Routing;
  readonly mcpServers: ReadonlyMap<string, McpServer>;
  readonly policy: Policy;
  readonly priorityRules: readonly PriorityRule[];
  readonly restrictions: readonly Restriction[];
  /**
   * Whether the catalogue lets sessions be heard together, replaced or restricted; decisions then list the affected
   * sessions.
   */
  readonly isShared: boolean;
  /** Whether any agent has a lease; otherwise heartbeats have no effect. */
  readonly hasLeases: boolean;
  readonly overrides: ReadonlyMap<string, ReadonlyMap<string, number>>;
  readonly budgets: readonly Budget[];
  /** `claims` of the file: what `interlock prove` checks. The server does not use them. */
  readonly claims: readonly PolicyClaim[];
  /** Identifies the catalogue in logs and at `/ready`. */
  readonly hash: string;
}

/** @param file a file without stray names */
export function toCatalog(file: z.infer<typeof CatalogFile>, hash: string): Catalog {
  const agents = file.agents.map(toAgentEntry);
  const enabled = agents.filter((agent) => agent.enabled);
  const fallback = enabled.find(acceptsTurns) ?? enabled[0] ?? agents[0]!;
  return {
    agents: new Map(agents.map((agent) => [agent.id, agent])),
    defaultAgentId: file.default_agent ?? fallback.id,
    routing: new Routing(file.routing),
    mcpServers: new Map(file.mcp_servers.map((server) => [server.name, server])),
    policy: file.policy,
    priorityRules: file.priority_rules,
    restrictions: file.restrictions,
    isShared: file.restrictions.length > 0 || agents.some(sharesFloor),
    hasLeases: agents.some((agent) => agent.leaseMs !== undefined),
    overrides: new Map(
      Object.entries(file.user_preferences).map(([user, preferences]) => [
        user,
        new Map(Object.entries(preferences.agent_priority_overrides)),
      ]),
    ),
    budgets: file.budgets,
    claims: file.claims,
    hash,
  };
}

/**
 * The restrictions that a floor's flags and the time switch on.
 * @param now ms since 1970, or which of the restrictions with hours or days are on; absent: none of them
 */
export function restrictionsBy(
  catalog: Catalog,
  flags: Readonly<Record<string, boolean>>,
  now?: number | ((name: string) => boolean),
): readonly Restriction[] {
  const isOn = ({ when }: Restriction) => when === undefined || flags[when] === true;
  const isHour = (entry: Restriction) => (typeof now === "function" ? now(entry.name) : isDuring(entry, now!));
  const isTimely = (entry: Restriction) => !hasHours(entry) || (now !== undefined && isHour(entry));
  return catalog.restrictions.filter((entry) => isOn(entry) && isTimely(entry));
}

/** Whether an agent uses a key that lets several sessions be heard, or one session end another. */
function sharesFloor({ beneath, whenPreempted, critical, replaces }: AgentEntry): boolean {
  return beneath.length > 0 || whenPreempted === "duck" || critical || replaces.length > 0;
}

/**
 * The agent with the tools and instructions of a mode. Without a mode of this name: those of its first mode. An agent
 * without modes stays as it is.
 */
export function inMode(agent: AgentEntry, name: string | undefined): AgentEntry {
  const mode = agent.modes.find((each) => each.name === name) ?? agent.modes[0];
  if (!mode) return agent;
  const instructions = [agent.instructions, mode.instructions].filter((text) => text !== undefined);
  return {
    ...agent,
    tools: agent.tools.filter((tool) => mode.tools.includes(tool.name)),
    instructions: instructions.length > 0 ? instructions.join("\n\n") : undefined,
  };
}

/** What is wrong with a mode that a client names, as an issue of its request; undefined if the agent has it. */
export function findModeFault(
  agent: AgentEntry | undefined,
  mode: string,
): { path: string; message: string } | undefined {
  const names = (agent?.modes ?? []).map(({ name }) => name);
  if (names.includes(mode)) return undefined;
  const known = names.length > 0 ? `its modes are ${names.join(", ")}` : "it has none";
  return { path: "mode", message: `the agent has no mode ${mode}; ${known}` };
}

/** Whether sessions of this workspace may use the agent. */
export const isOpenTo = (agent: AgentEntry, workspaceId: string | undefined): boolean =>
  agent.workspaceId === undefined || agent.workspaceId === workspaceId;

/**
 * Find the agent that a name refers to in this workspace: an agent of the file, or an agent defined for the workspace,
 * by its name or its id. Finds disabled agents too; undefined if there is no such agent.
 */
export function findAgent(
  catalog: Pick<Catalog, "agents">,
  name: string,
  workspaceId: string | undefined,
): AgentEntry | undefined {
  const named = catalog.agents.get(name);
  if (named && isOpenTo(named, workspaceId)) return named;
  return workspaceId === undefined ? undefined : catalog.agents.get(definedId(name, workspaceId));
}

/** Characters of a workspace's tag, with the hyphen before it. */
const TAG_LENGTH = 11;
const ID_LENGTH = 64;

/** The id of an agent that is defined for a workspace under a name. It differs between workspaces. */
export function definedId(name: string, workspaceId: string): AgentId {
  const tag = createHash("sha256")
    .update(JSON.stringify([workspaceId, name]))
    .digest("hex");
  return `${name.slice(0, ID_LENGTH - TAG_LENGTH)}-${tag.slice(0, TAG_LENGTH - 1)}` as AgentId;
}

/** The agents that a client may choose from for a session of this workspace. */
export function listAgents(catalog: Catalog, workspaceId?: string): AgentInfo[] {
  return [...catalog.agents.values()]
    .filter((agent) => agent.enabled && isOpenTo(agent, workspaceId))
    .map(({ id, label, description }) => ({ id, name: label, description }));
}

/** `; did you mean …?` with the agent of the list that a name probably means, or nothing. */
export function suggestAgent(name: string, listed: readonly AgentInfo[]): string {
  const others = listed.filter(({ id }) => id !== name);
  return suggest(
    name,
    others.map(({ id }) => id),
  );
}

/** `requirement_analyzer` → `Requirement Analyzer`. */
function labelOf(name: string): string {
  const words = name.split(/[_-]+/).filter(Boolean);
  return words.map((word) => word[0]!.toUpperCase() + word.slice(1)).join(" ") || name;
}
