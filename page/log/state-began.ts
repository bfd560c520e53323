import type { ServerEvent } from "../../src/client/server-event.ts";
import type { Session } from "../../src/protocol/session.ts";
import { countLeading } from "./count-leading.ts";
import { timeOf } from "./log-event.ts";
import { LogIndex } from "./log-index.ts";

/** The transitions of one session that changed its state: their indices in the log, and their times. */
interface Begun {
  indices: number[];
  times: number[];
}

/** For each session, when its states began. */
export const begunIndex = () =>
  new LogIndex<Map<string, Begun>>(
    () => new Map(),
    (index, event, eventIndex) => {
      if (event.sessionId === undefined || !isChange(event)) return;
      const begun = index.get(event.sessionId) ?? { indices: [], times: [] };
      begun.indices.push(eventIndex);
      begun.times.push(timeOf(event));
      index.set(event.sessionId, begun);
    },
  );

/** Whether an event changes the shown state: a ducked or paused session may change its activity beneath it. */
function isChange(event: Pick<ServerEvent, "type" | "data">): boolean {
  if (event.type !== "session_transition") return false;
  const { from, to } = event.data as Extract<ServerEvent, { type: "session_transition" }>["data"];
  return from !== to && !(from.startsWith("ducked") && to.startsWith("ducked"));
}

/**
 * When the state of a session began, in ms since 1970; undefined if that is not in the log that was read.
 * @param recent events of the floor's stream, which may be ahead of the log
 */
export function stateBegan(
  { id, state, queuedAt, createdAt }: Session,
  begun: ReadonlyMap<string, Begun>,
  count: number,
  recent: readonly ServerEvent[],
): number | undefined {
  if (state === "created") return queuedAt ?? createdAt;
  const ahead = recent.findLast((event) => event.sessionId === id && isChange(event));
  if (ahead) return Date.parse(ahead.timestamp);
  const { indices, times } = begun.get(id) ?? { indices: [], times: [] };
  return times[countLeading(indices.length, (index) => indices[index]! < count) - 1];
}
