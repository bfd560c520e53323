import { useMemo } from "react";
import type { ReplayAnswer } from "../../src/client/answers.ts";
import { countLeading } from "../log/count-leading.ts";
import { floorSeqOf, type LogEvent, timeOf } from "../log/log-event.ts";
import { useHere } from "../moment/here.tsx";
import { whenOf } from "../moment/time-text.ts";
import { EventText } from "../parts/event-text.tsx";
import { useWords } from "../words/words.tsx";
import styles from "./policy.module.css";

/** The maximum number of listed differences, and of events of the story of one. */
const MAX_LISTED = 200;
const MAX_STORY = 5;

/** What becomes otherwise, each with what happened at that moment before and now. */
export function Differences({ replayed }: { replayed: ReplayAnswer }) {
  const { say, language, number } = useWords();
  const { linkTo, agentName } = useHere();
  const { before, after, differences, differing } = replayed;
  const [was, is] = useMemo(() => [byMoment(before), byMoment(after)], [before, after]);
  if (differing === 0) return undefined;
  const shown = differences.slice(0, MAX_LISTED);
  return (
    <section aria-labelledby="differences">
      <h3 id="differences">{say("policy.differences")}</h3>
      <ol className={styles["differences"]}>
        {shown.map(({ at, agentId, sessionId }) => (
          <li key={`${at} ${sessionId}`}>
            <h4>
              <a href={linkTo("timeline", { at: positionAt(before, at) })}>
                <time>{whenOf(at, language, true)}</time>
              </a>{" "}
              {agentName(agentId)}
            </h4>
            <Story title={say("policy.before")} events={storyOf(was, at, sessionId)} />
            <Story title={say("policy.after")} events={storyOf(is, at, sessionId)} />
          </li>
        ))}
      </ol>
      {differing > shown.length && <p>{say("policy.more", { count: number.format(differing - shown.length) })}</p>}
    </section>
  );
}

function Story({ title, events }: { title: string; events: readonly LogEvent[] }) {
  const { say } = useWords();
  return (
    <div>
      <h5>{title}</h5>
      {events.length === 0 && <p className={styles["quiet"]}>{say("policy.nothing")}</p>}
      <ul>
        {events.map((event) => (
          <li key={event.position}>
            <EventText event={event} />
          </li>
        ))}
      </ul>
    </div>
  );
}

function byMoment(events: readonly LogEvent[]): Map<number, LogEvent[]> {
  const moments = new Map<number, LogEvent[]>();
  for (const event of events) {
    const same = moments.get(timeOf(event));
    if (same) same.push(event);
    else moments.set(timeOf(event), [event]);
  }
  return moments;
}

/** What happened at a moment: first what the session did. */
function storyOf(moments: ReadonlyMap<number, readonly LogEvent[]>, at: number, sessionId: string): LogEvent[] {
  const events = (moments.get(at) ?? []).filter(({ type }) => type !== "session_created");
  const own = events.filter((event) => event.sessionId === sessionId);
  return [...own, ...events.filter((event) => event.sessionId !== sessionId)].slice(0, MAX_STORY);
}

/** The floor's number of the last event that is not after a moment. */
function positionAt(events: readonly LogEvent[], at: number): number | undefined {
  const past = countLeading(events.length, (index) => timeOf(events[index]!) <= at);
  const last = events[past - 1];
  return last && floorSeqOf(last);
}
