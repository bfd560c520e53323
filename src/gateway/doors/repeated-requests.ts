import { hash } from "node:crypto";
import type { Clock } from "../../protocol/ports/clock.ts";
import { RecentMap } from "../../protocol/recent-map.ts";
import type { Identity } from "../commands.ts";

/** How long a request without a whole answer may be repeated, in ms: the tries of common clients lie within it. */
const WINDOW_MS = 10_000;
/** The requests that are remembered: more than a node begins in that time. */
const MAX_REQUESTS = 4_096;

/** How an answer ended: its client has all of it, or it failed, or the client left, or the outcome is not known. */
export type AnswerEnd = "whole" | "failed" | "left" | "unknown";

interface Known {
  commandId: string;
  /** Absent: the answer is under way. */
  end?: { how: Exclude<AnswerEnd, "whole">; at: number };
}

/**
 * Recognises requests that a client repeats by itself without a key, because an answer failed or did not arrive. Such a request
 * gets the key of the first one, and with it the run of the first one.
 */
export class RepeatedRequests {
  readonly #clock: Clock;
  readonly #known = new RecentMap<string, Known>(MAX_REQUESTS);

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /**
   * @param session the session that the client names. Requests without one count as repeats only if the client says so, or if
   * the outcome of the first one is not known: two clients may ask the same
   * @param isRetry whether the client says that it repeats a request
   * @returns the identity to use, and a function to call at the end of the answer
   */
  admit(
    identity: Identity,
    { session, isRetry }: { session: string | undefined; isRetry: boolean },
  ): { identity: Identity; end: (how: AnswerEnd) => void } {
    if (identity.isKeyed) return { identity, end() {} };
    const key = hash("sha256", JSON.stringify([identity.caller.id, session, identity.bodyHash]), "base64url");
    const before = this.#known.get(key);
    const isRepeat = before && this.#mayJoin(before, session !== undefined, isRetry);
    const { commandId } = isRepeat ? before : identity;
    if (!isRepeat) this.#known.set(key, { commandId });
    const end = (how: AnswerEnd) => {
      if (this.#known.get(key)?.commandId !== commandId) return;
      if (how === "whole") this.#known.delete(key);
      else this.#known.set(key, { commandId, end: { how, at: this.#clock.now() } });
    };
    return { identity: isRepeat ? { ...identity, commandId, isKeyed: true } : identity, end };
  }

  #mayJoin({ end }: Known, isNamed: boolean, isRetry: boolean): boolean {
    if (!end) return isNamed || isRetry;
    if (this.#clock.now() - end.at > WINDOW_MS) return false;
    if (end.how === "unknown") return true;
    // A client that left by itself may want another answer.
    return isRetry || (isNamed && end.how === "failed");
  }
}
