import type { SessionId } from "../../protocol/ids.ts";
import type { FloorTime } from "../../shared/floor-time.ts";
import { rankBeneath, returnBeneath, yieldsTo } from "./arbitration.ts";
import { arrange, byPriority } from "./audible-together.ts";
import { type Contender, type DuckedContender, type Numbers, withNumbers } from "./contender.ts";
import {
  audible,
  comesBack,
  endsOthers,
  everyone,
  type Floor,
  type FloorRules,
  frontOf,
  isEligible,
  plainContender,
  replaces,
  reservedContender,
  restrictionOn,
  startsBeneath,
  without,
} from "./floor-state.ts";

/** The effect of a floor's change on one session. */
export type Move =
  | { readonly becomes: "archived" | "paused"; readonly contender: Contender }
  | { readonly becomes: "ducked"; readonly contender: Contender; readonly level: number }
  | { readonly becomes: "active"; readonly contender: Contender };

/** A floor after a change, and the effects on its sessions in this order: silence comes before sound (invariant 3). */
export interface Rearrangement {
  readonly floor: Floor;
  readonly moves: readonly Move[];
}

/** The session that gets a free floor. */
export interface Successor {
  readonly contender: Contender;
  readonly reason: "resumed" | "dequeued";
}

/** A settled floor: first the restricted sessions go silent, then the other moves happen, caused by `woken` if any. */
export interface Settled extends Rearrangement {
  readonly restricted: readonly Move[];
  readonly woken?: Successor | undefined;
}

/**
 * The contender becomes the holder: sessions that it replaces end, sessions that it silences are paused, the others are
 * ducked. A wake ends only sessions that asked before the woken one (rule R).
 */
export function giveFront(floor: Floor, contender: Contender, rules: FloorRules, isWake = false): Rearrangement {
  const rest = without(floor, [contender.sessionId]);
  const ended = everyone(rest).filter((other) => (isWake ? wakeEnds : replaces)(contender, other, rules));
  const left = without(rest, ids(ended));
  // `rankOthers` finds at which level each of them goes on, and which go silent.
  const heardBefore = audible(left).map((other) => ({ ...other, level: 0 }));
  const next: Floor = { ...left, reserved: undefined, holder: plainContender(contender), ducked: heardBefore };
  return changed(floor, rankOthers(next, rules), ended);
}

/** The contender starts beneath the front (rule 12), and ends the sessions that it replaces, except the front. */
export function letBeneath(floor: Floor, contender: Contender, rules: FloorRules): Rearrangement {
  const front = frontOf(floor);
  const joined = front && rankBeneath(floor, front, contender, rules);
  if (!joined) throw new Error("the session has no rank beneath the front");
  const isFront = ({ sessionId }: Contender) => sessionId === front.sessionId;
  const rest = without(floor, [contender.sessionId]);
  const ended = everyone(rest).filter((other) => !isFront(other) && replaces(contender, other, rules));
  const left = without(rest, ids(ended));
  const ducked = [...left.ducked.filter(isFront), ...joined.kept];
  const paused = [...joined.silenced.map(plainContender), ...left.paused];
  return changed(floor, rankOthers({ ...left, ducked, paused }, rules), ended);
}

/**
 * The session waits. Silent sessions that it replaces end. A session that is already waiting keeps its place.
 * @param as where it waits: a new session in the queue, a paused one where it is
 */
export function letWait(
  floor: Floor,
  contender: Contender,
  as: "queued" | "paused",
  now: number,
  rules: FloorRules,
): Rearrangement {
  const isOwn = ({ sessionId }: Contender) => sessionId === contender.sessionId;
  const silent = [...floor.paused, ...floor.queued];
  const ended = silent.filter((other) => !isOwn(other) && replaces(contender, other, rules));
  const left = without(floor, ids(ended));
  const renew = <C extends Contender>(old: C) =>
    isOwn(old) ? withNumbers({ ...old, askedAt: contender.askedAt }, contender) : old;
  if (as === "paused") {
    const paused = left.paused.some(isOwn) ? left.paused : [contender, ...left.paused];
    const wanted = paused.map((each) => (isOwn(each) ? { ...renew(each), wants: true as const } : each));
    return changed(floor, { ...left, paused: wanted }, ended);
  }
  const queued = left.queued.some(isOwn) ? left.queued.map(renew) : [...left.queued, { ...contender, queuedAt: now }];
  return changed(floor, { ...left, queued }, ended);
}

/** The session is on none of the floor's lists. */
export function leave(floor: Floor, sessionId: SessionId): Floor {
  const reserved = floor.reserved?.sessionId === sessionId ? undefined : floor.reserved;
  return { ...without(floor, [sessionId]), reserved };
}

/** Contenders get other numbers, and keep their places. `numbersFor` undefined: they keep their own. */
export function renumber(floor: Floor, numbersFor: (contender: Contender) => Numbers | undefined): Floor {
  const put = <C extends Contender>(contender: C): C => {
    const numbers = numbersFor(contender);
    return numbers ? withNumbers(contender, numbers) : contender;
  };
  return {
    ...floor,
    holder: floor.holder && put(floor.holder),
    ducked: floor.ducked.map(put),
    paused: floor.paused.map(put),
    queued: floor.queued.map(put),
  };
}

