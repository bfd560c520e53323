import { z } from "zod";
import type { ValueFault } from "../fault.ts";

const text = () => z.string().optional().catch(undefined);

/** Keys that say how an agent takes turns. */
const FOR_TURNS = [
  "instructions",
  "tools",
  "max_steps",
  "sub_agents",
  "max_depth",
  "when_busy",
  "idle_timeout",
  "after_turn",
] as const;

/** What to write instead of a key, if anything. */
const EXTERNAL_MEANS: { readonly [key in (typeof FOR_TURNS)[number]]?: string } = {
  idle_timeout: "the agent is never between two turns; max_hold limits its time in front",
};

/** Extracts the keys to check from a file that may have other faults. */
const Keys = z
  .object({
    agents: z
      .array(
        z
          .object({
            name: text(),
            enabled: z.boolean().default(true).catch(true),
            critical: z.boolean().default(false).catch(false),
            when_blocked: z
              .union([z.string().transform((way) => [way]), z.array(text())])
              .optional()
              .catch(undefined),
            yields_to: z.unknown().optional(),
            when_preempted: text(),
            adapter: z.object({ kind: text() }).optional().catch(undefined),
            ...Object.fromEntries(FOR_TURNS.map((key) => [key, z.unknown().optional()])),
            sub_agents: z.array(text()).optional().catch(undefined),
          })
          .catch({ name: undefined, enabled: true, critical: false }),
      )
      .catch([]),
    priority_rules: z.array(z.object({ agents: z.array(text()).catch([]) }).catch({ agents: [] })).catch([]),
    user_preferences: z
      .record(
        z.string(),
        z.object({ agent_priority_overrides: z.record(z.string(), z.unknown()).catch({}) }).catch({
          agent_priority_overrides: {},
        }),
      )
      .catch({}),
  })
  .catch({ agents: [], priority_rules: [], user_preferences: {} });

type Entry = z.infer<typeof Keys>["agents"][number];

/**
 * Find keys that are each valid but contradict each other. A critical agent is never refused and outranks all others,
 * so no key may disable it, change its priority or define what happens when it is blocked.
 */
export function findContradictions(file: unknown): ValueFault[] {
  const keys = Keys.parse(file);
  const external = namesOf(keys.agents.filter(({ adapter }) => adapter?.kind === "external"));
  const critical = namesOf(keys.agents.filter((agent) => agent.critical));
  return [
    ...keys.agents.flatMap((agent, index) => findInAgent(agent, index, external)),
    ...findPriorityChanges(keys, critical),
  ];
}

function namesOf(agents: readonly Entry[]): ReadonlySet<string> {
  return new Set(agents.flatMap(({ name }) => name ?? []));
}

/** @param external the names of the external agents */
function findInAgent(agent: Entry, index: number, external: ReadonlySet<string>): ValueFault[] {
  const found: ValueFault[] = [];
  const blame = (message: string, ...path: (string | number)[]) =>
    found.push({ path: ["agents", index, ...path], message });
  if (agent.when_blocked?.includes("duck") && agent.when_preempted !== "duck") {
    const why = "only a session that can play quieter can start beneath another";
    blame(`needs when_preempted: duck: ${why}`, "when_blocked");
  }
  if (agent.adapter?.kind === "external") {
    const entry: Readonly<Record<string, unknown>> = agent;
    for (const key of FOR_TURNS.filter((each) => entry[each] !== undefined)) {
      blame(`has no meaning with adapter external: ${EXTERNAL_MEANS[key] ?? "the agent takes no turns"}`, key);
    }
  }
  for (const [at, name] of (agent.sub_agents ?? []).entries()) {
    if (name === undefined || !external.has(name)) continue;
    blame(`must not name ${name}: an external agent takes no turns`, "sub_agents", at);
  }
  for (const [key, message] of agent.critical ? findInCritical(agent) : []) blame(message, key);
  return found;
}

/** Keys that have no meaning for a critical agent. */
function findInCritical({ enabled, when_blocked, yields_to }: Entry): [key: string, message: string][] {
  const faults: [boolean, string, string][] = [
    [!enabled, "enabled", "must not be false: a critical agent is never refused"],
    [when_blocked !== undefined, "when_blocked", "has no meaning with critical: a critical agent is never blocked"],
    [yields_to !== undefined, "yields_to", "has no meaning with critical: no other session pauses a critical one"],
  ];
  return faults.flatMap(([isFault, key, message]) => (isFault ? [[key, message] as [string, string]] : []));
}

/** Rules and preferences that name a critical agent. */
function findPriorityChanges(keys: z.infer<typeof Keys>, critical: ReadonlySet<string>): ValueFault[] {
  const found: ValueFault[] = [];
  const blameCritical = (name: string | undefined, ...path: (string | number)[]) => {
    if (name === undefined || !critical.has(name)) return;
    found.push({ path, message: `must not name ${name}: the priority of a critical agent does not change` });
  };
  for (const [index, rule] of keys.priority_rules.entries()) {
    for (const [at, name] of rule.agents.entries()) blameCritical(name, "priority_rules", index, "agents", at);
  }
  for (const [user, { agent_priority_overrides: overrides }] of Object.entries(keys.user_preferences)) {
    for (const name of Object.keys(overrides)) {
      blameCritical(name, "user_preferences", user, "agent_priority_overrides", name);
    }
  }
  return found;
}
