import { type ClientRequest, type IncomingHttpHeaders, type IncomingMessage, request } from "node:http";
import { z } from "zod";
import { LIVE_EVENTS, LOGGED_EVENTS } from "../../../src/protocol/event.ts";
import { toStrictSchema } from "../documents/published-schema.ts";

/** A received event: the content of `data:`, and the `id` before it. */
export interface StreamEvent {
  readonly id?: string;
  readonly type: string;
  readonly data: { readonly [field: string]: unknown };
  readonly timestamp: string;
  readonly sessionId?: string;
  readonly seq?: number;
  readonly requestId?: string;
}

/** Everything a stream may send, in the order in which it arrived. */
export type StreamFrame =
  | { readonly kind: "retry"; readonly ms: number }
  | { readonly kind: "place"; readonly id: string }
  | { readonly kind: "comment" }
  | { readonly kind: "event"; readonly event: StreamEvent };

export type EventMatch = string | ((event: StreamEvent) => boolean);

/** The timeout of a wait for an event, in ms; its error lists the events that arrived instead. */
const PATIENCE_MS = 10_000;

const Envelope = z.strictObject({
  type: z.string(),
  data: z.record(z.string(), z.unknown()),
  timestamp: z.iso.datetime({ precision: 3 }),
  sessionId: z.string().optional(),
  seq: z.int().positive().optional(),
  requestId: z.string().optional(),
});
const SCHEMAS = new Map(
  Object.entries({ ...LOGGED_EVENTS, ...LIVE_EVENTS }).map(([type, schema]) => [type, toStrictSchema(schema)]),
);
const ID = /^[A-Za-z0-9._-]{1,127}$/;

/**
 * One event stream, read strictly by the contract: LF only, only `id:` and `data:` lines, one `data:` line per frame,
 * known types with exactly their fields, an `id` on logged events, `reset` and `agent_list` only.
 */
export class SseReader {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  /** All events so far. */
  readonly frames: StreamFrame[] = [];
  readonly #request: ClientRequest;
  readonly #response: IncomingMessage;
  /** Events that no test has asked for yet. */
  readonly #waiting: StreamEvent[] = [];
  #rest = "";
  #fault: Error | undefined;
  #isOver = false;
  #wake: (() => void) | undefined;

  private constructor(sent: ClientRequest, response: IncomingMessage) {
    this.#request = sent;
    this.#response = response;
    this.status = response.statusCode ?? 0;
    this.headers = response.headers;
    const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
    response.on("data", (bytes: Buffer) => this.#guard(() => this.#read(decoder.decode(bytes, { stream: true }))));
    response.on("end", () => {
      // A killed server cuts the stream; a server that shuts down ends it.
      const hasSaidBye = this.events.at(-1)?.type === "bye";
      if (hasSaidBye && this.#rest !== "")
        this.#fail(new Error(`the stream ended within a frame: ${JSON.stringify(this.#rest)}`));
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

  /** The next event, or undefined at the end. */
  async #take(what: () => string, came: readonly StreamEvent[]): Promise<StreamEvent | undefined> {
    for (;;) {
      if (this.#fault) throw this.#fault;
      const event = this.#waiting.shift();
      if (event) return event;
      if (this.#isOver) return undefined;
      await new Promise<void>((resolve, reject) => {
        const late = setTimeout(() => reject(new Error(`waited in vain for ${what()}; ${tell(came)}`)), PATIENCE_MS);
        this.#wake = () => {
          clearTimeout(late);
          resolve();
        };
      });
    }
  }

  #read(text: string): void {
    this.#rest += text;
    for (;;) {
      // Lines that belong to no frame, or to the next one.
      const line = /^(?::|retry: (\d+))\n/.exec(this.#rest);
      const end = line ? line[0].length : this.#rest.indexOf("\n\n") + 2;
      if (end < 2) break;
      const frame = line ? readLine(line[1]) : readFrame(this.#rest.slice(0, end - 2));
      this.#rest = this.#rest.slice(end);
      this.frames.push(frame);
      if (frame.kind === "event") this.#waiting.push(frame.event);
    }
    this.#wake?.();
  }

  #guard(read: () => void): void {
    try {
      read();
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

const readLine = (ms: string | undefined): StreamFrame =>
  ms === undefined ? { kind: "comment" } : { kind: "retry", ms: Number(ms) };

function readFrame(text: string): StreamFrame {
  const fault = (what: string) => new Error(`${what}: ${JSON.stringify(text)}`);
  if (/[\r\0]/.test(text)) throw fault("a frame holds CR or NUL");
  const lines = text.split("\n");
  const [first = ""] = lines;
  const id = first.startsWith("id: ") ? first.slice(4) : undefined;
  if (id !== undefined && !ID.test(id)) throw fault("a position has other characters, or too many");
  if (id !== undefined && lines.length === 1) return { kind: "place", id };
  const data = lines.slice(id === undefined ? 0 : 1);
  if (data.length !== 1 || !data[0]!.startsWith("data: ")) throw fault("a frame has other lines than id and data");
  return { kind: "event", event: readEvent(data[0]!.slice(6), id) };
}

function readEvent(json: string, id: string | undefined): StreamEvent {
  const { seq, sessionId, requestId, ...rest } = Envelope.parse(JSON.parse(json));
  const { type, data } = rest;
  const schema = SCHEMAS.get(type);
  if (!schema) throw new Error(`there is no event of type ${type}: ${json}`);
  // An unfinished message is marked as streaming; only its end is logged.
  const reading = schema.safeParse(data);
  if (!reading.success) throw new Error(`${type} is not as published: ${z.prettifyError(reading.error)} in ${json}`);
  const isLogged = seq !== undefined || (type in LOGGED_EVENTS && sessionId === undefined && type !== "error");
  if (type !== "agent_list" && (id !== undefined) !== (isLogged || type === "reset"))
    throw new Error(`${type} with the id ${id}: ${json}`);
  if (seq !== undefined && !(type in LOGGED_EVENTS)) throw new Error(`${type} is logged: ${json}`);
  return {
    ...rest,
    ...(id !== undefined && { id }),
    ...(sessionId !== undefined && { sessionId }),
    ...(seq !== undefined && { seq }),
    ...(requestId !== undefined && { requestId }),
  };
}
