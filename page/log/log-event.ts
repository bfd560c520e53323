import type { FloorLogPage } from "../../src/client/answers.ts";

/** An event of a floor's log, with its position there. */
export type LogEvent = FloorLogPage["events"][number];

/** The place of an event in its floor's log, from 1; 0 for an invalid position. */
export function placeOf({ position }: Pick<LogEvent, "position">): number {
  const place = Number(position.slice(position.lastIndexOf(".") + 1));
  return Number.isSafeInteger(place) ? place : 0;
}

/** The number of events up to and including a place; the events are in order. */
export function countUpTo(events: readonly LogEvent[], place: number): number {
  let low = 0;
  let high = events.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (placeOf(events[middle]!) <= place) low = middle + 1;
    else high = middle;
  }
  return low;
}

export const timeOf = (event: LogEvent): number => Date.parse(event.timestamp);
