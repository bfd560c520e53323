import type { Claim, DuckedClaim } from "./claim.ts";

/**
 * Which sessions are heard together. A session is heard beneath another if the other allows it (`beneath`) and it can
 * play quieter (`when_preempted: duck`). Pure: the result depends only on the competing sessions, not on earlier
 * events. The definitions: docs/arbitration.md.
 */

/** The fields of a claim that decide which sessions are heard together. */
export type Hearing = Pick<Claim, "agentId" | "priority" | "beneath" | "ducks" | "critical">;

/**
 * The level of `below` while it is heard beneath `above`, in dB (-60 to 0). Undefined if `above` does not allow it to
 * be heard.
 */
export function depth(above: Hearing, below: Hearing): number | undefined {
  if (below.critical) return 0;
  if (!below.ducks || !above.beneath) return undefined;
  const levels = new Map(above.beneath);
  const level = levels.get(below.agentId) ?? levels.get("all");
  return typeof level === "number" ? level : undefined;
}

/** The level of a session beneath all sessions above it; undefined if one of them silences it. */
export function levelBeneath(heardAbove: readonly Hearing[], below: Hearing): number | undefined {
  let level = 0;
  for (const above of heardAbove) {
    const each = depth(above, below);
    if (each === undefined) return undefined;
    // Levels do not add up: the quietest level that a session above demands counts.
    if (each < level) level = each;
  }
  return level;
}

export interface Arrangement {
  /** The sessions heard beneath the front, highest priority first. */
  readonly kept: readonly DuckedClaim[];
  /** The sessions that go silent, in the order of the list. */
  readonly silenced: readonly Claim[];
}

/**
 * Arrange sessions beneath a front: by priority, equals in the order of the list. A session is kept if all sessions
 * kept above it, including the front, allow it to be heard; otherwise it goes silent.
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

/** Sort the sessions, highest priority first; equals keep their order. */
export function byPriority<C extends Claim>(list: readonly C[]): C[] {
  return [...list].sort((one, other) => other.priority - one.priority);
}

/**
 * Return a session beneath a front without silencing another session: it comes after its equals, all sessions above
 * must allow it to be heard, and it must allow all sessions below.
 * @returns the sessions beneath the front, including the returning one; undefined if it cannot return
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
