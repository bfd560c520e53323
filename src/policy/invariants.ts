import { givesWayWhenIdle } from "../actors/floor/arbiter-step.ts";
import { depth } from "../actors/floor/audible-together.ts";
import type { Contender } from "../actors/floor/contender.ts";
import {
  audible,
  everyone,
  type Floor,
  type FloorRules,
  isEligible,
  reservedContender,
  restrictionOn,
  rulesOf,
} from "../actors/floor/floor-state.ts";
import { isAudibleState } from "../protocol/written-state.ts";
import { checkArrangement, must, silencing } from "./arrangement-check.ts";
import { contenderOf, type SeenStep, type SeenTransition, silencingsIn } from "./seen-step.ts";
import type { SteppedFloor } from "./stepped-floor.ts";

/**
 * Check a step against the invariants of docs/use/arbitration.md that a step can show: 1 to 6, 9 to 11, 13 to 19, 21.
 * @throws Broken
 */
export function checkInvariants(step: SeenStep): void {
  const { before, after } = step;
  const rules = rulesOf(after.catalog, after.context.flags, after.now);
  checkTransitions(step);
  checkRefusal(step);
  checkRank(step, rules);
  checkFront(step, rules);
  checkSilenced(step, rules);
  checkRisen(step, rules);
  checkReplaced(step, rules);
  checkArrangement(after.context.floor, rules);
  checkTime(after);
  checkIdle(after);
  const { floor } = after.context;
  for (const { context, value } of after.sessions) {
    const agent = after.catalog.agents.get(context.numbers.agentId);
    must(value.lifecycle !== "paused" || agent?.maxPauseMs !== 0, () => `19: ${context.id} stays paused`);
    const rank = rankOf(floor, context.id);
    const isConsistent =
      value.lifecycle === "active"
        ? rank === "holder"
        : value.lifecycle === "ducked"
          ? rank === "ducked"
          : rank !== "holder" && rank !== "ducked";
    must(isConsistent, () => `1: ${context.id} is ${value.lifecycle}, and its rank is ${rank}`);
  }
  const most = Math.max(rules.policy.maxPaused, before.context.floor.paused.length);
  const isBounded =
    step.isRequest && step.decisions[0]?.outcome === "granted" && !contenderOf(step, step.subject)?.critical;
  must(!isBounded || floor.paused.length <= most, () => "rule 7: more are paused than max_paused");
}

/** 1, 3, 4 and 5: no two sessions are audible at once that exclude each other, at no moment of the step. */
function checkTransitions(step: SeenStep): void {
  const { floor } = step.before.context;
  const sounding = new Map(audible(floor).map((contender) => [contender.sessionId as string, contender as Contender]));
  let front: string | undefined = floor.holder?.sessionId;
  for (const transition of step.transitions) {
    const { sessionId, to } = transition;
    checkOrder(transition);
    const isFront = to.startsWith("active");
    must(!isFront || front === undefined || front === sessionId, () => `1: ${sessionId} and ${front} are active`);
    if (isFront) front = sessionId;
    else if (front === sessionId) front = undefined;
    const contender = isAudibleState(to) ? contenderOf(step, sessionId) : undefined;
    if (!contender) sounding.delete(sessionId);
    else {
      if (!step.isRenumbered) checkTogether(contender, sounding.values());
      sounding.set(sessionId, contender);
    }
  }
}

function checkOrder({ sessionId, from, to, activity, event }: SeenTransition): void {
  must(from !== "archived" || to === "deleted", () => `5: ${sessionId} has ended and becomes ${to}`);
  const staysPaused = to === "paused" && (activity !== undefined || event === "yield" || event === "pause");
  const isLawful = from !== "paused" || /^(active|ducked|archived|deleted)/.test(to) || staysPaused;
  must(isLawful, () => `4: ${sessionId} was paused and becomes ${to}`);
}

function checkTogether(contender: Contender, sounding: Iterable<Contender>): void {
  for (const other of sounding) {
    const areTogether = depth(contender, other) !== undefined || depth(other, contender) !== undefined;
    const isSame = other.sessionId === contender.sessionId;
    must(isSame || areTogether, () => `3: ${contender.sessionId} is heard before ${other.sessionId} is silent`);
  }
}

/** A written state without what its agent does. */
const lifecycleIn = (state: string): string => state.split(".", 1)[0]!;

