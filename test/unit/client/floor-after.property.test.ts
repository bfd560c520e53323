import { isDeepStrictEqual } from "node:util";
import fc from "fast-check";
import { expect, test } from "vitest";
import type { Contender } from "../../../src/actors/floor/contender.ts";
import { floorAfter, sessionAfter, sessionBefore, UNUSED_FLOOR } from "../../../src/client/floor-after.ts";
import { addToLanes, unusedLanes } from "../../../src/client/lanes.ts";
import type { ServerEvent } from "../../../src/client/server-event.ts";
import type { SessionId } from "../../../src/protocol/ids.ts";
import type { Session } from "../../../src/protocol/session.ts";
import { beginHistory, commandOf, type Step, step, type World, world } from "../../support/floors/floor-histories.ts";
import type { LooseCommand } from "../../support/floors/floor-stage.ts";

/** The fields of a session that its events tell. */
const told = ({ state, activity, pausedBy, level, queuedAt, agentId, archivedAt, failure }: Session) => ({
  state,
  activity,
  pausedBy,
  level,
  queuedAt,
  agentId,
  archivedAt,
  failure: failure?.runId,
});

/** The end of a session's lane: what it looks like, and whether it waits and has a turn. */
function laneOf(view: Session | undefined, wants: boolean): [look: string, isQueued: boolean, isBusy: boolean] {
  if (!view || view.state === "archived") return ["archived", false, false];
  const { state, activity, queuedAt } = view;
  const isQueued = queuedAt !== undefined || wants;
  const look = isQueued ? "queued" : state === "active" ? activity : state;
  return [look, isQueued, activity === "running" || activity === "waiting"];
}

/** Play a history, and follow the floor by its events alone. */
function play(setting: World, steps: Step[]): void {
  const history = beginHistory(setting);
  const { floor } = history;
  let followed = UNUSED_FLOOR;
  const sessions = new Map<string, Session | undefined>();
  const lanes = unusedLanes();
  let count = 0;
  let at = floor.now;
  const carryOut = (command: LooseCommand) => {
    at = floor.now;
    for (const fact of floor.deliver(command).facts) {
      if (fact.type === "at") at = fact.now;
      if (fact.type !== "event") continue;
      const event = { ...fact.event, timestamp: new Date(at).toISOString() } as ServerEvent;
      followed = floorAfter(followed, event);
      addToLanes(lanes, event, count++);
      const { sessionId: id } = event;
      if (id !== undefined) sessions.set(id, sessionAfter(sessions.get(id) ?? sessionBefore(id, event), event));
    }
    compare();
  };
  const wants = (id: string) =>
    floor.actors.context.floor.paused.some(({ sessionId, wants }) => sessionId === id && wants !== undefined);
  const compare = () => {
    const { holder, ducked, queued, reserved } = floor.actors.context.floor;
    const ids = (contenders: readonly Contender[]) => contenders.map(({ sessionId }) => sessionId);
    const paused = [...sessions.keys()].filter((id) => floor.view(id)?.state === "paused");
    const pausedSince = followed.paused.map((id) => floor.actors.machineState(id as SessionId)!.context.pausedSince);
    const shown = {
      pausedSince,
      decisions: followed.decisions,
      places: [followed.holder, followed.ducked.toSorted(), followed.paused.toSorted(), followed.queued],
      rest: [followed.reserved?.sessionId, followed.flags],
      sessions: [...sessions].map(([id, session]) => {
        const { looks, isQueued, isBusy } = lanes.byId.get(id) ?? { looks: [], isQueued: false, isBusy: false };
        return [id, session && told(session), looks.at(-1), isQueued, isBusy];
      }),
    };
    const wanted = {
      pausedSince: pausedSince.toSorted((one, other) => other! - one!),
      decisions: floor.events("arbitration").slice(-50),
      places: [holder?.sessionId, ids(ducked).sort(), paused.sort(), ids(queued)],
      rest: [reserved?.sessionId, floor.actors.context.flags],
      sessions: [...sessions.keys()].map((id) => {
        const view = floor.state(id) === "deleted" ? undefined : floor.view(id);
        return [id, view && told(view), ...laneOf(view, wants(id))];
      }),
    };
    // Most of the time would be that of `toEqual`.
    if (!isDeepStrictEqual(shown, wanted)) expect(shown).toEqual(wanted);
  };
  for (const each of steps) {
    floor.now += each.do === "pass" || each.do === "away" ? each.ms : 1_000;
    if (each.do === "restart") floor.restart();
    carryOut({ type: "alarm" });
    // The log does not tell that a user pauses a paused session, which then no longer resumes by itself.
    const isUntold = each.do === "verb" && each.verb === "pause" && floor.state(each.sessionId) === "paused";
    const command = commandOf(each, history);
    if (command && !isUntold) carryOut(command);
  }
}

test("a floor and its sessions, followed by their events alone, are as the floor's actors have them", () => {
  fc.assert(fc.property(world, fc.array(step, { minLength: 1, maxLength: 60, size: "max" }), play), { numRuns: 400 });
});
