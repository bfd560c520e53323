import type { Session } from "../../protocol/session.ts";
import type { MessageAnswer } from "../answers.ts";
import { ClientError } from "../client-error.ts";
import type { WriteOptions } from "../requester.ts";

/** Heartbeats per lease. With three, one heartbeat may be lost. */
const BEATS_PER_LEASE = 3;
/** An interval is shortened by at most this fraction, so that clients that began together spread. */
const JITTER = 0.2;
/** The shortest interval between heartbeats, in ms. */
const MIN_BEAT_MS = 250;

/** Renews a session's lease until it is stopped. */
export interface Lease {
  /** Called with the session's state. A changed length of the lease changes the interval. */
  note(session: Pick<Session, "state" | "leaseMs"> | undefined): void;
  stop(): void;
}

/** The part of a `Client` that sends heartbeats. */
export interface HeartbeatSender {
  send(
    message: { type: "heartbeat"; sessionId: string },
    options?: WriteOptions,
  ): Promise<Pick<MessageAnswer, "leaseMs" | "lapsed" | "notice">>;
}

export interface LeaseOptions {
  /**
   * Called once when the session has lost its place, because no heartbeat came in time; `notice` says which request
   * brings it back. The heartbeats go on, so that the session keeps its place from that request on.
   */
  onLapsed?: (notice: string) => void;
  /** A number from 0 to 1. Default: `Math.random`. */
  random?: () => number;
}

/**
 * Renew a session's lease by `heartbeat`, about three times in its length. Does nothing for a session without a lease,
 * for an archived one, and where `isParticipant` is false, because an observer must not keep another client's session
 * alive.
 */
export function keepLease(
  client: HeartbeatSender,
  sessionId: string,
  isParticipant: boolean,
  { onLapsed, random = Math.random }: LeaseOptions = {},
): Lease {
  /** The length as of the last `note`; a heartbeat's answer is newer than a later `note` of the same length. */
  let notedMs: number | undefined;
  let leaseMs: number | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;
  /** The last heartbeats, oldest first. */
  const underWay: AbortController[] = [];
  let hasLapsed = false;
  const abandon = (count: number) => {
    for (const request of underWay.splice(0, count)) request.abort();
  };
  const stop = () => {
    clearTimeout(timer);
    abandon(underWay.length);
    notedMs = undefined;
    leaseMs = undefined;
  };
  const schedule = () => {
    clearTimeout(timer);
    const everyMs = (leaseMs! / BEATS_PER_LEASE) * (1 - JITTER * random());
    timer = setTimeout(beat, Math.max(MIN_BEAT_MS, everyMs));
  };
  const beat = () => {
    // The next heartbeat replaces a lost one, so failures are ignored. A slow one goes on for about a lease: on a slow
    // network, none would arrive if each one ended the one before.
    if (underWay.length === BEATS_PER_LEASE) abandon(1);
    const own = new AbortController();
    underWay.push(own);
    const message = { type: "heartbeat", sessionId } as const;
    const isCurrent = () => !own.signal.aborted;
    client.send(message, { signal: own.signal }).then(
      (answer) => {
        if (!isCurrent()) return;
        // Earlier ones would tell what is older.
        abandon(underWay.indexOf(own));
        const { lapsed = false, notice = "" } = answer;
        const isNews = lapsed && !hasLapsed;
        hasLapsed = lapsed;
        if (isNews) onLapsed?.(notice);
        // What was called may have stopped the lease.
        if (!isCurrent() || answer.leaseMs === undefined || answer.leaseMs === leaseMs) return;
        leaseMs = answer.leaseMs;
        schedule();
      },
      (error: unknown) => {
        const isOver = error instanceof ClientError && /^session_(archived|not_found)$/.test(error.code);
        if (isOver && isCurrent()) stop();
      },
    );
    schedule();
  };
  return {
    note(session) {
      const next = isParticipant && session?.state !== "archived" ? session?.leaseMs : undefined;
      if (next === notedMs) return;
      stop();
      notedMs = next;
      leaseMs = next;
      if (leaseMs !== undefined) beat();
    },
    stop,
  };
}
