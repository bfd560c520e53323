import { type LogEvent, timeOf } from "../log/log-event.ts";
import { useWords } from "../words/words.tsx";
import { whenOf } from "./time-text.ts";

/** A moment as text; "now" without an event. */
export function useMomentText(event: LogEvent | undefined): string {
  const { say, language } = useWords();
  if (!event) return say("moment.live");
  return say("moment.at", { time: whenOf(timeOf(event), language, true) });
}
