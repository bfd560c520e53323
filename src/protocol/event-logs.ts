import type { EventType } from "./event.ts";

/**
 * The logs that show each type of event, without the schemas, which would add a validator to every page: `session`,
 * that of its session; `floor`, that of its floor; `both`; or `none`, because it is not logged. A floor's log numbers
 * the events of its sessions too: its stream leaves out those of `session`, and a page of it shows them.
 */
export const EVENT_LOGS = {
  session_created: "both",
  session_transition: "both",
  session_updated: "session",
  arbitration: "both",
  routed: "both",
  agent_switched: "both",
  message: "session",
  tool_call: "session",
  tool_result: "session",
  tool_confirmation_request: "session",
  user_question_request: "session",
  interaction_resolved: "session",
  usage: "session",
  error: "session",
  complete: "session",
  data: "session",
  floor_updated: "floor",
  connected: "none",
  agent_list: "none",
  delta: "none",
  log: "none",
  floor: "none",
  rollback_result: "none",
  reset: "none",
  bye: "none",
} as const satisfies Record<EventType, "session" | "floor" | "both" | "none">;

type TypeOf<Logs> = { [T in EventType]: (typeof EVENT_LOGS)[T] extends Logs ? T : never }[EventType];

/** The types that show who has the floor, and why: a floor's stream delivers these. */
export type FloorEventType = TypeOf<"floor" | "both">;

export const isFloorEvent = (type: EventType): type is FloorEventType => /^(?:floor|both)$/.test(EVENT_LOGS[type]);
