import { RecentMap } from "./recent-map.ts";

export const WEEKDAYS = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"] as const;
export type Weekday = (typeof WEEKDAYS)[number];

/** The day of a time as a clock shows it: ms since 1970, as if it were UTC. That year began on a Thursday. */
export const weekdayOf = (shown: number): Weekday => WEEKDAYS[(Math.floor(shown / DAY_MS) + 3) % WEEKDAYS.length]!;

export const weekdayBefore = (day: Weekday): Weekday => WEEKDAYS.at(WEEKDAYS.indexOf(day) - 1)!;

/** A wall clock in one time zone, which is set at whole minutes only. */
export class WallClock {
  readonly #format: Intl.DateTimeFormat;
  /** How far it is ahead of UTC in the minutes that were asked for last, in ms: to format one takes 10 µs. */
  readonly #ahead = new RecentMap<number, number>(MINUTES_KEPT);

  constructor(timeZone: string) {
    this.#format = new Intl.DateTimeFormat("en-GB", {
      timeZone,
      year: "numeric",
      month: "2-digit",
      day: "2-digit",
      hour: "2-digit",
      minute: "2-digit",
      second: "2-digit",
      hourCycle: "h23",
    });
  }

  /** What the clock shows at this instant, as if it were UTC: ms since 1970. */
  shownAt(instant: number): number {
    const minute = Math.floor(instant / MINUTE_MS);
    let ahead = this.#ahead.get(minute);
    if (ahead === undefined) {
      ahead = this.#shownIn(minute) - minute * MINUTE_MS;
      this.#ahead.set(minute, ahead);
    }
    return instant + ahead;
  }

  #shownIn(minute: number): number {
    const parts = this.#format.formatToParts(minute * MINUTE_MS);
    const read = (type: Intl.DateTimeFormatPartTypes) => Number(parts.find((part) => part.type === type)!.value);
    return Date.UTC(read("year"), read("month") - 1, read("day"), read("hour"), read("minute"), read("second"));
  }

  /** The instant at which the clock shows this date and time, given as if it were UTC. */
  instantOf(shown: number): number {
    // The second step takes the offset that is in force at the result.
    const near = shown - (this.shownAt(shown) - shown);
    return shown - (this.shownAt(near) - near);
  }

  /**
   * The first instant at which the clock has arrived at this date and time, given as if it were UTC: of a time that it
   * shows twice the first, and of one that it skips the moment at which it is set.
   */
  firstAt(shown: number): number {
    // Clocks are from 12 hours behind UTC to 14 ahead.
    const [from, to] = [shown - 15 * HOUR_MS, shown + 13 * HOUR_MS];
    const setAt = this.nextSet(from, to);
    const before = shown - (this.shownAt(from) - from);
    if (setAt === undefined || before < setAt) return before;
    return Math.max(setAt, shown - (this.shownAt(to) - to));
  }

  /** The first instant after `from` at which the clock is ahead of UTC by another time, if it is so at `to`. */
  nextSet(from: number, to: number): number | undefined {
    const aheadMs = this.shownAt(from) - from;
    if (this.shownAt(to) - to === aheadMs) return undefined;
    let [before, after] = [Math.floor(from / MINUTE_MS), Math.ceil(to / MINUTE_MS)];
    while (after - before > 1) {
      const middle = Math.floor((before + after) / 2);
      const at = middle * MINUTE_MS;
      if (this.shownAt(at) - at === aheadMs) before = middle;
      else after = middle;
    }
    return Math.min(after * MINUTE_MS, to);
  }

  /** The next instant at which the clock shows this time of day, perhaps on one day of the week: now, or later. */
  next(now: number, msOfDay: number, day?: Weekday): number {
    const shown = this.shownAt(now);
    let next = shown - (shown % DAY_MS) + msOfDay;
    while (next < shown || (day !== undefined && weekdayOf(next) !== day)) next += DAY_MS;
    const unchanged = now + (next - shown);
    // A clock that is set on the way may show the time once more, or skip it.
    const setAt = this.nextSet(now, unchanged);
    return setAt === undefined ? unchanged : this.next(setAt, msOfDay, day);
  }
}

const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;
const DAY_MS = 86_400_000;
const MINUTES_KEPT = 1_024;

const clocks = new Map<string, WallClock>();

/** The clock of a time zone. There are some hundreds. */
export function clockIn(timeZone: string): WallClock {
  let clock = clocks.get(timeZone);
  if (!clock) {
    clock = new WallClock(timeZone);
    clocks.set(timeZone, clock);
  }
  return clock;
}

/**
 * A time of a week as minutes after the midnight of Monday, from `sat 23:30` or `7:05`, which is on Monday; undefined
 * for any other text.
 */
export function minuteOf(text: string): number | undefined {
  const [, day, hours, minutes] = /^(?:(mon|tue|wed|thu|fri|sat|sun) )?([01]?\d|2[0-3]):([0-5]\d)$/.exec(text) ?? [];
  if (hours === undefined) return undefined;
  return (WEEKDAYS.indexOf((day ?? "mon") as Weekday) * 24 + Number(hours)) * 60 + Number(minutes);
}
