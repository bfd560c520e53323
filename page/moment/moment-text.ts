import { type LogEvent, timeOf } from "../log/log-event.ts";
import { useWords } from "../words/words.tsx";

/** A moment as text; "now" without an event. */
export function useMomentText(event: LogEvent | undefined): string {
  const { say, language } = useWords();
  if (!event) return say("moment.live");
  const at = new Date(timeOf(event));
  const isToday = at.toDateString() === new Date().toDateString();
  const day = isToday ? "" : `${at.toLocaleDateString(language)} `;
  return say("moment.at", { time: `${day}${clockOf(at.getTime(), language, true)}` });
}

/** Creating a format takes longer than using it a hundred times. */
const formats = new Map<string, Intl.DateTimeFormat>();

/** A time of day, with milliseconds if the order matters. */
export function clockOf(at: number, language: string, isExact = false): string {
  const name = `${language} ${isExact}`;
  let format = formats.get(name);
  if (!format) {
    format = new Intl.DateTimeFormat(language, {
      hour: "2-digit",
      minute: "2-digit",
      second: "2-digit",
      hourCycle: "h23",
      ...(isExact && { fractionalSecondDigits: 3 }),
    });
    formats.set(name, format);
  }
  return format.format(at);
}
