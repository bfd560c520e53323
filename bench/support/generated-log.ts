import type { Session } from "../../src/protocol/session.ts";

/** Sessions that are paused at the same time. */
const MAX_PAUSED = 8;

/**
 * A generated floor's log in the format that the page saves. Each session is created, gets the floor, has turns, and is
 * paused and archived.
 */
export function generateLog(count: number, sessions: number): string {
  const floorId = "u:made";
  const begun = Date.parse("2026-11-22T08:00:00Z");
  const seqs = new Map<string, number>();
  const events: object[] = [];
  const add = (type: string, sessionId: string, data: object) => {
    const seq = (seqs.get(sessionId) ?? 0) + 1;
    seqs.set(sessionId, seq);
    const place = events.length + 1;
    events.push({
      type,
      data,
      sessionId,
      seq,
      position: `made.${place}`,
      timestamp: new Date(begun + place * 500).toISOString(),
    });
  };
  const move = (id: string, from: string, to: string, event: string) =>
    add("session_transition", id, { from, to, event });
  const perSession = Math.max(4, Math.floor(count / sessions));
  let holder: string | undefined;
  const paused: string[] = [];
  for (let serial = 0; events.length < count; serial += 1) {
    const id = `s${serial}`;
    const agentId = serial % 3 === 0 ? "phone" : "music";
    const priority = agentId === "phone" ? 90 : 20;
    const at = begun + events.length * 500;
    add("session_created", id, { ...newSession(at), id, title: `Session ${serial}`, agentId, floorId, priority });
    const challenger = { sessionId: id, agentId, priority, explained: [{ step: "agent", value: priority }] };
    add("arbitration", id, {
      outcome: "granted",
      reason: holder ? "preempted" : "floor_free",
      challenger,
      say: "Yes.",
    });
    if (holder !== undefined) move(holder, "active.idle", "paused", "preempt");
    move(id, "created", "active.idle", "activate");
    for (let turn = 0; turn < (perSession - 5) / 5; turn += 1) {
      const message = { id: `${id}m${turn}`, role: "user", content: "Play something else, please.", status: "success" };
      add("message", id, { ...message, createdAt: at, streaming: false });
      move(id, "active.idle", "active.running", "turn");
      add("message", id, { ...message, id: `${id}a${turn}`, role: "assistant", createdAt: at, streaming: false });
      add("complete", id, { sessionId: id, runId: `${id}r${turn}`, usage: {}, tokenCount: 12 });
      move(id, "active.running", "active.idle", "done");
    }
    if (holder !== undefined) paused.push(holder);
    if (paused.length > MAX_PAUSED) move(paused.shift()!, "paused", "archived", "archive");
    holder = id;
  }
  return JSON.stringify({ format: "interlock-floor-log", version: 1, floorId, events: events.slice(0, count) });
}

/** What all generated sessions have in common. */
export function newSession(at: number): Omit<Session, "id" | "title" | "agentId" | "floorId" | "priority"> {
  return {
    state: "created",
    activity: "idle",
    interruptible: true,
    createdAt: at,
    updatedAt: at,
    lastActivityAt: at,
    messageCount: 0,
    tokenUsage: { used: 0, breakdown: { input: 0, output: 0, cacheRead: 0, cacheCreation: 0 } },
    agentSessions: {},
  };
}
