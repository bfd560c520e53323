import { EVENT_LOGS } from "../protocol/event-logs.ts";
import { RecentMap } from "../shared/recent-map.ts";
import type { ServerEvent } from "./server-event.ts";

/** Sessions whose place is remembered; beyond it a session without a recent event is dropped. A floor may have thousands. */
const MAX_SESSIONS = 1_024;

/** How far a reader has come in each log, so that no event is delivered twice. */
export class SeenEvents {
  /** The place in each session's log. The key of the floor's own log is "". */
  readonly #places = new RecentMap<string, number>(MAX_SESSIONS);

  /**
   * Whether the event is new. Records it as seen.
   * @param position the position that came with it
   */
  admit(event: ServerEvent, position: string | undefined): boolean {
    if (event.type === "reset") {
      this.#reset(event.data);
      return true;
    }
    const log = event.sessionId ?? "";
    const place = EVENT_LOGS[event.type] === "floor" ? seqOf(position) : event.seq;
    if (place === undefined) return true;
    const known = this.#places.get(log);
    if (known !== undefined && place <= known) return false;
    // A session that is created again under the same id has a new log.
    if (event.type === "session_transition" && event.data.to === "deleted") this.#places.delete(log);
    else this.#places.set(log, place);
    return true;
  }

  /** The server continues from another place, so the recorded places are void. */
  #reset({ sessionId, from }: { sessionId?: string | undefined; from?: number | undefined }): void {
    if (sessionId === undefined) this.#places.clear();
    else if (from === undefined) this.#places.delete(sessionId);
    else this.#places.set(sessionId, from);
  }
}

/** The number in the position of a floor's log, `<epoch>.<number>`. */
function seqOf(position: string | undefined): number | undefined {
  const digits = /^[a-z0-9]+\.(\d{1,15})$/.exec(position ?? "")?.[1];
  return digits === undefined ? undefined : Number(digits);
}
