import { type LogEvent, placeOf } from "./log-event.ts";

/** For each session, the places in the log of those of its events that count. */
export const placesIndex = (counts: (event: LogEvent) => boolean = () => true): LogIndex<Map<string, number[]>> =>
  new LogIndex(
    () => new Map<string, number[]>(),
    (index, event, place) => {
      if (event.sessionId === undefined || !counts(event)) return;
      const places = index.get(event.sessionId);
      if (places) places.push(place);
      else index.set(event.sessionId, [place]);
    },
  );

/** An index of a log: as the log grows at its end, only the new events are read. */
export class LogIndex<T> {
  readonly #start: () => T;
  readonly #take: (index: T, event: LogEvent, place: number) => void;
  #events: readonly LogEvent[] = [];
  #first = 0;
  #count = 0;
  #index: T;

  /** @param take adds the event at a place of the log to the index, in place */
  constructor(start: () => T, take: (index: T, event: LogEvent, place: number) => void) {
    this.#start = start;
    this.#take = take;
    this.#index = start();
  }

  /** The index of the whole log: the same object as before while the log only grew at its end. */
  of(events: readonly LogEvent[]): T {
    const first = events.length === 0 ? 0 : placeOf(events[0]!);
    if (events !== this.#events || first !== this.#first || events.length < this.#count) {
      this.#events = events;
      this.#first = first;
      this.#count = 0;
      this.#index = this.#start();
    }
    for (; this.#count < events.length; this.#count += 1) {
      this.#take(this.#index, events[this.#count]!, this.#count);
    }
    return this.#index;
  }
}
