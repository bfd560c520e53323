import { DecisionSteps } from "../floor/decisions.tsx";
import { type LogEvent, timeOf } from "../log/log-event.ts";
import { useHere } from "../moment/here.tsx";
import { whenOf } from "../moment/time-text.ts";
import { EventText } from "../parts/event-text.tsx";
import { Tree } from "../parts/tree.tsx";
import { useWords } from "../words/words.tsx";
import styles from "./event-details.module.css";

/** All fields of an event; of a decision also its rule and numbers. */
export function EventDetails({ event }: { event: LogEvent }) {
  const { say, language } = useWords();
  const { linkTo, sessionThen, agentName } = useHere();
  const { sessionId, position } = event;
  const nameOf = (id: string) => {
    const session = sessionThen(id);
    return session ? `${agentName(session.agentId)} · ${session.title}` : id;
  };
  const by = event.type === "session_transition" ? event.data.by?.sessionId : undefined;
  return (
    <>
      <p className={styles["line"]}>
        <EventText event={event} />
      </p>
      <dl className={styles["facts"]}>
        <dt>{say("event.time")}</dt>
        <dd>{whenOf(timeOf(event), language, true)}</dd>
        <dt>{say("event.type")}</dt>
        <dd>
          <code>{event.type}</code>
        </dd>
        <dt>{say("event.position")}</dt>
        <dd>
          <code>{position}</code>
        </dd>
        {sessionId !== undefined && (
          <>
            <dt>{say("session.title")}</dt>
            <dd>
              <a href={linkTo("session", { sessionId })}>{nameOf(sessionId)}</a>{" "}
              <a href={linkTo("machine", { sessionId })}>{say("machine.title")}</a>
            </dd>
          </>
        )}
        {by !== undefined && (
          <>
            <dt>{say("event.by")}</dt>
            <dd>
              <a href={linkTo("session", { sessionId: by })}>{nameOf(by)}</a>
            </dd>
          </>
        )}
      </dl>
      {event.type === "arbitration" && <DecisionSteps decision={event.data} />}
      <Tree value={event.data} />
    </>
  );
}
