import type { ServerEvent, ServerEventOf } from "../../src/client/server-event.ts";
import type { WrittenState } from "../../src/protocol/event.ts";
import type { Session } from "../../src/protocol/session.ts";
import { readState } from "../../src/protocol/written-state.ts";
import type { LogEvent } from "../log/log-event.ts";
import { eventIndices } from "../log/log-index.ts";
import type { Look } from "../parts/look.ts";
import type { ArrowLayout, Chart, RegionLayout } from "./chart.ts";

export type ShownTransition = ServerEventOf<"session_transition">;

/** The number of listed transitions. */
const MAX_TRANSITIONS = 12;

/** For each session, the indices of its transitions in the log. */
export const transitionIndex = () => eventIndices(({ type }) => type === "session_transition");

/**
 * The newest transitions of a session after the first `count` events of a log, the newest last.
 * @param indices of its transitions in the log
 * @param recent events of the floor's stream, which may be ahead of the log
 */
export function transitionsOf(
  sessionId: string,
  events: readonly LogEvent[],
  indices: readonly number[],
  count: number,
  recent: readonly ServerEvent[],
): ShownTransition[] {
  const last = indices.findLastIndex((eventIndex) => eventIndex < count) + 1;
  const found = indices
    .slice(Math.max(0, last - MAX_TRANSITIONS), last)
    .map((eventIndex) => events[eventIndex] as ShownTransition);
  const newest = found.at(-1)?.seq ?? 0;
  const ahead = recent.filter(
    (event): event is ShownTransition =>
      event.type === "session_transition" && event.sessionId === sessionId && (event.seq ?? 0) > newest,
  );
  return [...found, ...ahead].slice(-MAX_TRANSITIONS);
}

/** The index of the arrow of a region that a transition took: none, or one. */
export function arrowOf(
  region: RegionLayout,
  { from, to, event, activity }: ShownTransition["data"],
): number | undefined {
  const [before, after] = [partOf(region, from, activity?.from), partOf(region, to, activity?.to)];
  if (before === undefined || after === undefined || before === after) return undefined;
  const ways = region.arrows.flatMap((arrow, index) =>
    arrow.to === after && arrow.from.includes(before) ? [{ arrow, index }] : [],
  );
  return (ways.find(({ arrow }) => carries(arrow, event)) ?? ways[0])?.index;
}

/** A logged state names the lifecycle and, while the session is heard, its activity. */
function partOf({ name }: RegionLayout, written: WrittenState, activity: string | undefined): string | undefined {
  const [lifecycle, activityPart] = readState(written);
  return name === "lifecycle" ? lifecycle : (activityPart ?? activity);
}

/** The log contains the name of the transition; a command for it has the same name after `session.`. */
const carries = ({ words }: ArrowLayout, event: string): boolean =>
  words.some((word) => word.event === event || word.event === `session.${event}`);

/** The state of each region of a session. */
export const statesOf = ({
  state,
  activity,
}: Pick<Session, "state" | "activity">): Readonly<Record<string, string>> => ({
  lifecycle: state,
  activity,
});

const LOOKS: Readonly<Record<string, Look>> = {
  active: "idle",
  free: "created",
  held: "idle",
  reserved: "queued",
  deleted: "archived",
};

/** The appearance of a machine's current state. */
export const lookOfState = (state: string): Look => LOOKS[state] ?? (state as Look);

/** An event that a session accepts in its current states. */
export interface Acceptance {
  event: string;
  /** The possible target states; empty if the event itself changes none. */
  to: readonly string[];
}

/** Events that the server refuses for a session of an external agent, which takes no turns. */
const TURN = { event: "session.chat", code: "illegal_command" };

/** The events that lead out of a state, with their targets. */
const eventsFrom = (state: string, arrows: readonly ArrowLayout[]): { event: string; target: string }[] =>
  arrows
    .filter(({ from }) => from.includes(state))
    .flatMap(({ to: target, words }) => words.flatMap(({ event }) => (event === undefined ? [] : { event, target })));

/**
 * The events that a session accepts in these states, and those that it refuses.
 * @param isExternal whether its agent is external
 */
export function acceptedIn(
  { regions, anywhere }: Chart,
  states: Readonly<Record<string, string>>,
  isExternal = false,
): { accepted: Acceptance[]; refused: readonly { event: string; code: string }[] } {
  const to = new Map<string, Set<string>>(anywhere.map((event) => [event, new Set()]));
  const refused: { event: string; code: string }[] = [];
  const targets = (event: string) => {
    const known = to.get(event) ?? new Set();
    to.set(event, known);
    return known;
  };
  for (const { name, states: all, arrows } of regions) {
    const now = all.find((state) => state.name === states[name]);
    if (!now) continue;
    refused.push(...now.refuses);
    for (const event of now.stays) targets(event);
    for (const { event, target } of eventsFrom(now.name, arrows)) targets(event).add(target);
  }
  if (isExternal && to.has(TURN.event)) refused.push(TURN);
  for (const { event } of refused) to.delete(event);
  return { accepted: [...to].map(([event, states]) => ({ event, to: [...states] })), refused };
}
