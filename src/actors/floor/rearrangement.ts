import type { SessionId } from "../../protocol/ids.ts";
import { rankBeneath, returnBeneath } from "./arbitration.ts";
import { arrange, byPriority } from "./audible-together.ts";
import { type Claim, type DuckedClaim, withNumbers } from "./claim.ts";
import {
  audible,
  comesBack,
  everyone,
  type Floor,
  type FloorRules,
  isEligible,
  replaces,
  reservedClaim,
  restrictionOn,
  storedClaim,
  without,
} from "./floor-claims.ts";
import { type Successor, successor, wakeEnds } from "./successor.ts";

/** The effect of a floor's change on one session. */
export type Move =
  | { readonly becomes: "archived" | "paused"; readonly claim: Claim }
  | { readonly becomes: "ducked"; readonly claim: Claim; readonly level: number }
  | { readonly becomes: "active"; readonly claim: Claim };

/** A floor after a change, and the effects on its sessions in this order: silence comes before sound (invariant 3). */
export interface Rearrangement {
  readonly floor: Floor;
  readonly moves: readonly Move[];
}

/** A settled floor: first the restricted sessions go silent, then the other moves happen, caused by `woken` if any. */
export interface Settled extends Rearrangement {
  readonly restricted: readonly Move[];
  readonly woken?: Successor | undefined;
}

/**
 * The claim becomes the holder: sessions that it replaces end, sessions that it silences are paused, the others are
 * ducked. A wake ends only sessions that asked before the woken one (rule R).
 */
export function giveFront(floor: Floor, claim: Claim, rules: FloorRules, isWake = false): Rearrangement {
  const rest = without(floor, [claim.sessionId]);
  const ended = everyone(rest).filter((other) => (isWake ? wakeEnds : replaces)(claim, other, rules));
  const left = without(rest, ids(ended));
  const { kept, silenced } = arrange(claim, audible(left));
  const paused = [...silenced.map(storedClaim), ...left.paused];
  const next: Floor = { ...left, reserved: undefined, holder: storedClaim(claim), ducked: kept, paused };
  return changed(floor, rankOthers(next, rules), ended);
}

/** The claim starts beneath the front (rule 12), and ends the sessions that it replaces, except the front. */
export function letBeneath(floor: Floor, claim: Claim, rules: FloorRules): Rearrangement {
  const front = floor.holder ?? reservedClaim(floor);
  const joined = front && rankBeneath(floor, front, claim, rules);
  if (!joined) throw new Error("the session has no rank beneath the front");
  const isFront = ({ sessionId }: Claim) => sessionId === front.sessionId;
  const rest = without(floor, [claim.sessionId]);
  const ended = everyone(rest).filter((other) => !isFront(other) && replaces(claim, other, rules));
  const left = without(rest, ids(ended));
  const ducked = [...left.ducked.filter(isFront), ...joined.kept];
  const paused = [...joined.silenced.map(storedClaim), ...left.paused];
  return changed(floor, rankOthers({ ...left, ducked, paused }, rules), ended);
}

/**
 * The session waits. Silent sessions that it replaces end. A session that is already waiting keeps its place.
 * @param as where it waits: a new session in the queue, a paused one where it is
 */
export function letWait(
  floor: Floor,
  claim: Claim,
  as: "queued" | "paused",
  now: number,
  rules: FloorRules,
): Rearrangement {
  const isOwn = ({ sessionId }: Claim) => sessionId === claim.sessionId;
  const silent = [...floor.paused, ...floor.queued];
  const ended = silent.filter((other) => !isOwn(other) && replaces(claim, other, rules));
  const left = without(floor, ids(ended));
  const renew = <C extends Claim>(old: C) =>
    isOwn(old) ? withNumbers({ ...old, askedAt: claim.askedAt }, claim) : old;
  if (as === "paused") {
    const paused = left.paused.some(isOwn) ? left.paused : [claim, ...left.paused];
    const wanted = paused.map((each) => (isOwn(each) ? { ...renew(each), wants: true as const } : each));
    return changed(floor, { ...left, paused: wanted }, ended);
  }
  const queued = left.queued.some(isOwn) ? left.queued.map(renew) : [...left.queued, { ...claim, queuedAt: now }];
  return changed(floor, { ...left, queued }, ended);
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
  { now, time }: { readonly now: number; readonly time: number },
  delayMs = rules.policy.resumeDelayMs,
): Settled {
  const { floor: allowed, moves: restricted } = restrict(floor, rules);
  const isStale = allowed.reserved !== undefined && !isReservationDue(allowed, rules);
  const before = isStale ? { ...allowed, reserved: undefined } : allowed;
  const next = before.holder || before.reserved ? undefined : successor(before, rules);
  if (next && (delayMs === 0 || waitsUrgently(before, rules))) {
    return { restricted, woken: next, ...giveFront(before, next.claim, rules, true) };
  }
  const reserved = next && { sessionId: next.claim.sessionId, since: time, until: now + delayMs };
  const after = rankOthers(reserved ? { ...before, reserved } : before, rules);
  return { restricted, ...changed(before, after, []) };
}

