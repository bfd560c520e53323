import type { AgentRef } from "../protocol/message.ts";
import { reasoningOf } from "../protocol/reasoning.ts";
import { RecentMap } from "../shared/recent-map.ts";
import { additionTo } from "../shared/text-piece.ts";
import type { ServerEvent, ServerEventOf } from "./server-event.ts";

/** A message's text, as far as it is known. */
export interface MessageText {
  messageId: string;
  sessionId: string;
  runId: string | undefined;
  /** The agent that writes it; undefined for a user's message. */
  agent: AgentRef | undefined;
  text: string;
  reasoning: string;
  /** Whether more may follow. */
  isStreaming: boolean;
}

interface Draft extends MessageText {
  /** 0 if unknown: the attempt of a message that was joined midway is not sent. */
  attempt: number;
}

/**
 * Messages that are written at the same time; beyond it the oldest is dropped. Sub-agents run a dozen in parallel at
 * most.
 */
const MAX_DRAFTS = 256;
/** Finished messages that are remembered, so that a late delta does not revive one. */
const MAX_FINISHED = 256;

/**
 * Assembles messages that are being written from deltas, which carry offsets, and from message events, which carry the
 * whole text so far. Feed it every event of a stream in order; reconnections and repeats are harmless.
 */
export class MessageTexts {
  /** By session and message, because message ids are unique within a session only. */
  readonly #drafts = new RecentMap<string, Draft>(MAX_DRAFTS);
  readonly #finished = new RecentMap<string, true>(MAX_FINISHED);

  /** The messages that are being written, oldest first. */
  get unfinished(): MessageText[] {
    return [...this.#drafts.values()];
  }

  /** The message whose text the event changed or completed; undefined for any other event. */
  take(event: ServerEvent): MessageText | undefined {
    switch (event.type) {
      case "delta":
        return event.sessionId === undefined ? undefined : this.#extend(event.sessionId, event.data);
      case "message":
        return this.#replace(event.data);
      case "complete":
        return this.#forget((draft) => draft.sessionId === event.data.sessionId && draft.runId === event.data.runId);
      case "reset": {
        const { sessionId } = event.data;
        return this.#forget((draft) => sessionId === undefined || draft.sessionId === sessionId);
      }
      default:
        return undefined;
    }
  }

  #extend(sessionId: string, delta: ServerEventOf<"delta">["data"]): MessageText | undefined {
    const { messageId, runId, attempt, kind, offset, agent } = delta;
    const key = `${sessionId} ${messageId}`;
    if (this.#finished.has(key)) return undefined;
    let draft = this.#drafts.get(key);
    if (!draft) {
      // The beginning of the text is missing. A message event will bring the whole.
      if (offset !== 0 || this.#isOutdated(sessionId, runId, attempt)) return undefined;
      draft = { messageId, sessionId, runId, agent, text: "", reasoning: "", isStreaming: true, attempt };
      this.#drafts.set(key, draft);
    }
    draft.attempt = attempt;
    this.#forget((other) => isOf(other, sessionId, runId) && other.attempt > 0 && other.attempt < attempt);
    const addition = additionTo(draft[kind].length, delta);
    if (!addition) return undefined;
    draft[kind] += addition;
    return { ...draft };
  }

  #replace(message: ServerEventOf<"message">["data"]): MessageText | undefined {
    const { id: messageId, sessionId, runId, agent, content, parts, streaming } = message;
    const key = `${sessionId} ${messageId}`;
    const known = this.#drafts.get(key);
    const reasoning = reasoningOf(parts);
    const whole = { messageId, sessionId, runId, agent, text: content, reasoning, isStreaming: streaming };
    if (!streaming) {
      this.#drafts.delete(key);
      this.#finished.set(key, true);
      return whole;
    }
    if (this.#finished.has(key)) return undefined;
    if (!known) {
      this.#drafts.set(key, { ...whole, attempt: 0 });
      return whole;
    }
    // Another node may be slightly behind what this reader has; text only grows.
    const text = known.text.startsWith(content) ? known.text : content;
    const thought = known.reasoning.startsWith(reasoning) ? known.reasoning : reasoning;
    if (text === known.text && thought === known.reasoning) return undefined;
    Object.assign(known, { text, reasoning: thought });
    return { ...known };
  }

  #isOutdated(sessionId: string, runId: string, attempt: number): boolean {
    return this.#drafts.values().some((draft) => isOf(draft, sessionId, runId) && draft.attempt > attempt);
  }

  #forget(isGone: (draft: Draft) => boolean): undefined {
    for (const [key, draft] of this.#drafts.entries()) if (isGone(draft)) this.#drafts.delete(key);
  }
}

const isOf = (draft: Draft, sessionId: string, runId: string) => draft.sessionId === sessionId && draft.runId === runId;
