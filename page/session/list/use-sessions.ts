import { useDeferredValue, useEffect, useMemo, useRef, useState } from "react";
import type { Session, SessionState } from "../../../src/protocol/session.ts";
import { useClient } from "../../../src/react/hooks.ts";
import { useHere } from "../../moment/here.tsx";
import { userOfFloor } from "../../parts/floor-name.ts";
import { usePaced } from "../../parts/use-paced.ts";

/** Sessions per request. */
const PAGE = 200;
/** A past list is at most this old, in ms: it sorts all sessions, and need not follow each step of the moment. */
const LISTED_MS = 100;
/** The shortest interval between reads of the list, in ms. */
const QUIET_MS = 300;

export interface SessionFilter {
  /** Words of titles and messages. */
  q: string;
  /** Empty: any state. */
  state: SessionState | "";
  withArchived: boolean;
}

interface Found {
  sessions: readonly Session[];
  total: number;
  hasMore: boolean;
  page: number;
}

/** The sessions at a past moment, from the log. */
export function usePastSessions({ q, state, withArchived }: SessionFilter): readonly Session[] {
  const { isLive, log, count, sessionsAfter } = useHere();
  const moment = usePaced(count, LISTED_MS);
  const { revision } = log;
  // biome-ignore lint/correctness/useExhaustiveDependencies: `sessionsAfter` reads the log, of which the revision tells.
  return useMemo(() => {
    const isShown = ({ title, state: its, id }: Session) => {
      if (state === "" ? its === "archived" && !withArchived : its !== state) return false;
      return `${title} ${id}`.toLowerCase().includes(q.toLowerCase());
    };
    return isLive ? [] : sessionsAfter(moment).filter(isShown).sort(byActivity);
  }, [isLive, moment, revision, q, state, withArchived]);
}

const byActivity = (one: Session, other: Session) => other.lastActivityAt - one.lastActivityAt;

/** The sessions now, from the server: read again when the floor changes, page by page. */
export function useSessions({ q: words, state, withArchived }: SessionFilter) {
  const client = useClient();
  const q = useDeferredValue(words);
  const { floorId = "", log, isLive, status } = useHere();
  const isOpen = status.status === "open";
  const [found, setFound] = useState<Found>();
  const [failure, setFailure] = useState<Error>();
  const [pages, setPages] = useState(1);
  const user = userOfFloor(floorId)?.userId;
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
      ...(user !== undefined && { userId: user }),
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
          if (!leaving.signal.aborted) setFailure(error);
        });
        isReading = false;
        if (!isStale || leaving.signal.aborted) return;
        isStale = false;
        schedule();
      }, QUIET_MS);
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
