import { decide } from "../../actors/floor/arbitration.ts";
import {
  audible,
  EMPTY_FLOOR,
  type Floor,
  type FloorRules,
  restrictionOn,
  rulesOf,
} from "../../actors/floor/floor-state.ts";
import { giveFront, letBeneath, letWait, settle } from "../../actors/floor/rearrangement.ts";
import { type AgentEntry, acceptsTurns, type Catalog } from "../../config/catalog/catalog.ts";
import { decideAlone, loneContenderOf } from "../../policy/lone-contenders.ts";
import type { FloorTime } from "../../shared/floor-time.ts";

/**
 * The maximum number of agents of which triples are tried in all orders; with more agents only pairs are. A hundred
 * form 161,700 triples, and each more agent nearly 5,000 more.
 */
const MAX_IN_TRIPLES = 100;

/** What one order of requests leads to. Agents are meant by their indices in the group. */
interface Outcome {
  readonly order: readonly number[];
  /** The agents that are heard, the holder first. */
  readonly audible: readonly number[];
  readonly refused: readonly number[];
  /** Whether one replaced another, a holder did not yield, or `ties` decided: then the order matters as meant. */
  readonly isMeant: boolean;
}

type Group = readonly AgentEntry[];
type Difference = readonly [Outcome, Outcome];

/**
 * Find agents whose order matters: two or three of them ask, and who is heard depends on who asks first, although none
 * replaces another, every holder yields, and no tie decides. Groups that nothing tells apart are played once.
 */
export function findOrderRisks(catalog: Catalog): string[] {
  const agents = enabledIn(catalog);
  const rules = rulesOf(catalog, {});
  const alone = new Map(agents.map((agent) => [agent, request(EMPTY_FLOOR, agent, 1, rules).floor ?? EMPTY_FLOOR]));
  const likeness = new Likeness(agents, rules);
  const played = new Map<string, Difference | undefined>();
  const differenceOf = (group: Group): Difference | undefined => {
    const key = likeness.of(group);
    if (!played.has(key)) played.set(key, findDifference(group, rules, alone));
    return played.get(key);
  };
  const found: string[] = [];
  const inPairs = new Map(agents.map((agent) => [agent, new Set<AgentEntry>()]));
  for (const pair of pairs(agents)) {
    const difference = differenceOf(pair);
    if (!difference) continue;
    inPairs.get(pair[0])!.add(pair[1]);
    found.push(describe(pair, difference));
  }
  if (!catalog.isShared || agents.length > MAX_IN_TRIPLES) return found;
  for (const [one, two, three] of triples(agents)) {
    // A pair of them is named already.
    if (inPairs.get(one)!.has(two) || inPairs.get(one)!.has(three) || inPairs.get(two)!.has(three)) continue;
    const difference = differenceOf([one, two, three]);
    if (difference) found.push(describe([one, two, three], difference));
  }
  return found;
}

/** What `findOrderRisks` leaves out because there are too many agents, as a sentence; undefined: nothing. */
export function whyOrderUnchecked(catalog: Catalog): string | undefined {
  const { length } = enabledIn(catalog);
  if (!catalog.isShared || length <= MAX_IN_TRIPLES) return undefined;
  return (
    `whether it matters in which order three agents ask: ${length} agents are enabled, and that is checked of at most ` +
    `${MAX_IN_TRIPLES}; of two agents it was checked`
  );
}

const enabledIn = ({ agents }: Catalog): AgentEntry[] => [...agents.values()].filter(({ enabled }) => enabled);

/** External agents that are not interruptible, of which a second session is refused while one is heard. */
export function findRefusedCalls(catalog: Catalog): string[] {
  const rules = rulesOf(catalog, {});
  const isRefused = (agent: AgentEntry) =>
    decideAlone(loneContenderOf(agent, "first"), loneContenderOf(agent, "second", 2), agent, rules).outcome ===
    "rejected";
  return [...catalog.agents.values()]
    .filter((agent) => agent.enabled && !agent.interruptible && !acceptsTurns(agent) && isRefused(agent))
    .map(
      ({ id }) =>
        `a second session of ${id} is refused while one has the floor: yields_to: [${id}] puts the first on hold, ` +
        `replaces: [${id}] ends it, when_blocked: queue lets the second wait`,
    );
}

function findDifference(group: Group, rules: FloorRules, alone: Alone): Difference | undefined {
  const [first, ...others] = ordersOf([...group.keys()]).map((order) => play(group, order, rules, alone));
  if (!first || [first, ...others].some(({ isMeant }) => isMeant)) return undefined;
  const heardIn = (outcome: Outcome) => outcome.audible.toSorted().join();
  const other = others.find((each) => heardIn(each) !== heardIn(first));
  return other && [first, other];
}

/** The floor after a session of the agent asked for it while it was free. Every order begins with one. */
type Alone = ReadonlyMap<AgentEntry, Floor>;

