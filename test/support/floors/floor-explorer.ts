import { type Challenger, decide, type Waits } from "../../../src/actors/floor/arbitration.ts";
import { depth } from "../../../src/actors/floor/arrangement.ts";
import { type Claim, claimOf, withNumbers } from "../../../src/actors/floor/claim.ts";
import {
  EMPTY_FLOOR,
  everyone,
  type Floor,
  type FloorRules,
  heard,
  isEligible,
  reservedClaim,
  restrictionOn,
  rulesOf,
  without,
} from "../../../src/actors/floor/floor-claims.ts";
import type { Move } from "../../../src/actors/floor/moves.ts";
import { giveFront, letBeneath, letWait, settle } from "../../../src/actors/floor/rearrangement.ts";
import type { AgentEntry, Catalog } from "../../../src/config/catalog/catalog.ts";
import { checkArrangement, must as mustSay } from "../../../src/policy/arrangement-check.ts";
import type { Decision } from "../../../src/protocol/decision.ts";
import type { SessionId } from "../../../src/protocol/ids.ts";

type Flags = Readonly<Record<string, boolean>>;

/** A floor, its flags, and the agent that is disabled, if any. */
export interface FloorState {
  readonly floor: Floor;
  readonly flags: Flags;
  readonly off?: string | undefined;
}

/** One event of a floor, and its effects. */
export interface Step extends FloorState {
  readonly what: string;
  readonly moves: readonly Move[];
  /** Sessions that left by their own request, or because they may not be paused. */
  readonly left: readonly SessionId[];
  readonly decision?: Decision;
  readonly challenger?: Challenger;
  /** An agent or a catalogue was replaced, which alone may silence sessions. */
  readonly isRenumbered?: boolean;
  readonly switched?: SessionId;
}

/** The functions of the rules; a test replaces one by a faulty one. */
export interface Rules {
  decide: typeof decide;
  giveFront: typeof giveFront;
  letBeneath: typeof letBeneath;
  letWait: typeof letWait;
  settle: typeof settle;
}

export interface Exploration {
  /** The most sessions at a time. */
  readonly size: number;
  /** Agents that are disabled and enabled again, one at a time. */
  readonly disables?: readonly string[];
  /** Sessions switch from each of these agents to each. */
  readonly switches?: readonly string[];
  readonly faulty?: Partial<Rules>;
}

/**
 * The arbitration of one floor as pure steps, without clocks: sessions ask, leave, are paused by their users and come
 * back; flags change; an agent is disabled; a session switches its agent; a reserved session is woken.
 */
export class FloorExplorer {
  readonly #catalog: Catalog;
  readonly #agents: readonly AgentEntry[];
  readonly #options: Exploration;
  readonly #rules: Rules;
  readonly #rulesBy = new Map<string, FloorRules>();

  constructor(catalog: Catalog, options: Exploration) {
    this.#catalog = catalog;
    this.#agents = [...catalog.agents.values()];
    this.#options = options;
    this.#rules = { decide, giveFront, letBeneath, letWait, settle, ...options.faulty };
  }

  /**
   * Visits every reachable state once, with every step out of it.
   * @returns the number of states and of steps
   */
  explore(
    check: (before: Floor, step: Step, rules: FloorRules) => void,
    limit = 300_000,
  ): { states: number; steps: number } {
    const first: FloorState = { floor: EMPTY_FLOOR, flags: {} };
    const seen = new Set<string>([keyOf(first)]);
    const open: FloorState[] = [first];
    let steps = 0;
    for (let state = open.pop(); state; state = open.pop()) {
      for (const step of this.steps(state)) {
        steps += 1;
        check(state.floor, step, this.rulesIn(step));
        const next: FloorState = { floor: rename(step.floor), flags: step.flags, off: step.off };
        const key = keyOf(next);
        if (seen.has(key)) continue;
        seen.add(key);
        if (seen.size > limit) throw new Error(`more than ${limit} states`);
        open.push(next);
      }
    }
    return { states: seen.size, steps };
  }

