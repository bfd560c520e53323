// Rules C15 and C22 of docs/inside/correctness.md.
import type { ErrorCode } from "../protocol/errors.ts";
import type { Delta } from "../protocol/event.ts";
import type { MessageId, RunId } from "../protocol/ids.ts";
import type { ReportPart } from "../protocol/internal/run.ts";
import {
  type AgentRef,
  addUsage,
  type FinishReason,
  type MessageStatus,
  speakerOf,
  type Usage,
} from "../protocol/message.ts";
import { cleanText, cutText, shortened, textWithin, toOneLine } from "../shared/text.ts";

/** The longest message, in UTF-16 units; longer text continues in another message. */
const MAX_MESSAGE_UNITS = 131_072;
/** The longest streamed piece, in UTF-16 units: at six bytes per unit it still fits a bus message (rule C22). */
const MAX_PIECE_UNITS = 8_192;
/** Reasoning stored with a message, in UTF-16 units; longer reasoning is streamed but not stored. */
const MAX_REASONING_UNITS = 32_768;
/** The longest word of a provider for how a reply ended, in UTF-16 units. */
const MAX_WORD_UNITS = 64;
/** The longest summary of a session, in UTF-16 units. */
const SUMMARY_UNITS = 120;

/** The first half of a surrogate pair at the end of a piece; the next piece starts with the second half. */
const HALF_PAIR = /[\uD800-\uDBFF]$/;

export interface MessageWriterOptions {
  runId: RunId;
  attempt: number;
  /** The author of parts without an agent. */
  master: AgentRef;
  /** Reports to the floor: durable, in order. */
  report: (part: ReportPart) => void;
  /** Streams to readers at once; lost if no reader is connected. */
  stream: (delta: Delta) => void;
}

/** How a message ends, and why, if it failed. */
export interface Ending {
  status: MessageStatus;
  errorCode?: ErrorCode;
  errorMessage?: string;
}

interface OpenMessage {
  id: MessageId;
  agent: AgentRef;
  length: number;
  reasoning: string;
  reasoningLength: number;
  finish?: { finishReason: FinishReason; nativeFinishReason?: string };
  /** Of a message that the agent gave as a whole: further text begins another one. */
  whole?: { output?: string };
}

/**
 * Builds messages from the agents' parts. Each speaker writes one message at a time, and message ids differ per attempt
 * (rule C15).
 */
export class MessageWriter {
  readonly #options: MessageWriterOptions;
  /** The unfinished message of each speaker. Messages of concurrent sub-agents grow concurrently. */
  readonly #open = new Map<string, OpenMessage>();
  /** The first half of a surrogate pair that ended a speaker's last piece. */
  readonly #halves = new Map<string, { kind: Delta["kind"]; agent: AgentRef; text: string }>();
  /** Tokens of a speaker that no message contains yet. */
  readonly #usage = new Map<string, Usage>();
  /** The newest tool call of each speaker. */
  readonly #calls = new Map<string, string>();
  readonly #newest = new Map<string, MessageId>();
  #count = 0;
  #summary = "";

  constructor(options: MessageWriterOptions) {
    this.#options = options;
  }

  /** The beginning of the last message, on one line; undefined if it has no text. */
  get summary(): string | undefined {
    const line = toOneLine(this.#summary);
    return line === "" ? undefined : shortened(line, SUMMARY_UNITS);
  }

  write(kind: Delta["kind"], text: string, agent = this.#options.master): void {
    if (text !== "" && this.#open.get(speakerOf(agent))?.whole) this.close(agent);
    const whole = this.#removeHalf(kind, agent) + text;
    const half = HALF_PAIR.exec(whole)?.[0] ?? "";
    let rest = cleanText(whole.slice(0, whole.length - half.length));
    while (rest !== "") {
      const message = this.#openFor(agent);
      const piece = cutText(rest, Math.max(2, Math.min(MAX_PIECE_UNITS, MAX_MESSAGE_UNITS - message.length)));
      rest = rest.slice(piece.length);
      this.#append(message, kind, piece);
      if (message.length >= MAX_MESSAGE_UNITS) this.close(agent);
    }
    if (half !== "") this.#halves.set(speakerOf(agent), { kind, agent, text: half });
  }

  /**
   * Write a whole message. It stays open until the speaker does something else, so that what comes with its end, such
   * as a program's exit code, belongs to it.
   */
  writeWhole(content: string, whole: { output?: string }, agent = this.#options.master): void {
    this.close(agent);
    this.write("text", content, agent);
    this.#writeHalf(agent);
    const message = this.#open.get(speakerOf(agent));
    if (message) message.whole = whole;
  }

  /** The pending half of a surrogate pair, if this piece continues it; otherwise the half is written by itself. */
  #removeHalf(kind: Delta["kind"], agent: AgentRef): string {
    const half = this.#halves.get(speakerOf(agent));
    if (half && half.kind !== kind) this.#writeHalf(agent);
    const text = this.#halves.get(speakerOf(agent))?.text ?? "";
    this.#halves.delete(speakerOf(agent));
    return text;
  }

  /** Its second half did not arrive. */
  #writeHalf(agent: AgentRef): void {
    const half = this.#halves.get(speakerOf(agent));
    this.#halves.delete(speakerOf(agent));
    if (half) this.write(half.kind, cleanText(half.text), half.agent);
  }

