import { clockIn, type Weekday, weekdayBefore, weekdayOf } from "../../shared/wall-clock.ts";

/** The hours of a day and the days of a week at which something applies, on the clocks of a time zone. */
export interface Hours {
  readonly between?: { readonly fromMinute: number; readonly toMinute: number } | undefined;
  /** A range over midnight belongs to the day on which it begins. */
  readonly days?: readonly Weekday[] | undefined;
  readonly timezone: string;
}

/** Whether it applies at some times only. */
export const hasHours = ({ between, days }: Partial<Hours>): boolean => between !== undefined || days !== undefined;

/** Whether the hours include this instant, in ms since 1970. Without hours and days it applies always. */
export function isDuring({ between, days, timezone }: Hours, now: number): boolean {
  if (!hasHours({ between, days })) return true;
  const shown = clockIn(timezone).shownAt(now);
  const today = weekdayOf(shown);
  const isOn = (day: Weekday) => days === undefined || days.includes(day);
  if (!between) return isOn(today);
  const { fromMinute, toMinute } = between;
  const minute = Math.floor(shown / MINUTE_MS) % DAY_MINUTES;
  // The range includes its start and excludes its end. If the end is not after the start, the range spans midnight.
  if (fromMinute < toMinute) return minute >= fromMinute && minute < toMinute && isOn(today);
  return (minute >= fromMinute && isOn(today)) || (minute < toMinute && isOn(weekdayBefore(today)));
}

/**
 * The next instant after this one at which hours may begin or end: at a minute that they name, at midnight, or when the
 * clocks of a time zone are changed. Undefined if none of them has hours.
 */
export function nextChange(all: readonly Hours[], now: number): number | undefined {
  const instants = all.filter(hasHours).flatMap(({ between, timezone }) => {
    const clock = clockIn(timezone);
    const minutes = between ? [between.fromMinute, between.toMinute] : [0];
    const next = Math.min(...minutes.map((minute) => clock.next(now + 1, minute * MINUTE_MS)));
    return clock.nextSet(now, next) ?? next;
  });
  return instants.length > 0 ? Math.min(...instants) : undefined;
}

const MINUTE_MS = 60_000;
const DAY_MINUTES = 1_440;
