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
