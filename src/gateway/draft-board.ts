import type { Delta } from "../protocol/event.ts";
import type { MessageId, RunId, SessionId } from "../protocol/ids.ts";
import type { AgentRef, Message } from "../protocol/message.ts";

/** A message that is being written on a floor, as far as this node knows it. */
export interface Draft {
  sessionId: SessionId;
  runId: RunId;
  attempt: number;
  agent: AgentRef;
  createdAt: number;
  id: MessageId;
  text: string;
  reasoning: string;
}

/** The attempt of a draft that was read from the store; the first is 1. */
const UNKNOWN = 0;
/** Finished messages and ended runs that are remembered, so that a late delta does not bring one back. */
const MAX_REMEMBERED = 64;
/** Text of one floor that waits for what comes before it, in UTF-16 units; over it the checkpoints have to do. */
const MAX_AHEAD_UNITS = 65_536;

/**
 * The text of unfinished messages of one floor (rule C15): from checkpoints in the store and from deltas, which are
 * fenced by attempt and taken only where they continue what is there.
 */
export class DraftBoard {
  readonly #drafts = new Map<MessageId, Draft>();
  readonly #finished = new Set<MessageId>();
  readonly #ended = new Set<RunId>();
  /** The newest attempt heard of, per run. */
  readonly #attempts = new Map<RunId, number>();
  /** Sessions that lost the floor: what is still said there is not shown. */
  readonly #silent = new Set<SessionId>();
  /** Text whose beginning was missed: it waits for the next checkpoint. */
  readonly #ahead = new Map<MessageId, Delta[]>();
  #aheadUnits = 0;

  of(sessionId: SessionId): Draft[] {
    return [...this.#drafts.values()].filter((draft) => draft.sessionId === sessionId);
  }

  /** Whether the delta continues what readers have: then it is theirs to see. */
  add(sessionId: SessionId, delta: Delta, at: number): boolean {
    const { messageId, runId, attempt, kind, offset, text, agent } = delta;
    if (this.#isOver(messageId, runId) || this.#silent.has(sessionId)) return false;
    const newest = this.#attempts.get(runId) ?? 0;
    if (attempt < newest) return false;
    if (attempt > newest) this.#begin(runId, attempt);
    let draft = this.#drafts.get(messageId);
    if (!draft && offset === 0) {
      draft = { sessionId, runId, attempt, agent, createdAt: at, id: messageId, text: "", reasoning: "" };
      this.#drafts.set(messageId, draft);
    }
    const part = kind === "text" ? "text" : "reasoning";
    const length = draft?.[part].length ?? 0;
    if (!draft || offset > length) {
      if (part === "text") this.#keepAhead(delta);
      return false;
    }
    if (offset < length) return false;
    draft[part] += text;
    return true;
  }

  /** What the store has of a message; true when that is more than was known. */
  restore(message: Message): boolean {
    const { id, sessionId, runId, agent, createdAt, content } = message;
    if (!runId || !agent || this.#isOver(id, runId)) return false;
    const known = this.#drafts.get(id);
    if (known && known.text.length >= content.length) return false;
    // The row does not say whose it is; it may be of a newer attempt than any that was heard of.
    const attempt = known?.attempt ?? UNKNOWN;
    const reasoning = known?.reasoning ?? "";
    const text = this.#continue(id, content);
    this.#drafts.set(id, { sessionId, runId, attempt, agent, createdAt, id, text, reasoning });
    return true;
  }

  /** Whether a checkpoint of this length has text that is not known here. */
  lacks(messageId: MessageId, runId: RunId, length: number): boolean {
    return !this.#isOver(messageId, runId) && (this.#drafts.get(messageId)?.text.length ?? -1) < length;
  }

  /** The message is complete. */
  finish(messageId: MessageId): void {
    this.#drop(messageId);
    remember(this.#finished, messageId);
  }

  /** The run is complete: nothing more of it is to be shown. */
  end(runId: RunId): void {
    for (const draft of this.#drafts.values()) if (draft.runId === runId) this.#drop(draft.id);
    for (const [id, [delta]] of this.#ahead) if (delta?.runId === runId) this.#drop(id);
    this.#attempts.delete(runId);
    remember(this.#ended, runId);
  }

  /** A session got the floor or lost it. */
  setActive(sessionId: SessionId, isActive: boolean): void {
    if (isActive) this.#silent.delete(sessionId);
    else this.#silent.add(sessionId);
  }

  /** The session has ended: whatever its runs still say. */
  forget(sessionId: SessionId): void {
    this.#silent.delete(sessionId);
    for (const { runId } of this.of(sessionId)) this.end(runId);
  }

  #isOver(messageId: MessageId, runId: RunId): boolean {
    return this.#finished.has(messageId) || this.#ended.has(runId);
  }

  #begin(runId: RunId, attempt: number): void {
    this.#attempts.set(runId, attempt);
    for (const draft of this.#drafts.values()) {
      // One of an unknown attempt stays until the log says what became of it.
      if (draft.runId === runId && draft.attempt < attempt && draft.attempt !== UNKNOWN) this.#drop(draft.id);
    }
  }

  #keepAhead(delta: Delta): void {
    const { messageId, text } = delta;
    this.#aheadUnits += text.length;
    if (this.#aheadUnits > MAX_AHEAD_UNITS) {
      this.#ahead.clear();
      this.#aheadUnits = 0;
      return;
    }
    const ahead = this.#ahead.get(messageId);
    if (ahead) ahead.push(delta);
    else this.#ahead.set(messageId, [delta]);
  }

  /** The text with what waited for its end. */
  #continue(messageId: MessageId, text: string): string {
    const ahead = this.#ahead.get(messageId)?.sort((one, other) => one.offset - other.offset) ?? [];
    this.#dropAhead(messageId);
    let whole = text;
    for (const delta of ahead) {
      if (delta.offset === whole.length) whole += delta.text;
      else if (delta.offset > whole.length) this.#keepAhead(delta);
    }
    return whole;
  }

  #drop(messageId: MessageId): void {
    this.#drafts.delete(messageId);
    this.#dropAhead(messageId);
  }

  #dropAhead(messageId: MessageId): void {
    for (const { text } of this.#ahead.get(messageId) ?? []) this.#aheadUnits -= text.length;
    this.#ahead.delete(messageId);
  }
}

/** Keeps the newest of many. */
function remember<T>(known: Set<T>, one: T): void {
  known.add(one);
  if (known.size > MAX_REMEMBERED) known.delete(known.values().next().value!);
}

/** The draft as readers get it: a message whose end is not there yet. */
export function streamingMessage(draft: Draft): Message & { streaming: true } {
  const { id, sessionId, runId, agent, createdAt, text, reasoning } = draft;
  return {
    id,
    sessionId,
    role: "assistant",
    content: text,
    ...(reasoning !== "" && { parts: [{ type: "reasoning", text: reasoning }] }),
    status: "running",
    agent,
    runId,
    createdAt,
    startedAt: createdAt,
    streaming: true,
  };
}
