import type { ServerEvent } from "./server-event.ts";

/** Sessions whose place is remembered; the one heard of longest ago is forgotten. A floor may have thousands. */
const MAX_SESSIONS = 1_024;

/** How far a reader has come in each log, so that nothing is handed on twice, however often it is sent. */
export class SeenEvents {
  /** The place in each session's log; the floor's own stands under "". Heard of last comes last. */
  readonly #places = new Map<string, number>();

  /**
   * Whether the event is new; from then on it is not.
   * @param position the position that came with it
   */
  admit(event: ServerEvent, position: string | undefined): boolean {
    if (event.type === "reset") {
      this.#reset(event.data);
      return true;
    }
    const log = event.sessionId ?? "";
    const place = event.type === "floor_updated" ? seqOf(position) : event.seq;
    if (place === undefined) return true;
    const known = this.#places.get(log);
    if (known !== undefined && place <= known) return false;
    this.#places.delete(log);
    // The log of a session that is made anew under the same id begins anew.
    if (event.type !== "session_transition" || event.data.to !== "deleted") this.#places.set(log, place);
    if (this.#places.size > MAX_SESSIONS) this.#places.delete(this.#places.keys().next().value!);
    return true;
  }

  /** The server goes on from elsewhere: what was seen says nothing about what comes. */
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
