import type { LiveType } from "../../protocol/event.ts";
import type { LogLine, Message } from "../../protocol/message.ts";
import { reasoningOf } from "../../protocol/reasoning.ts";
import type { Session } from "../../protocol/session.ts";
import type { Client } from "../client.ts";
import { stateAfter } from "../floor-after.ts";
import { type MessageText, MessageTexts } from "../message-texts.ts";
import type { ServerEvent, ServerEventOf } from "../server-event.ts";
import { keepLease, type Lease } from "./lease.ts";
import { Live, type LiveState } from "./live.ts";

/** A message, as far as its text is known. `isStreaming`: more may follow. */
export interface SessionMessage extends Message {
  isStreaming: boolean;
  /** The agent's reasoning, as far as it is published. */
  reasoning: string;
}

/** A question of the agent that a person has to answer. */
export type PendingInteraction = (
  | ServerEventOf<"tool_confirmation_request">
  | ServerEventOf<"user_question_request">
) & { requestId: string };

export type ToolUse = ServerEventOf<"tool_call"> & { result?: ServerEventOf<"tool_result">["data"] };

export interface SessionLiveView extends LiveState {
  /** Undefined before the first answer. */
  session: Session | undefined;
  isDeleted: boolean;
  /** Oldest first, including those that are being written. */
  messages: readonly SessionMessage[];
  /** Whether the server has older messages. */
  hasMore: boolean;
  interactions: readonly PendingInteraction[];
  /** Tool calls since the view was opened, oldest first. */
  toolUses: readonly ToolUse[];
  /** What agents' programs printed since the view was opened: the newest lines, by the ids of their messages. */
  logs: ReadonlyMap<string, readonly LogLine[]>;
  /** Why the last attempt at a summary brought none, until there is a new summary. */
  summaryFailure: ServerEventOf<"session_updated">["data"]["summaryFailure"];
  /** The latest failure, until a run ends successfully. */
  error: ServerEventOf<"error">["data"] | undefined;
}

export interface LiveSessionOptions {
  /**
   * Whether this program is the session's participant, not an observer. A participant's view renews the session's lease
   * while it is watched. Sessions without a lease need no renewal.
   */
  isParticipant?: boolean | undefined;
}

/** Tool calls that are kept. The oldest is dropped. */
const MAX_TOOL_USES = 1_000;
/** Lines of a message that are kept; `client.listLogs` has all. */
const MAX_LINES = 200;
/** Messages whose lines are kept. The oldest is dropped. */
const MAX_PRINTING = 64;
/** The question of a waiting session is among this many last events, because its run does nothing else meanwhile. */
const REPLAYED_EVENTS = 256;

const NOTHING: SessionLiveView = {
  status: "connecting",
  session: undefined,
  isDeleted: false,
  messages: [],
  hasMore: false,
  interactions: [],
  toolUses: [],
  logs: new Map(),
  summaryFailure: undefined,
  error: undefined,
};

/** One session: its state, its messages as they are written, and its agent's questions. */
export class LiveSession extends Live<SessionLiveView> {
  readonly id: string;
  readonly #client: Client;
  readonly #options: LiveSessionOptions;
  #messages = new Map<string, SessionMessage>();
  #texts = new MessageTexts();
  #position: string | undefined;
  /** The position before the question of a waiting session, as of the last load. */
  #wentBackTo: string | undefined;
  #isReading = false;
  /** Whether the session has changed since it was last read, in fields that events do not contain. */
  #isOld = false;
  #lease: Lease | undefined;

  constructor(client: Client, id: string, options: LiveSessionOptions = {}) {
    super(NOTHING);
    this.#client = client;
    this.id = id;
    this.#options = options;
  }

  /** Whether it renews the session's lease. */
  get isParticipant(): boolean {
    return this.#options.isParticipant === true;
  }

  /** Send a message. Its effects appear in the view. */
  send(content: string): ReturnType<Client["send"]> {
    return this.#client.send({ type: "chat", sessionId: this.id, content });
  }

