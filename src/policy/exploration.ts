import { everyone } from "../actors/floor/floor-state.ts";
import { BrokenActors } from "../actors/host/floor-actors.ts";
import type { AgentEntry, Catalog, Restriction } from "../config/catalog/catalog.ts";
import { hasHours, isDuring, nextChange } from "../config/catalog/hours.ts";
import type { PolicyAssertion } from "../config/catalog/policy-assertions.ts";
import { WallClock, weekdayOf } from "../shared/wall-clock.ts";
import { Broken } from "./arrangement-check.ts";
import { checkAssertions, NOTHING_OWED, type Owed } from "./assertions.ts";
import { checkInvariants } from "./invariants.ts";
import { type ExploredMove, makeMove, movesFrom, type Variations } from "./moves.ts";
import type { SeenStep } from "./seen-step.ts";
import { SteppedFloor } from "./stepped-floor.ts";

/** Noon of a winter's Monday, when every exploration begins. */
export const EXPLORED_FROM = Date.UTC(2026, 0, 5, 12);

export interface ExplorationOptions {
  catalog: Catalog;
  /** The maximum number of sessions at a time. */
  size: number;
  variations: Variations;
  /** Sequences longer than this are not explored. Default: no limit. */
  maxDepth?: number | undefined;
  /** Whether the time for it is over; asked after each state. */
  isOver?: (() => boolean) | undefined;
  onProgress?: ((progress: { states: number; steps: number; depth: number }) => void) | undefined;
  /** Called with every step, for tests. */
  onStep?: ((step: SeenStep) => void) | undefined;
}

export interface Explored {
  readonly states: number;
  readonly steps: number;
  /** Every sequence of so many moves was explored. */
  readonly depth: number;
  /** Whether every reachable state was. */
  readonly isComplete: boolean;
  readonly violation?: Violation | undefined;
}

export interface Violation {
  /** The invariant or the assertion that does not hold, and why. */
  readonly what: string;
  /** The shortest sequence that leads to it. */
  readonly moves: readonly ExploredMove[];
  /** The assertion; undefined: an invariant. */
  readonly assertion?: PolicyAssertion | undefined;
}

interface Node {
  readonly parent: Node | undefined;
  readonly move: ExploredMove | undefined;
  readonly depth: number;
  /** Dropped once the node is expanded. */
  floor: SteppedFloor | undefined;
  readonly owed: Owed;
}

/**
 * Visit every reachable state of a floor, those of fewer moves first, and check every step. States that differ only in
 * the names of their sessions, in how long things have taken, or in which of several equal agents they have, count as
 * one.
 */
export function explore(options: ExplorationOptions): Explored {
  const { catalog, size, variations, maxDepth = Number.POSITIVE_INFINITY, isOver, onProgress, onStep } = options;
  const classes = classesOf(catalog);
  const newcomers = (floor: SteppedFloor) => newcomersOn(floor, classes);
  const floor = new SteppedFloor({ catalog, now: EXPLORED_FROM });
  const root: Node = { parent: undefined, move: undefined, depth: 0, floor, owed: NOTHING_OWED };
  const seen = new Set([keyOf(floor, NOTHING_OWED, classes)]);
  const queue: Node[] = [root];
  let steps = 0;
  for (let at = 0; at < queue.length; at++) {
    const node = queue[at]!;
    const { depth } = node;
    const before = node.floor!;
    if (depth >= maxDepth || isOver?.()) {
      const isComplete = false;
      return { states: seen.size, steps, depth, isComplete };
    }
    onProgress?.({ states: seen.size, steps, depth });
    for (const move of movesFrom(before, size, newcomers, variations)) {
      steps += 1;
      const { step, owed, fault } = check(before, move, node.owed, catalog);
      if (fault) {
        const moves = [...pathTo(node), move, ...fault.tail];
        const violation = { what: fault.what, moves, assertion: fault.assertion };
        return { states: seen.size, steps, depth, isComplete: false, violation };
      }
      onStep?.(step);
      const key = keyOf(step.after, owed, classes);
      if (seen.has(key)) continue;
      seen.add(key);
      queue.push({ parent: node, move, depth: depth + 1, floor: step.after, owed });
    }
    node.floor = undefined;
  }
  return { states: seen.size, steps, depth: queue.at(-1)!.depth, isComplete: true };
}

