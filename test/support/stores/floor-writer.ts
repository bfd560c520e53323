import type { LogEntry, LoggedType } from "../../../src/protocol/event.ts";
import type { FloorId, MessageId, RequestId, SessionId } from "../../../src/protocol/ids.ts";
import type { Message } from "../../../src/protocol/message.ts";
import type { Session } from "../../../src/protocol/session.ts";
import { newsOf, sessionRowOf } from "../../../src/store/rows.ts";
import type { CommitOutcome, FloorChange, Receipt, Store } from "../../../src/store/store.ts";

export const NOON = Date.UTC(2026, 0, 1, 12);
export const HOUR = 3_600_000;
export const DAY = 86_400_000;

/** A change as tests write it: absent parts are empty, sessions have no heads. */
export interface WrittenChange extends Omit<Partial<FloorChange>, "sessions"> {
  sessions?: Session[];
  memory?: string;
  /** Of each session. */
  runsAt?: number;
}

/** Writes one floor as a host does: counts its version, its places and its sessions' places. */
export class FloorWriter {
  readonly id: FloorId;
  #store: Store;
  readonly #seqs = new Map<SessionId, number>();
  version = 0;
  head = 0;

  constructor(store: Store, id = "u:ann") {
    this.#store = store;
    this.id = id as FloorId;
  }

  /** Continue with the same floor in a store that was opened again. */
  continueIn(store: Store): void {
    this.#store = store;
  }

  session(id: string, over: Partial<Session> = {}): Session {
    return makeSession(id, { floorId: this.id, ...over });
  }

  /** The next event of the floor, and of a session if it has one. */
  event(type: LoggedType, data: unknown, of: { session?: string; at?: number; requestId?: string } = {}): LogEntry {
    this.head += 1;
    const entry: LogEntry = { floorSeq: this.head, type, at: of.at ?? NOON + this.head, json: JSON.stringify(data) };
    if (of.session !== undefined) {
      entry.sessionId = of.session as SessionId;
      entry.seq = (this.#seqs.get(entry.sessionId) ?? 0) + 1;
      this.#seqs.set(entry.sessionId, entry.seq);
    }
    if (of.requestId !== undefined) entry.requestId = of.requestId as RequestId;
    return entry;
  }

  receipt(commandId: string, over: Partial<Receipt> = {}): Receipt {
    return { caller: "ann", commandId, floorId: this.id, bodyHash: "b0d1", reply: '{"ok":true}', at: NOON, ...over };
  }

  change({ sessions = [], memory = "{}", runsAt, ...over }: WrittenChange = {}): FloorChange {
    const news = newsOf(over.events ?? []);
    return {
      floorId: this.id,
      expected: this.version,
      snapshot: `{"version":${this.version + 1}}`,
      format: 1,
      newIds: [],
      head: this.head,
      flags: {},
      sessions: sessions.map((session) => {
        const failedAt = session.failure && (session.failure.at ?? session.lastActivityAt);
        const changed = { session, memory, runsAt, failedAt, head: this.#seqs.get(session.id) ?? 0 };
        return sessionRowOf(changed, news.get(session.id));
      }),
      messages: [],
      logs: [],
      events: [],
      runRequestsAdded: [],
      runRequestsRemoved: [],
      receipts: [],
      deleted: [],
      ...over,
    };
  }

  /** Deletes a session. Returns its last event. */
  async delete(id: string, at = NOON): Promise<LogEntry> {
    const last = this.event("session_transition", { to: "deleted" }, { session: id, at });
    await this.write({ deleted: [{ sessionId: id as SessionId, last, at }] });
    return last;
  }

  async write(change: WrittenChange = {}): Promise<CommitOutcome> {
    const outcome = await this.#store.commit(this.change(change));
    if (outcome === "committed") this.version += 1;
    return outcome;
  }
}

export function makeSession(id: string, over: Partial<Session> = {}): Session {
  return {
    id: id as SessionId,
    title: "New Session",
    agentId: "music_agent" as Session["agentId"],
    userId: "ann",
    floorId: "u:ann" as FloorId,
    state: "created",
    activity: "idle",
    priority: 20,
    interruptible: true,
    createdAt: NOON,
    updatedAt: NOON,
    lastActivityAt: NOON,
    messageCount: 0,
    tokenUsage: { used: 0, breakdown: { input: 0, output: 0, cacheRead: 0, cacheCreation: 0 } },
    agentSessions: {},
    ...over,
  };
}

export function makeMessage(sessionId: string, id: string, over: Partial<Message> = {}): Message {
  return {
    id: id as MessageId,
    sessionId: sessionId as SessionId,
    role: "user",
    content: `what ${id} says`,
    status: "success",
    createdAt: NOON,
    ...over,
  };
}
