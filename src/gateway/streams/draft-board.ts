// Rule C15 of docs/inside/correctness.md.
import type { Delta } from "../../protocol/event.ts";
import type { MessageId, RunId, SessionId } from "../../protocol/ids.ts";
import type { AgentRef, Message } from "../../protocol/message.ts";
import { RecentMap } from "../../shared/recent-map.ts";
import { additionTo } from "../../shared/text-piece.ts";
import { TransientMap } from "../../shared/transient-map.ts";

/** An unfinished message of a floor, with the text that this node has. */
export interface Draft {
  sessionId: SessionId;
  runId: RunId;
  attempt: number;
  agent: AgentRef;
  createdAt: number;
  id: MessageId;
  text: string;
  reasoning: string;
  /** The newest tool call of its agent before it, if this node got its first piece. */
  after?: string | undefined;
}

/** The attempt of a draft that was read from the store. The first attempt is 1. */
const UNKNOWN = 0;
/** Finished messages and ended runs that are remembered, so that a late delta does not revive them. */
const MAX_REMEMBERED = 64;
/**
 * Text of one floor that waits for earlier text, in UTF-16 units. Beyond this, the text comes from checkpoints alone.
 */
const MAX_AHEAD_UNITS = 65_536;

/**
 * The text of the unfinished messages of one floor (rule C15), from the store's checkpoints and from deltas. A delta
 * counts only if it belongs to the newest attempt and adds to the known text.
 */
export class DraftBoard {
  readonly #drafts = new TransientMap<MessageId, Draft>();
  readonly #finished = new RecentMap<MessageId, true>(MAX_REMEMBERED);
  readonly #ended = new RecentMap<RunId, true>(MAX_REMEMBERED);
  /** The newest known attempt of each run. */
  readonly #attempts = new Map<RunId, number>();
  /** Sessions that lost the floor. Their drafts are not shown. */
  readonly #silent = new Set<SessionId>();
  /** Text whose beginning is missing, until the next checkpoint. */
  readonly #ahead = new Map<MessageId, Delta[]>();
  #aheadUnits = 0;

  of(sessionId: SessionId): Draft[] {
    return [...this.#drafts.values()].filter((draft) => draft.sessionId === sessionId);
  }

  /** Add a delta. True if it adds to the text that readers have, so that it can be sent to them. */
  add(sessionId: SessionId, delta: Delta, at: number): boolean {
    const { messageId, runId, attempt, kind, offset, agent, after } = delta;
    if (this.#isOver(messageId, runId) || this.#silent.has(sessionId)) return false;
    const newest = this.#attempts.get(runId) ?? 0;
    if (attempt < newest) return false;
    if (attempt > newest) this.#begin(runId, attempt);
    let draft = this.#drafts.get(messageId);
    if (!draft && offset === 0) {
      draft = { sessionId, runId, attempt, agent, createdAt: at, id: messageId, text: "", reasoning: "", after };
      this.#drafts.set(messageId, draft);
    }
    const addition = draft && additionTo(draft[kind].length, delta);
    if (draft && addition) draft[kind] += addition;
    else if (addition === undefined && kind === "text") this.#keepAhead(delta);
    return Boolean(addition);
  }

  /** Add the text that the store has of a message. True if it is longer than the known text. */
  restore(message: Message): boolean {
    const { id, sessionId, runId, agent, createdAt, content } = message;
    if (!runId || !agent || this.#isOver(id, runId)) return false;
    const known = this.#drafts.get(id);
    if (known && known.text.length >= content.length) return false;
    // The row does not name its run's attempt, which may be newer than any known one.
    const attempt = known?.attempt ?? UNKNOWN;
    const reasoning = known?.reasoning ?? "";
    const text = this.#continue(id, content);
    this.#drafts.set(id, { sessionId, runId, attempt, agent, createdAt, id, text, reasoning });
    return true;
  }

  /** Whether a checkpoint of this length has text that is missing here. */
  lacks(messageId: MessageId, runId: RunId, length: number): boolean {
    return !this.#isOver(messageId, runId) && (this.#drafts.get(messageId)?.text.length ?? -1) < length;
  }

  /** The message is complete. */
  finish(messageId: MessageId): void {
    this.#drop(messageId);
    this.#finished.set(messageId, true);
  }

  /** The run has ended: nothing more of it is shown. */
  end(runId: RunId): void {
    for (const draft of this.#drafts.values()) if (draft.runId === runId) this.#drop(draft.id);
    for (const [id, [delta]] of this.#ahead) if (delta?.runId === runId) this.#drop(id);
    this.#attempts.delete(runId);
    this.#ended.set(runId, true);
  }

  /** A session received the floor or lost it. */
  setActive(sessionId: SessionId, isActive: boolean): void {
    if (isActive) this.#silent.delete(sessionId);
    else this.#silent.add(sessionId);
  }

  /** The session has ended, so nothing more of its runs is shown. */
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
      // Text of an unknown attempt stays until the log reports that attempt.
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

  /** The text, extended by the waiting text that continues it. */
  #continue(messageId: MessageId, text: string): string {
    const ahead = this.#ahead.get(messageId)?.sort((one, other) => one.offset - other.offset) ?? [];
    this.#dropAhead(messageId);
    let whole = text;
    for (const delta of ahead) {
      const addition = additionTo(whole.length, delta);
      if (addition === undefined) this.#keepAhead(delta);
      else whole += addition;
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

/** The draft in the form that readers receive: a message that is still streaming. */
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
