import type { Claim, DuckedClaim } from "./claim.ts";

/**
 * Who is heard together. A session is heard beneath another when that one lets it (`beneath`) and when it can play
 * quieter (`when_preempted: duck`). Pure: who is heard follows from who competes, not from what happened before.
 * The definitions: docs/arbitration.md.
 */

/** The numbers of a claim that decide who is heard with it. */
export type Hearing = Pick<Claim, "agentId" | "priority" | "beneath" | "ducks" | "critical">;

/**
 * How much quieter `below` is while it is heard beneath `above`, in dB (-60 to 0). Undefined when `above` does not let
 * it be heard.
 */
export function depth(above: Hearing, below: Hearing): number | undefined {
  if (below.critical) return 0;
  if (!below.ducks || !above.beneath) return undefined;
  const levels = new Map(above.beneath);
  const level = levels.get(below.agentId) ?? levels.get("all");
  return typeof level === "number" ? level : undefined;
}

/** The level of a session beneath all that are heard above it; undefined when one of them silences it. */
export function levelBeneath(heardAbove: readonly Hearing[], below: Hearing): number | undefined {
  let level = 0;
  for (const above of heardAbove) {
    const each = depth(above, below);
    if (each === undefined) return undefined;
    // Lowering does not add up: the quietest level that anybody above asks for counts.
    if (each < level) level = each;
  }
  return level;
}

export interface Arrangement {
  /** Heard beneath the front, the highest priority first. */
  readonly kept: readonly DuckedClaim[];
  /** In the order of the list. */
  readonly silenced: readonly Claim[];
}

/**
 * Arrange sessions beneath a front: by priority, among equals in the order of the list. A session is kept when
 * everyone kept above it, the front included, lets it be heard; otherwise it goes silent.
 */
export function arrange(front: Hearing, list: readonly Claim[]): Arrangement {
  const heard: Hearing[] = [front];
  const kept: DuckedClaim[] = [];
  const silenced = new Set<Claim>();
  for (const claim of byPriority(list)) {
    const level = levelBeneath(heard, claim);
    if (level === undefined) silenced.add(claim);
    else {
      heard.push(claim);
      kept.push({ ...claim, level });
    }
  }
  return { kept, silenced: list.filter((claim) => silenced.has(claim)) };
}

/** The sessions with the highest priority first; equals keep their order. */
function byPriority<C extends Claim>(list: readonly C[]): C[] {
  return [...list].sort((one, other) => other.priority - one.priority);
}

/**
 * Let a session come back beneath a front without silencing anybody: it comes after its equals, everyone above must
 * let it be heard, and it must let everyone below be heard.
 * @returns the sessions beneath the front with the newcomer among them; undefined when it cannot come back
 */
export function joinBeneath(
  front: Hearing,
  ducked: readonly DuckedClaim[],
  newcomer: Claim,
): readonly DuckedClaim[] | undefined {
  const at = ducked.findIndex(({ priority }) => priority < newcomer.priority);
  const index = at < 0 ? ducked.length : at;
  const { kept, silenced } = arrange(front, ducked.toSpliced(index, 0, { ...newcomer, level: 0 }));
  return silenced.length === 0 ? kept : undefined;
}
