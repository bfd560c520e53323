import type { LogEvent } from "../log/log-event.ts";
import { LogIndex } from "../log/log-index.ts";

/** The filters of a log's events; `inflight` selects the work in progress at the moment. */
export const KINDS = ["all", "decisions", "refused", "failed", "transitions", "inflight"] as const;
export type Kind = (typeof KINDS)[number];
type Lasting = Exclude<Kind, "inflight">;

/** In the order of the buttons: an operator's most frequent questions first. */
export const PRESETS = ["inflight", "refused", "failed"] as const satisfies readonly Kind[];

/** An address may contain any text; an unknown kind is no filter. */
export const kindOf = (name: string | undefined): Kind => KINDS.find((kind) => kind === name) ?? "all";

/** The events of a kind: their indices in the log, and their sessions. */
interface OfKind {
  indices: number[];
  sessions: Set<string>;
}

const nothing = (): OfKind => ({ indices: [], sessions: new Set() });

export const kindIndex = () =>
  new LogIndex<Record<Lasting, OfKind>>(
    () => ({
      all: nothing(),
      decisions: nothing(),
      refused: nothing(),
      failed: nothing(),
      transitions: nothing(),
    }),
    (index, event, eventIndex) => {
      const sessionId = event.type === "arbitration" ? event.data.challenger.sessionId : event.sessionId;
      for (const kind of kindsOf(event)) {
        index[kind].indices.push(eventIndex);
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
