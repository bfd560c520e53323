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

  /** The next instant at which the clock shows this time of day: now, or later. */
  next(now: number, msOfDay: number): number {
    const shown = this.shownAt(now);
    const today = shown - (shown % DAY_MS) + msOfDay;
    return this.instantOf(today >= shown ? today : today + DAY_MS);
  }
}

const DAY_MS = 86_400_000;

/** A time of day as minutes after midnight, from `23:30` or `7:05`; undefined for any other text. */
export function minuteOf(text: string): number | undefined {
  const [, hours, minutes] = /^([01]?\d|2[0-3]):([0-5]\d)$/.exec(text) ?? [];
  return hours === undefined ? undefined : Number(hours) * 60 + Number(minutes);
}
