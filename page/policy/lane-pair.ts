import type { ReplayAnswer } from "../../src/client/answers.ts";
import type { Lane, Mark } from "../../src/client/lanes.ts";
import { type LogEvent, timeOf } from "../log/log-event.ts";
import { type Axis, foldedAxis, gapIndex } from "../timeline/folding.ts";
import { type LaneSpan, laneIndex } from "../timeline/lanes/lanes.ts";

type LanesOfLog = { lanes: Lane[]; marks: ReadonlyMap<string, readonly Mark[]> };

/** A replay as two pictures: the same sessions in the same rows, on one axis, whose gaps are folded. */
export interface LanePair {
  before: LanesOfLog;
  after: LanesOfLog;
  axis: Axis;
  span: LaneSpan;
  /** How many sessions are shown, and how many are left out. */
  shown: number;
  left: number;
}

/** @param most the number of sessions that are shown: those that become otherwise first, then the newest */
export function pictureOf(replayed: ReplayAnswer, most: number): LanePair {
  const { before, after, differences, from = 0, to = 0 } = replayed;
  const [was, is] = [laneIndex().of(before), laneIndex().of(after)];
  const agents = agentsOf([...before, ...after]);
  const all = [...new Set([...was.byId.keys(), ...is.byId.keys()])];
  const known = new Set(all);
  const differing = differences.map(({ sessionId }) => sessionId).filter((id) => known.has(id));
  const rows = new Set([...new Set([...differing, ...all.toReversed()])].slice(0, most));
  const ids = all.filter((id) => rows.has(id));
  const laneOf = (id: string, one: ReadonlyMap<string, Lane>, other: ReadonlyMap<string, Lane>): Lane => {
    const known = one.get(id) ?? { ...other.get(id)!, starts: [], looks: [], endsAt: undefined };
    return { ...known, agentId: known.agentId || (agents.get(id) ?? "") };
  };
  const axis = foldedAxis(gapIndex().of([...before, ...after].sort((one, other) => timeOf(one) - timeOf(other))));
  const span = { from: axis.pointOf(from), to: Math.max(axis.pointOf(to), axis.pointOf(from) + 1) };
  return {
    before: { lanes: ids.map((id) => laneOf(id, was.byId, is.byId)), marks: was.marksOf },
    after: { lanes: ids.map((id) => laneOf(id, is.byId, was.byId)), marks: is.marksOf },
    axis,
    span,
    shown: ids.length,
    left: all.length - ids.length,
  };
}

/** The agents of sessions, as decisions name them: the log may begin after a session did. */
function agentsOf(events: readonly LogEvent[]): Map<string, string> {
  const agents = new Map<string, string>();
  for (const { type, data } of events) {
    if (type !== "arbitration") continue;
    const { challenger, holder, effects = [] } = data;
    for (const each of [challenger, holder, ...effects]) {
      if (each?.sessionId !== undefined) agents.set(each.sessionId, each.agentId);
    }
  }
  return agents;
}