/** 6 and 11: a refusal changes nothing, and no critical session is refused. */
function checkRefusal({ before, after, transitions, decisions }: SeenStep): void {
  for (const { outcome, challenger, rule, reason } of decisions) {
    const agent = after.catalog.agents.get(challenger.agentId);
    if (outcome === "granted" || reason === "queue_timeout" || reason === "lease_expired") continue;
    must(!agent?.critical || rule === 1, () => `11: ${challenger.agentId} is critical and ${outcome}`);
    if (outcome !== "rejected") continue;
    // A session that is heard beneath takes its turn there.
    const isStill = transitions.every(({ from, to }) => lifecycleIn(from) === lifecycleIn(to));
    const isSame = isStill && isUnchanged(before.context.floor, after.context.floor, challenger.sessionId);
    must(isSame, () => `6: ${challenger.agentId} is refused, and the floor changes`);
  }
}

/**
 * Whether no other session is at another place or has other numbers, and this one is where it was. Its numbers, and
 * with them its rank among those that are heard, are those of the request.
 */
function isUnchanged(before: Floor, after: Floor, subject: string | undefined): boolean {
  if (before === after) return true;
  const described = ({ holder, reserved, ducked, paused, queued }: Floor) => {
    const lists: readonly (readonly (Contender & { level?: number })[])[] = [
      holder ? [holder] : [],
      ducked,
      paused,
      queued,
    ];
    const others = lists.map((list) => list.filter(({ sessionId }) => sessionId !== subject));
    // Where it is, and how loud.
    const own = lists.map((list) =>
      list.filter(({ sessionId }) => sessionId === subject).map(({ level }) => level ?? "there"),
    );
    return JSON.stringify([reserved, others, own]);
  };
  return described(before) === described(after);
}

/** Rules 5, 6 and 8: a request takes the front from a holder, or a reserved floor, only by its rank. */
function checkRank(step: SeenStep, rules: FloorRules): void {
  const { floor } = step.before.context;
  const holder = floor.holder ?? reservedContender(floor);
  const { floor: after } = step.after.context;
  const next = after.holder;
  if (!step.isRequest || !holder || !next || next.sessionId === holder.sessionId || next.sessionId !== step.subject)
    return;
  const gaveWay = step.transitions.some((each) => each.sessionId === holder.sessionId && each.reason === "idle_yields");
  if (next.critical || gaveWay) return;
  const isTied = next.priority === holder.priority;
  const replaced = rules.agents.get(next.agentId)?.replaces.includes(holder.agentId) === true;
  const mayTie = rules.policy.ties === "newest" || replaced || holder.yieldsTo?.includes(next.agentId) === true;
  const isAbove = next.priority > holder.priority || (isTied && mayTie);
  must(!holder.critical, () => `11: ${holder.sessionId} is critical, and ${next.sessionId} takes the front from it`);
  must(isAbove, () => `rules 5 and 6: ${next.sessionId} takes the front from ${holder.sessionId}`);
  if (!floor.reserved || holder.interruptible || replaced) return;
  const isHeard = audible(after).some(({ sessionId }) => sessionId === holder.sessionId);
  must(
    isHeard || mayCutOff(next, holder),
    () => `2: ${holder.sessionId} loses the turn that the floor reserves for it`,
  );
}

/** S: only a request takes the front from a holder. */
function checkFront(step: SeenStep, rules: FloorRules): void {
  const { holder } = step.before.context.floor;
  if (!holder || step.isRequest || step.subject === holder.sessionId) return;
  const hasLeft = step.transitions.some(
    ({ sessionId, event, reason }) =>
      sessionId === holder.sessionId && (event === "yield" || event === "expire" || reason === "after_turn"),
  );
  if (hasLeft || restrictionOn(holder, silencing(rules))) return;
  const isFront = step.after.context.floor.holder?.sessionId === holder.sessionId;
  must(isFront, () => `rule S: ${holder.sessionId} loses the front without a request`);
}

/** 2 and 11: an audible session that is not interruptible is silenced only by a session that may do so. */
function checkSilenced(step: SeenStep, rules: FloorRules): void {
  const isChallenger = ({ sessionId }: Contender) => step.isRequest && sessionId === step.subject;
  for (const { transition, others } of silencingsIn(step)) {
    const contender = transition.event === "preempt" ? contenderOf(step, transition.sessionId) : undefined;
    if (!contender || step.isRenumbered) continue;
    must(!contender.critical, () => `11: ${contender.sessionId} is critical and is paused`);
    if (contender.interruptible || restrictionOn(contender, rules)) continue;
    // The challenger may cut it off although it lets it be heard, by what it leaves above it. Others may not.
    const isCutOff = others
      .flatMap((id) => contenderOf(step, id) ?? [])
      .some((each) => mayCutOff(each, contender) && (isChallenger(each) || depth(each, contender) === undefined));
    must(isCutOff, () => `2: ${contender.sessionId} is not interruptible and is silenced`);
  }
}