/** Pause the audible sessions that a restriction forbids. With `others: stop` end all that it forbids. */
function restrict(floor: Floor, { restrictions }: FloorRules): Rearrangement {
  const among = (others: string) => ({ restrictions: restrictions.filter((each) => each.others === others) });
  const [stopping, pausing] = [among("stop"), among("pause")];
  const ended = everyone(floor).filter((claim) => restrictionOn(claim, stopping));
  const left = without(floor, ids(ended));
  const paused = audible(left).filter((claim) => restrictionOn(claim, pausing));
  if (ended.length + paused.length === 0) return { floor, moves: [] };
  const rest = without(left, ids(paused));
  return {
    floor: { ...rest, paused: [...paused.map(storedClaim), ...rest.paused] },
    moves: [
      ...ended.map((claim): Move => ({ becomes: "archived", claim })),
      ...paused.map((claim): Move => ({ becomes: "paused", claim })),
    ],
  };
}

/** A floor is reserved only for a session that is audible or may come up, and while no critical session is silent. */
function isReservationDue(floor: Floor, rules: FloorRules): boolean {
  const claim = reservedClaim(floor);
  return (
    claim !== undefined && !waitsUrgently(floor, rules) && (audible(floor).includes(claim) || isEligible(claim, rules))
  );
}

/** Whether a session that is critical by a new catalogue or a switch of its agent is silent (invariant 11). */
const waitsUrgently = ({ paused, queued }: Floor, rules: FloorRules): boolean =>
  [...paused, ...queued].some((claim) => claim.critical && isEligible(claim, rules));

/**
 * Rank the sessions beneath the holder: compute their levels, silence those that a session above no longer lets be
 * audible, and bring silent ones back where all above allow it, the best first (rules B and W).
 */
function rankOthers(floor: Floor, rules: FloorRules): Floor {
  const { holder } = floor;
  if (!holder) return separate(floor);
  if (floor.ducked.length + floor.paused.length + floor.queued.length === 0) return floor;
  const { kept, silenced } = arrange(holder, floor.ducked);
  const isMoved = ({ sessionId, level }: DuckedClaim, at: number) =>
    sessionId !== floor.ducked[at]?.sessionId || level !== floor.ducked[at].level;
  const isSame = silenced.length === 0 && !kept.some(isMoved);
  let next = isSame ? floor : { ...floor, ducked: kept, paused: [...silenced.map(storedClaim), ...floor.paused] };
  for (let after: Floor | undefined = next; after; after = returnBest(next, holder, rules)) next = after;
  return next;
}

/** Return the best silent session that may be audible beneath the holder, if there is one. */
function returnBest(floor: Floor, holder: Claim, rules: FloorRules): Floor | undefined {
  const mayStart = (claim: Claim) =>
    claim.critical || rules.agents.get(claim.agentId)?.whenBlocked.includes("duck") === true;
  const waiting = floor.queued.filter((claim) => mayStart(claim) && isEligible(claim, rules));
  for (const claim of byPriority([...floor.paused.filter((each) => comesBack(each, rules)), ...waiting])) {
    const joined = returnBeneath(holder, floor.ducked, storedClaim(claim));
    if (!joined) continue;
    const rest = without(floor, [claim.sessionId]);
    return { ...rest, ducked: joined.kept, paused: [...joined.silenced.map(storedClaim), ...rest.paused] };
  }
  return undefined;
}

/**
 * While the floor is reserved, levels stay as they are, because they would go up and down again. Only sessions that may
 * no longer be audible together part, and a critical one has its own volume.
 */
function separate(floor: Floor): Floor {
  const isFront = ({ sessionId }: Claim) => sessionId === floor.reserved?.sessionId;
  const ranked = byPriority(floor.ducked);
  const [best, ...rest] = [...ranked.filter(isFront), ...ranked.filter((claim) => !isFront(claim))];
  if (!best) return floor;
  const { silenced } = arrange(best, rest);
  const isQuiet = ({ critical, level }: DuckedClaim) => critical === true && level < 0;
  if (silenced.length === 0 && !floor.ducked.some(isQuiet)) return floor;
  const left = without(floor, ids(silenced));
  const ducked = left.ducked.map((claim) => (isQuiet(claim) ? { ...claim, level: 0 } : claim));
  return { ...left, ducked, paused: [...silenced.map(storedClaim), ...left.paused] };
}

const ids = (claims: readonly Claim[]): SessionId[] => claims.map(({ sessionId }) => sessionId);

/**
 * The moves that lead from one floor to the next. Sessions that are on neither floor, or that left by themselves, have
 * no move.
 */
function changed(before: Floor, floor: Floor, archived: readonly Claim[]): Rearrangement {
  const was = new Map<SessionId, number | "front">();
  for (const { sessionId, level } of before.ducked) was.set(sessionId, level);
  if (before.holder) was.set(before.holder.sessionId, "front");
  const silenced = audible(before).filter(({ sessionId }) =>
    floor.paused.some((claim) => claim.sessionId === sessionId),
  );
  const moved = (claims: readonly DuckedClaim[]): Move[] =>
    claims.map((claim) => ({ becomes: "ducked", claim, level: claim.level }));
  const quieter = floor.ducked.filter(({ sessionId, level }) => was.has(sessionId) && was.get(sessionId) !== level);
  const comesForward = floor.holder && was.get(floor.holder.sessionId) !== "front" ? [floor.holder] : [];
  const returned = floor.ducked.filter(({ sessionId }) => !was.has(sessionId));
  return {
    floor,
    moves: [
      ...archived.map((claim): Move => ({ becomes: "archived", claim })),
      ...silenced.map((claim): Move => ({ becomes: "paused", claim })),
      ...moved(quieter),
      ...comesForward.map((claim): Move => ({ becomes: "active", claim })),
      ...moved(returned),
    ],
  };
}
