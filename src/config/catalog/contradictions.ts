import type { ValueFault } from "../fault.ts";
import type { LenientAgent, LenientCatalog } from "./lenient-catalog.ts";

/** Keys that say how an agent takes turns. */
const FOR_TURNS = [
  "instructions",
  "tools",
  "max_steps",
  "sub_agents",
  "max_depth",
  "when_busy",
  "idle_timeout",
  "idle_yields",
  "after_turn",
] as const;

/** What to write instead of a key, if anything. */
const EXTERNAL_MEANS: { readonly [key in (typeof FOR_TURNS)[number]]?: string } = {
  idle_timeout: "the agent is never between two turns; max_hold limits its time in front",
};

/**
 * Find keys that are each valid but contradict each other. A critical agent is never refused and outranks all others,
 * so no key may disable it, change its priority or define what happens when it is blocked.
 */
export function findContradictions({ agents = [], ...rest }: LenientCatalog): ValueFault[] {
  const external = namesOf(agents.filter(({ adapter }) => adapter?.kind === "external"));
  const critical = namesOf(agents.filter((agent) => agent.critical));
  return [
    ...agents.flatMap((agent, index) => findInAgent(agent, index, external, critical)),
    ...findPriorityChanges(rest, critical),
    ...findInBudgets(rest, external),
  ];
}

/** Budgets that count nothing, and those that count what another one counts. */
function findInBudgets({ budgets }: Pick<LenientCatalog, "budgets">, external: ReadonlySet<string>): ValueFault[] {
  const seen = new Set<string>();
  return budgets.flatMap(({ per, agent, within, ...limits }, index): ValueFault[] => {
    if (agent !== undefined && external.has(agent)) {
      const message = `must not name ${agent}: an external agent takes no turns`;
      return [{ path: ["budgets", index, "agent"], message }];
    }
    return (["runs", "tokens"] as const).flatMap((key) => {
      const name = JSON.stringify([per, agent, within, key]);
      const isTwice = seen.has(name) && limits[key] !== undefined;
      if (limits[key] !== undefined) seen.add(name);
      const message = "another budget limits the same within the same time";
      return isTwice ? [{ path: ["budgets", index, key], message }] : [];
    });
  });
}

function namesOf(agents: readonly LenientAgent[]): ReadonlySet<string> {
  return new Set(agents.flatMap(({ name }) => name ?? []));
}

/**
 * @param external the names of the external agents
 * @param critical the names of the critical agents
 */
function findInAgent(
  agent: LenientAgent,
  index: number,
  external: ReadonlySet<string>,
  critical: ReadonlySet<string>,
): ValueFault[] {
  const found: ValueFault[] = [];
  const blame = (message: string, ...path: (string | number)[]) =>
    found.push({ path: ["agents", index, ...path], message });
  if (agent.when_blocked?.includes("duck") && agent.when_preempted !== "duck") {
    const why = "only a session that can play quieter can start beneath another";
    blame(`needs when_preempted: duck: ${why}`, "when_blocked");
  }
  if (agent.adapter?.kind === "external") {
    for (const key of FOR_TURNS.filter((each) => agent.written[each] !== undefined)) {
      blame(`has no meaning with adapter external: ${EXTERNAL_MEANS[key] ?? "the agent takes no turns"}`, key);
    }
  }
  const blameNames = (key: "sub_agents" | "replaces", among: ReadonlySet<string>, why: string) => {
    for (const [at, name] of agent[key].entries()) {
      if (name !== undefined && among.has(name)) blame(`must not name ${name}: ${why}`, key, at);
    }
  };
  blameNames("sub_agents", external, "an external agent takes no turns");
  if (!agent.critical) blameNames("replaces", critical, "only a critical session ends a critical one");
  for (const [key, message] of agent.critical ? findInCritical(agent) : []) blame(message, key);
  return found;
}

/** Keys that have no meaning for a critical agent. */
function findInCritical({ enabled, when_blocked, written }: LenientAgent): [key: string, message: string][] {
  const faults: [boolean, string, string][] = [
    [!enabled, "enabled", "must not be false: a critical agent is never refused"],
    [when_blocked !== undefined, "when_blocked", "has no meaning with critical: a critical agent is never blocked"],
    [
      written["yields_to"] !== undefined,
      "yields_to",
      "has no meaning with critical: no other session pauses a critical one",
    ],
    [
      written["idle_yields"] === true,
      "idle_yields",
      "has no meaning with critical: no other session pauses a critical one",
    ],
  ];
  return faults.flatMap(([isFault, key, message]) => (isFault ? [[key, message] as [string, string]] : []));
}

/** Rules and preferences that name a critical agent. */
function findPriorityChanges(
  { priority_rules, user_preferences }: Pick<LenientCatalog, "priority_rules" | "user_preferences">,
  critical: ReadonlySet<string>,
): ValueFault[] {
  const found: ValueFault[] = [];
  const blameCritical = (name: string | undefined, ...path: (string | number)[]) => {
    if (name === undefined || !critical.has(name)) return;
    found.push({ path, message: `must not name ${name}: the priority of a critical agent does not change` });
  };
  for (const [index, rule] of priority_rules.entries()) {
    for (const [at, name] of rule.agents.entries()) blameCritical(name, "priority_rules", index, "agents", at);
  }
  for (const [user, { agent_priority_overrides: overrides }] of Object.entries(user_preferences)) {
    for (const name of Object.keys(overrides)) {
      blameCritical(name, "user_preferences", user, "agent_priority_overrides", name);
    }
  }
  return found;
}
