export const WEEKDAYS = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"] as const;
export type Weekday = (typeof WEEKDAYS)[number];

/** The day of a time as a clock shows it: ms since 1970, as if it were UTC. That year began on a Thursday. */
export const weekdayOf = (shown: number): Weekday => WEEKDAYS[(Math.floor(shown / DAY_MS) + 3) % WEEKDAYS.length]!;

export const weekdayBefore = (day: Weekday): Weekday => WEEKDAYS.at(WEEKDAYS.indexOf(day) - 1)!;

/** A wall clock in one time zone. */
export class WallClock {
  readonly #format: Intl.DateTimeFormat;

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
    const parts = this.#format.formatToParts(instant);
    const read = (type: Intl.DateTimeFormatPartTypes) => Number(parts.find((part) => part.type === type)!.value);
    const date = Date.UTC(read("year"), read("month") - 1, read("day"), read("hour"), read("minute"), read("second"));
    return date + (instant % 1_000);
  }

  /** The instant at which the clock shows this date and time, given as if it were UTC. */
  instantOf(shown: number): number {
    // The second step takes the offset that is in force at the result.
    const near = shown - (this.shownAt(shown) - shown);
    return shown - (this.shownAt(near) - near);
  }

  /** The next instant at which the clock shows this time of day, perhaps on one day of the week: now, or later. */
  next(now: number, msOfDay: number, day?: Weekday): number {
    const shown = this.shownAt(now);
    let next = shown - (shown % DAY_MS) + msOfDay;
    while (next < shown || (day !== undefined && weekdayOf(next) !== day)) next += DAY_MS;
    return this.instantOf(next);
  }
}

const DAY_MS = 86_400_000;

/**
 * A time of a week as minutes after the midnight of Monday, from `sat 23:30` or `7:05`, which is on Monday; undefined
 * for any other text.
 */
export function minuteOf(text: string): number | undefined {
  const [, day, hours, minutes] = /^(?:(mon|tue|wed|thu|fri|sat|sun) )?([01]?\d|2[0-3]):([0-5]\d)$/.exec(text) ?? [];
  if (hours === undefined) return undefined;
  return (WEEKDAYS.indexOf((day ?? "mon") as Weekday) * 24 + Number(hours)) * 60 + Number(minutes);
}
