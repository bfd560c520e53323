import { endsWait } from "../../src/client/floor-after.ts";
import type { Decision } from "../../src/protocol/decision.ts";
import type { Transition } from "../../src/protocol/event.ts";
import { readState } from "../../src/protocol/written-state.ts";
import type { LogEvent } from "../log/log-event.ts";
import { LogIndex } from "../log/log-index.ts";
import { firstAbove } from "./lanes/lanes.ts";

/** A session's work in the log: its turns, and its waits for the floor. */
interface Flight {
  isBusy: boolean;
  isQueued: boolean;
  /** The indices of the events at which work began, ended, began again, and so on. */
  turns: number[];
  /** The indices of all its events. */
  events: number[];
}

export type Flights = Map<string, Flight>;

export const flightIndex = () => new LogIndex<Flights>(() => new Map(), add);

function add(flights: Flights, event: LogEvent, eventIndex: number): void {
  const sessionId = event.type === "arbitration" ? event.data.challenger.sessionId : event.sessionId;
  if (sessionId === undefined) return;
  let flight = flights.get(sessionId);
  if (!flight) {
    flight = { isBusy: false, isQueued: false, turns: [], events: [] };
    flights.set(sessionId, flight);
  }
  const was = flight.isBusy || flight.isQueued;
  flight.events.push(eventIndex);
  if (event.type === "arbitration") decide(flight, event.data);
  else if (event.type === "session_transition") move(flight, event.data);
  if ((flight.isBusy || flight.isQueued) !== was) flight.turns.push(eventIndex);
}

function decide(flight: Flight, decision: Decision): void {
  if (decision.outcome === "queued") flight.isQueued = true;
  else if (decision.outcome === "granted" || endsWait(decision)) flight.isQueued = false;
}

function move(flight: Flight, { to, event, activity }: Transition): void {
  const [state, shown = activity?.to] = readState(to);
  const isOver = state === "archived" || state === "deleted";
  // A paused session that yields no longer waits to come back.
  if (isOver || event === "yield") flight.isQueued = false;
  // Without an activity nothing changes: a paused session keeps its run.
  if (isOver || shown !== undefined) flight.isBusy = shown === "running" || shown === "waiting";
}

const isUnderWay = ({ turns }: Flight, count: number): boolean => firstAbove(turns, count - 1) % 2 === 1;

/** The sessions with work in progress after the first `count` events: a turn, or a wait for the floor. */
export function sessionsInFlight(flights: Flights, count: number): Set<string> {
  const found = new Set<string>();
  for (const [sessionId, flight] of flights) if (isUnderWay(flight, count)) found.add(sessionId);
  return found;
}

/** The indices of that work's events, from its beginning to its end. */
export function eventsInFlight(flights: Flights, count: number): number[] {
  const indices: number[] = [];
  for (const { turns, events } of [...flights.values()].filter((flight) => isUnderWay(flight, count))) {
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
