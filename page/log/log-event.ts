import type { FloorLogPage } from "../../src/client/answers.ts";
import { countLeading } from "./count-leading.ts";

/** An event of a floor's log, with its position there. */
export type LogEvent = FloorLogPage["events"][number];

/** The number of an event in its floor's log, from 1; 0 for an invalid position. */
export function floorSeqOf({ position }: Pick<LogEvent, "position">): number {
  const floorSeq = Number(position.slice(position.lastIndexOf(".") + 1));
  return Number.isSafeInteger(floorSeq) ? floorSeq : 0;
}

/** How many events have this number or a lower one; the events are in order. */
export function countUpTo(events: readonly LogEvent[], floorSeq: number): number {
  return countLeading(events.length, (index) => floorSeqOf(events[index]!) <= floorSeq);
}

export const timeOf = (event: LogEvent): number => Date.parse(event.timestamp);
