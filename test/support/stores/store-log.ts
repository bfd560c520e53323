import { expect } from "vitest";
import type { Cluster } from "../nodes/cluster.ts";
import type { TrackedRequest } from "../nodes/load.ts";

/** A logged event as the database stores it. */
export interface StoredEvent {
  floor: string;
  floorSeq: number;
  session: string | null;
  seq: number | null;
  type: string;
  data: {
    id: string;
    role: string;
    content: string;
    title: string;
    runId: string;
    from: string;
    to: string;
    sessionId: string;
  };
}

/** All events of all floors, each floor's in their order. */
export async function readStoreLog(cluster: Cluster): Promise<StoredEvent[]> {
  const rows = await cluster.sql(`
    SELECT f.id AS floor, e.floor_seq AS "floorSeq", s.id AS session, e.seq, e.type, e.json
    FROM interlock.events e JOIN interlock.floors f USING (floor_key) LEFT JOIN interlock.sessions s USING (session_key)
    ORDER BY f.id, e.floor_seq`);
  return rows.map(({ json, floorSeq, seq, ...rest }) => {
    const places = { floorSeq: Number(floorSeq), seq: seq === null ? null : Number(seq) };
    return { ...rest, ...places, data: JSON.parse(json as string) } as StoredEvent;
  });
}

/**
 * The invariants of a log from which nothing was deleted: numbers without gaps, each transition continues the last one,
 * at most one active session on a floor at any time, and no run ends twice.
 */
export function checkLog(log: readonly StoredEvent[]): void {
  const heads = new Map<string, number>();
  const states = new Map<string, string>();
  const active = new Map<string, Set<string>>();
  const ended = new Set<string>();
  const next = (name: string) => {
    const seq = (heads.get(name) ?? 0) + 1;
    heads.set(name, seq);
    return seq;
  };
  for (const { floor, floorSeq, session, seq, type, data } of log) {
    const where = `${floor} ${floorSeq}`;
    expect(floorSeq, where).toBe(next(floor));
    if (session === null) continue;
    expect(seq, where).toBe(next(`session ${session}`));
    if (type === "session_created") states.set(session, "created");
    if (type === "complete") {
      expect(ended.has(data.runId), `${where}: run ${data.runId} ends twice`).toBe(false);
      ended.add(data.runId);
    }
    if (type !== "session_transition") continue;
    expect(data.from, where).toBe(states.get(session));
    states.set(session, data.to);
    const holders = active.get(floor) ?? new Set();
    active.set(floor, holders);
    if (data.to.startsWith("active")) holders.add(session);
    else holders.delete(session);
    expect([...holders].slice(1), `${where}: two are active`).toEqual([]);
  }
}

/** Each answered command is in the log once, and each refused one is not. */
export function checkRequests(tracked: readonly TrackedRequest[], log: readonly StoredEvent[]): void {
  const counts = new Map<string, number>();
  const count = (name: string) => counts.set(name, (counts.get(name) ?? 0) + 1);
  for (const { type, data } of log) {
    if (type === "session_created") count(`create ${data.id}`);
    if (type === "message" && data.role === "user") count(`chat ${data.content}`);
    if (type === "session_updated" && data.title) count(`rename ${data.title}`);
  }
  for (const { kind, key, sessionId, outcome } of tracked) {
    if (kind !== "create" && kind !== "chat" && kind !== "rename") continue;
    const name = `${kind} ${kind === "create" ? sessionId : key}`;
    expect(counts.get(name) ?? 0, name).toBe(outcome?.ok ? 1 : 0);
  }
}

/** Every accepted run has ended. */
export function unfinishedRuns(tracked: readonly TrackedRequest[], log: readonly StoredEvent[]): string[] {
  const ended = new Set(log.filter(({ type }) => type === "complete").map(({ data }) => data.runId));
  return tracked.flatMap(({ outcome }) => {
    const runId = outcome?.ok ? outcome.answer.runId : undefined;
    return runId === undefined || ended.has(runId) ? [] : [runId];
  });
}
