import type { Draft } from "../gateway/streams/draft-board.ts";
import type { FollowedEntry, Follower } from "../gateway/streams/follower.ts";
import type { FollowedLog } from "../gateway/streams/log-stream.ts";
import { type DraftReader, type HistoryPage, Track, type TrackReader } from "../gateway/streams/track.ts";
import type { Delta, LogEntry, LoggedData, LoggedType } from "../protocol/event.ts";
import { parseFrame } from "../protocol/frames.ts";
import type { MessageId, RequestId, RunId, Seq, SessionId } from "../protocol/ids.ts";
import { type AgentRef, speakerOf } from "../protocol/message.ts";
import { reasoningOf } from "../protocol/reasoning.ts";
import type { Clock } from "../shared/ports/clock.ts";
import { additionTo } from "../shared/text-piece.ts";

/** A piece of a message. Pieces of the same message and kind arrive in order, without gaps or overlaps. */
export interface Piece {
  readonly messageId: MessageId;
  readonly agent: AgentRef;
  readonly kind: Delta["kind"];
  readonly text: string;
}

/** A logged event of the run, or of its session while the run waits. */
export type RunEvent = {
  [T in LoggedType]: { readonly type: T; readonly data: LoggedData<T>; readonly requestId?: RequestId | undefined };
}[LoggedType];

/** Receives the output and the events of a run, in order and each once. */
export interface RunListener {
  /** Whether the client is behind, so that the reader waits for `RunReader.advance`. */
  readonly isFull: boolean;
  /** Receive text of a message, before the event that completes it. */
  onPiece(piece: Piece): void;
  /** @returns `end` to stop */
  onEvent(event: RunEvent): "go" | "end";
  /** The run can no longer be read; the client must reconnect. */
  onLost(): void;
  /** The client is further behind than the events that are kept. Never called if the client's socket is never full. */
  onBehind?(): void;
}

export interface RunReaderOptions {
  follower: Follower;
  log: FollowedLog;
  sessionId: SessionId;
  runId: RunId;
  /** The reader starts after this `seq` of the session's log. */
  after: Seq;
  /** Whether the run had begun there. */
  hasBegun: boolean;
  /** The run's tool calls before it. */
  earlierCalls: Iterable<string>;
  listener: RunListener;
  clock: Clock;
}

/** Events that show why a run has not begun yet. */
const SHOWN_WHILE_WAITING: ReadonlySet<LoggedType> = new Set(["session_transition", "arbitration"]);

/**
 * Reads one run from its session's log and from live text. Text is passed on before the events that follow it: the text
 * of a message waits until the agent's previous message is complete and the tool call before it was read.
 */
export class RunReader implements TrackReader, DraftReader {
  readonly #options: RunReaderOptions;
  readonly #track: Track;
  readonly writer: TrackReader["writer"];
  readonly drafts = this;
  #seq: Seq;
  #hasBegun: boolean;
  #isOver = false;
  /** How much of each message was passed on, in UTF-16 units. */
  readonly #said = new Map<MessageId, { text: number; reasoning: number }>();
  readonly #complete = new Set<MessageId>();
  /** The unfinished message of each agent whose text was passed on. */
  readonly #open = new Map<string, MessageId>();
  readonly #calls: Set<string>;

  constructor(options: RunReaderOptions) {
    this.#options = options;
    this.#calls = new Set(options.earlierCalls);
    this.#seq = options.after;
    this.#hasBegun = options.hasBegun;
    const { follower, listener } = options;
    this.writer = {
      get isFull() {
        return listener.isFull;
      },
      // Pieces and drafts arrive by `receiveDelta` and `receiveDraft`; other unlogged events do not belong to a run.
      write: () => "ok",
      send: () => "ok",
      destroy: () => listener.onLost(),
      cut: () => listener.onBehind?.(),
    };
    this.#track = new Track(follower, this);
  }

  /** Begin, or continue after the client has caught up. */
  advance(): void {
    this.#track.advance();
  }

  close(): void {
    this.#isOver = true;
    this.#track.close();
  }

  now(): number {
    return this.#options.clock.now();
  }