type Checked =
  | { step: SeenStep; owed: Owed; fault?: undefined }
  | {
      step?: undefined;
      owed: Owed;
      fault: { what: string; tail: readonly ExploredMove[]; assertion?: PolicyAssertion };
    };

/** Make a move, and compare it with the invariants and the assertions. */
function check(before: SteppedFloor, move: ExploredMove, owed: Owed, catalog: Catalog): Checked {
  try {
    const step = makeMove(before, move);
    checkInvariants(step);
    const { owed: next, broken } = checkAssertions(step, owed, catalog);
    if (!broken) return { step, owed: next };
    const { assertion, what, tail } = broken;
    return { owed, fault: { what: `claim “${assertion.name}”: ${what}`, tail, assertion } };
  } catch (error) {
    if (error instanceof Broken) return { owed, fault: { what: `invariant ${error.message}`, tail: [] } };
    if (!(error instanceof BrokenActors)) throw error;
    return { owed, fault: { what: `the floor breaks: ${(error.cause as Error).message}`, tail: [] } };
  }
}

function pathTo(node: Node): ExploredMove[] {
  const moves: ExploredMove[] = [];
  for (let each: Node | undefined = node; each?.move; each = each.parent) moves.push(each.move);
  return moves.reverse();
}

/** The flags, hours and agents that a catalogue's rules depend on. */
export function variationsOf(catalog: Catalog): Variations {
  const rules = catalog.priorityRules;
  const flags = [...catalog.restrictions, ...rules].flatMap(({ when }) => when ?? []);
  const times = rules.flatMap(({ between, timezone }) =>
    between ? [between.fromMinute, between.toMinute].map((minute) => ({ minute, timezone })) : [],
  );
  const instants = times.map(({ minute, timezone }) => new WallClock(timezone).next(EXPLORED_FROM, minute * 60_000));
  const hours = [...new Set(instants)].map((now) => ({ now, text: new Date(now).toISOString().slice(11, 16) }));
  for (const now of new Set(catalog.restrictions.filter(hasHours).flatMap(turnsOf))) {
    if (hours.every((each) => each.now !== now))
      hours.push({ now, text: `${weekdayOf(now)} ${new Date(now).toISOString().slice(11, 16)}` });
  }
  const disables = [...catalog.agents.values()].filter(({ enabled, critical }) => enabled && !critical);
  return { flags: [...new Set(flags)], hours, disables: disables.map(({ id }) => id) };
}

/** Changes of the hours that are looked at for one that begins and one that ends a restriction: two weeks of them. */
const MAX_CHANGES = 64;

/** The first instants at which a restriction with hours begins, and ends. */
function turnsOf(restriction: Restriction): number[] {
  const found = new Map<boolean, number>();
  for (let now = EXPLORED_FROM, count = 0; found.size < 2 && count < MAX_CHANGES; count++) {
    const isOn = isDuring(restriction, now);
    now = nextChange([restriction], now)!;
    if (isDuring(restriction, now) !== isOn && !found.has(!isOn)) found.set(!isOn, now);
  }
  return [...found.values()];
}

type Classes = ReadonlyMap<string, string>;

/**
 * By agent: its class; sessions of one class are interchangeable. An agent that is named anywhere is alone in its
 * class.
 */
function classesOf(catalog: Catalog): Classes {
  const agents = [...catalog.agents.values()];
  const named = new Set<string>();
  for (const { id, beneath, replaces, yieldsTo } of agents) {
    for (const name of [...beneath.map(([other]) => other), ...replaces, ...yieldsTo]) if (name !== id) named.add(name);
  }
  for (const { allow } of catalog.restrictions) for (const name of allow) named.add(name);
  for (const rule of catalog.priorityRules) for (const name of rule.agents ?? []) named.add(name);
  const assertions = JSON.stringify(catalog.assertions);
  const numbers = new Map<string, number>();
  const classOf = (agent: AgentEntry): string => {
    if (named.has(agent.id) || assertions.includes(`"${agent.id}"`)) return agent.id;
    const signature = signatureOf(agent);
    if (!numbers.has(signature)) numbers.set(signature, numbers.size);
    return `#${numbers.get(signature)}`;
  };
  return new Map(agents.map((agent) => [agent.id, classOf(agent)]));
}

