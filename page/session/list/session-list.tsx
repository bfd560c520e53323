import { useState } from "react";
import type { Session } from "../../../src/protocol/session.ts";
import { useHere } from "../../moment/here.tsx";
import { whenOf } from "../../moment/time-text.ts";
import { lookOf, signOf } from "../../parts/look.ts";
import { Rows } from "../../parts/rows.tsx";
import { failureText } from "../../words/failure-text.ts";
import { useWords } from "../../words/words.tsx";
import { Import } from "../copies/import.tsx";
import styles from "../session.module.css";
import { FilterFields, NoSessions } from "./session-filter.tsx";
import { type SessionFilter, usePastSessions, useSessions } from "./use-sessions.ts";

/**
 * Every session of the floor's user, including archived ones, with a search and a filter. At a past moment, from the
 * log.
 */
export function SessionList() {
  const { say, number } = useWords();
  const { isLive } = useHere();
  const [filter, setFilter] = useState<SessionFilter>({ q: "", state: "", withArchived: false });
  const { found, more, failure } = useSessions(filter);
  const then = usePastSessions(filter);
  const sessions = isLive ? (found?.sessions ?? []) : then;
  const total = isLive ? (found?.total ?? 0) : then.length;
  const choice = {
    filter,
    onFilter: (change: Partial<SessionFilter>) => setFilter((before) => ({ ...before, ...change })),
  };
  return (
    <section className={styles["list"]} aria-labelledby="sessions">
      <header className={styles["listhead"]}>
        <h2 id="sessions">
          {say("sessions.title")} <small>{number.format(total)}</small>
        </h2>
        {isLive && <Import />}
      </header>
      <FilterFields {...choice} />
      {failure && <p role="alert">{failureText(failure, say)}</p>}
      {(found || !isLive) && sessions.length === 0 && <NoSessions {...choice} />}
      <Rows
        items={sessions}
        rowHeight={52}
        label={say("sessions.title")}
        keyOf={({ id }) => id}
        onEnd={isLive ? more : undefined}
        row={(session) => <SessionLine session={session} />}
      />
    </section>
  );
}

/** A session in the list: its state, title and agent. */
function SessionLine({ session }: { session: Session }) {
  const { say, language } = useWords();
  const { floorId = "", sessionId, linkTo, agentName } = useHere();
  const { schedule } = session;
  const look = lookOf(session);
  return (
    <a
      className={styles["session"]}
      href={linkTo("session", { floorId, sessionId: session.id })}
      aria-current={session.id === sessionId ? "true" : undefined}
    >
      <span className={styles["lamp"]} data-lamp data-look={look} aria-hidden="true">
        {signOf(look)}
      </span>
      <b>{session.title}</b>
      <small>
        {agentName(session.agentId)} ·{" "}
        {schedule ? say("session.asks", { time: whenOf(schedule.at, language) }) : say(`state.${look}`)}
      </small>
    </a>
  );
}
