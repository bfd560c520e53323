import { addToLanes, type Lane, type Lanes, unusedLanes } from "../../src/client/lanes.ts";
import { LogIndex } from "../log/log-index.ts";
import { firstAbove } from "./lanes/lanes.ts";

/** A session's work in the log: its turns, and its waits for the floor. */
interface Flight {
  /** The indices of the events at which work began, ended, began again, and so on. */
  turns: number[];
  /** The indices of all its events. */
  events: number[];
}

interface Flights {
  lanes: Lanes;
  bySession: Map<string, Flight>;
}

export const flightIndex = () =>
  new LogIndex<Flights>(
    () => ({ lanes: unusedLanes(), bySession: new Map() }),
    ({ lanes, bySession }, event, eventIndex) => {
      const lane = addToLanes(lanes, event, eventIndex);
      if (!lane) return;
      const flight = bySession.get(lane.sessionId) ?? { turns: [], events: [] };
      bySession.set(lane.sessionId, flight);
      flight.events.push(eventIndex);
      if (isAtWork(lane) !== (flight.turns.length % 2 === 1)) flight.turns.push(eventIndex);
    },
  );

const isAtWork = ({ isBusy, isQueued }: Lane): boolean => isBusy || isQueued;

const isUnderWay = ({ turns }: Flight, count: number): boolean => firstAbove(turns, count - 1) % 2 === 1;

/** The sessions with work in progress after the first `count` events: a turn, or a wait for the floor. */
export function sessionsInFlight({ bySession }: Flights, count: number): Set<string> {
  const found = new Set<string>();
  for (const [sessionId, flight] of bySession) if (isUnderWay(flight, count)) found.add(sessionId);
  return found;
}

/** The indices of that work's events, from its beginning to its end. */
export function eventsInFlight({ bySession }: Flights, count: number): number[] {
  const indices: number[] = [];
  for (const { turns, events } of [...bySession.values()].filter((flight) => isUnderWay(flight, count))) {
    const turn = firstAbove(turns, count - 1) - 1;
    const last = turns[turn + 1] ?? Number.POSITIVE_INFINITY;
    for (
      let index = firstAbove(events, turns[turn]! - 1);
      index < events.length && events[index]! <= last;
      index += 1
    ) {
      indices.push(events[index]!);
    }
  }
  return indices.sort((one, other) => one - other);
}
