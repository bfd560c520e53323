/**
 * Which sessions are audible together. A session is audible beneath another if the other allows it (`beneath`) and it
 * can play quieter (`when_preempted: duck`). Pure: the result depends only on the competing sessions, not on earlier
 * events. The definitions: docs/use/arbitration.md.
 */

import type { Contender, DuckedContender } from "./contender.ts";

/** The fields of a contender that decide which sessions are audible together. */
export type Audibility = Pick<Contender, "agentId" | "priority" | "beneath" | "ducks" | "critical">;

/**
 * The level of `below` while it is audible beneath `above`, in dB (-60 to 0). Undefined if `above` does not allow it to
 * be audible. `all` does not mean the agent itself: an agent names itself if two of its sessions are audible together.
 */
export function depth(above: Audibility, below: Audibility): number | undefined {
  if (below.critical) return 0;
  if (!below.ducks || !above.beneath) return undefined;
  const levels = new Map(above.beneath);
  const others = above.agentId === below.agentId ? undefined : levels.get("all");
  const level = levels.get(below.agentId) ?? others;
  return typeof level === "number" ? level : undefined;
}

/** The level of a session beneath all sessions above it; undefined if one of them silences it. */
function levelBeneath(audibleAbove: readonly Audibility[], below: Audibility): number | undefined {
  let level = 0;
  for (const above of audibleAbove) {
    const each = depth(above, below);
    if (each === undefined) return undefined;
    // Levels do not add up: the quietest level that a session above demands counts.
    if (each < level) level = each;
  }
  return level;
}

export interface Arrangement {
  /** The sessions audible beneath the front, highest priority first. */
  readonly kept: readonly DuckedContender[];
  /** The sessions that go silent, in the order of the list. */
  readonly silenced: readonly Contender[];
}

/**
 * Arrange sessions beneath a front: by priority, equals in the order of the list. A session is kept if all sessions
 * kept above it, including the front, allow it to be audible; otherwise it goes silent.
 */
export function arrange(front: Audibility, list: readonly Contender[]): Arrangement {
  const audible: Audibility[] = [front];
  const kept: DuckedContender[] = [];
  const silenced = new Set<Contender>();
  for (const contender of byPriority(list)) {
    const level = levelBeneath(audible, contender);
    if (level === undefined) silenced.add(contender);
    else {
      audible.push(contender);
      kept.push({ ...contender, level });
    }
  }
  return { kept, silenced: list.filter((contender) => silenced.has(contender)) };
}

/** Sort the sessions, highest priority first; equals keep their order. */
export function byPriority<C extends Contender>(list: readonly C[]): C[] {
  return [...list].sort((one, other) => other.priority - one.priority);
}

/** An arrangement that a session has joined, with its own rank and level. */
export type Joined = Arrangement & { readonly own: DuckedContender };

/**
 * Add a session to those that are arranged beneath a front: after its equals, or before them. All sessions above it
 * must allow it to be audible, and those below that it silences must give way to it.
 * @returns undefined if it cannot be audible there
 */
export function join(
  front: Audibility,
  ducked: readonly DuckedContender[],
  newcomer: Contender,
  givesWay: (silenced: Contender) => boolean,
  rank: "after" | "before" = "after",
): Joined | undefined {
  const isBelow = ({ priority }: Contender) =>
    priority < newcomer.priority || (rank === "before" && priority === newcomer.priority);
  const at = ducked.findIndex(isBelow);
  const list = ducked.toSpliced(at < 0 ? ducked.length : at, 0, { ...newcomer, level: 0 });
  const { kept, silenced } = arrange(front, list);
  const own = kept.find(({ sessionId }) => sessionId === newcomer.sessionId);
  return own && silenced.every(givesWay) ? { kept, silenced, own } : undefined;
}
