import type { SessionState } from "../../../src/protocol/session.ts";

/** The states of the filter, in the order of a session's life. */
export const STATES_SHOWN: readonly SessionState[] = ["created", "active", "ducked", "paused", "archived"];
