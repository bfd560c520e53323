import { type ClientRequest, type IncomingHttpHeaders, type IncomingMessage, request } from "node:http";
import { PATIENCE_MS } from "../runner/patience.ts";
import { FrameReader, type StreamEvent, type StreamFrame } from "./frame-reader.ts";

export type EventMatch = string | ((event: StreamEvent) => boolean);

/** One event stream, read strictly by the contract. */
export class SseReader {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  /** All events so far. */
  readonly frames: StreamFrame[] = [];
  readonly #request: ClientRequest;
  readonly #response: IncomingMessage;
  /** Events that no test has asked for yet. */
  readonly #waiting: StreamEvent[] = [];
  readonly #reader = new FrameReader();
  #fault: Error | undefined;
  #isOver = false;
  #wake: (() => void) | undefined;

  private constructor(sent: ClientRequest, response: IncomingMessage) {
    this.#request = sent;
    this.#response = response;
    this.status = response.statusCode ?? 0;
    this.headers = response.headers;
    response.on("data", (bytes: Buffer) => this.#read(bytes));
    response.on("end", () => {
      // A killed server cuts the stream; a server that shuts down ends it.
      const hasSaidBye = this.events.at(-1)?.type === "bye";
      if (hasSaidBye && this.#reader.rest !== "")
        this.#fail(new Error(`the stream ended within a frame: ${JSON.stringify(this.#reader.rest)}`));
      this.#end();
    });
    response.on("error", () => this.#end());
    response.on("close", () => this.#end());
  }

  /** Open a stream; resolves when its head has arrived. */
  static open(url: string, headers: Record<string, string> = {}): Promise<SseReader> {
    return new Promise((resolve, reject) => {
      const sent = request(url, { agent: false, headers: { Accept: "text/event-stream", ...headers } });
      sent.on("response", (response) => resolve(new SseReader(sent, response)));
      sent.on("error", reject);
      sent.end();
    });
  }

  /** All events that arrived so far, including those already returned. */
  get events(): StreamEvent[] {
    return this.frames.flatMap((frame) => (frame.kind === "event" ? [frame.event] : []));
  }

  /** The `id` with which a client would reconnect. */
  get lastEventId(): string | undefined {
    let last: string | undefined;
    for (const frame of this.frames) {
      if (frame.kind === "place") last = frame.id;
      else if (frame.kind === "event") last = frame.event.id ?? last;
    }
    return last;
  }

  /** The next event. */
  async next(): Promise<StreamEvent> {
    const [event] = await this.until(() => true);
    return event!;
  }

  /** The next events, up to the first that matches. */
  async until(match: EventMatch): Promise<StreamEvent[]> {
    const isIt = typeof match === "string" ? (event: StreamEvent) => event.type === match : match;
    const came: StreamEvent[] = [];
    for (;;) {
      const event = await this.#take(() => `an event like ${match}`, came);
      if (!event) throw new Error(`the stream ended before an event like ${match}; ${tell(came)}`);
      came.push(event);
      if (isIt(event)) return came;
    }
  }

  /** The next event that matches; earlier ones are skipped. */
  async find(match: EventMatch): Promise<StreamEvent> {
    return (await this.until(match)).at(-1)!;
  }

  /** The next transition of a session into a state. */
  findState(sessionId: string, to: string): Promise<StreamEvent> {
    return this.find(
      (event) => event.type === "session_transition" && event.sessionId === sessionId && event.data["to"] === to,
    );
  }

  /** All events until the server ends the stream. */
  async end(): Promise<StreamEvent[]> {
    const came: StreamEvent[] = [];
    for (;;) {
      const event = await this.#take(() => "the end", came);
      if (!event) return came;
      came.push(event);
    }
  }

  /** Close the connection. Resolves when it is closed on this side. */
  close(): Promise<void> {
    const closed = new Promise<void>((resolve) => {
      if (this.#response.closed) resolve();
      else this.#response.once("close", resolve);
    });
    this.#request.destroy();
    return closed;
  }

  /** The next event, or undefined at the end. What is no event, such as a heartbeat, does not make the wait longer. */
  async #take(what: () => string, came: readonly StreamEvent[]): Promise<StreamEvent | undefined> {
    let isLate = false;
    const late = setTimeout(() => {
      isLate = true;
      this.#wake?.();
    }, PATIENCE_MS);
    try {
      for (;;) {
        if (this.#fault) throw this.#fault;
        const event = this.#waiting.shift();
        if (event) return event;
        if (this.#isOver) return undefined;
        if (isLate) throw new Error(`waited in vain for ${what()}; ${tell(came)}`);
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
      }
    } finally {
      clearTimeout(late);
    }
  }

  #read(bytes: Uint8Array): void {
    try {
      for (const frame of this.#reader.read(bytes)) {
        this.frames.push(frame);
        if (frame.kind === "event") this.#waiting.push(frame.event);
      }
      this.#wake?.();
    } catch (error) {
      this.#fail(error as Error);
    }
  }

  #fail(error: Error): void {
    this.#fault ??= error;
    this.#wake?.();
  }

  #end(): void {
    this.#isOver = true;
    this.#wake?.();
  }
}

const tell = (events: readonly StreamEvent[]) =>
  `there were ${events.length === 0 ? "none" : events.map(({ type, seq }) => `${type}${seq ? ` ${seq}` : ""}`).join(", ")}`;
