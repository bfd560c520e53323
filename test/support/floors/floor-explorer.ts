import type { Challenger, Floor, FloorRules } from "../../../src/actors/floor/arbitration.ts";
import {
  decide,
  EMPTY_FLOOR,
  heard,
  reservedClaim,
  restrictionOn,
  rulesOf,
  successor,
} from "../../../src/actors/floor/arbitration.ts";
import { depth } from "../../../src/actors/floor/arrangement.ts";
import type { Claim } from "../../../src/actors/floor/claim.ts";
import {
  closeRanks,
  giveFront,
  letBeneath,
  type Move,
  type Rearrangement,
  restrict,
  without,
} from "../../../src/actors/floor/rearrangement.ts";
import type { AgentEntry, Catalog } from "../../../src/config/catalog/catalog.ts";
import type { Decision } from "../../../src/protocol/decision.ts";
import type { SessionId } from "../../../src/protocol/ids.ts";
import { checkArrangement } from "./arrangement-check.ts";

/** The explorer's steps: every session may ask, leave, be paused by its user and come back; flags change; a reserved session is woken. */
export interface Step {
  readonly what: string;
  readonly floor: Floor;
  readonly flags: Readonly<Record<string, boolean>>;
  readonly moves: readonly Move[];
  /** Sessions that left by their own request in this step. */
  readonly left: readonly SessionId[];
  readonly decision?: Decision;
  readonly challenger?: Challenger;
}

export type Faulty = Partial<{
  decide: typeof decide;
  giveFront: typeof giveFront;
  closeRanks: typeof closeRanks;
  successor: typeof successor;
}>;

/** The arbitration of one floor as pure steps, without clocks. With a `resume_delay`, a floor is reserved until it is woken. */
export class FloorExplorer {
  readonly #catalog: Catalog;
  readonly #agents: readonly AgentEntry[];
  readonly #size: number;
  readonly #rules: Required<Faulty>;

  constructor(catalog: Catalog, size: number, faulty: Faulty = {}) {
    this.#catalog = catalog;
    this.#agents = [...catalog.agents.values()];
    this.#size = size;
    this.#rules = { decide, giveFront, closeRanks, successor, ...faulty };
  }

