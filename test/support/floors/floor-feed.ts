import type { Bus } from "../../../src/bus/bus.ts";
import type { LogEntry } from "../../../src/protocol/event.ts";
import { dataFrame, envelopeJson, toWire } from "../../../src/protocol/frames.ts";
import type { MessageId, RunId, SessionId } from "../../../src/protocol/ids.ts";
import { encodeFloorMessage, floorTopic } from "../../../src/protocol/internal/floor-message.ts";
import { type Message, masterRef } from "../../../src/protocol/message.ts";
import type { Session } from "../../../src/protocol/session.ts";
import type { LogSlice, Store } from "../../../src/store/store.ts";
import { FloorWriter, makeMessage, NOON, type WrittenChange } from "../stores/floor-writer.ts";

const AGENT = masterRef("music_agent");

/** Stores and publishes a floor's commits, checkpoints and deltas, as its host and its workers do. */
export class FloorFeed {
  readonly writer: FloorWriter;
  readonly #store: Store;
  readonly #bus: Bus;
  readonly #topic: string;
  readonly #sessions = new Map<string, Session>();
  /** Unfinished messages, with the stored part of their text. */
  readonly #drafts = new Map<string, Message>();

  constructor(store: Store, bus: Bus, id = "u:ann") {
    this.#store = store;
    this.#bus = bus;
    this.writer = new FloorWriter(store, id);
    this.#topic = floorTopic(store.epoch, this.writer.id);
  }

  get id() {
    return this.writer.id;
  }

  /** A new session, with its first event. */
  async create(id: string, over: Partial<Session> = {}): Promise<void> {
    const session = this.writer.session(id, over);
    this.#sessions.set(id, session);
    await this.commit([this.writer.event("session_created", session, { session: id })]);
  }

  /** Commit `count` events of a session together. */
  async log(session: string, count = 1, text = "so it goes"): Promise<void> {
    const events = Array.from({ length: count }, () =>
      this.writer.event("session_updated", { summary: text }, { session }),
    );
    await this.commit(events);
  }

  /** A transition of a session. */
  transit(session: string, from: string, to: string): Promise<void> {
    return this.transitAll([session, from, to]);
  }

  /** Several transitions in one commit, in this order. */
  async transitAll(...steps: [session: string, from: string, to: string][]): Promise<void> {
    const events = steps.map(([session, from, to]) => {
      const state = to.split(".")[0]! as Session["state"];
      this.#sessions.set(session, { ...this.#sessions.get(session)!, state });
      const data = { from, to, event: to === "archived" ? "archive" : "activate" };
      return this.writer.event("session_transition", data, { session });
    });
    await this.commit(events);
  }

  async delete(session: string): Promise<void> {
    const data = { from: "archived", to: "deleted", event: "delete" };
    const last = this.writer.event("session_transition", data, { session });
    this.#sessions.delete(session);
    await this.commit([last], { deleted: [{ sessionId: session as SessionId, last, at: last.at }] });
  }

  /** Start a message. */
  async open(session: string, id: string, runId = "run", attempt = 1): Promise<void> {
    const by = { role: "assistant", agent: AGENT, runId: runId as RunId, startedAt: attempt } as const;
    const message = makeMessage(session, id, { ...by, content: "", status: "running" });
    this.#drafts.set(id, message);
    await this.commit([], { messages: [{ kind: "add", message }] });
  }

  /** Publish a delta at once. */
  delta(
    session: string,
    id: string,
    offset: number,
    text: string,
    of: { runId?: string; attempt?: number } = {},
  ): void {
    const { runId = "run", attempt = 1 } = of;
    const data = { messageId: id, runId, attempt, kind: "text", offset, text, agent: AGENT };
    const json = envelopeJson({ type: "delta", json: JSON.stringify(data), at: NOON, sessionId: session });
    const { id: floorId } = this.writer;
    const message = { kind: "delta" as const, floorId, sessionId: session as SessionId, frame: dataFrame(json) };
    void this.#bus.publish(this.#topic, encodeFloorMessage(message));
  }

  /** Store the text so far. */
  async checkpoint(session: string, id: string, text: string): Promise<void> {
    const draft = this.#drafts.get(id)!;
    const added = text.slice(draft.content.length);
    this.#drafts.set(id, { ...draft, content: text });
    const sessionId = session as SessionId;
    const messageId = id as MessageId;
    await this.commit([], { messages: [{ kind: "append", sessionId, id: messageId, text: added }] });
    const { id: floorId } = this.writer;
    const about = { floorId, sessionId, messageId, runId: draft.runId!, length: text.length };
    await this.#bus.publish(this.#topic, encodeFloorMessage({ kind: "checkpoint", ...about }));
  }

  /** Finish the message, and its run unless `goesOn`. */
  async finish(session: string, id: string, text: string, { goesOn = false } = {}): Promise<void> {
    const draft = this.#drafts.get(id)!;
    this.#drafts.delete(id);
    const message: Message = { ...draft, content: text, status: "success" };
    const events = [this.writer.event("message", { ...message, streaming: false }, { session })];
    if (!goesOn) {
      const usage = { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 };
      const data = { sessionId: session, runId: draft.runId, usage, tokenCount: 0 };
      events.push(this.writer.event("complete", data, { session }));
    }
    await this.commit(events, { messages: [{ kind: "put", message }] });
  }

  /** A session's place in its log, and its first event. */
  async logOf(session: string): Promise<LogSlice | undefined> {
    return await this.#store.readSessionLog(session as SessionId, 0, 1);
  }

  /** Commit once, and publish the commit. */
  async commit(events: LogEntry[], change: WrittenChange = {}): Promise<void> {
    const prev = this.writer.head - events.length;
    const named = new Set(events.map((event) => event.sessionId));
    const sessions = [...this.#sessions.values()].filter((session) => named.has(session.id));
    const logged = change.deleted ? [] : events;
    const outcome = await this.writer.write({ sessions, events: logged, ...change });
    if (outcome !== "committed") throw new Error("the feed is not the only one that writes this floor");
    if (events.length === 0) return;
    const { id: floorId, head: last } = this.writer;
    const commit = { kind: "commit" as const, floorId, prev, last, entries: events.map(toWire), at: NOON };
    await this.#bus.publish(this.#topic, encodeFloorMessage(commit));
  }
}
