import type { SessionId } from "../../protocol/ids.ts";
import { type Floor, type FloorRules, heard, replaces, restrictionOn, returnsByItself } from "./arbitration.ts";
import { arrange, joinBeneath } from "./arrangement.ts";
import type { Claim, DuckedClaim } from "./claim.ts";

/** What a change of the floor does to one session. */
export type Move =
  | { readonly becomes: "archived" | "paused"; readonly claim: Claim }
  | { readonly becomes: "ducked"; readonly claim: Claim; readonly level: number }
  | { readonly becomes: "active"; readonly claim: Claim };

/** A floor after a change, and what happens to its sessions, in this order: silence comes before sound (invariant 3). */
export interface Rearrangement {
  readonly floor: Floor;
  readonly moves: readonly Move[];
}

/** The claim gets the front: whom it replaces ends, whom it does not let be heard is paused, the others are ducked. */
export function giveFront(floor: Floor, claim: Claim, rules: FloorRules): Rearrangement {
  const rest = without(floor, [claim.sessionId]);
  const agent = rules.agents.get(claim.agentId);
  const replaced = everyone(rest).filter((other) => replaces(agent, claim.priority, other));
  const left = without(rest, ids(replaced));
  const { kept, silenced } = arrange(claim, heard(left));
  const paused = [...silenced.map(withoutLevel), ...left.paused];
  const front: Floor = { ...left, reserved: undefined, holder: withoutLevel(claim), ducked: kept, paused };
  return changed(floor, settle(front, rules), replaced);
}

/** The claim starts beneath the front (rule 12). Only a critical one can silence others by that. */
export function letBeneath(floor: Floor, claim: Claim, rules: FloorRules): Rearrangement {
  const rest = without(floor, [claim.sessionId]);
  const reserved = rest.reserved && everyone(rest).find(({ sessionId }) => sessionId === rest.reserved?.sessionId);
  const front = rest.holder ?? reserved;
  if (!front) throw new Error("there is no front to start beneath");
  const others = rest.ducked.filter(({ sessionId }) => sessionId !== front.sessionId);
  const { kept, silenced } = arrange(front, [...others, claim]);
  const ducked = rest.holder
    ? kept
    : [...rest.ducked.filter(({ sessionId }) => sessionId === front.sessionId), ...kept];
  const next: Floor = { ...rest, ducked, paused: [...silenced.map(withoutLevel), ...rest.paused] };
  return changed(floor, settle(next, rules), []);
}

/** Sessions left the floor. Those beneath may be heard louder, and paused ones may come back beneath the holder. */
export function closeRanks(before: Floor, floor: Floor, rules: FloorRules): Rearrangement {
  return changed(before, settle(floor, rules), []);
}

/** Everyone whom a restriction does not allow is paused, or ends where it says `stop`. */
export function restrict(floor: Floor, rules: FloorRules): { floor: Floor; paused: Claim[]; ended: Claim[] } {
  const restricted = (claim: Claim) => restrictionOn(claim, rules) !== undefined;
  const isStopped = (claim: Claim) =>
    !claim.critical &&
    rules.restrictions.some(({ allow, others }) => others === "stop" && !allow.includes(claim.agentId));
  const ended = everyone(floor).filter(isStopped);
  const left = without(floor, ids(ended));
  const paused = heard(left).filter(restricted);
  const rest = without(left, ids(paused));
  return { floor: { ...rest, paused: [...paused.map(withoutLevel), ...rest.paused] }, paused, ended };
}

/**
 * Levels as they follow from who is heard now; and the paused sessions that come back beneath the holder, because
 * everyone above lets them be heard and they let everyone below be heard. While the floor is reserved nothing changes:
 * levels would go up and down again.
 */
function settle(floor: Floor, rules: FloorRules): Floor {
  const { holder } = floor;
  if (!holder || (floor.ducked.length === 0 && floor.paused.length === 0)) return floor;
  let { kept: ducked, silenced } = arrange(holder, floor.ducked);
  const back = new Set<SessionId>();
  for (const claim of [...floor.paused].sort((one, other) => other.priority - one.priority)) {
    if (!claim.ducks && !claim.critical) continue;
    if (!returnsByItself(claim, rules) || restrictionOn(claim, rules)) continue;
    const joined = joinBeneath(holder, ducked, claim);
    if (!joined) continue;
    ducked = joined;
    back.add(claim.sessionId);
  }
  const paused = [...silenced.map(withoutLevel), ...floor.paused].filter(({ sessionId }) => !back.has(sessionId));
  return { ...floor, ducked, paused };
}

/** What leads from one floor to the next. Sessions that are on neither, or left by themselves, are not moved. */
function changed(before: Floor, floor: Floor, archived: readonly Claim[]): Rearrangement {
  const was = new Map<SessionId, number | "front">();
  for (const { sessionId, level } of before.ducked) was.set(sessionId, level);
  if (before.holder) was.set(before.holder.sessionId, "front");
  const silenced = heard(before).filter(({ sessionId }) => floor.paused.some((claim) => claim.sessionId === sessionId));
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

/** Everyone who competes for the floor: the holder, the ducked, the paused, the queued. */
export function everyone(floor: Floor): Claim[] {
  return [...heard(floor), ...floor.paused, ...floor.queued];
}

/** A claim as it is kept anywhere but beneath a front. */
export function withoutLevel(claim: Claim): Claim {
  if (!("level" in claim)) return claim;
  const { level: _, ...rest } = claim as DuckedClaim;
  return rest;
}

const ids = (claims: readonly Claim[]): SessionId[] => claims.map(({ sessionId }) => sessionId);

/** The floor without these sessions. */
export function without(floor: Floor, sessionIds: readonly SessionId[]): Floor {
  const gone = new Set(sessionIds);
  const stays = (claim: Claim) => !gone.has(claim.sessionId);
  return {
    ...floor,
    holder: floor.holder && stays(floor.holder) ? floor.holder : undefined,
    ducked: floor.ducked.filter(stays),
    paused: floor.paused.filter(stays),
    queued: floor.queued.filter(stays),
  };
}