/**
 * Rule S, after every event: restrictions apply to the sessions that are audible, a free floor goes to the best
 * eligible session, or is reserved for it, and the others find the places that the front leaves. Takes the front from
 * no holder.
 * @param at when: `now` in ms since 1970, `time` in the floor's time
 * @param delayMs how long a free floor is reserved: the policy's `resume_delay`, or 0 when that is over
 */
export function settle(
  floor: Floor,
  rules: FloorRules,
  { now, time }: { readonly now: number; readonly time: FloorTime },
  delayMs = rules.policy.resumeDelayMs,
): Settled {
  const { floor: allowed, moves: restricted } = restrict(noteFinishing(floor, rules), rules);
  const isStale = allowed.reserved !== undefined && !isReservationDue(allowed, rules);
  const before = isStale ? { ...allowed, reserved: undefined } : allowed;
  const next = before.holder || before.reserved ? undefined : successor(before, rules);
  if (next && (delayMs === 0 || waitsUrgently(before, rules))) {
    return { restricted, woken: next, ...giveFront(before, next.contender, rules, true) };
  }
  const reserved = next && { sessionId: next.contender.sessionId, since: time, until: now + delayMs };
  const after = rankOthers(reserved ? { ...before, reserved } : before, rules);
  return { restricted, ...changed(before, after, []) };
}

/**
 * Choose the session that gets a free floor: the highest priority among the ducked, the preempted that come back by
 * themselves, and the queued. Equals rank in this order, except that of equals of which one replaces the other the one
 * that asked last goes first (rule R). Excludes sessions that may not come up, and sessions that would silence a
 * session that is audible and does not yield.
 */
function successor(floor: Floor, rules: FloorRules): Successor | undefined {
  const resumed = [...floor.ducked, ...floor.paused.filter((contender) => comesBack(contender, rules))];
  const dequeued = floor.queued.filter((contender) => isEligible(contender, rules));
  const all: Successor[] = [
    ...resumed.map((contender) => ({ contender, reason: "resumed" as const })),
    ...dequeued.map((contender) => ({ contender, reason: "dequeued" as const })),
  ].filter(({ contender }) => mayComeForward(floor, contender, rules));
  const isOutdone = ({ contender }: Successor) =>
    all.some(
      ({ contender: other }) =>
        other.priority === contender.priority &&
        other.askedAt > contender.askedAt &&
        (replaces(other, contender, rules) || replaces(contender, other, rules)),
    );
  return all
    .filter((each) => !isOutdone(each))
    .reduce<Successor | undefined>(
      (best, each) => (best && best.contender.priority >= each.contender.priority ? best : each),
      undefined,
    );
}

/** Whether a wake of the session ends the other one, which asked earlier (rule R). */
function wakeEnds(contender: Contender, other: Contender, rules: FloorRules): boolean {
  return other.askedAt < contender.askedAt && replaces(contender, other, rules);
}

function mayComeForward(floor: Floor, contender: Contender, rules: FloorRules): boolean {
  const stays = (other: Contender) => other.sessionId !== contender.sessionId && !wakeEnds(contender, other, rules);
  return arrange(contender, floor.ducked.filter(stays)).silenced.every((silenced) => yieldsTo(silenced, contender));
}

/**
 * Rule H: note which restrictions with `others: finish` each session was audible under. One that is cut off meanwhile
 * may come back; one that was silent when they came may not.
 */
function noteFinishing(floor: Floor, { restrictions }: FloorRules): Floor {
  const finishing = restrictions.filter(({ others }) => others === "finish");
  let isSame = true;
  const note = <C extends Contender>(contender: C, isAudible: boolean): C => {
    const { finishes: known = [], ...rest } = contender;
    const under = isAudible ? finishing : finishing.filter(({ name }) => known.includes(name));
    const names = under.filter((each) => restrictionOn(rest, { restrictions: [each] })).map(({ name }) => name);
    if (names.join() === known.join()) return contender;
    isSame = false;
    return { ...(rest as C), ...(names.length > 0 && { finishes: names }) };
  };
  const noted: Floor = {
    ...floor,
    holder: floor.holder && note(floor.holder, true),
    ducked: floor.ducked.map((contender) => note(contender, true)),
    paused: floor.paused.map((contender) => note(contender, false)),
    queued: floor.queued.map((contender) => note(contender, false)),
  };
  return isSame ? floor : noted;
}

/** Pause the audible sessions that a restriction forbids. With `others: stop` end all that it forbids. */
function restrict(floor: Floor, { restrictions }: FloorRules): Rearrangement {
  const stopping = { restrictions: restrictions.filter(endsOthers) };
  const pausing = { restrictions: restrictions.filter(({ others }) => others === "pause") };
  const ended = everyone(floor).filter((contender) => restrictionOn(contender, stopping));
  const left = without(floor, ids(ended));
  const paused = audible(left).filter((contender) => restrictionOn(contender, pausing));
  if (ended.length + paused.length === 0) return { floor, moves: [] };
  const rest = without(left, ids(paused));
  return {
    floor: { ...rest, paused: [...paused.map(plainContender), ...rest.paused] },
    moves: [
      ...ended.map((contender): Move => ({ becomes: "archived", contender })),
      ...paused.map((contender): Move => ({ becomes: "paused", contender })),
    ],
  };
}

