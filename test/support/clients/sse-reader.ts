import type { IncomingHttpHeaders } from "node:http";
import { within } from "../runner/within.ts";
import { EventStream } from "./event-stream.ts";
import type { StreamEvent, StreamFrame } from "./frame-reader.ts";

export type EventMatch = string | ((event: StreamEvent) => boolean);

/** One event stream, whose events a test takes one after the other. */
export class SseReader {
  /** All frames so far. */
  readonly frames: StreamFrame[] = [];
  readonly #stream: EventStream;
  /** The number of events that a test has asked for. */
  #taken = 0;

  private constructor(stream: EventStream) {
    this.#stream = stream;
    stream.onFrame = (frame) => this.frames.push(frame);
  }

  /** Open a stream; resolves when its head has arrived. */
  static async open(url: string, headers: Record<string, string> = {}): Promise<SseReader> {
    const stream = EventStream.begin(url, headers);
    const reader = new SseReader(stream);
    await stream.until(({ status, ending }) => status > 0 || ending !== undefined);
    if (reader.status === 0) throw new Error(`there is no answer from ${url}`);
    return reader;
  }

  get status(): number {
    return this.#stream.status;
  }

  get headers(): IncomingHttpHeaders {
    return this.#stream.headers;
  }

  /** All events that arrived so far, including those already returned. */
  get events(): readonly StreamEvent[] {
    return this.#stream.events;
  }

  /** The `id` with which a client would reconnect. */
  get lastEventId(): string | undefined {
    return this.#stream.position;
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
      const event = await this.#take(`an event like ${match}`, came);
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
      const event = await this.#take("the end", came);
      if (!event) return came;
      came.push(event);
    }
  }

  /** Close the connection. Resolves when it is closed on this side; rejects if the stream violated the protocol. */
  async close(): Promise<void> {
    this.#stream.cut();
    await this.#stream.over();
  }

  /** The next event, or undefined at the end. What is no event, such as a heartbeat, does not make the wait longer. */
  async #take(what: string, came: readonly StreamEvent[]): Promise<StreamEvent | undefined> {
    const isThere = ({ events, ending }: EventStream) => events.length > this.#taken || ending !== undefined;
    await within(what, this.#stream.until(isThere)).catch(({ message }) => {
      throw new Error(`${message}; ${tell(came)}`);
    });
    const event = this.events[this.#taken];
    if (event) this.#taken += 1;
    return event;
  }
}

const tell = (events: readonly StreamEvent[]) =>
  `there were ${events.length === 0 ? "none" : events.map(({ type, seq }) => `${type}${seq ? ` ${seq}` : ""}`).join(", ")}`;