  rulesIn({ flags, off }: FloorState): FloorRules {
    const key = `${Object.keys(flags).filter((name) => flags[name])}|${off}`;
    let rules = this.#rulesBy.get(key);
    if (!rules) {
      const { agents, ...rest } = rulesOf(this.#catalog, flags);
      const disabled = off !== undefined && { ...agents.get(off)!, enabled: false };
      rules = { ...rest, agents: disabled ? new Map([...agents, [disabled.id, disabled]]) : agents };
      this.#rulesBy.set(key, rules);
    }
    return rules;
  }

  *steps(state: FloorState): Generator<Step> {
    const { floor, flags, off } = state;
    const { size, disables = [], switches = [] } = this.#options;
    const all = everyone(floor);
    if (all.length < size) {
      for (const agent of this.#agents) {
        yield this.ask(state, agent.id, "new", "queued");
        // As a session that its user paused.
        yield this.ask(state, agent.id, "new", "paused");
      }
    }
    for (const claim of all) {
      const waits = floor.queued.includes(claim as never)
        ? "queued"
        : floor.paused.includes(claim)
          ? "paused"
          : "never";
      yield this.ask(state, claim.agentId, claim.sessionId, waits);
      const left = [claim.sessionId];
      yield this.#settled({ ...state, what: `${claim.agentId} leaves`, moves: [], left, floor: without(floor, left) });
      if (!switches.includes(claim.agentId)) continue;
      for (const to of switches) if (to !== claim.agentId) yield this.#switch(state, claim, to);
    }
    const about = { ...state, moves: [], left: [] };
    if (floor.reserved) yield this.#settled({ ...about, what: "wake", floor: { ...floor, reserved: undefined } }, 0);
    for (const { when } of this.#catalog.restrictions) {
      const changed = { ...flags, [when]: !flags[when] };
      yield this.#settled({ ...about, what: `${when}: ${changed[when]}`, flags: changed });
    }
    for (const id of off === undefined ? disables : [undefined]) {
      yield this.#settled({ ...about, what: `disabled: ${id}`, off: id, isRenumbered: true });
    }
  }

  /** A session asks for the floor. */
  ask(state: FloorState, agentId: string, sessionId: string, waits: Waits): Step {
    const { floor } = state;
    const rules = this.rulesIn(state);
    const agent = rules.agents.get(agentId)!;
    const askedAt = Math.max(0, ...everyone(floor).map((each) => each.askedAt)) + 1;
    const numbers = claimOf(agent, { value: agent.priority, explained: [] });
    const claim: Claim = { ...numbers, sessionId: sessionId as SessionId, askedAt };
    const challenger: Challenger = { ...claim, agent, waits };
    const decision = this.#rules.decide(floor, challenger, rules);
    const what = `${agent.id} asks: ${decision.outcome} ${decision.reason}`;
    const about = { ...state, what, decision, challenger, left: [], moves: [] };
    if (decision.outcome === "rejected" || decision.reason === "already_holder") return about;
    const { giveFront: front, letBeneath: beneath, letWait: wait } = this.#rules;
    if (decision.outcome === "queued") {
      return this.#settled({ ...about, ...wait(floor, claim, waits === "paused" ? "paused" : "queued", 0, rules) });
    }
    return this.#settled({ ...about, ...(decision.reason === "beneath" ? beneath : front)(floor, claim, rules) });
  }

  #switch(state: FloorState, claim: Claim, to: string): Step {
    const agent = this.rulesIn(state).agents.get(to)!;
    const numbers = claimOf(agent, { value: agent.priority, explained: [] });
    const put = <C extends Claim>(each: C): C => (each === (claim as Claim) ? withNumbers(each, numbers) : each);
    const { holder, ducked, paused, queued } = state.floor;
    const floor: Floor = {
      ...state.floor,
      holder: holder && put(holder),
      ducked: ducked.map(put),
      paused: paused.map(put),
      queued: queued.map(put),
    };
    const what = `${claim.agentId} becomes ${to}`;
    return this.#settled({ ...state, what, moves: [], left: [], floor, isRenumbered: true, switched: claim.sessionId });
  }

