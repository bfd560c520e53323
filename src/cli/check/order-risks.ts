import { decide } from "../../actors/floor/arbitration.ts";
import { audible, EMPTY_FLOOR, type Floor, type FloorRules, rulesOf } from "../../actors/floor/floor-state.ts";
import { giveFront, letBeneath, letWait, settle } from "../../actors/floor/rearrangement.ts";
import { type AgentEntry, acceptsTurns, type Catalog } from "../../config/catalog/catalog.ts";
import { decideAlone, loneContenderOf } from "../../policy/lone-contenders.ts";
import type { FloorTime } from "../../shared/floor-time.ts";

/** The maximum number of agents of which triples are tried in all orders; with more agents only pairs are. */
const MAX_IN_TRIPLES = 30;

/** What one order of requests leads to. */
interface Outcome {
  readonly order: readonly AgentEntry[];
  /** The agents that are heard, the holder first. */
  readonly audible: readonly string[];
  readonly refused: readonly string[];
  /** Whether one replaced another, a holder did not yield, or `ties` decided: then the order matters as meant. */
  readonly isMeant: boolean;
}

/**
 * Find agents whose order matters: two or three of them ask, and who is heard depends on who asks first, although none
 * replaces another, every holder yields, and no tie decides.
 */
export function findOrderRisks(catalog: Catalog): string[] {
  const agents = [...catalog.agents.values()].filter((agent) => agent.enabled);
  const rules = rulesOf(catalog, {});
  const alone = new Map(agents.map((agent) => [agent, request(EMPTY_FLOOR, agent, 1, rules).floor ?? EMPTY_FLOOR]));
  const found: (readonly AgentEntry[])[] = [];
  const describe = (group: readonly AgentEntry[]): string[] => {
    if (found.some((known) => known.every((agent) => group.includes(agent)))) return [];
    const difference = findDifference(group, rules, alone);
    if (!difference) return [];
    found.push(group);
    return [`it matters who asks first: ${difference.map(sentenceOf).join("; ")}; ${remedyFor(difference)}`];
  };
  const groups = catalog.isShared && agents.length <= MAX_IN_TRIPLES ? triples(agents) : [];
  return [...pairs(agents), ...groups].flatMap(describe);
}

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

function findDifference(group: readonly AgentEntry[], rules: FloorRules, alone: Alone): [Outcome, Outcome] | undefined {
  const [first, ...others] = ordersOf(group).map((order) => play(order, rules, alone));
  if (!first || [first, ...others].some(({ isMeant }) => isMeant)) return undefined;
  const nameOf = (outcome: Outcome) => [...outcome.audible].sort().join();
  const other = others.find((each) => nameOf(each) !== nameOf(first));
  return other && [first, other];
}

/** The floor after a session of the agent asked for it while it was free. Every order begins with one. */
type Alone = ReadonlyMap<AgentEntry, Floor>;

/** A session of each agent asks, in this order. */
function play(order: readonly AgentEntry[], rules: FloorRules, alone: Alone): Outcome {
  let floor = alone.get(order[0]!)!;
  let isMeant = false;
  const refused: string[] = [];
  for (const [index, agent] of order.entries()) {
    if (index === 0) continue;
    const result = request(floor, agent, index + 1, rules);
    isMeant ||= result.isMeant;
    if (result.floor) floor = result.floor;
    else refused.push(agent.id);
  }
  return { order, audible: audible(floor).map(({ agentId }) => agentId), refused, isMeant };
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

/** What makes both orders lead to the same, by what they differ in. */
function remedyFor(difference: readonly Outcome[]): string {
  const refused = [...new Set(difference.flatMap((outcome) => outcome.refused))];
  const waits = refused.map((id) => `when_blocked: [duck, queue] of ${id}`);
  const both = "beneath and when_preempted: duck of each that may be heard with another";
  return `if that is not meant, say it for both orders: ${[...waits, both].join(", or ")}`;
}

function sentenceOf({ order, audible: names, refused }: Outcome): string {
  const why = refused.length > 0 ? ` (${refused.join(" and ")} refused)` : "";
  return `${order.map(({ id }) => id).join(", then ")}: ${names.join(" and ")} heard${why}`;
}

function ordersOf<T>(list: readonly T[]): T[][] {
  if (list.length < 2) return [[...list]];
  return list.flatMap((each, index) => ordersOf(list.toSpliced(index, 1)).map((rest) => [each, ...rest]));
}

const pairs = <T>(list: readonly T[]): T[][] =>
  list.flatMap((one, index) => list.slice(index + 1).map((other) => [one, other]));

const triples = <T>(list: readonly T[]): T[][] =>
  list.flatMap((one, index) => pairs(list.slice(index + 1)).map((others) => [one, ...others]));
