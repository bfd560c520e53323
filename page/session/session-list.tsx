import { useDeferredValue, useEffect, useMemo, useRef, useState } from "react";
import type { Session, SessionState } from "../../src/protocol/session.ts";
import { useClient } from "../../src/react/provider.ts";
import { useHere } from "../moment/here.tsx";
import { lookOf, signOf } from "../parts/look.ts";
import { Rows } from "../parts/rows.tsx";
import type { WordKey } from "../words/en.ts";
import { useWords } from "../words/words.tsx";
import { Import } from "./copies/import.tsx";
import styles from "./session.module.css";
import { STATES_SHOWN } from "./states-shown.ts";

/** Sessions per request. */
const PAGE = 200;
/** The shortest interval between reads of the list, in ms. */
const SETTLE_MS = 300;

interface Found {
  sessions: readonly Session[];
  total: number;
  hasMore: boolean;
  page: number;
}

/**
 * Every session of the floor's user, including archived ones, with a search and a filter. At a past moment, from the
 * log.
 */
export function SessionList() {
  const { say, number } = useWords();
  const { floorId = "", linkTo, sessionId, isLive, log, count, sessionsAfter, agentName } = useHere();
  const [words, setWords] = useState("");
  const [state, setState] = useState<SessionState | "">("");
  const [withArchived, setWithArchived] = useState(false);
  const { found, more, failure } = useSessions({ q: useDeferredValue(words), state, withArchived });
  // The list may lag while the user scrubs, because it sorts all sessions.
  const moment = useDeferredValue(count);
  const { revision } = log;
  // biome-ignore lint/correctness/useExhaustiveDependencies: `sessionsAfter` reads the log, of which the revision tells.
  const then = useMemo(() => {
    const isShown = ({ title, state: its, id }: Session) => {
      if (state === "" ? its === "archived" && !withArchived : its !== state) return false;
      return `${title} ${id}`.toLowerCase().includes(words.toLowerCase());
    };
    return isLive ? [] : sessionsAfter(moment).filter(isShown).sort(byActivity);
  }, [isLive, moment, revision, words, state, withArchived]);
  const sessions = isLive ? (found?.sessions ?? []) : then;
  const total = isLive ? (found?.total ?? 0) : then.length;
  const filter = [words.trim() && `“${words.trim()}”`, state && say(wordOf(state))].filter((each) => each !== "");
  const isFiltered = words !== "" || state !== "";
  return (
    <section className={styles["list"]} aria-labelledby="sessions">
      <header className={styles["listhead"]}>
        <h2 id="sessions">
          {say("sessions.title")} <small>{number.format(total)}</small>
        </h2>
        {isLive && <Import />}
      </header>
      <input
        type="search"
        data-key="/"
        aria-label={say("sessions.search")}
        placeholder={say("sessions.search")}
        value={words}
        onChange={({ target }) => setWords(target.value)}
      />
      <p className={styles["filter"]}>
        <select
          aria-label={say("sessions.state")}
          value={state}
          onChange={({ target }) => setState(target.value as SessionState | "")}
        >
          <option value="">{say("sessions.any")}</option>
          {STATES_SHOWN.map((each) => (
            <option key={each} value={each}>
              {say(wordOf(each))}
            </option>
          ))}
        </select>
        <label>
          <input type="checkbox" checked={withArchived} onChange={({ target }) => setWithArchived(target.checked)} />{" "}
          {say("sessions.archived")}
        </label>
      </p>
      {failure && <p role="alert">{failure}</p>}
      {(found || !isLive) && sessions.length === 0 && (
        <p className={styles["quiet"]}>
          {isFiltered ? say("sessions.nomatch", { filter: filter.join(", ") }) : say("sessions.none")}{" "}
          {isFiltered && (
            <button
              type="button"
              onClick={() => {
                setWords("");
                setState("");
              }}
            >
              {say("sessions.clear")}
            </button>
          )}
        </p>
      )}
      <Rows
        items={sessions}
        rowHeight={52}
        label={say("sessions.title")}
        keyOf={({ id }) => id}
        onEnd={isLive ? more : undefined}
        row={(session) => (
          <a
            className={styles["session"]}
            href={linkTo("session", { floorId, sessionId: session.id })}
            aria-current={session.id === sessionId ? "true" : undefined}
          >
            <span className={styles["lamp"]} data-look={lookOf(session)} aria-hidden="true">
              {signOf(lookOf(session))}
            </span>
            <b>{session.title}</b>
            <small>
              {agentName(session.agentId)} · {say(`state.${lookOf(session)}`)}
            </small>
          </a>
        )}
      />
    </section>
  );
}

const wordOf = (state: SessionState): WordKey => (state === "active" ? "sessions.active" : `state.${state}`);
const byActivity = (one: Session, other: Session) => other.lastActivityAt - one.lastActivityAt;

interface Filter {
  q: string;
  state: SessionState | "";
  withArchived: boolean;
}

function useSessions({ q, state, withArchived }: Filter) {
  const client = useClient();
  const { floorId = "", log, isLive, status } = useHere();
  const isOpen = status.status === "open";
  const [found, setFound] = useState<Found>();
  const [failure, setFailure] = useState<string>();
  const [pages, setPages] = useState(1);
  const user = /^u:([^/]*)/.exec(floorId)?.[1];
  const { revision } = log;
  const refresh = useRef<() => void>(undefined);
  // biome-ignore lint/correctness/useExhaustiveDependencies: another filter begins at its first page.
  useEffect(() => setPages(1), [q, state, withArchived, floorId]);
  useEffect(() => {
    if (!isLive) return;
    const leaving = new AbortController();
    const query = {
      pageSize: PAGE,
      includeArchived: withArchived,
      ...(q.trim() !== "" && { q }),
      ...(state !== "" && { state }),
      ...(user !== undefined && { userId: decodeURIComponent(user) }),
    };
    const read = async () => {
      const read: Session[] = [];
      let last: Found | undefined;
      for (let page = 0; page < pages; page += 1) {
        const answer = await client.listSessions({ ...query, page }, { signal: leaving.signal });
        read.push(...answer.sessions.filter((session) => session.floorId === floorId || user === undefined));
        last = { sessions: read, total: answer.total, hasMore: answer.hasMore, page };
        if (!answer.hasMore) break;
      }
      setFound(last);
      setFailure(undefined);
    };
    let timer: ReturnType<typeof setTimeout> | undefined;
    let isReading = false;
    let isStale = false;
    const schedule = () => {
      if (isReading || timer !== undefined) {
        isStale = isReading;
        return;
      }
      timer = setTimeout(async () => {
        timer = undefined;
        isReading = true;
        await read().catch((error: Error) => {
          if (!leaving.signal.aborted) setFailure(error.message);
        });
        isReading = false;
        if (!isStale || leaving.signal.aborted) return;
        isStale = false;
        schedule();
      }, SETTLE_MS);
    };
    refresh.current = schedule;
    schedule();
    return () => {
      clearTimeout(timer);
      leaving.abort();
    };
  }, [client, q, state, withArchived, user, floorId, isLive, pages]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: each event of the floor may change the list, and what could not be read is read when the server is back.
  useEffect(() => {
    setFailure(undefined);
    refresh.current?.();
  }, [revision, isOpen]);
  const isFull = found !== undefined && found.page === pages - 1 && found.hasMore;
  // While the server is away, the connection's line says so.
  return { found, failure: isOpen ? failure : undefined, more: isFull ? () => setPages(pages + 1) : undefined };
}
