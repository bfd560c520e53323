import type { Decision } from "../protocol/decision.ts";
import type { Transition } from "../protocol/event.ts";
import type { Activity, SessionState } from "../protocol/session.ts";
import { readState } from "../protocol/written-state.ts";
import { endsWait } from "./floor-after.ts";
import type { ServerEvent } from "./server-event.ts";

/** What a session looks like at a time: its state, its activity while it is active, or that it waits for the floor. */
export type LaneLook = Exclude<SessionState, "active"> | Activity | "queued";

/** A session over time. */
export interface Lane {
  sessionId: string;
  title: string;
  /** Empty while no event has named it. */
  agentId: string;
  /**
   * The starts of its states, in ms since 1970, ascending; the last one lasts until the end of the log, or `endsAt`.
   */
  starts: number[];
  looks: LaneLook[];
  endsAt?: number | undefined;
  /** What it looks like when it does not wait. */
  state: LaneLook;
  /** Whether it waits for the floor. A paused session may wait too, and is paused again if its wait ends. */
  isQueued: boolean;
  /** Whether it has a turn, also one that is held. */
  isBusy: boolean;
}

/** A decision, on the lane of the session that asked, or above all lanes if it has none. */
export interface Mark {
  at: number;
  /** The number of the log's events before it. */
  index: number;
  sessionId: string | undefined;
  outcome: "granted" | "rejected" | "queued" | "failed";
}

/** A floor's log over time, as the page and the terminal draw it. */
export interface Lanes {
  /** In the order in which sessions were created. */
  lanes: Lane[];
  marks: Mark[];
  byId: Map<string, Lane>;
  /** By session; those without one under "". */
  marksOf: Map<string, Mark[]>;
  from: number;
  to: number;
}

export const unusedLanes = (): Lanes => ({
  lanes: [],
  marks: [],
  marksOf: new Map(),
  byId: new Map(),
  from: 0,
  to: 1,
});

/**
 * Add the next event of the log to its lanes.
 * @param index the number of the log's events before it
 * @returns the lane that it concerns; undefined for an event without a session, and for a refused creation
 */
export function addToLanes(lanes: Lanes, event: ServerEvent, index: number): Lane | undefined {
  const at = Date.parse(event.timestamp);
  if (index === 0) lanes.from = at;
  lanes.to = Math.max(lanes.from + 1, at);
  const { sessionId } = event;
  if (event.type === "arbitration") {
    // A refused creation names the session that it would have made.
    const lane = lanes.byId.get(event.data.challenger.sessionId ?? "") ?? laneOf(lanes, sessionId);
    mark(lanes, { at, index, sessionId: lane?.sessionId, outcome: event.data.outcome });
    if (lane) decide(lane, event.data, at);
    return lane;
  }
  if (event.type === "error") mark(lanes, { at, index, sessionId, outcome: "failed" });
  if (!SHOWN.has(event.type)) return lanes.byId.get(sessionId ?? "");
  const lane = laneOf(lanes, sessionId);
  if (!lane) return undefined;
  if (event.type === "session_created") {
    const { title, agentId } = event.data;
    // A deleted session may be created again.
    Object.assign(lane, { title, agentId, endsAt: undefined }, UNUSED);
    show(lane, at);
  } else if (event.type === "session_updated") lane.title = event.data.title ?? lane.title;
  else if (event.type === "agent_switched") lane.agentId = event.data.currentAgentId;
  else if (event.type === "session_transition") move(lane, event.data, at);
  return lane;
}

/** The events that show a session although its creation is not in the log. */
const SHOWN: ReadonlySet<string> = new Set([
  "session_created",
  "session_updated",
  "agent_switched",
  "session_transition",
]);

const UNUSED = { state: "created", isQueued: false, isBusy: false } as const;

/** A session's lane, which is added if there is none. */
function laneOf({ lanes, byId }: Lanes, sessionId: string | undefined): Lane | undefined {
  if (sessionId === undefined) return undefined;
  let lane = byId.get(sessionId);
  if (!lane) {
    lane = { sessionId, title: sessionId, agentId: "", starts: [], looks: [], ...UNUSED };
    byId.set(sessionId, lane);
    lanes.push(lane);
  }
  return lane;
}

function mark({ marks, marksOf }: Lanes, made: Mark): void {
  marks.push(made);
  const key = made.sessionId ?? "";
  const same = marksOf.get(key);
  if (same) same.push(made);
  else marksOf.set(key, [made]);
}

function decide(lane: Lane, decision: Decision, at: number): void {
  const { outcome, challenger } = decision;
  lane.agentId ||= challenger.agentId;
  const ends = endsWait(decision);
  if (outcome === "queued") lane.isQueued = true;
  else if (outcome === "granted" || ends) lane.isQueued = false;
  // A granted request is shown by the transition that follows.
  if (outcome === "queued" || ends) show(lane, at);
}

function move(lane: Lane, { to, event, activity }: Transition, at: number): void {
  const [state, shown = activity?.to] = readState(to);
  const isOver = state === "archived" || state === "deleted";
  lane.state = isOver ? "archived" : state === "active" ? (shown ?? "idle") : state;
  // A paused session waits on while its run ends, unless it yields.
  if (isOver || event === "yield" || state === "active" || state === "ducked") lane.isQueued = false;
  // Without an activity nothing changes: a paused session keeps its run.
  if (isOver || shown !== undefined) lane.isBusy = !isOver && (shown === "running" || shown === "waiting");
  show(lane, at);
  if (isOver) lane.endsAt ??= at;
}

function show(lane: Lane, at: number): void {
  const { state, isQueued, looks, starts } = lane;
  const look = isQueued && (state === "created" || state === "paused") ? "queued" : state;
  if (looks.at(-1) === look) return;
  starts.push(at);
  looks.push(look);
}
