import { useMemo } from "react";
import { floorSeqOf, type LogEvent, timeOf } from "../../log/log-event.ts";
import { useHere } from "../../moment/here.tsx";
import { clockOf } from "../../moment/time-text.ts";
import { EventText } from "../../parts/event-text.tsx";
import { useWords } from "../../words/words.tsx";
import styles from "./facts.module.css";

/** The number of shown events; the timeline has all of them. */
const MAX_EVENTS = 50;
/** The log is searched no further back than this many events, because it is searched again with each event. */
const WITHIN = 5_000;

/** A session's newest events up to an event of its floor's log, the newest first. */
function newestOf(events: readonly LogEvent[], sessionId: string, count: number): LogEvent[] {
  const found: LogEvent[] = [];
  for (let index = count - 1; index >= Math.max(0, count - WITHIN) && found.length < MAX_EVENTS; index -= 1) {
    const event = events[index]!;
    if (event.sessionId === sessionId) found.push(event);
  }
  return found;
}

/** The session's latest events. Choosing an event chooses its moment in all views. */
export function SessionLog({ sessionId }: { sessionId: string }) {
  const { say, language } = useWords();
  const { log, count, isLive, lookAt, linkTo, resetAt } = useHere();
  const { events, revision } = log;
  // biome-ignore lint/correctness/useExhaustiveDependencies: `events` grows in place; the revision says so.
  const newest = useMemo(() => newestOf(events, sessionId, count), [events, sessionId, count, revision]);
  return (
    <section aria-labelledby="facts-log">
      <h2 id="facts-log">
        {say("log.title")} <a href={linkTo("timeline", { sessionId })}>{say("timeline.title")}</a>
      </h2>
      {resetAt !== undefined && <p>{say("log.reset", { time: clockOf(resetAt, language) })}</p>}
      <ol className={styles["log"]}>
        {newest.map((event, index) => (
          // At a past moment the lines are keyed by their index, because each step changes all of them.
          <li key={isLive ? event.position : index}>
            <button type="button" onClick={() => lookAt(floorSeqOf(event))}>
              <time>{clockOf(timeOf(event), language)}</time>{" "}
              <span>
                <EventText event={event} />
              </span>
            </button>
          </li>
        ))}
      </ol>
    </section>
  );
}
