/**
 * When a cron expression is due, found by asking `Intl` what the clocks show at every minute. It shares no code with
 * the product. Numbers, `*`, lists, ranges and steps are understood, and English names of days.
 */

const MINUTE_MS = 60_000;
const QUARTER_MS = 15 * MINUTE_MS;

const formats = new Map<string, Intl.DateTimeFormat>();
const known = new Map<string, number>();

/**
 * What the clocks show at a minute, as ms of UTC. Asking is slow, and clocks differ from UTC by whole quarters of an
 * hour, so each quarter is asked for once.
 */
function shownAt(timezone: string, at: number): number {
  const quarter = Math.floor(at / QUARTER_MS) * QUARTER_MS;
  const key = `${timezone} ${quarter}`;
  let shown = known.get(key);
  if (shown === undefined) {
    shown = askFor(timezone, quarter);
    known.set(key, shown);
  }
  return shown + at - quarter;
}

function askFor(timezone: string, at: number): number {
  let format = formats.get(timezone);
  if (!format) {
    format = new Intl.DateTimeFormat("sv-SE", { timeZone: timezone, dateStyle: "short", timeStyle: "short" });
    formats.set(timezone, format);
  }
  return Date.parse(`${format.format(at).replace(" ", "T")}Z`);
}

/** The values of a field. */
function valuesOf(field: string, to: number): ReadonlySet<number> {
  const all = Array.from({ length: to + 1 }, (_, value) => value);
  return new Set(all.filter((value) => field.split(",").some((part) => has(part, value))));
}

function has(part: string, value: number): boolean {
  const [range, step = "1"] = part.split("/") as [string, string?];
  if (range === "*") return value % Number(step) === 0;
  const [low, high] = range.split("-").map(numberOf);
  return value >= low! && value <= (high ?? low!) && (value - low!) % Number(step) === 0;
}

const numberOf = (text: string): number => {
  const named = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"].indexOf(text);
  return named >= 0 ? named : Number(text);
};

/** Whether a time fits the expression. */
function fitting(text: string): (shown: number) => boolean {
  const [minute, hour, day, month, weekday] = text.split(" ") as [string, string, string, string, string];
  const [minutes, hours, days] = [valuesOf(minute, 59), valuesOf(hour, 23), valuesOf(day, 31)];
  const [months, weekdays] = [valuesOf(month, 12), valuesOf(weekday, 6)];
  const isEither = day !== "*" && weekday !== "*";
  return (shown) => {
    const date = new Date(shown);
    if (!minutes.has(date.getUTCMinutes()) || !hours.has(date.getUTCHours())) return false;
    const [isDay, isWeekday] = [days.has(date.getUTCDate()), weekdays.has(date.getUTCDay())];
    return months.has(date.getUTCMonth() + 1) && (isEither ? isDay || isWeekday : isDay && isWeekday);
  };
}

/**
 * The minutes after `from`, up to `to`, at which the expression is due, as ISO texts. An expression for every hour is
 * due at every minute that fits; any other is due once for each time of the clock, when it is shown first, and for the
 * times that are skipped when the clock is set forward.
 */
export function minutesOf(text: string, timezone: string, from: number, to: number): string[] {
  const isEveryHour = text.split(" ")[1] === "*";
  const fits = fitting(text);
  const due: string[] = [];
  // Long enough before, so that times which come twice are known.
  const first = Math.ceil(from / MINUTE_MS) * MINUTE_MS - 3 * 3_600_000;
  let newest = shownAt(timezone, first) - MINUTE_MS;
  for (let at = first; at <= to; at += MINUTE_MS) {
    const shown = shownAt(timezone, at);
    let isDue = isEveryHour && fits(shown);
    for (; newest < shown; newest += MINUTE_MS) isDue ||= !isEveryHour && fits(newest + MINUTE_MS);
    if (isDue && at > from) due.push(new Date(at).toISOString());
  }
  return due;
}
