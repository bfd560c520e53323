import type { WrittenState } from "./event.ts";
import type { Activity, SessionState } from "./session.ts";

/** The parts of a state as it stands in a log: a session's state and, while it is heard, its activity. */
export const readState = (written: WrittenState) => written.split(".") as [SessionState | "deleted", Activity?];

/** Whether a session in this state, as it stands in a log, is heard. */
export const isAudibleState = (written: string): boolean => /^(active|ducked)/.test(written);

/** Whether an archived session goes on in the session that its last transition names in `by`. */
export const isContinued = (reason: string | undefined): boolean => reason === "superseded" || reason === "moved";