/** A session of each agent asks, in this order. */
function play(group: Group, order: readonly number[], rules: FloorRules, alone: Alone): Outcome {
  let floor = alone.get(group[order[0]!]!)!;
  let isMeant = false;
  const refused: number[] = [];
  for (const [count, index] of order.entries()) {
    if (count === 0) continue;
    const result = request(floor, group[index]!, count + 1, rules);
    isMeant ||= result.isMeant;
    if (result.floor) floor = result.floor;
    else refused.push(index);
  }
  const indexOf = (agentId: string) => group.findIndex(({ id }) => id === agentId);
  return { order, audible: audible(floor).map(({ agentId }) => indexOf(agentId)), refused, isMeant };
}

/**
 * Tells groups of agents apart by all that decides what happens among one session of each: how their priorities
 * compare, and not how high they are; whether one lets another be heard, and not how loud.
 */
class Likeness {
  readonly #own = new Map<AgentEntry, string>();
  readonly #levels = new Map<AgentEntry, ReadonlyMap<string, unknown>>();

  constructor(agents: readonly AgentEntry[], rules: FloorRules) {
    for (const agent of agents) {
      const { interruptible, critical, whenPreempted, whenBlocked, resume } = agent;
      const contender = loneContenderOf(agent, agent.id);
      const restricted = rules.restrictions.map(
        (each) => restrictionOn(contender, { restrictions: [each] }) !== undefined,
      );
      this.#own.set(agent, JSON.stringify([interruptible, critical, whenPreempted, whenBlocked, resume, restricted]));
      this.#levels.set(agent, new Map(agent.beneath));
    }
  }

  of(group: Group): string {
    const own = group.map((agent) => this.#own.get(agent)).join();
    return own + group.flatMap((one) => group.map((other) => (one === other ? "" : this.#relation(one, other)))).join();
  }

  #relation(one: AgentEntry, other: AgentEntry): string {
    const { priority, preemptionThreshold: threshold, replaces, yieldsTo } = one;
    const levels = this.#levels.get(one)!;
    const isHeard = typeof (levels.get(other.id) ?? levels.get("all")) === "number";
    const isOutranked = threshold !== undefined && other.priority >= threshold;
    const answers = [isHeard, isOutranked, replaces.includes(other.id), yieldsTo.includes(other.id)];
    return Math.sign(priority - other.priority) + answers.map((answer) => (answer ? "+" : "-")).join("");
  }
}

/** A session of the agent asks. `floor` is undefined if it is refused. */
function request(
  before: Floor,
  agent: AgentEntry,
  askedAt: number,
  rules: FloorRules,
): { floor?: Floor; isMeant: boolean } {
  const contender = loneContenderOf(agent, agent.id, askedAt);
  const { outcome, reason, rule } = decide(before, { ...contender, agent, waits: "queued" }, rules);
  const isRuled = rule === 6 || rule === 8;
  if (outcome === "rejected") return { isMeant: isRuled };
  const { floor, moves } =
    outcome === "queued"
      ? letWait(before, contender, "queued", 0, rules)
      : (reason === "beneath" ? letBeneath : giveFront)(before, contender, rules);
  const isReplaced = moves.some(({ becomes }) => becomes === "archived");
  const isTied = moves.some(
    ({ becomes, contender: other }) => becomes === "paused" && other.priority === contender.priority,
  );
  return {
    floor: settle(floor, rules, { now: 0, time: 0 as FloorTime }, 0).floor,
    isMeant: isRuled || isReplaced || isTied,
  };
}

function describe(group: Group, difference: Difference): string {
  const sentences = difference.map((outcome) => sentenceOf(group, outcome));
  return `it matters who asks first: ${sentences.join("; ")}; ${remedyFor(group, difference)}`;
}

/** What makes both orders lead to the same, by what they differ in. */
function remedyFor(group: Group, difference: Difference): string {
  const refused = [...new Set(difference.flatMap((outcome) => outcome.refused))];
  const waits = refused.map((index) => `when_blocked: [duck, queue] of ${group[index]!.id}`);
  const both = "beneath and when_preempted: duck of each that may be heard with another";
  return `if that is not meant, say it for both orders: ${[...waits, both].join(", or ")}`;
}

function sentenceOf(group: Group, { order, audible: heard, refused }: Outcome): string {
  const idsOf = (indices: readonly number[]) => indices.map((index) => group[index]!.id);
  const why = refused.length > 0 ? ` (${idsOf(refused).join(" and ")} refused)` : "";
  return `${idsOf(order).join(", then ")}: ${idsOf(heard).join(" and ")} heard${why}`;
}

function ordersOf<T>(list: readonly T[]): T[][] {
  if (list.length < 2) return [[...list]];
  return list.flatMap((each, index) => ordersOf(list.toSpliced(index, 1)).map((rest) => [each, ...rest]));
}

function* pairs<T>(list: readonly T[]): Generator<[T, T]> {
  for (const [index, one] of list.entries()) for (const other of list.slice(index + 1)) yield [one, other];
}

function* triples<T>(list: readonly T[]): Generator<[T, T, T]> {
  for (const [index, one] of list.entries())
    for (const [two, three] of pairs(list.slice(index + 1))) yield [one, two, three];
}