/** A floor is reserved only for a session that is audible or may come up, and while no critical session is silent. */
function isReservationDue(floor: Floor, rules: FloorRules): boolean {
  const contender = reservedContender(floor);
  return (
    contender !== undefined &&
    !waitsUrgently(floor, rules) &&
    (audible(floor).includes(contender) || isEligible(contender, rules))
  );
}

/** Whether a session that is critical by a new catalogue or a switch of its agent is silent (invariant 11). */
const waitsUrgently = ({ paused, queued }: Floor, rules: FloorRules): boolean =>
  [...paused, ...queued].some((contender) => contender.critical && isEligible(contender, rules));

/**
 * Rank the sessions beneath the holder: compute their levels, silence those that a session above no longer lets be
 * audible, and bring silent ones back where all above allow it, the best first (rules B and W).
 */
function rankOthers(floor: Floor, rules: FloorRules): Floor {
  const { holder } = floor;
  if (!holder) return separate(floor);
  if (floor.ducked.length + floor.paused.length + floor.queued.length === 0) return floor;
  const { kept, silenced } = arrange(holder, floor.ducked);
  const isMoved = ({ sessionId, level }: DuckedContender, at: number) =>
    sessionId !== floor.ducked[at]?.sessionId || level !== floor.ducked[at].level;
  const isSame = silenced.length === 0 && !kept.some(isMoved);
  let next = isSame ? floor : { ...floor, ducked: kept, paused: [...silenced.map(plainContender), ...floor.paused] };
  for (let after: Floor | undefined = next; after; after = returnBest(next, holder, rules)) next = after;
  return next;
}

/** Return the best silent session that may be audible beneath the holder, if there is one. */
function returnBest(floor: Floor, holder: Contender, rules: FloorRules): Floor | undefined {
  const waiting = floor.queued.filter((contender) => startsBeneath(contender, rules) && isEligible(contender, rules));
  for (const contender of byPriority([...floor.paused.filter((each) => comesBack(each, rules)), ...waiting])) {
    const joined = returnBeneath(holder, floor.ducked, plainContender(contender));
    if (!joined) continue;
    const rest = without(floor, [contender.sessionId]);
    return { ...rest, ducked: joined.kept, paused: [...joined.silenced.map(plainContender), ...rest.paused] };
  }
  return undefined;
}

/**
 * While the floor is reserved, levels stay as they are, because they would go up and down again. Only sessions that may
 * no longer be audible together part, and a critical one has its own volume.
 */
function separate(floor: Floor): Floor {
  const isFront = ({ sessionId }: Contender) => sessionId === floor.reserved?.sessionId;
  const ranked = byPriority(floor.ducked);
  const [best, ...rest] = [...ranked.filter(isFront), ...ranked.filter((contender) => !isFront(contender))];
  if (!best) return floor;
  const { silenced } = arrange(best, rest);
  const isQuiet = ({ critical, level }: DuckedContender) => critical === true && level < 0;
  if (silenced.length === 0 && !floor.ducked.some(isQuiet)) return floor;
  const left = without(floor, ids(silenced));
  const ducked = left.ducked.map((contender) => (isQuiet(contender) ? { ...contender, level: 0 } : contender));
  return { ...left, ducked, paused: [...silenced.map(plainContender), ...left.paused] };
}

const ids = (contenders: readonly Contender[]): SessionId[] => contenders.map(({ sessionId }) => sessionId);

/**
 * The moves that lead from one floor to the next. Sessions that are on neither floor, or that left by themselves, have
 * no move.
 */
function changed(before: Floor, floor: Floor, archived: readonly Contender[]): Rearrangement {
  const was = new Map<SessionId, number | "front">();
  for (const { sessionId, level } of before.ducked) was.set(sessionId, level);
  if (before.holder) was.set(before.holder.sessionId, "front");
  const silenced = audible(before).filter(({ sessionId }) =>
    floor.paused.some((contender) => contender.sessionId === sessionId),
  );
  const moved = (contenders: readonly DuckedContender[]): Move[] =>
    contenders.map((contender) => ({ becomes: "ducked", contender, level: contender.level }));
  const quieter = floor.ducked.filter(({ sessionId, level }) => was.has(sessionId) && was.get(sessionId) !== level);
  const comesForward = floor.holder && was.get(floor.holder.sessionId) !== "front" ? [floor.holder] : [];
  const returned = floor.ducked.filter(({ sessionId }) => !was.has(sessionId));
  return {
    floor,
    moves: [
      ...archived.map((contender): Move => ({ becomes: "archived", contender })),
      ...silenced.map((contender): Move => ({ becomes: "paused", contender })),
      ...moved(quieter),
      ...comesForward.map((contender): Move => ({ becomes: "active", contender })),
      ...moved(returned),
    ],
  };
}
