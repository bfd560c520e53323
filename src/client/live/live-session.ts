import type { LogLine } from "../../protocol/message.ts";
import type { Session } from "../../protocol/session.ts";
import type { Client } from "../client.ts";
import { ConversationReader, type ConversationView } from "../conversation-reader.ts";
import { stateAfter } from "../floor-after.ts";
import type { ServerEvent, ServerEventOf } from "../server-event.ts";
import { keepLease, type Lease } from "./lease.ts";
import { Live, type LiveState } from "./live.ts";

/** A session and its conversation; tool calls are those since the view was opened. */
export interface SessionLiveView extends LiveState, ConversationView {
  /** Undefined before the first answer. */
  session: Session | undefined;
  isDeleted: boolean;
  /** Whether the server has older messages. */
  hasMore: boolean;
  /** What agents' programs printed since the view was opened: the newest lines, by the ids of their messages. */
  logs: ReadonlyMap<string, readonly LogLine[]>;
  /** Why the last attempt at a summary brought none, until there is a new summary. */
  summaryFailure: ServerEventOf<"session_updated">["data"]["summaryFailure"];
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
  #conversation = new ConversationReader();
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
      lease.stop();
      // A view that was restarted meanwhile has another one.
      if (this.#lease === lease) this.#lease = undefined;
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
    const { failure } = session as Session;
    this.#conversation = new ConversationReader(messages, failure, MAX_TOOL_USES);
    this.#wentBackTo = session.activity === "waiting" ? before(position) : undefined;
    this.#position = this.#wentBackTo ?? position;
    const { status } = this.known;
    this.change({ ...NOTHING, status, session: session as Session, hasMore, ...this.#conversation.view });
  }

  #apply(event: ServerEvent): void {
    this.#conversation.take(event);
    this.#note(this.#conversation.view);
    const { session } = this.known;
    switch (event.type) {
      case "session_transition": {
        const moved = session && stateAfter(session, event.data);
        if (!moved) return this.change({ isDeleted: true });
        this.change({ session: moved });
        return void this.#readSession();
      }
      case "agent_switched":
        if (session) this.change({ session: { ...session, agentId: event.data.currentAgentId, mode: undefined } });
        return void this.#readSession();
      case "arbitration":
        return void this.#readSession();
      case "session_updated": {
        const { summaryFailure, summaryContinues: _, fired, ...change } = event.data;
        if (summaryFailure || change.summaryId !== undefined) this.change({ summaryFailure });
        if (session) this.change({ session: { ...session, ...(change as Partial<Session>) } });
        return fired ? void this.#readSession() : undefined;
      }
      case "log":
        return this.#addLines(event.data);
      default:
        return undefined;
    }
  }

  #note(change: Partial<SessionLiveView>): void {
    const { known } = this;
    if (Object.entries(change).some(([key, value]) => known[key as keyof SessionLiveView] !== value))
      this.change(change);
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

  #addLines({ messageId, lines }: ServerEventOf<"log">["data"]): void {
    const logs = new Map(this.known.logs);
    logs.set(messageId, [...(logs.get(messageId) ?? []), ...lines].slice(-MAX_LINES));
    if (logs.size > MAX_PRINTING) logs.delete(logs.keys().next().value!);
    this.change({ logs });
  }
}

/** The position some events earlier, so that pending questions are sent again. */
function before(position: string): string {
  const [epoch, seq] = position.split(".");
  return `${epoch}.${Math.max(0, Number(seq) - REPLAYED_EVENTS)}`;
}
