import type { SessionId } from "../../protocol/ids.ts";
import {
  type Floor,
  type FloorRules,
  heard,
  replaces,
  reservedClaim,
  restrictionOn,
  returnsByItself,
} from "./arbitration.ts";
import { arrange, byPriority, joinBeneath } from "./arrangement.ts";
import type { Claim, DuckedClaim } from "./claim.ts";

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

/**
 * The claim becomes the holder: sessions that it replaces end, sessions that it silences are paused, the others are
 * ducked.
 */
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

/** The claim starts beneath the front (rule 12). Only a critical claim can silence others there. */
export function letBeneath(floor: Floor, claim: Claim, rules: FloorRules): Rearrangement {
  const rest = without(floor, [claim.sessionId]);
  const front = rest.holder ?? reservedClaim(rest);
  if (!front) throw new Error("there is no front to start beneath");
  const others = rest.ducked.filter(({ sessionId }) => sessionId !== front.sessionId);
  const { kept, silenced } = arrange(front, [...others, claim]);
  const ducked = rest.holder
    ? kept
    : [...rest.ducked.filter(({ sessionId }) => sessionId === front.sessionId), ...kept];
  const next: Floor = { ...rest, ducked, paused: [...silenced.map(withoutLevel), ...rest.paused] };
  return changed(floor, settle(next, rules), []);
}

/** Sessions left the floor. Ducked sessions may become louder, and paused sessions may return beneath the holder. */
export function closeRanks(before: Floor, floor: Floor, rules: FloorRules): Rearrangement {
  return changed(before, settle(floor, rules), []);
}

/**
 * A session has changed its agent while the floor is reserved: ducked sessions that may no longer be heard together go
 * silent. The others keep their levels.
 */
export function partReserved(floor: Floor): Rearrangement {
  const [best, ...rest] = byPriority(floor.ducked);
  if (!best) return { floor, moves: [] };
  const { silenced } = arrange(best, rest);
  const stays = ({ sessionId }: Claim) => !silenced.some((claim) => claim.sessionId === sessionId);
  const paused = [...silenced.map(withoutLevel), ...floor.paused];
  return changed(floor, { ...floor, ducked: [best, ...rest].filter(stays), paused }, []);
}

/** Pause all sessions that a restriction forbids, or end them if it says `stop`. */
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
 * Recompute the levels, and return paused sessions beneath the holder if all sessions above allow them to be heard and
 * they allow all sessions below. Changes nothing while the floor is reserved, because levels would go up and down
 * again.
 */
function settle(floor: Floor, rules: FloorRules): Floor {
  const { holder } = floor;
  if (!holder || (floor.ducked.length === 0 && floor.paused.length === 0)) return floor;
  let { kept: ducked, silenced } = arrange(holder, floor.ducked);
  const back = new Set<SessionId>();
  for (const claim of byPriority(floor.paused)) {
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

/**
 * The moves that lead from one floor to the next. Sessions that are on neither floor, or that left by themselves, have
 * no move.
 */
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

/** All competing sessions: the holder, then ducked, paused and queued sessions. */
export function everyone(floor: Floor): Claim[] {
  return [...heard(floor), ...floor.paused, ...floor.queued];
}

/** A claim without its level, as all lists except `ducked` store it. */
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
