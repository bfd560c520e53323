import type { EventData, StreamEvent } from "./frame-reader.ts";

/**
 * The state that a client derives from its sessions' events, over all its connections. Throws an Error for a violation
 * of the protocol: a gap, a repetition, two active sessions of one floor at once, or text for an unknown message.
 */
export class Transcript {
  /** Logged events by session. */
  readonly logs = new Map<string, StreamEvent[]>();
  /** Finished messages by id. */
  readonly finished = new Map<string, string>();
  /** Unfinished messages, as far as this connection received them. */
  readonly writing = new Map<string, string>();
  /** Whether gaps left by deleted sessions are allowed. */
  maySkip = false;
  /** Called with the text of a message whenever it changes. */
  onText: (messageId: string, text: string) => void = () => {};
  readonly #states = new Map<string, string>();
  /** Floors of sessions by id; the sessions whose creation was not received count as those of one floor. */
  readonly #floors = new Map<string, string>();
  /** When each floor's newest transition happened. */
  readonly #newest = new Map<string | undefined, string>();
  readonly #starts: ReadonlyMap<string, number>;

  /** @param starts the places after which the logs of some sessions start */
  constructor(starts: Record<string, number> = {}) {
    this.#starts = new Map(Object.entries(starts));
  }

  /** Called when the client reconnects: unfinished messages are sent again. */
  reconnect(): void {
    this.writing.clear();
  }

  seqOf(sessionId: string): number {
    return this.logs.get(sessionId)?.at(-1)?.seq ?? this.#starts.get(sessionId) ?? 0;
  }

  stateOf(sessionId: string): string | undefined {
    return this.#states.get(sessionId);
  }

  take(event: StreamEvent): void {
    const { type, data, sessionId, seq } = event;
    if (sessionId !== undefined && seq !== undefined) {
      const last = this.seqOf(sessionId);
      must(seq === last + 1 || (this.maySkip && seq > last), `${sessionId}: ${seq} follows ${last}`);
      this.logs.set(sessionId, [...(this.logs.get(sessionId) ?? []), event]);
    }
    if (type === "session_created") this.#floors.set(sessionId!, String(data["floorId"]));
    if (type === "delta" && data.kind === "text") return this.#takeDelta(data);
    if (type === "message") return this.#takeMessage(data);
    if (type === "session_transition") this.#step(sessionId!, data.to, event.timestamp);
  }

  #takeDelta({ messageId, offset, text }: { messageId: string; offset: number; text: string }): void {
    must(!this.finished.has(messageId), `a delta for ${messageId}, which is finished`);
    const known = this.writing.get(messageId) ?? "";
    must(offset <= known.length, `a delta at ${offset}, where ${known.length} were given`);
    const given = known.slice(offset);
    must(text.startsWith(given) || given.startsWith(text), "a delta says something else than was said there");
    if (offset + text.length > known.length) this.#write(messageId, known.slice(0, offset) + text);
  }

  #takeMessage({ id, content, streaming, status }: Pick<EventData, "id" | "content" | "streaming" | "status">): void {
    if (streaming) {
      must(!this.finished.has(id), `${id} is being written, and was finished before`);
      this.#write(id, content);
      return;
    }
    const known = this.writing.get(id) ?? "";
    // The last text before the end of a run may be lost; what was stored is kept.
    const isPart = status !== "success" && known.startsWith(content);
    must(isPart || content.startsWith(known), `${id} is ${content}, and was told as ${known}`);
    this.writing.delete(id);
    this.finished.set(id, content);
    this.onText(id, content);
  }

  #write(id: string, text: string): void {
    this.writing.set(id, text);
    this.onText(id, text);
  }

  /** The history of a session that was bound to an open connection comes after newer events of its floor. */
  #step(sessionId: string, to: string, at: string): void {
    this.#states.set(sessionId, to);
    const floor = this.#floors.get(sessionId);
    if (at < (this.#newest.get(floor) ?? "")) return;
    this.#newest.set(floor, at);
    const active = [...this.#states].filter(
      ([id, state]) => this.#floors.get(id) === floor && state.startsWith("active"),
    );
    must(active.length <= 1, `two are active: ${active.map(([id]) => id)}`);
  }
}

function must(holds: boolean, otherwise: string): asserts holds {
  if (!holds) throw new Error(otherwise);
}
