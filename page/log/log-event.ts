import type { FloorLogPage } from "../../src/client/answers.ts";
import { countLeading } from "./count-leading.ts";

/** An event of a floor's log, with its position there. */
export type LogEvent = FloorLogPage["events"][number];

/** The place of an event in its floor's log, from 1; 0 for an invalid position. */
export function placeOf({ position }: Pick<LogEvent, "position">): number {
  const place = Number(position.slice(position.lastIndexOf(".") + 1));
  return Number.isSafeInteger(place) ? place : 0;
}

/** The number of events up to and including a place; the events are in order. */
export function countUpTo(events: readonly LogEvent[], place: number): number {
  return countLeading(events.length, (index) => placeOf(events[index]!) <= place);
}

export const timeOf = (event: LogEvent): number => Date.parse(event.timestamp);
