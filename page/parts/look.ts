import type { LaneLook } from "../../src/client/lanes.ts";
import type { Activity, SessionState } from "../../src/protocol/session.ts";

/** The appearance of a session's states, used everywhere: never colour only. */
export type Look = LaneLook;

const SIGNS: Readonly<Record<Look, string>> = {
  created: "○",
  queued: "◔",
  idle: "●",
  running: "▶",
  waiting: "?",
  failed: "✕",
  paused: "‖",
  ducked: "◒",
  archived: "■",
};

export const signOf = (look: Look): string => SIGNS[look];

interface ShownState {
  state: SessionState;
  activity: Activity;
  queuedAt?: number | undefined;
}

export function lookOf({ state, activity, queuedAt }: ShownState): Look {
  if (state === "active") return activity;
  if (state === "created" && queuedAt !== undefined) return "queued";
  return state;
}