  protected async follow(signal: AbortSignal): Promise<void> {
    const lease = keepLease(this.#client, this.id, this.isParticipant);
    this.#lease = lease;
    try {
      if (this.#position === undefined) await this.#load(signal);
      lease.note(this.known.session);
      while (await this.#readEvents(signal));
    } finally {
      this.#lease = undefined;
      lease.stop();
    }
  }

  /** @returns whether the stream is to be opened again, from the view's position */
  async #readEvents(signal: AbortSignal): Promise<boolean> {
    const onStatus: typeof this.note = (status, state) => {
      this.note(status, state);
      if (status === "open" && this.#isOld) void this.#readSession();
    };
    const stream = this.#client.openSession(this.id, { position: this.#position, signal, onStatus });
    for await (const event of stream) {
      if (event.type === "reset") {
        const wentBackTo = this.#wentBackTo;
        // The answer holds what was missed. Applying its later events twice changes nothing.
        await this.#load(signal);
        if (this.#wentBackTo && this.#wentBackTo !== wentBackTo) return true;
      } else this.#apply(event);
      this.#position = stream.position;
      this.#lease?.note(this.known.session);
    }
    return false;
  }

  async #load(signal: AbortSignal): Promise<void> {
    const { session: loaded, position } = await this.#client.loadSession({ sessionId: this.id }, { signal });
    const { messages, hasMore, ...session } = loaded;
    this.#texts = new MessageTexts();
    this.#messages = new Map(messages.map((message) => [message.id, shownMessage(message)]));
    this.#wentBackTo = session.activity === "waiting" ? before(position) : undefined;
    this.#position = this.#wentBackTo ?? position;
    const { status } = this.known;
    this.change({
      ...NOTHING,
      status,
      session: session as Session,
      messages: [...this.#messages.values()],
      hasMore,
      error: (session as Session).failure,
    });
  }

  #apply(event: ServerEvent): void {
    const text = this.#texts.take(event);
    if (text) this.#write(text, event);
    switch (event.type) {
      case "session_transition":
        return this.#move(event.data);
      case "session_updated":
        return this.#update(event.data);
      case "agent_switched":
        this.#edit({ agentId: event.data.currentAgentId, mode: undefined });
        return void this.#readSession();
      case "tool_confirmation_request":
      case "user_question_request": {
        const others = this.known.interactions.filter(({ requestId }) => requestId !== event.requestId);
        return this.change({ interactions: [...others, event as PendingInteraction] });
      }
      case "interaction_resolved":
        return this.change({
          interactions: this.known.interactions.filter(({ requestId }) => requestId !== event.requestId),
        });
      case "tool_call":
        return this.change({ toolUses: [...this.known.toolUses, event].slice(-MAX_TOOL_USES) });
      case "tool_result":
        return this.#addResult(event.data);
      case "log":
        return this.#addLines(event);
      case "error":
        return this.change({ error: event.data });
      case "complete":
        return this.#complete(event.data);
      default:
        event.type satisfies
          | LiveType
          | "session_created"
          | "arbitration"
          | "routed"
          | "message"
          | "usage"
          | "data"
          | "floor_updated";
        return undefined;
    }
  }

  #move(transition: ServerEventOf<"session_transition">["data"]): void {
    const session = this.known.session && stateAfter(this.known.session, transition);
    if (!session) return this.change({ isDeleted: true });
    const begun = transition.event === "turn" ? waitingMessage(this.#messages, transition.runId) : undefined;
    if (begun) this.#messages.set(begun.id, { ...begun, status: "success" });
    this.change({ session, ...(begun && { messages: [...this.#messages.values()] }) });
    void this.#readSession();
  }

  #update({ summaryFailure, summaryContinues: _, ...change }: ServerEventOf<"session_updated">["data"]): void {
    if (summaryFailure || change.summaryId !== undefined) this.change({ summaryFailure });
    const reply = change.played && this.#messages.get(change.played.messageId);
    if (reply) {
      this.#messages.set(reply.id, { ...reply, playedUpTo: change.played!.upTo });
      this.change({ messages: [...this.#messages.values()] });
    }
    this.#edit(change as Partial<Session>);
  }

  #edit(change: Partial<Session>): void {
    const { session } = this.known;
    if (session) this.change({ session: { ...session, ...change } });
  }

  /**
   * Reads what events do not contain: which session paused it, since when it waits, its counters, its lease. One read
   * at a time, and another one if an event arrived meanwhile.
   */
  async #readSession(): Promise<void> {
    this.#isOld = true;
    if (this.#isReading) return;
    this.#isReading = true;
    try {
      while (this.#isOld) {
        this.#isOld = false;
        const { session } = await this.#client.getSession(this.id);
        const { state, activity, agentId } = this.known.session ?? session;
        // Events that arrived during the request are newer than its answer, or will arrive.
        if (session.state !== state || session.activity !== activity || session.agentId !== agentId) continue;
        this.change({ session });
        this.#lease?.note(session);
      }
    } catch {
      // The stream reports when the session is unreachable. It is read again when the stream is open.
      this.#isOld = true;
    } finally {
      this.#isReading = false;
    }
  }

  #write({ messageId, text, reasoning, isStreaming, runId, agent }: MessageText, event: ServerEvent): void {
    const known = this.#messages.get(messageId);
    const whole = event.type === "message" ? shownMessage(event.data) : undefined;
    const createdAt = Date.parse(event.timestamp);
    const begun = { createdAt, ...(agent && { agent }), ...(runId && { runId: runId as never }) };
    this.#messages.set(messageId, {
      ...(whole ?? known ?? this.#begin(messageId, begun)),
      content: text,
      reasoning,
      isStreaming,
    });
    this.change({ messages: [...this.#messages.values()] });
  }

  #addLines({ data: { messageId, runId, lines }, timestamp }: ServerEventOf<"log">): void {
    // A program may print before it says anything.
    if (!this.#messages.has(messageId)) this.#begin(messageId, { runId, createdAt: Date.parse(timestamp) });
    const logs = new Map(this.known.logs);
    logs.set(messageId, [...(logs.get(messageId) ?? []), ...lines].slice(-MAX_LINES));
    if (logs.size > MAX_PRINTING) logs.delete(logs.keys().next().value!);
    this.change({ logs, messages: [...this.#messages.values()] });
  }

  /** A message of the agent, without further fields. */
  #begin(id: string, known: Partial<SessionMessage>): SessionMessage {
    const begun = { id, sessionId: this.id, role: "assistant", status: "running", content: "", reasoning: "" };
    const message = { ...begun, isStreaming: true, ...known } as SessionMessage;
    this.#messages.set(id, message);
    return message;
  }

  #addResult(result: ServerEventOf<"tool_result">["data"]): void {
    const toolUses = this.known.toolUses.map((use) =>
      use.data.toolCallId === result.toolCallId && !use.result ? { ...use, result } : use,
    );
    this.change({ toolUses });
  }

  #complete({ runId, withdrawn }: ServerEventOf<"complete">["data"]): void {
    const waiting = waitingMessage(this.#messages, runId);
    const isFailure = this.known.error?.runId === runId;
    if (waiting && withdrawn) this.#messages.delete(waiting.id);
    else if (waiting) this.#messages.set(waiting.id, { ...waiting, status: isFailure ? "error" : "interrupted" });
    for (const [id, message] of this.#messages) {
      if (message.runId === runId && message.isStreaming) this.#messages.set(id, { ...message, isStreaming: false });
    }
    this.change({
      messages: [...this.#messages.values()],
      // A turn that has not begun asks nothing: what the current run asks stays.
      ...(!waiting && { interactions: [] }),
      ...(!isFailure && { error: undefined }),
    });
  }
}

/** The user's message of a turn that has not begun. */
export function waitingMessage(
  messages: ReadonlyMap<string, SessionMessage>,
  runId: string | undefined,
): SessionMessage | undefined {
  for (const message of messages.values()) if (message.status === "queued" && message.runId === runId) return message;
  return undefined;
}

/** A logged or stored message, as views show it. */
export function shownMessage(message: Message & { streaming?: boolean }): SessionMessage {
  const { streaming, ...rest } = message;
  return { ...rest, reasoning: reasoningOf(rest.parts), isStreaming: streaming ?? message.status === "running" };
}

/** The position some events earlier, so that pending questions are sent again. */
function before(position: string): string {
  const [epoch, seq] = position.split(".");
  return `${epoch}.${Math.max(0, Number(seq) - REPLAYED_EVENTS)}`;
}
