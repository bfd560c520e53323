import { useEffect, useState } from "react";
import type { Session } from "../../src/protocol/session.ts";
import { useClient } from "../../src/react/hooks.ts";
import { useHere } from "../moment/here.tsx";
import { leftText } from "../moment/time-text.ts";
import { useWords } from "../words/words.tsx";
import { useNow } from "./use-now.ts";

/** Reads of the session per lease, at most one per `MIN_READ_MS`. */
const READS_PER_LEASE = 2;
const MIN_READ_MS = 1_000;

/** The time until the session's lease lapses. Shows nothing for a session without a lease. */
export function LeaseLeft({ session }: { session: Session }) {
  const { isLive } = useHere();
  const until = useLeaseUntil(session);
  if (!isLive || until === undefined) return undefined;
  return (
    <>
      {" "}
      · <Countdown until={until} />
    </>
  );
}

function Countdown({ until }: { until: number }) {
  const { say, language } = useWords();
  const leftMs = until - useNow();
  return (
    <time dateTime={new Date(until).toISOString()}>
      {leftMs > 0 ? say("lease.left", { time: leftText(leftMs, language) }) : say("lease.over")}
    </time>
  );
}

/** A heartbeat is not an event, so a visible session with a lease is read repeatedly. */
function useLeaseUntil({ id, agentId, state, queuedAt, leaseMs, leaseUntil }: Session): number | undefined {
  const client = useClient();
  const { agents, isLive } = useHere();
  // A session that starts to wait for the floor gets its lease without a transition.
  const lengthMs = leaseMs ?? agents.find((agent) => agent.id === agentId)?.leaseMs;
  const isFollowed = isLive && lengthMs !== undefined && state !== "archived";
  const [read, setRead] = useState<{ leaseUntil: number | undefined }>();
  // biome-ignore lint/correctness/useExhaustiveDependencies: what the session's stream says is newer than what was read before.
  useEffect(() => {
    setRead(undefined);
    if (!isFollowed) return;
    const leaving = new AbortController();
    const look = () => {
      if (document.hidden) return;
      client.getSession(id, { signal: leaving.signal }).then(
        ({ session }) => {
          if (!leaving.signal.aborted) setRead({ leaseUntil: session.leaseUntil });
        },
        // The session's stream reports that the server is away.
        () => undefined,
      );
    };
    look();
    const timer = setInterval(look, Math.max(MIN_READ_MS, lengthMs / READS_PER_LEASE));
    return () => {
      leaving.abort();
      clearInterval(timer);
    };
  }, [client, id, isFollowed, lengthMs, state, queuedAt, leaseUntil]);
  return read ? read.leaseUntil : leaseUntil;
}
