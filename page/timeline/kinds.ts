import type { LogEvent } from "../log/log-event.ts";
import { LogIndex } from "../log/log-index.ts";

/** Which events of a log are looked at; `inflight` are those of the work that is under way at the moment. */
export const KINDS = ["all", "decisions", "refused", "failed", "transitions", "inflight"] as const;
export type Kind = (typeof KINDS)[number];
type Lasting = Exclude<Kind, "inflight">;

/** In the order of the buttons: what an operator looks for first. */
export const PRESETS = ["inflight", "refused", "failed"] as const satisfies readonly Kind[];

/** An address may name any kind; one that does not exist is no filter. */
export const kindOf = (name: string | undefined): Kind => KINDS.find((kind) => kind === name) ?? "all";

/** The events of a kind: their places in the log, and the sessions that they are about. */
interface OfKind {
  places: number[];
  sessions: Set<string>;
}

const nothing = (): OfKind => ({ places: [], sessions: new Set() });

export const kindIndex = () =>
  new LogIndex<Record<Lasting, OfKind>>(
    () => ({
      all: nothing(),
      decisions: nothing(),
      refused: nothing(),
      failed: nothing(),
      transitions: nothing(),
    }),
    (index, event, place) => {
      const sessionId = event.type === "arbitration" ? event.data.challenger.sessionId : event.sessionId;
      for (const kind of kindsOf(event)) {
        index[kind].places.push(place);
        if (sessionId !== undefined) index[kind].sessions.add(sessionId);
      }
    },
  );

function kindsOf(event: LogEvent): Lasting[] {
  switch (event.type) {
    case "arbitration":
      return event.data.outcome === "rejected" ? ["all", "decisions", "refused"] : ["all", "decisions"];
    case "session_transition":
      return event.data.event === "fail" ? ["all", "transitions", "failed"] : ["all", "transitions"];
    case "error":
      return ["all", "failed"];
    default:
      return ["all"];
  }
}
