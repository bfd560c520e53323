import { clockIn, type WallClock } from "./wall-clock.ts";

/** A cron expression: the minutes at which it is due, on the clocks of one time zone. */
export interface Cron {
  readonly minutes: readonly number[];
  readonly hours: readonly number[];
  readonly days: ReadonlySet<number>;
  readonly months: ReadonlySet<number>;
  /** 0 is Sunday. */
  readonly weekdays: ReadonlySet<number>;
  /** Whether it names days of the month, and days of the week. If it names both, one of them has to fit. */
  readonly namesDays: boolean;
  readonly namesWeekdays: boolean;
}

interface Field {
  readonly name: string;
  readonly from: number;
  readonly to: number;
  readonly names?: readonly string[];
}

const FIELDS = [
  { name: "minute", from: 0, to: 59 },
  { name: "hour", from: 0, to: 23 },
  { name: "day of the month", from: 1, to: 31 },
  { name: "month", from: 1, to: 12, names: "jan feb mar apr may jun jul aug sep oct nov dec".split(" ") },
  { name: "day of the week", from: 0, to: 7, names: "sun mon tue wed thu fri sat".split(" ") },
] as const satisfies readonly Field[];

/** The longest expression, in characters: longer than one that lists every value. */
export const MAX_CRON_LENGTH = 512;

const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;

/**
 * Parse five fields: minute, hour, day of the month, month and day of the week; each `*`, or numbers, names and ranges,
 * with a step or without, in a list.
 * @returns what is wrong with it, as a string, if it is none
 */
export function parseCron(text: string): Cron | string {
  const parts = text.trim().split(/\s+/);
  if (text.length > MAX_CRON_LENGTH || parts.length !== FIELDS.length)
    return "must be five fields of cron: minute, hour, day of the month, month and day of the week, as in 0 7 * * mon-fri";
  const values: number[][] = [];
  for (const [index, field] of FIELDS.entries()) {
    const read = readField(parts[index]!, field);
    if (!read) return `${parts[index]} is no ${field.name} of cron`;
    values.push(read);
  }
  const [minutes, hours, days, months, weekdays] = values as [number[], number[], number[], number[], number[]];
  return {
    minutes,
    hours,
    days: new Set(days),
    months: new Set(months),
    // Both 0 and 7 are Sunday.
    weekdays: new Set(weekdays.map((day) => day % 7)),
    namesDays: !parts[2]!.startsWith("*"),
    namesWeekdays: !parts[4]!.startsWith("*"),
  };
}

/** The values of a field, ascending; undefined if it is malformed. */
function readField(text: string, field: Field): number[] | undefined {
  const found = new Set<number>();
  for (const part of text.split(",")) {
    const range = readRange(part, field);
    if (!range) return undefined;
    for (let value = range.start; value <= range.end; value += range.step) found.add(value);
  }
  return [...found].sort((one, other) => one - other);
}

function readRange(text: string, field: Field): { start: number; end: number; step: number } | undefined {
  const [, range, first, last, every] = /^(\*|(\w+)(?:-(\w+))?)(?:\/(\d{1,3}))?$/.exec(text) ?? [];
  if (range === undefined) return undefined;
  const step = every === undefined ? 1 : Number(every);
  const start = range === "*" ? field.from : numberIn(first!, field);
  // A single number with a step is a range to the end, as in 5/15.
  const isOpen = range === "*" || (last === undefined && every !== undefined);
  const end = isOpen ? field.to : last === undefined ? start : numberIn(last, field);
  if (start === undefined || end === undefined || start > end || step === 0) return undefined;
  return { start, end, step };
}

function numberIn(text: string, { from, to, names = [] }: Field): number | undefined {
  const named = names.indexOf(text.toLowerCase());
  if (named >= 0) return from + named;
  const value = /^\d{1,2}$/.test(text) ? Number(text) : undefined;
  return value !== undefined && value >= from && value <= to ? value : undefined;
}

/**
 * The first instant after this one at which the expression is due; undefined if there is none within the days given.
 *
 * An expression for some hours is due once for each of its times: a time that the clocks show twice when they are set
 * back counts when they show it first, and those that they skip count when they are set forward. An expression for
 * every hour is due at each minute that the clocks show, so its distances stay the same.
 */
export function nextOf(cron: Cron, timezone: string, after: number, days: number): number | undefined {
  const clock = clockIn(timezone);
  return cron.hours.length === 24 ? nextShown(cron, clock, after, days) : nextArrived(cron, clock, after, days);
}

/** The first instant after this one whose minute fits, however often the clocks show it. */
function nextShown(cron: Cron, clock: WallClock, after: number, days: number): number | undefined {
  for (let from = after; ; ) {
    const shown = clock.shownAt(from);
    const next = nextTime(cron, shown, days);
    if (next === undefined) return undefined;
    if (next - shown > DAY_MS) {
      from = clock.firstAt(next) - 1;
      continue;
    }
    const instant = from + (next - shown);
    const setAt = clock.nextSet(from, instant);
    if (setAt === undefined) return instant;
    // The clocks are set in between, and go on from another time.
    if (nextTime(cron, clock.shownAt(setAt) - 1, 0) === clock.shownAt(setAt)) return setAt;
    from = setAt;
  }
}

/** The first instant after this one at which the clocks arrive at a time that fits, or would have. */
function nextArrived(cron: Cron, clock: WallClock, after: number, days: number): number | undefined {
  let shown = clock.shownAt(after);
  const last = shown + days * DAY_MS;
  for (;;) {
    const next = nextTime(cron, shown, Math.ceil((last - shown) / DAY_MS));
    if (next === undefined) return undefined;
    const instant = clock.firstAt(next);
    if (instant > after) return instant;
    shown = next;
  }
}

/** The first minute after this time that fits; both as the clocks show it, in ms since 1970 as if it were UTC. */
function nextTime(cron: Cron, shown: number, days: number): number | undefined {
  const first = Math.floor(shown / DAY_MS);
  for (let day = first; day <= first + days; day++) {
    if (!isDayOf(cron, day * DAY_MS)) continue;
    for (const hour of cron.hours) {
      const midnight = day * DAY_MS + hour * 60 * MINUTE_MS;
      if (midnight + 60 * MINUTE_MS <= shown) continue;
      const minute = cron.minutes.find((each) => midnight + each * MINUTE_MS > shown);
      if (minute !== undefined) return midnight + minute * MINUTE_MS;
    }
  }
  return undefined;
}

function isDayOf({ days, months, weekdays, namesDays, namesWeekdays }: Cron, shown: number): boolean {
  const date = new Date(shown);
  if (!months.has(date.getUTCMonth() + 1)) return false;
  const isDay = days.has(date.getUTCDate());
  const isWeekday = weekdays.has(date.getUTCDay());
  return namesDays && namesWeekdays ? isDay || isWeekday : isDay && isWeekday;
}

/** The first instant at which the clocks of a time zone show this date and time, given as if it were UTC, or later. */
export const firstInstantOf = (shown: number, timezone: string): number => clockIn(timezone).firstAt(shown);
