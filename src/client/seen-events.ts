import { EVENT_LOGS } from "../protocol/event-logs.ts";
import { seqOf } from "../protocol/position.ts";
import { RecentMap } from "../shared/recent-map.ts";
import type { ServerEvent } from "./server-event.ts";

/**
 * Sessions whose `seq` is remembered; beyond it a session without a recent event is dropped. A floor may have
 * thousands.
 */
const MAX_SESSIONS = 1_024;

/** How far a reader has come in each log, so that no event is delivered twice. */
export class SeenEvents {
  /** The last `seq` of each session's log. The key of the floor's own log is "". */
  readonly #seqs = new RecentMap<string, number>(MAX_SESSIONS);

  /**
   * Record an event as seen.
   * @param position the position that came with it
   * @returns whether the event is new
   */
  noteIfNew(event: ServerEvent, position: string | undefined): boolean {
    if (event.type === "reset") {
      this.#reset(event.data);
      return true;
    }
    const log = event.sessionId ?? "";
    const seq = EVENT_LOGS[event.type] === "floor" ? seqOf(position) : event.seq;
    if (seq === undefined) return true;
    const known = this.#seqs.get(log);
    if (known !== undefined && seq <= known) return false;
    // A session that is created again under the same id has a new log.
    if (event.type === "session_transition" && event.data.to === "deleted") this.#seqs.delete(log);
    else this.#seqs.set(log, seq);
    return true;
  }

  /** The server continues from another event, so the recorded numbers are void. */
  #reset({ sessionId, from }: { sessionId?: string | undefined; from?: number | undefined }): void {
    if (sessionId === undefined) this.#seqs.clear();
    else if (from === undefined) this.#seqs.delete(sessionId);
    else this.#seqs.set(sessionId, from);
  }
}