/** The keys that decisions depend on, with the agent's own name left out. */
function signatureOf(agent: AgentEntry): string {
  const self = (names: readonly string[]) => names.map((name) => (name === agent.id ? "" : name));
  const { priority, interruptible, enabled, preemptionThreshold, whenBlocked, whenPreempted, critical, resume } = agent;
  const { idleYields, maxHoldMs, leaseMs, queueTimeoutMs, resumeWithinMs, maxPauseMs, idleTimeoutMs } = agent;
  const beneath = agent.beneath.map(([name, level]) => [...self([name]), level]);
  const names = [beneath, self(agent.replaces), self(agent.yieldsTo)];
  const keys = [priority, interruptible, enabled, preemptionThreshold, whenBlocked, whenPreempted, critical, resume];
  return JSON.stringify([
    names,
    keys,
    maxHoldMs,
    leaseMs,
    queueTimeoutMs,
    resumeWithinMs,
    maxPauseMs,
    idleTimeoutMs,
    idleYields,
  ]);
}

/** Of the agents of a class that have no session on the floor, the first stands for all. */
function newcomersOn(floor: SteppedFloor, classes: Classes): string[] {
  const present = new Set(floor.sessions.map(({ context }) => context.claim.agentId as string));
  const seen = new Set<string>();
  return [...floor.catalog.agents.values()].flatMap(({ id, enabled }) => {
    const name = `${classes.get(id)} ${enabled}`;
    if (present.has(id)) return [id];
    if (seen.has(name)) return [];
    seen.add(name);
    return [id];
  });
}

/** Equal for states from which the same can happen. */
function keyOf(floor: SteppedFloor, owed: Owed, classes: Classes): string {
  const { floor: contenders, flags } = floor.context;
  const competing = everyone(contenders);
  const order = competing.map(({ askedAt }) => askedAt).sort((one, other) => one - other);
  const labels = new Map<string, string>();
  const label = (agentId: string) => {
    const known = classes.get(agentId) ?? agentId;
    if (known === agentId) return agentId;
    // Agents of one class are told apart by the order in which they appear.
    let own = labels.get(agentId);
    if (own === undefined) {
      own = `${known}.${[...labels.keys()].filter((id) => classes.get(id) === known).length}`;
      labels.set(agentId, own);
    }
    return own;
  };
  const indices = new Map(competing.map(({ sessionId }, index) => [sessionId as string, index]));
  const describe = ({ context, value }: SteppedFloor["sessions"][number]) => {
    const { id, claim, pausedBy, level, queuedAt } = context;
    const rank = indices.has(id) ? order.indexOf(competing[indices.get(id)!]!.askedAt) : "-";
    const wants = context.request ? (context.request.wasPreempted ? "!" : "?") : "";
    const finishes = indices.has(id) ? (competing[indices.get(id)!]!.finishes ?? "") : "";
    const isQueued = queuedAt === undefined ? "" : "q";
    const isOwed = [...owed].flatMap(([index, ids]) => (ids.has(id) ? [`o${index}`] : [])).join("");
    const dead = floor.isDead(id) ? "+" : "";
    const { lifecycle } = value;
    return `${label(claim.agentId)} ${claim.priority} ${lifecycle} ${pausedBy} ${level} ${rank}${wants}${finishes}${isQueued}${dead}${isOwed}`;
  };
  const present = floor.sessions.filter(({ context }) => indices.has(context.id));
  present.sort((one, other) => indices.get(one.context.id)! - indices.get(other.context.id)!);
  const described = present.map(describe);
  const others = floor.sessions.filter(({ context }) => !indices.has(context.id)).map(describe);
  const reserved = contenders.reserved ? indices.get(contenders.reserved.sessionId) : "";
  const on = Object.keys(flags).filter((name) => flags[name]);
  const living = new Set<string>(floor.sessions.map(({ context }) => context.id));
  const gone = [...owed].flatMap(([index, ids]) => ([...ids].some((id) => !living.has(id)) ? [`o${index}`] : []));
  const off = [...floor.catalog.agents.values()].filter(({ enabled }) => !enabled).map(({ id }) => id);
  const { priorityRules, restrictions } = floor.catalog;
  const hours = [...priorityRules, ...restrictions].map((rule) => (isDuring(rule, floor.now) ? "1" : "0")).join("");
  return `${described.join("|")}/${others.sort().join("|")}/${reserved}/${on}/${off}/${gone}/${hours}`;
}
