import type { LogEntry } from "../event.ts";
import type { FloorId, SessionId } from "../ids.ts";
import type { Session } from "../session.ts";

/** The events of one commit of a floor. */
export interface CommittedEvents {
  floorId: FloorId;
  entries: readonly LogEntry[];
  /** A session that has one of them, as it is after the commit. */
  sessionOf: (id: SessionId) => Session | undefined;
  /** The sessions that the commit deletes. */
  deleted: ReadonlySet<SessionId>;
}
