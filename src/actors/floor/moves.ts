import type { SessionId } from "../../protocol/ids.ts";
import type { Claim, DuckedClaim } from "./claim.ts";
import { audible, type Floor } from "./floor-claims.ts";

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
 * The moves that lead from one floor to the next. Sessions that are on neither floor, or that left by themselves, have
 * no move.
 */
export function changed(before: Floor, floor: Floor, archived: readonly Claim[]): Rearrangement {
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
