import type { Session } from "../../../src/protocol/session.ts";

/** The floor of a made log. */
export const MADE_FLOOR = "u:made";
/** The time of a made log's beginning, in ms since 1970. */
const MADE_AT = Date.parse("2026-11-22T08:00:00Z");
const BETWEEN_MS = 500;

/** Events of a floor in the format in which the page saves a log, each half a second after the one before. */
export class MadeLog {
  readonly #events: object[] = [];
  readonly #seqs = new Map<string, number>();

  get length(): number {
    return this.#events.length;
  }

  /** When the newest event happened, in ms since 1970. */
  get at(): number {
    return MADE_AT + this.#events.length * BETWEEN_MS;
  }

  /** @param afterMs how long after the log's beginning it happened */
  add(type: string, sessionId: string, data: object, afterMs = (this.length + 1) * BETWEEN_MS): void {
    const seq = (this.#seqs.get(sessionId) ?? 0) + 1;
    this.#seqs.set(sessionId, seq);
    const timestamp = new Date(MADE_AT + afterMs).toISOString();
    this.#events.push({ type, data, sessionId, seq, position: `made.${this.length + 1}`, timestamp });
  }

  /** @param rest of the session; all else is as in a new one */
  create(id: string, rest: Partial<Record<keyof Session, unknown>> = {}, afterMs?: number): void {
    const made = { id, title: id, agentId: "music", floorId: MADE_FLOOR, priority: 20 };
    this.add("session_created", id, { ...newSession(this.at), ...made, ...rest }, afterMs);
  }

  move(id: string, from: string, to: string, event: string): void {
    this.add("session_transition", id, { from, to, event });
  }

  /** The file, with at most `count` events. */
  toJson(count = this.length): string {
    const events = this.#events.slice(0, count);
    return JSON.stringify({ format: "interlock-floor-log", version: 1, floorId: MADE_FLOOR, events });
  }
}

/** What all made sessions have in common. */
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
