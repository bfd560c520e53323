/** Creating a format takes longer than using it a hundred times. */
const formats = new Map<string, Intl.DateTimeFormat>();
const CLOCK = { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" } as const;

/** A time of day, with milliseconds if the order matters. */
export function clockOf(at: number, language: string, isExact = false): string {
  return formatOf(`${language} ${isExact}`, language, isExact ? { ...CLOCK, fractionalSecondDigits: 3 } : CLOCK).format(
    at,
  );
}

function formatOf(name: string, language: string, options: Intl.DateTimeFormatOptions): Intl.DateTimeFormat {
  let format = formats.get(name);
  if (!format) {
    format = new Intl.DateTimeFormat(language, options);
    formats.set(name, format);
  }
  return format;
}

/** A time of day, with its date if that is not today. */
export function whenOf(at: number, language: string, isExact = false): string {
  const clock = clockOf(at, language, isExact);
  const date = new Date(at);
  if (date.toDateString() === new Date().toDateString()) return clock;
  return `${formatOf(`${language} day`, language, { dateStyle: "short" }).format(date)} ${clock}`;
}

const UNITS = [
  ["day", 86_400_000],
  ["hour", 3_600_000],
  ["minute", 60_000],
  ["second", 1_000],
] as const;

/** A duration in its largest unit. */
export function lengthText(ms: number, language: string): string {
  const unit = largestUnit(ms);
  return countText(ms / UNITS[unit]![1], unit, language);
}

/** The time until something ends, in its two largest units, rounded up. */
export function leftText(ms: number, language: string): string {
  const smaller = UNITS[largestUnit(ms) + 1] ?? SECOND;
  const leftMs = Math.ceil(Math.max(0, ms) / smaller[1]) * smaller[1];
  const unit = largestUnit(leftMs);
  const [, lengthMs] = UNITS[unit]!;
  const parts = [countText(Math.floor(leftMs / lengthMs), unit, language)];
  const next = UNITS[unit + 1];
  if (next && leftMs % lengthMs > 0) parts.push(countText((leftMs % lengthMs) / next[1], unit + 1, language));
  return new Intl.ListFormat(language, { type: "unit", style: "narrow" }).format(parts);
}

const SECOND = UNITS[3];

/** The index of the largest unit that fits into a duration. */
function largestUnit(ms: number): number {
  const found = UNITS.findIndex(([, lengthMs]) => ms >= lengthMs);
  return found < 0 ? UNITS.length - 1 : found;
}

function countText(count: number, unit: number, language: string): string {
  const format = new Intl.NumberFormat(language, { style: "unit", unit: UNITS[unit]![0], unitDisplay: "narrow" });
  return format.format(Math.round(count));
}
