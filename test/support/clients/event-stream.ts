import { type ClientRequest, get, type IncomingHttpHeaders, type IncomingMessage } from "node:http";
import { BYE_REASONS, LIVE_EVENTS, LOGGED_EVENTS } from "../../../src/protocol/event.ts";

/** The data of all event types together; a test reads the fields of its type. */
export interface EventData {
  [name: string]: unknown;
  id: string;
  sessionId: string;
  connectionId: string;
  currentAgentId: string;
  messageId: string;
  runId: string;
  attempt: number;
  kind: string;
  offset: number;
  text: string;
  content: string;
  status: string;
  streaming: boolean;
  title: string;
  from: string | number;
  to: string;
  reason: string;
  reconnectInMs: number;
  errorCode: string;
  cancelled: boolean;
}

/** An event as a client receives it. */
export interface ReceivedEvent {
  /** The position sent with the event. */
  id?: string;
  type: string;
  data: EventData;
  timestamp: string;
  sessionId?: string;
  seq?: number;
  requestId?: string;
}

const POSITION = /^[A-Za-z0-9._-]{1,127}$/;
const KEYS = new Set(["type", "data", "timestamp", "sessionId", "seq", "requestId"]);

/** A client of event streams that checks the protocol: any deviation fails the test that waits for the stream. */
export class EventStream {
  readonly events: ReceivedEvent[] = [];
  /** The `retry:` values, in order. */
  readonly retries: number[] = [];
  comments = 0;
  /** The client's position: the last `id:`. */
  position: string | undefined;
  status = 0;
  headers: IncomingHttpHeaders = {};
  /** How the stream ended: by the server's regular end, or cut off. */
  ending: "clean" | "cut" | undefined;
  /** Called with each event when it arrives. */
  onEvent: (event: ReceivedEvent) => void = () => {};
  #request: ClientRequest;
  #response: IncomingMessage | undefined;
  #fault: Error | undefined;
  #text = "";
  #changed = Promise.withResolvers<void>();
  readonly #opened = Promise.withResolvers<void>();

  private constructor(url: string, headers: Record<string, string>) {
    this.#request = get(url, { headers: { Accept: "text/event-stream", ...headers }, agent: false });
    this.#request.on("error", () => this.#end("cut"));
    this.#request.on("response", (response) => this.#hear(response));
  }

  /** Resolves when the head of the response has arrived, with any status. */
  static async open(url: string, headers: Record<string, string> = {}): Promise<EventStream> {
    const stream = EventStream.begin(url, headers);
    await stream.#opened.promise;
    return stream;
  }

  /** The request in progress. */
  static begin(url: string, headers: Record<string, string> = {}): EventStream {
    return new EventStream(url, headers);
  }

  /** Close the connection without notice. */
  cut(): void {
    this.#request.destroy();
  }

  /** Stop reading until `read`. */
  stall(): void {
    this.#response?.pause();
  }

  read(): void {
    this.#response?.resume();
  }

  /** Resolves when the condition holds. Rejects when the stream ends before, or violates the protocol. */
  async until(holds: (stream: this) => boolean): Promise<void> {
    for (;;) {
      if (this.#fault) throw this.#fault;
      if (holds(this)) return;
      if (this.ending) throw new Error(`the stream ended (${this.ending}) after ${JSON.stringify(this.events.at(-1))}`);
      await this.#changed.promise;
    }
  }

  /** The first event of this type, past or future. */
  async next(type: string, matches: (event: ReceivedEvent) => boolean = () => true): Promise<ReceivedEvent> {
    const find = () => this.events.find((event) => event.type === type && matches(event));
    await this.until(() => find() !== undefined);
    return find()!;
  }

  /** Resolves when the stream has ended. Rejects when it violated the protocol. */
  async over(): Promise<"clean" | "cut"> {
    while (!this.ending) await this.#changed.promise;
    if (this.#fault) throw this.#fault;
    return this.ending;
  }

  typesHeard(): string[] {
    return this.events.map(({ type }) => type);
  }

  #hear(response: IncomingMessage): void {
    this.#response = response;
    this.status = response.statusCode!;
    this.headers = response.headers;
    const decoder = new TextDecoder("utf-8", { fatal: true });
    const isStream = this.status === 200;
    response.on("data", (bytes: Uint8Array) => {
      try {
        this.#text += decoder.decode(bytes, { stream: true });
        if (isStream) this.#parse();
      } catch (error) {
        this.#fault ??= error as Error;
        this.cut();
      }
      this.#tell();
    });
    response.on("end", () => this.#end("clean"));
    response.on("error", () => this.#end("cut"));
    response.on("close", () => this.#end("cut"));
    this.#opened.resolve();
  }

  #parse(): void {
    must(!/[\r\0]/.test(this.#text), "CR or NUL in a stream");
    for (;;) {
      // Lines that belong to no frame, or to the next one.
      const line = /^(?::|retry: (\d+))\n/.exec(this.#text);
      const end = line ? line[0].length : this.#text.indexOf("\n\n") + 2;
      if (end < 2) return;
      const frame = this.#text.slice(0, end - 2);
      this.#text = this.#text.slice(end);
      if (!line) this.#take(frame.split("\n"));
      else if (line[1] === undefined) this.comments += 1;
      else this.retries.push(Number(line[1]));
    }
  }

  #take(lines: string[]): void {
    const [first = ""] = lines;
    const data = lines.at(-1)!;
    must(this.retries.length > 0, `a stream opens with retry, not with ${first}`);
    const id = first.startsWith("id: ") ? first.slice(4) : undefined;
    if (id !== undefined) {
      must(POSITION.test(id), `${id} is no position`);
      this.position = id;
    }
    if (id !== undefined && lines.length === 1) return;
    must(lines.length === (id === undefined ? 1 : 2) && data.startsWith("data: "), `no frame: ${lines.join("⏎")}`);
    this.#takeEvent(JSON.parse(data.slice(6)), id);
  }

  #takeEvent(event: ReceivedEvent, id: string | undefined): void {
    must(
      Object.keys(event).every((key) => KEYS.has(key)),
      `unknown keys: ${Object.keys(event)}`,
    );
    must(new Date(event.timestamp).toISOString() === event.timestamp, `no time: ${event.timestamp}`);
    const isLogged = event.type in LOGGED_EVENTS && event.data?.streaming !== true && id !== undefined;
    must(isLogged || event.type in LIVE_EVENTS || ["error", "message"].includes(event.type), `unknown: ${event.type}`);
    const isPlaced = isLogged || event.type === "reset";
    must(event.type === "agent_list" || (id !== undefined) === isPlaced, `${event.type} with position ${id}`);
    must(isLogged || event.seq === undefined, `${event.type} has seq ${event.seq}`);
    if (event.type === "bye")
      must((BYE_REASONS as readonly string[]).includes(event.data.reason), `bye ${event.data.reason}`);
    if (id !== undefined) event.id = id;
    this.events.push(event);
    this.onEvent(event);
  }

  #end(ending: "clean" | "cut"): void {
    if (this.ending) return;
    this.ending = ending;
    this.#opened.resolve();
    this.#tell();
  }

  #tell(): void {
    const changed = this.#changed;
    this.#changed = Promise.withResolvers();
    changed.resolve();
  }
}

function must(holds: boolean, otherwise: string): asserts holds {
  if (!holds) throw new Error(otherwise);
}