  /** The floor settles after the event. Sessions that may not be paused leave in the same step. */
  #settled(step: Step, delayMs?: number): Step {
    const rules = this.rulesIn(step);
    const { restricted, ...settled } = this.#rules.settle(step.floor, rules, { now: 0, time: 0 }, delayMs);
    const moves = [...step.moves, ...restricted, ...settled.moves];
    const gone = settled.floor.paused.filter(({ agentId }) => rules.agents.get(agentId)?.maxPauseMs === 0);
    const next = { ...step, floor: settled.floor, moves };
    if (gone.length === 0) return next;
    const ids = gone.map(({ sessionId }) => sessionId);
    return this.#settled({ ...next, floor: without(settled.floor, ids), left: [...step.left, ...ids] });
  }
}

/** Sessions named by their place, and their requests by their order, so that states that differ only in names are equal. */
function rename(floor: Floor): Floor {
  const order = everyone(floor)
    .map(({ askedAt }) => askedAt)
    .sort((one, other) => one - other);
  let count = 0;
  let reserved: Floor["reserved"];
  const next = <C extends Claim>(claim: C): C => {
    const sessionId = `s${count++}` as SessionId;
    if (claim.sessionId === floor.reserved?.sessionId) reserved = { ...floor.reserved, sessionId };
    return { ...claim, sessionId, askedAt: order.indexOf(claim.askedAt) + 1 };
  };
  const holder = floor.holder && next(floor.holder);
  const ducked = floor.ducked.map(next);
  const paused = floor.paused.map(next);
  const queued = floor.queued.map(next);
  return { holder, ducked, paused, queued, reserved };
}

const nameOf = (claim: Claim) => `${claim.agentId}${claim.askedAt}${claim.wants ? "!" : ""}`;
function keyOf({ floor, flags, off }: FloorState): string {
  const on = Object.keys(flags).filter((name) => flags[name]);
  const { holder, ducked, paused, queued, reserved } = floor;
  const lists = [ducked.map((claim) => `${nameOf(claim)}@${claim.level}`), paused.map(nameOf), queued.map(nameOf)];
  return `${holder ? nameOf(holder) : ""}|${lists.join("|")}|${reserved?.sessionId}|${on}|${off}`;
}

/** Thrown with the number of the invariant that does not hold, and where. */
function must(holds: boolean, what: () => string, before: Floor, step: Step): void {
  const show = (floor: Floor) => keyOf({ floor, flags: step.flags, off: step.off });
  mustSay(holds, () => `${what()}: ${step.what}, from ${show(before)} to ${show(step.floor)}`);
}

/** Checks a step against the invariants of docs/use/arbitration.md: 2, 3, 6, 7, 9, 10, 11, 13 and 16 to 19. */
export function checkStep(before: Floor, step: Step, rules: FloorRules): void {
  const { floor, decision, challenger, moves, left } = step;
  const check = (holds: boolean, what: () => string) => must(holds, what, before, step);
  try {
    checkArrangement(floor, rules);
  } catch (error) {
    check(false, () => (error as Error).message);
  }
  const isHeard = heard(floor);
  const wasHeard = heard(before);
  const among = (claims: readonly Claim[], { sessionId }: Claim) => claims.some((each) => each.sessionId === sessionId);
  if (decision?.outcome === "rejected") {
    check(floor === before && moves.length === 0, () => "6: a rejection changed the floor");
    check(!challenger!.critical || decision.rule === 1, () => "11: a critical session was rejected");
  }
  check(decision?.outcome !== "queued" || !challenger!.critical, () => "11: a critical session was queued");
  // S: only a request takes the front from a holder.
  const { holder } = before;
  const stays = holder && !left.includes(holder.sessionId) && holder.sessionId !== step.switched;
  if (stays && !decision && !restrictionOn(holder, silencing(rules))) {
    check(floor.holder?.sessionId === holder.sessionId, () => `S: ${holder.agentId} lost the front without a request`);
  }
  for (const claim of wasHeard) {
    if (left.includes(claim.sessionId) || among(isHeard, claim)) continue;
    const move = moves.find((each) => each.claim.sessionId === claim.sessionId);
    check(move !== undefined, () => `${claim.agentId} fell silent without a move`);
    const isCritical = claim.critical && claim.sessionId !== step.switched;
    check(!isCritical || move!.becomes === "archived", () => "11: a critical session was paused");
    if (claim.interruptible || step.isRenumbered || restrictionOn(claim, rules) || move!.becomes === "archived")
      continue;
    check(
      isHeard.some((each) => mayCutOff(each, claim) && depth(each, claim) === undefined),
      () => `2′: ${claim.agentId} was silenced`,
    );
  }
  for (const claim of isHeard) {
    if (among(wasHeard, claim) || left.includes(claim.sessionId)) continue;
    check(isEligible(claim, rules), () => `17: ${claim.agentId} came up although it may not`);
  }
  for (const { becomes, claim } of moves) {
    if (becomes !== "archived" || restrictionOn(claim, rules)) continue;
    const by = [...isHeard, ...floor.queued, ...floor.paused].find(
      (each) => rules.agents.get(each.agentId)!.replaces.includes(claim.agentId) && each.askedAt > claim.askedAt,
    );
    check(by !== undefined, () => `18: ${claim.agentId} was ended by a session that asked earlier`);
  }
  for (const { agentId } of floor.paused) {
    check(rules.agents.get(agentId)?.maxPauseMs !== 0, () => `19: ${agentId} stands paused`);
  }
  const isGranted = decision?.outcome === "granted" && decision.reason !== "already_holder";
  if (isGranted || decision?.outcome === "queued") checkReplaced(before, step, check);
  // 7: only a critical session, a wake and the reserved session itself pause more.
  const isBounded = isGranted && !challenger!.critical && challenger!.sessionId !== before.reserved?.sessionId;
  const maxPaused = Math.max(rules.policy.maxPaused, before.paused.length);
  check(!isBounded || floor.paused.length <= maxPaused, () => "7: more are paused than max_paused");
  checkOrder(before, step);
}

