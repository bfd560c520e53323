import type { WordKey } from "../words/en.ts";
import { failureText } from "../words/failure-text.ts";
import { useWords } from "../words/words.tsx";
import { useHere } from "./here.tsx";
import { clockOf } from "./time-text.ts";

/** Which part of a log is missing; nothing if it is complete. */
export function LogGaps() {
  const { say, language } = useWords();
  const { log, resetAt } = useHere();
  if (log.events.length === 0) return undefined;
  return (
    <>
      {resetAt !== undefined && ` · ${say("log.reset", { time: clockOf(resetAt, language) })}`}
      {log.hasOlder && ` · ${say(log.isReading ? "timeline.reading" : "timeline.older")}`}
      {log.failure && ` · ${say("log.failure", { reason: failureText(log.failure, say) })}`}
    </>
  );
}

/**
 * Shown in place of a log without content: it is being read, cannot be read, or is empty.
 * @param nothing the text for an empty log
 */
export function NoEvents({ nothing, className }: { nothing: WordKey; className: string | undefined }) {
  const { say } = useWords();
  const { floorId, log } = useHere();
  if (floorId !== undefined && log.events.length === 0) {
    if (log.failure) return <p role="alert">{say("log.failure", { reason: failureText(log.failure, say) })}</p>;
    if (log.hasOlder) return <p className={className}>{say("log.loading")}</p>;
  }
  return <p className={className}>{say(nothing)}</p>;
}
