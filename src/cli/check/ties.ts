import { effectivePriority } from "../../actors/floor/contender.ts";
import { type FloorRules, rulesOf } from "../../actors/floor/floor-state.ts";
import type { AgentEntry, Catalog } from "../../config/catalog/catalog.ts";
import { quote } from "../../config/fault.ts";
import { decideAlone, loneContenderOf } from "../../policy/lone-contenders.ts";

/**
 * The maximum number of rules and users that are looked at: a file may have thousands of users, whose warnings would be
 * alike.
 */
const MAX_CIRCUMSTANCES = 500;

/**
 * Find agents that meet with equal priorities although nothing says that they should: the catalogue does not set
 * `ties`, or a rule or a user's preference makes them equal.
 */
export function findTies(catalog: Catalog): string[] {
  const agents = [...catalog.agents.values()].filter((agent) => agent.enabled && !agent.critical);
  const rules = rulesOf(catalog, {});
  const own = new Map(agents.map((agent) => [agent, agent.priority]));
  return [
    ...(catalog.policy.areTiesSet ? [] : describe(tiedIn(own, rules), rules, "")),
    ...[...circumstancesOf(catalog).take(MAX_CIRCUMSTANCES)].flatMap(([where, priorityOf]) => {
      const there = new Map(agents.map((agent) => [agent, priorityOf(agent)]));
      const isNew = (one: AgentEntry, other: AgentEntry) => own.get(one) !== own.get(other);
      return describe(tiedIn(there, rules, isNew), rules, ` ${where}`);
    }),
  ];
}

/** What `findTies` leaves out because there are too many rules and users, as a sentence; undefined: nothing. */
export function whyTiesUnchecked({ priorityRules, overrides }: Catalog): string | undefined {
  const rest = priorityRules.length + overrides.size - MAX_CIRCUMSTANCES;
  if (rest <= 0) return undefined;
  return `whether the last ${rest} rules and users make agents equal: that is checked of the first ${MAX_CIRCUMSTANCES}`;
}

type Priorities = ReadonlyMap<AgentEntry, number>;

/** Each rule and each user's preferences by themselves, with the priorities that they give. */
function* circumstancesOf(catalog: Catalog): Generator<[where: string, priorityOf: (agent: AgentEntry) => number]> {
  for (const rule of catalog.priorityRules) {
    const { between: _, when, ...always } = rule;
    const flags = when === undefined ? {} : { [when]: true };
    const alone = { ...catalog, priorityRules: [always] };
    const context = { now: 0, userId: undefined, flags };
    yield [`with the rule ${quote(rule.name)}`, (agent) => effectivePriority(agent, alone, context).value];
  }
  for (const userId of catalog.overrides.keys()) {
    const alone = { ...catalog, priorityRules: [] };
    yield [`for ${quote(userId)}`, (agent) => effectivePriority(agent, alone, { now: 0, userId, flags: {} }).value];
  }
}

/** Groups of agents with the same priority, of which `ties` decides every pair. */
function tiedIn(
  priorities: Priorities,
  rules: FloorRules,
  counts: (one: AgentEntry, other: AgentEntry) => boolean = () => true,
): [priority: number, agents: AgentEntry[]][] {
  const byPriority = Map.groupBy(priorities.keys(), (agent) => priorities.get(agent)!);
  return [...byPriority].flatMap(([priority, equals]) => {
    const tied = equals.filter((one) =>
      equals.some((other) => one !== other && counts(one, other) && isDecidedByTies(one, other, priority, rules)),
    );
    return tied.length > 1 ? [[priority, tied] as [number, AgentEntry[]]] : [];
  });
}

/** Whether another value of `ties` would decide otherwise, whichever of the two asks. */
function isDecidedByTies(one: AgentEntry, other: AgentEntry, priority: number, rules: FloorRules): boolean {
  const outcome = (holder: AgentEntry, challenger: AgentEntry, ties: "reject" | "newest") => {
    const holding = { ...loneContenderOf(holder, "holder"), priority };
    const challenging = { ...loneContenderOf(challenger, "challenger", 2), priority };
    const decision = decideAlone(holding, challenging, challenger, { ...rules, policy: { ...rules.policy, ties } });
    return decision.outcome === "granted" ? decision.reason : decision.outcome;
  };
  const differs = (a: AgentEntry, b: AgentEntry) => outcome(a, b, "reject") !== outcome(a, b, "newest");
  return differs(one, other) || differs(other, one);
}

/** The maximum number of agents that a sentence names. */
const MAX_NAMED = 5;
/** British: without a comma before “and”, as elsewhere. */
const LIST = new Intl.ListFormat("en-GB");

function describe(groups: ReturnType<typeof tiedIn>, { policy }: FloorRules, where: string): string[] {
  const wins =
    policy.ties === "reject" ? "whichever speaks first keeps the floor" : "whichever asks last gets the floor";
  return groups.map(([priority, agents]) => {
    const more = agents.length > MAX_NAMED ? [`${agents.length - MAX_NAMED} more`] : [];
    const names = LIST.format([...agents.slice(0, MAX_NAMED).map(({ id }) => id), ...more]);
    const mend = where === "" ? "set policy.ties if that is meant, or other priorities" : "set other priorities";
    return `${names} have the same priority ${priority}${where}, so ${wins}: ${mend}`;
  });
}