  /**
   * Visits every reachable state once, with every step out of it.
   * @returns the number of states and of steps
   */
  explore(
    check: (before: Floor, step: Step, rules: FloorRules) => void,
    limit = 200_000,
  ): { states: number; steps: number } {
    const seen = new Set<string>([keyOf(EMPTY_FLOOR, {})]);
    const open: [Floor, Readonly<Record<string, boolean>>][] = [[EMPTY_FLOOR, {}]];
    let steps = 0;
    while (open.length > 0) {
      const [floor, flags] = open.pop()!;
      for (const step of this.steps(floor, flags)) {
        steps += 1;
        check(floor, step, rulesOf(this.#catalog, step.flags));
        const named = rename(step.floor);
        const key = keyOf(named, step.flags);
        if (seen.has(key)) continue;
        seen.add(key);
        if (seen.size > limit) throw new Error(`more than ${limit} states`);
        open.push([named, step.flags]);
      }
    }
    return { states: seen.size, steps };
  }

  *steps(floor: Floor, flags: Readonly<Record<string, boolean>>): Generator<Step> {
    const rules = rulesOf(this.#catalog, flags);
    const all = [...heard(floor), ...floor.paused, ...floor.queued];
    if (all.length < this.#size) {
      for (const agent of this.#agents) yield this.#ask(floor, flags, rules, agent, "new" as SessionId, true);
    }
    for (const claim of all) {
      const agent = this.#catalog.agents.get(claim.agentId)!;
      if (!floor.queued.includes(claim as never)) yield this.#ask(floor, flags, rules, agent, claim.sessionId, false);
      yield this.#leave(floor, flags, rules, claim);
    }
    if (floor.reserved) yield this.#wake(floor, flags, rules);
    for (const { when } of this.#catalog.restrictions) yield this.#flag(floor, { ...flags, [when]: !flags[when] });
  }

  #ask(
    floor: Floor,
    flags: Step["flags"],
    rules: FloorRules,
    agent: AgentEntry,
    sessionId: SessionId,
    mayQueue: boolean,
  ): Step {
    const claim = claimOf(agent, sessionId);
    const challenger: Challenger = { ...claim, agent, mayQueue };
    const decision = this.#rules.decide(floor, challenger, rules);
    const what = `${agent.id} asks: ${decision.outcome} ${decision.reason}`;
    const about = { what, flags, decision, challenger, left: [] };
    if (decision.outcome === "rejected" || decision.reason === "already_holder") return { ...about, floor, moves: [] };
    if (decision.outcome === "queued")
      return { ...about, floor: { ...floor, queued: [...floor.queued, { ...claim, queuedAt: 0 }] }, moves: [] };
    const next =
      decision.reason === "beneath" ? letBeneath(floor, claim, rules) : this.#rules.giveFront(floor, claim, rules);
    return { ...about, ...next };
  }

  #leave(floor: Floor, flags: Step["flags"], rules: FloorRules, claim: Claim): Step {
    const isReserved = floor.reserved?.sessionId === claim.sessionId;
    const left = without(floor, [claim.sessionId]);
    const next = this.#release(floor, isReserved ? { ...left, reserved: undefined } : left, rules);
    return { what: `${claim.agentId} leaves`, flags, left: [claim.sessionId], ...next };
  }

  /** The timer of the reservation fires. */
  #wake(floor: Floor, flags: Step["flags"], rules: FloorRules): Step {
    return { what: "wake", flags, left: [], ...this.#giveToBest({ ...floor, reserved: undefined }, rules) };
  }

  #flag(floor: Floor, flags: Step["flags"]): Step {
    const rules = rulesOf(this.#catalog, flags);
    const { floor: allowed, paused, ended } = restrict(floor, rules);
    const reserved = reservedClaim(allowed);
    const isRestricted = !reserved || restrictionOn(reserved, rules) !== undefined;
    const next = this.#release(floor, isRestricted ? { ...allowed, reserved: undefined } : allowed, rules);
    const first: Move[] = [
      ...ended.map((claim): Move => ({ becomes: "archived", claim })),
      ...paused.map((claim): Move => ({ becomes: "paused", claim })),
    ];
    const moved = new Set(first.map(({ claim }) => claim.sessionId));
    const rest = next.moves.filter(({ becomes, claim }) => becomes !== "paused" || !moved.has(claim.sessionId));
    return { what: `flags ${JSON.stringify(flags)}`, flags, left: [], floor: next.floor, moves: [...first, ...rest] };
  }

  #release(before: Floor, floor: Floor, rules: FloorRules): Rearrangement {
    if (floor.holder) return this.#rules.closeRanks(before, floor, rules);
    if (floor.reserved) return { floor, moves: [] };
    const { resumeDelayMs } = this.#catalog.policy;
    if (resumeDelayMs === 0) return this.#giveToBest(floor, rules);
    const next = this.#rules.successor(floor, rules);
    const reserved = next && { sessionId: next.claim.sessionId, since: 0, until: 0 };
    return { floor: { ...floor, reserved }, moves: [] };
  }

  #giveToBest(floor: Floor, rules: FloorRules): Rearrangement {
    const next = this.#rules.successor(floor, rules);
    return next ? this.#rules.giveFront(floor, next.claim, rules) : { floor, moves: [] };
  }
}

export function claimOf(agent: AgentEntry, sessionId: SessionId): Claim {
  return {
    sessionId,
    agentId: agent.id,
    priority: agent.priority,
    interruptible: agent.interruptible,
    preemptionThreshold: agent.preemptionThreshold,
    explained: [],
    ...(agent.beneath.length > 0 && { beneath: agent.beneath }),
    ...(agent.whenPreempted === "duck" && { ducks: true as const }),
    ...(agent.critical && { critical: true as const }),
  };
}

/** Sessions named by their place, so that states that differ only in names are equal. */
function rename(floor: Floor): Floor {
  let count = 0;
  let reserved: Floor["reserved"];
  const next = <C extends Claim>(claim: C): C => {
    const sessionId = `s${count++}` as SessionId;
    if (claim.sessionId === floor.reserved?.sessionId) reserved = { ...floor.reserved, sessionId };
    return { ...claim, sessionId };
  };
  const named = {
    holder: floor.holder && next(floor.holder),
    ducked: floor.ducked.map(next),
    paused: floor.paused.map(next),
    queued: floor.queued.map(next),
  };
  return { ...named, reserved };
}

function keyOf({ holder, reserved, ducked, paused, queued }: Floor, flags: object): string {
  const names = (claims: readonly Claim[]) => claims.map(({ agentId }) => agentId).join();
  const levels = ducked.map(({ level }) => level).join();
  return [
    holder?.agentId,
    reserved?.sessionId,
    names(ducked),
    levels,
    names(paused),
    names(queued),
    JSON.stringify(flags),
  ].join("|");
}

function must(isSo: boolean, what: string, before: Floor, step: Step): void {
  if (isSo) return;
  const show = ({ holder, reserved, ducked, paused, queued }: Floor) =>
    `A=${holder?.agentId ?? "-"} R=${reserved?.sessionId ?? "-"} D=${ducked.map((each) => `${each.agentId}${each.level}`)} P=${paused.map((each) => each.agentId)} Q=${queued.map((each) => each.agentId)}`;
  throw new Error(`${what}: ${show(before)} → ${step.what} → ${show(step.floor)}`);
}

/** The invariants of docs/arbitration.md that hold in every state and over every step. */
export function checkStep(before: Floor, step: Step, rules: FloorRules): void {
  const { floor } = step;
  const { holder, ducked, paused } = floor;
  const isHeard = heard(floor);
  try {
    checkArrangement(floor, rules);
  } catch (error) {
    must(false, (error as Error).message, before, step);
  }
  // 11: critical sessions.
  const { challenger, decision } = step;
  if (challenger?.critical)
    must(decision!.outcome === "granted", "11: a critical session was not granted", before, step);
  const lost = (claim: Claim) =>
    !step.left.includes(claim.sessionId) && !isHeard.some(({ sessionId }) => sessionId === claim.sessionId);
  for (const claim of heard(before)) {
    if (!lost(claim)) continue;
    const move = step.moves.find((each) => each.claim.sessionId === claim.sessionId);
    must(move !== undefined, `${claim.agentId} fell silent and was not told`, before, step);
    if (claim.critical) must(move!.becomes === "archived", "11: a critical session was paused", before, step);
    // 2′: which session may silence one that is not interruptible.
    if (claim.interruptible || restrictionOn(claim, rules) || move!.becomes === "archived") continue;
    const front = holder!;
    const isOutranked = claim.preemptionThreshold !== undefined && front.priority >= claim.preemptionThreshold;
    const isCritical = isHeard.some((each) => each.critical && each.sessionId !== claim.sessionId);
    must(isOutranked || isCritical, `2′: ${claim.agentId} was silenced`, before, step);
  }
  // 16: no session that the front replaces stays.
  if (decision?.outcome === "granted" && decision.reason !== "beneath" && decision.reason !== "already_holder") {
    const others = [...ducked, ...paused, ...floor.queued];
    const stays = others.find(
      (each) => challenger!.agent!.replaces.includes(each.agentId) && each.priority <= challenger!.priority,
    );
    must(!stays, `16: ${stays?.agentId} stays`, before, step);
  }
  const maxPaused = Math.max(rules.policy.maxPaused, before.paused.length);
  // 7: only a critical session, a wake and the reserved session itself pause more.
  if (decision?.outcome === "granted" && !challenger!.critical && challenger!.sessionId !== before.reserved?.sessionId)
    must(paused.length <= maxPaused, "7: more are paused than max_paused", before, step);
  checkOrder(before, step);
}

/** 3′: no single step lets two sessions be heard that exclude each other. */
function checkOrder(before: Floor, step: Step): void {
  const sounding = new Map(
    heard(before)
      .filter((claim) => !step.left.includes(claim.sessionId))
      .map((claim) => [claim.sessionId, claim]),
  );
  for (const { becomes, claim } of step.moves) {
    if (becomes === "paused" || becomes === "archived") sounding.delete(claim.sessionId);
    else sounding.set(claim.sessionId, claim);
    const list = [...sounding.values()];
    for (const [index, x] of list.entries()) {
      for (const y of list.slice(index + 1)) {
        must(
          depth(x, y) !== undefined || depth(y, x) !== undefined,
          `3′: ${x.agentId} and ${y.agentId} are heard at once`,
          before,
          step,
        );
      }
    }
  }
  const end = new Set(heard(step.floor).map(({ sessionId }) => sessionId));
  must(
    end.size === sounding.size && [...end].every((id) => sounding.has(id)),
    "the moves do not lead to the floor",
    before,
    step,
  );
}