function mayCutOff(other: Contender, contender: Contender): boolean {
  const isNamed = contender.yieldsTo?.includes(other.agentId) && other.priority >= contender.priority;
  const isOutranked = contender.preemptionThreshold !== undefined && other.priority >= contender.preemptionThreshold;
  return isNamed || isOutranked || other.critical === true;
}

/** 14 and 17: a silent session comes up only if it may, and by itself only if it was preempted or queued. */
function checkRisen(step: SeenStep, rules: FloorRules): void {
  const { before, after } = step;
  const wasAudible = new Set(audible(before.context.floor).map(({ sessionId }) => sessionId));
  for (const contender of audible(after.context.floor)) {
    const isLeft = step.subject === contender.sessionId && !step.isRequest;
    const lost = after.isDead(contender.sessionId) ? "14: its lease ran out" : "4: its user paused or ended it";
    must(!isLeft, () => `${lost}, and ${contender.sessionId} is heard`);
    if (wasAudible.has(contender.sessionId)) continue;
    const { finishes } =
      everyone(before.context.floor).find(({ sessionId }) => sessionId === contender.sessionId) ?? {};
    must(
      isEligible({ ...contender, finishes }, rules),
      () => `17: ${contender.sessionId} comes up although its agent may not`,
    );
    const was = before.session(contender.sessionId);
    if (!was || (step.isRequest && step.subject === contender.sessionId)) continue;
    const { pausedBy } = was.context;
    const isWoken = was.value.lifecycle !== "paused" || pausedBy === "preemption";
    const why = before.isDead(contender.sessionId) ? "14: its lease ran out" : `4: its ${pausedBy} paused it`;
    must(isWoken, () => `${why}, and ${contender.sessionId} is woken`);
  }
}

/**
 * 11, 16 and 18: a replaced session ends. No session is replaced by a session with an earlier request, and no critical
 * session by an uncritical one.
 */
function checkReplaced(step: SeenStep, rules: FloorRules): void {
  const { floor } = step.after.context;
  for (const { sessionId, to, reason, by } of step.transitions) {
    if (to !== "archived" || !by) continue;
    const ended = contenderOf(step, sessionId);
    const other = contenderOf(step, by.sessionId);
    if (!ended || !other) continue;
    const isReplaced = reason === "replaced";
    must(!isReplaced || other.askedAt > ended.askedAt, () => `18: ${sessionId} is replaced by one that asked earlier`);
    must(!ended.critical || other.critical === true, () => `11: ${sessionId} is critical, and ${by.sessionId} ends it`);
  }
  const { holder } = floor;
  if (!holder || holder.sessionId === step.before.context.floor.holder?.sessionId || step.isRenumbered) return;
  const replaced = rules.agents.get(holder.agentId)?.replaces ?? [];
  const stays = everyone(floor).find(
    (each) =>
      each.sessionId !== holder.sessionId &&
      (holder.critical || !each.critical) &&
      each.askedAt < holder.askedAt &&
      replaced.includes(each.agentId) &&
      each.priority <= holder.priority,
  );
  must(!stays, () => `16: ${holder.sessionId} replaces ${stays?.sessionId}, which stays`);
}

/** 15: what is due has happened. */
function checkTime(floor: SteppedFloor): void {
  const due = floor.nextDue();
  must(
    due === undefined || due > floor.time || floor.context.floor.reserved !== undefined,
    () => "15: a limit is over",
  );
}

/** 21: no idle holder keeps the floor from a session that waits, if its agent says that it gives way. */
function checkIdle(floor: SteppedFloor): void {
  const { holder } = floor.context.floor;
  const idleSince = holder && floor.session(holder.sessionId)?.context.idleSince;
  const keeps = idleSince !== undefined && givesWayWhenIdle(floor.context, floor.catalog);
  must(!keeps, () => `21: ${holder?.sessionId} is idle, and keeps the floor from a session that waits`);
}

function rankOf(floor: Floor, id: string): string {
  if (floor.holder?.sessionId === id) return "holder";
  if (floor.ducked.some(({ sessionId }) => sessionId === id)) return "ducked";
  return floor.paused.some(({ sessionId }) => sessionId === id) ? "paused" : "none";
}