  /** The speaker's newest message, or a new one. Log lines are attached to it. */
  newest(agent = this.#options.master): MessageId {
    return this.#newest.get(speakerOf(agent)) ?? this.#openFor(agent).id;
  }

  /** Mark the speaker's message as incomplete. A reply without text becomes an empty message. */
  finish(reason: FinishReason, word: string | undefined, agent = this.#options.master): void {
    this.#writeHalf(agent);
    this.#openFor(agent).finish = {
      finishReason: reason,
      ...(word !== undefined && { nativeFinishReason: textWithin(word, MAX_WORD_UNITS) }),
    };
  }

  /** Add tokens of a speaker; its next completed message contains them. */
  count(usage: Usage, agent = this.#options.master): void {
    const speaker = speakerOf(agent);
    const sum = this.#usage.get(speaker);
    this.#usage.set(speaker, sum ? addUsage(sum, usage) : usage);
  }

  /** A speaker called a tool. What it wrote up to now is complete, and its next text comes after the call. */
  noteCall(toolCallId: string, agent = this.#options.master): void {
    this.closeWritten(agent);
    this.#calls.set(speakerOf(agent), toolCallId);
  }

  /**
   * Complete the speaker's unfinished message, unless nothing is written in it: one for log lines waits for its text.
   */
  closeWritten(agent = this.#options.master): void {
    this.#writeHalf(agent);
    const message = this.#open.get(speakerOf(agent));
    if (message && (message.length > 0 || message.reasoningLength > 0)) this.close(agent);
  }

  /** Complete the speaker's unfinished message. */
  close(agent = this.#options.master, how: Ending = { status: "success" }): void {
    this.#writeHalf(agent);
    const speaker = speakerOf(agent);
    const message = this.#open.get(speaker);
    if (!message) return;
    this.#open.delete(speaker);
    const parts = message.reasoning === "" ? undefined : [{ type: "reasoning", text: message.reasoning }];
    const usage = this.#usage.get(speaker);
    this.#usage.delete(speaker);
    const { id: messageId, finish, whole } = message;
    const rest = { ...(parts && { parts }), ...finish, ...(usage && { usage }) };
    this.#options.report({ kind: "close", messageId, ...how, ...rest, ...whole });
  }

  /** A call has ended, so the messages of its sub-agents are complete. */
  closeCall(toolCallId: string): void {
    for (const { agent } of [...this.#open.values()]) if (agent.calls?.includes(toolCallId)) this.close(agent);
  }

  /** Complete all that is written. */
  closeAllWritten(): void {
    for (const { agent } of [...this.#halves.values(), ...this.#open.values()]) this.closeWritten(agent);
  }

  /** End all open messages. One of them, that of the session's own agent, has the reason of a failure. */
  closeAll(how: Ending): void {
    for (const { agent } of [...this.#halves.values()]) this.#writeHalf(agent);
    for (const { agent } of [...this.#open.values()]) {
      const isOther = how.status === "error" && agent.kind !== "master";
      this.close(agent, isOther ? { status: "interrupted" } : how);
    }
  }

  #openFor(agent: AgentRef): OpenMessage {
    const speaker = speakerOf(agent);
    const open = this.#open.get(speaker);
    if (open) return open;
    const { runId, attempt, report } = this.#options;
    const id = `${runId}-${attempt}-${this.#count++}` as MessageId;
    const message: OpenMessage = { id, agent, length: 0, reasoning: "", reasoningLength: 0 };
    this.#open.set(speaker, message);
    this.#newest.set(speaker, id);
    report({ kind: "open", messageId: id, agent });
    return message;
  }

  #append(message: OpenMessage, kind: Delta["kind"], text: string): void {
    const { runId, attempt, report, stream } = this.#options;
    const offset = kind === "text" ? message.length : message.reasoningLength;
    const { id: messageId, agent } = message;
    const after = message.length + message.reasoningLength > 0 ? undefined : this.#calls.get(speakerOf(agent));
    stream({ messageId, runId, attempt, kind, offset, text, agent, ...(after !== undefined && { after }) });
    if (kind === "reasoning") {
      message.reasoningLength += text.length;
      // Full reasoning is not copied again for each further piece.
      const room = MAX_REASONING_UNITS - message.reasoning.length;
      if (room > 0) message.reasoning += cutText(text, room);
      return;
    }
    if (message.length === 0) this.#summary = "";
    if (this.#summary.length < 4 * SUMMARY_UNITS) this.#summary += text;
    message.length += text.length;
    report({ kind: "append", messageId: message.id, offset, text });
  }
}