/** The restrictions that silence who is heard. */
const silencing = ({ restrictions }: FloorRules) => ({
  restrictions: restrictions.filter(({ others }) => others !== "finish"),
});

/** 2′: which sessions may silence one that is not interruptible. */
function mayCutOff(other: Claim, claim: Claim): boolean {
  if (other.sessionId === claim.sessionId) return false;
  const isNamed = claim.yieldsTo?.includes(other.agentId) && other.priority >= claim.priority;
  const isOutranked = claim.preemptionThreshold !== undefined && other.priority >= claim.preemptionThreshold;
  return isNamed || isOutranked || other.critical === true;
}

/** 16: no session that the granted or queued one replaces stays where it excludes it. */
function checkReplaced(
  before: Floor,
  { floor, decision, challenger }: Step,
  check: (holds: boolean, what: () => string) => void,
) {
  const isFront = floor.holder?.sessionId === challenger!.sessionId;
  const front = before.holder ?? reservedClaim(before);
  const silent = [...floor.paused, ...floor.queued].filter((each) => each.sessionId !== front?.sessionId);
  const others = isFront ? everyone(floor) : decision!.outcome === "queued" ? silent : [...floor.ducked, ...silent];
  const stays = others.find(
    (each) =>
      each.sessionId !== challenger!.sessionId &&
      (isFront || each.sessionId !== front?.sessionId) &&
      challenger!.agent!.replaces.includes(each.agentId) &&
      each.priority <= challenger!.priority,
  );
  check(!stays, () => `16: ${stays?.agentId} stays`);
}

/** 3′: no single move lets two sessions be heard that exclude each other. */
function checkOrder(before: Floor, step: Step): void {
  const check = (holds: boolean, what: () => string) => must(holds, what, before, step);
  const present = heard(before).filter((claim) => !step.left.includes(claim.sessionId));
  const sounding = new Map(present.map((claim) => [claim.sessionId, claim]));
  for (const { becomes, claim } of step.moves) {
    if (becomes === "paused" || becomes === "archived") sounding.delete(claim.sessionId);
    else sounding.set(claim.sessionId, claim);
    if (step.isRenumbered) continue;
    const list = [...sounding.values()].filter(({ sessionId }) => !step.left.includes(sessionId));
    for (const [index, x] of list.entries()) {
      for (const y of list.slice(index + 1)) {
        const areTogether = depth(x, y) !== undefined || depth(y, x) !== undefined;
        check(areTogether, () => `3′: ${x.agentId} and ${y.agentId} are heard at once`);
      }
    }
  }
  for (const id of step.left) sounding.delete(id);
  const end = heard(step.floor);
  const isEnd = end.length === sounding.size && end.every(({ sessionId }) => sounding.has(sessionId));
  check(isEnd, () => "the moves do not lead to the floor");
}
