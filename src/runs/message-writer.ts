import type { Delta } from "../protocol/event.ts";
import type { MessageId, RunId } from "../protocol/ids.ts";
import type { AgentRef, MessageStatus, Usage } from "../protocol/message.ts";
import type { ReportPart } from "../protocol/run.ts";
import { cleanText, cutText } from "../protocol/text.ts";

/** A message longer than this goes on in another, in UTF-16 units. */
const MAX_MESSAGE_UNITS = 131_072;
/** A piece that is streamed, in UTF-16 units: six bytes each at worst, and still light enough for the bus (rule C22). */
const MAX_PIECE_UNITS = 8_192;
/** Reasoning kept with a message, in UTF-16 units; all of it is streamed. */
const MAX_REASONING_UNITS = 32_768;
/** The length of a session's summary, in UTF-16 units. */
const SUMMARY_UNITS = 120;

export interface MessageWriterOptions {
  runId: RunId;
  attempt: number;
  /** Speaks where a part names nobody. */
  master: AgentRef;
  /** For the floor: durable, in order. */
  report: (part: ReportPart) => void;
  /** For readers: at once, and lost if nobody listens. */
  stream: (delta: Delta) => void;
}

interface OpenMessage {
  id: MessageId;
  agent: AgentRef;
  length: number;
  reasoning: string;
  reasoningLength: number;
}

/** Makes messages of what an agent says: one is being written at a time, and its ids differ per attempt (rule C15). */
export class MessageWriter {
  readonly #options: MessageWriterOptions;
  #open: OpenMessage | undefined;
  #count = 0;
  #summary = "";

  constructor(options: MessageWriterOptions) {
    this.#options = options;
  }

  /** The beginning of what was said last. */
  get summary(): string | undefined {
    const line = this.#summary.trim().replace(/\s+/g, " ");
    if (line === "") return undefined;
    return line.length > SUMMARY_UNITS ? `${cutText(line, SUMMARY_UNITS - 1)}…` : line;
  }

  write(kind: Delta["kind"], text: string, agent = this.#options.master): void {
    let rest = cleanText(text);
    while (rest !== "") {
      const message = this.#openFor(agent);
      const piece = cutText(rest, Math.max(2, Math.min(MAX_PIECE_UNITS, MAX_MESSAGE_UNITS - message.length)));
      rest = rest.slice(piece.length);
      this.#append(message, kind, piece);
      if (message.length >= MAX_MESSAGE_UNITS) this.close();
    }
  }

  /** The message that is being written, or a new one: lines of a log belong to it. */
  current(agent = this.#options.master): MessageId {
    return this.#openFor(agent).id;
  }

  /** The message under way is complete. */
  close(status: MessageStatus = "success", rest: { usage?: Usage; output?: string; errorMessage?: string } = {}): void {
    const message = this.#open;
    if (!message) return;
    this.#open = undefined;
    const parts = message.reasoning === "" ? undefined : [{ type: "reasoning", text: message.reasoning }];
    this.#options.report({ kind: "close", messageId: message.id, status, ...(parts && { parts }), ...rest });
  }

  #openFor(agent: AgentRef): OpenMessage {
    if (this.#open && isSame(this.#open.agent, agent)) return this.#open;
    this.close();
    const { runId, attempt, report } = this.#options;
    const id = `${runId}-${attempt}-${this.#count++}` as MessageId;
    this.#open = { id, agent, length: 0, reasoning: "", reasoningLength: 0 };
    report({ kind: "open", messageId: id, agent });
    return this.#open;
  }

  #append(message: OpenMessage, kind: Delta["kind"], text: string): void {
    const { runId, attempt, report, stream } = this.#options;
    const offset = kind === "text" ? message.length : message.reasoningLength;
    stream({ messageId: message.id, runId, attempt, kind, offset, text, agent: message.agent });
    if (kind === "reasoning") {
      message.reasoningLength += text.length;
      message.reasoning = cutText(message.reasoning + text, MAX_REASONING_UNITS);
      return;
    }
    if (message.length === 0) this.#summary = "";
    if (this.#summary.length < 4 * SUMMARY_UNITS) this.#summary += text;
    message.length += text.length;
    report({ kind: "append", messageId: message.id, offset, text });
  }
}

const isSame = (one: AgentRef, other: AgentRef): boolean =>
  one === other || (one.kind === other.kind && one.path.join("/") === other.path.join("/"));
