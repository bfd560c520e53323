import type { SessionId } from "../../../protocol/ids.ts";
import { sessionJson } from "../../../protocol/session-json.ts";
import { newsOf, sessionText } from "../../rows.ts";
import type { AdoptedHistory, FloorChange } from "../../store.ts";

/**
 * A change in the form that is sent to the writer's thread. What every command writes is in flat lists of values, whose
 * structured clone costs a fraction of that of objects on both threads. The rest stays in objects.
 */
export type FlatChange = [
  floorId: string,
  expected: number,
  head: number,
  format: number,
  flags: string,
  reserved: string | null,
  snapshot: string,
  alarm: number | null,
  /** Ids expected to be unused. */
  newIds: readonly SessionId[],
  sessions: Value[],
  events: Value[],
  receipts: Value[],
  rest: Rest | null,
];

export type Value = string | number | null;
export type Rest = Pick<FloorChange, "messages" | "logs" | "effectsAdded" | "effectsRemoved" | "deleted"> & {
  adopted: readonly AdoptedHistory[];
};

/**
 * Values per session: id, state, agent, user, owner, workspace, last activity, queued at, head, view, memory, words;
 * the time of its first event in the change, the place of its last transition in the floor's log, and its deadline.
 */
export const SESSION_WIDTH = 15;
/** Values per event: place in the floor's log, session, place in the session's log, type, request, time, data. */
export const EVENT_WIDTH = 7;
/** Values per receipt: caller, command, hash of the body, time, reply. */
export const RECEIPT_WIDTH = 5;

/** Flatten a change for the writer's thread. */
export function flattenChange(change: FloorChange): FlatChange {
  const { floorId, expected, head, format, flags, snapshot, newIds } = change;
  const { messages, logs, effectsAdded, effectsRemoved, deleted, adopted = [] } = change;
  const sessions: Value[] = [];
  const news = newsOf(change.events);
  for (const { session, head: seq, memory, dueAt = null } of change.sessions) {
    const { id, state, agentId, userId = null, ownerId = null, workspaceId = null } = session;
    const { lastActivityAt, queuedAt = null } = session;
    const { firstAt = null, transitionSeq = null } = news.get(id) ?? {};
    sessions.push(id, state, agentId, userId, ownerId, workspaceId, lastActivityAt, queuedAt, seq);
    sessions.push(sessionJson(session), memory, sessionText(session), firstAt, transitionSeq, dueAt);
  }
  const events: Value[] = [];
  for (const { floorSeq, sessionId = null, seq = null, type, requestId = null, at, json } of change.events) {
    events.push(floorSeq, sessionId, seq, type, requestId, at, json);
  }
  const receipts: Value[] = [];
  for (const { caller, commandId, bodyHash, at, reply } of change.receipts) {
    receipts.push(caller, commandId, bodyHash, at, reply);
  }
  const lists = { messages, logs, effectsAdded, effectsRemoved, deleted, adopted };
  const rest = Object.values(lists).some((list) => list.length > 0) ? lists : null;
  const flagsJson = JSON.stringify(flags);
  const reserved = change.reserved ? JSON.stringify(change.reserved) : null;
  const row = [floorId, expected, head, format, flagsJson, reserved, snapshot, change.alarm ?? null] as const;
  return [...row, newIds, sessions, events, receipts, rest];
}