  sessions(): Iterable<SessionId> {
    return [this.#options.sessionId];
  }

  read(after: LogEntry | undefined, limit: number): Promise<HistoryPage> {
    return this.#options.log.read(after ?? this.#seq, limit);
  }

  receive(entry: FollowedEntry): "go" | "end" {
    const seq = this.#options.log.seqOf(entry);
    if (this.#isOver || seq === undefined || seq <= this.#seq) return "go";
    this.#seq = seq;
    const verdict = this.#handleEvent(parseFrame(entry.frame) as RunEvent);
    if (verdict === "go" && !entry.ends) return "go";
    if (verdict === "go") this.#options.listener.onLost();
    this.close();
    return "end";
  }

  receiveDelta(delta: Delta): void {
    const { messageId, runId, agent, kind, after } = delta;
    if (runId !== this.#options.runId || !this.#mayBeShown(messageId, agent, after)) return;
    const text = additionTo(this.#saidOf(messageId)[kind], delta);
    // The draft contains the missing text, and this piece too.
    if (text === undefined) return this.#readKnownDrafts();
    this.#say({ messageId, agent, kind, text });
  }

  receiveDraft({ id: messageId, runId, agent, text, reasoning, after }: Draft): void {
    if (runId !== this.#options.runId || !this.#mayBeShown(messageId, agent, after)) return;
    this.#sayRest(messageId, agent, { text, reasoning });
  }

  /** Pass on the text that was held back. */
  #readKnownDrafts(): void {
    const { follower, sessionId } = this.#options;
    for (const draft of follower.drafts.of(sessionId)) this.receiveDraft(draft);
  }

  #mayBeShown(messageId: MessageId, agent: AgentRef, after: string | undefined): boolean {
    if (this.#isOver || !this.#hasBegun || this.#complete.has(messageId)) return false;
    const open = this.#open.get(speakerOf(agent));
    return (open === undefined || open === messageId) && (after === undefined || this.#calls.has(after));
  }

  #handleEvent(event: RunEvent): "go" | "end" {
    const { listener, runId } = this.#options;
    if (!this.#isOurs(event)) return "go";
    if (event.type === "tool_call") this.#calls.add(event.data.toolCallId);
    if (event.type === "message") {
      const { id, agent, content, parts } = event.data;
      if (agent) this.#sayRest(id, agent, { text: content, reasoning: reasoningOf(parts) });
      this.#complete.add(id);
      if (agent) this.#open.delete(speakerOf(agent));
    }
    const isLast = event.type === "complete" && event.data.runId === runId;
    const verdict = listener.onEvent(event);
    if (isLast) return "end";
    if (event.type === "message" || event.type === "tool_call") this.#readKnownDrafts();
    return verdict;
  }

  /** Whether the event belongs to the run. Most events name no run: they belong to the current one. */
  #isOurs({ type, data }: RunEvent): boolean {
    const { runId } = this.#options;
    switch (type) {
      case "session_created":
        return false;
      case "message":
        if (data.runId !== runId || data.role === "user") return false;
        this.#hasBegun = true;
        return true;
      case "complete":
        return data.runId === runId;
      case "error":
        return data.runId === runId;
      case "session_transition":
        if (data.event === "turn") this.#hasBegun = data.runId === runId;
        return true;
      default:
        return this.#hasBegun || SHOWN_WHILE_WAITING.has(type);
    }
  }

  #sayRest(messageId: MessageId, agent: AgentRef, { text, reasoning }: { text: string; reasoning: string }): void {
    const said = this.#saidOf(messageId);
    this.#say({ messageId, agent, kind: "reasoning", text: reasoning.slice(said.reasoning) });
    this.#say({ messageId, agent, kind: "text", text: text.slice(said.text) });
  }

  #say(piece: Piece): void {
    if (piece.text === "") return;
    this.#saidOf(piece.messageId)[piece.kind] += piece.text.length;
    this.#open.set(speakerOf(piece.agent), piece.messageId);
    this.#options.listener.onPiece(piece);
  }

  #saidOf(messageId: MessageId): { text: number; reasoning: number } {
    let said = this.#said.get(messageId);
    if (!said) {
      said = { text: 0, reasoning: 0 };
      this.#said.set(messageId, said);
    }
    return said;
  }
}
