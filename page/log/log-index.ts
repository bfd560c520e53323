import { floorSeqOf, type LogEvent } from "./log-event.ts";

/** For each session, the indices in the log of those of its events that count. */
export const eventIndices = (counts: (event: LogEvent) => boolean = () => true): LogIndex<Map<string, number[]>> =>
  new LogIndex(
    () => new Map<string, number[]>(),
    (index, event, eventIndex) => {
      if (event.sessionId === undefined || !counts(event)) return;
      const indices = index.get(event.sessionId);
      if (indices) indices.push(eventIndex);
      else index.set(event.sessionId, [eventIndex]);
    },
  );

/** An index of a log: as the log grows at its end, only the new events are read. */
export class LogIndex<T> {
  readonly #start: () => T;
  readonly #add: (index: T, event: LogEvent, eventIndex: number) => void;
  #events: readonly LogEvent[] = [];
  #first = 0;
  #count = 0;
  #index: T;

  /** @param add adds an event, with its index in the log, to the index */
  constructor(start: () => T, add: (index: T, event: LogEvent, eventIndex: number) => void) {
    this.#start = start;
    this.#add = add;
    this.#index = start();
  }

  /** The index of the whole log: the same object as before while the log only grew at its end. */
  of(events: readonly LogEvent[]): T {
    const first = events.length === 0 ? 0 : floorSeqOf(events[0]!);
    if (events !== this.#events || first !== this.#first || events.length < this.#count) {
      this.#events = events;
      this.#first = first;
      this.#count = 0;
      this.#index = this.#start();
    }
    for (; this.#count < events.length; this.#count += 1) {
      this.#add(this.#index, events[this.#count]!, this.#count);
    }
    return this.#index;
  }
}
