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

/** Finished messages that are remembered, so that a late delta does not bring one back. */
const MAX_FINISHED = 64;

/**
 * The text of unfinished messages of one floor (rule C15): from checkpoints in the store and from deltas, which are
 * fenced by attempt and taken only where they continue what is there.
 */
export class DraftBoard {
  readonly #drafts = new Map<MessageId, Draft>();
  readonly #finished = new Set<MessageId>();
  /** The newest attempt heard of, per run. */
  readonly #attempts = new Map<RunId, number>();
  /** Sessions that lost the floor: what is still said there is not shown. */
  readonly #silent = new Set<SessionId>();

  of(sessionId: SessionId): Draft[] {
    return [...this.#drafts.values()].filter((draft) => draft.sessionId === sessionId);
  }

  /** Whether the delta continues what readers have: then it is theirs to see. */
  add(sessionId: SessionId, delta: Delta, at: number): boolean {
    const { messageId, runId, attempt, kind, offset, text, agent } = delta;
    if (this.#finished.has(messageId) || this.#silent.has(sessionId)) return false;
    const newest = this.#attempts.get(runId) ?? 0;
    if (attempt < newest) return false;
    if (attempt > newest) this.#begin(runId, attempt);
    let draft = this.#drafts.get(messageId);
    if (!draft) {
      // Its beginning was missed: the next checkpoint has it.
      if (offset !== 0) return false;
      draft = { sessionId, runId, attempt, agent, createdAt: at, id: messageId, text: "", reasoning: "" };
      this.#drafts.set(messageId, draft);
    }
    const part = kind === "text" ? "text" : "reasoning";
    if (offset !== draft[part].length) return false;
    draft[part] += text;
    return true;
  }

  /** What the store has of a message; true when that is more than was known. */
  restore(message: Message): boolean {
    const { id, sessionId, runId, agent, createdAt, content } = message;
    if (!runId || !agent || this.#finished.has(id)) return false;
    const known = this.#drafts.get(id);
    if (known && known.text.length >= content.length) return false;
    const attempt = known?.attempt ?? this.#attempts.get(runId) ?? 0;
    const reasoning = known?.reasoning ?? "";
    this.#drafts.set(id, { sessionId, runId, attempt, agent, createdAt, id, text: content, reasoning });
    return true;
  }

  /** Whether a checkpoint of this length has text that is not known here. */
  lacks(messageId: MessageId, length: number): boolean {
    return !this.#finished.has(messageId) && (this.#drafts.get(messageId)?.text.length ?? -1) < length;
  }

  finish(messageId: MessageId): void {
    const draft = this.#drafts.get(messageId);
    this.#drafts.delete(messageId);
    if (draft) this.#attempts.delete(draft.runId);
    this.#finished.add(messageId);
    if (this.#finished.size > MAX_FINISHED) this.#finished.delete(this.#finished.values().next().value!);
  }

  /** A session got the floor, lost it, or ended. */
  setActive(sessionId: SessionId, isActive: boolean): void {
    if (isActive) this.#silent.delete(sessionId);
    else this.#silent.add(sessionId);
  }

  #begin(runId: RunId, attempt: number): void {
    this.#attempts.set(runId, attempt);
    for (const draft of this.#drafts.values()) {
      if (draft.runId === runId && draft.attempt < attempt && draft.attempt > 0) this.#drafts.delete(draft.id);
    }
  }
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
