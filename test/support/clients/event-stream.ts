import { type ClientRequest, get, type IncomingHttpHeaders, type IncomingMessage } from "node:http";
import { onTestFinished } from "vitest";
import { FrameReader, type StreamEvent, type StreamFrame } from "./frame-reader.ts";

/** A client of event streams that checks the protocol: any deviation fails the test that waits for the stream. */
export class EventStream {
  readonly events: StreamEvent[] = [];
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
  onEvent: (event: StreamEvent) => void = () => {};
  /** Called with each frame when it arrives, also with those that are no event. */
  onFrame: (frame: StreamFrame) => void = () => {};
  #request: ClientRequest;
  #response: IncomingMessage | undefined;
  #fault: Error | undefined;
  readonly #reader = new FrameReader();
  /** What waits for the next change. */
  readonly #looks = new Set<() => void>();
  readonly #opened = Promise.withResolvers<void>();

  private constructor(url: string, headers: Record<string, string>) {
    this.#request = get(url, { headers: { Accept: "text/event-stream", ...headers }, agent: false });
    this.#request.on("error", () => this.#end("cut"));
    this.#request.on("response", (response) => this.#hear(response));
  }

  /** Resolves when the head of the response has arrived, with any status; 0 means that there is none. */
  static async open(url: string, headers: Record<string, string> = {}): Promise<EventStream> {
    const stream = EventStream.begin(url, headers);
    await stream.#opened.promise;
    return stream;
  }

  /** The same, until the test ends. */
  static async during(url: string, headers: Record<string, string> = {}): Promise<EventStream> {
    const stream = await EventStream.open(url, headers);
    onTestFinished(() => stream.cut());
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

  /**
   * Resolves when the condition holds, if only between two events that arrive together. Rejects when the stream ends
   * before, or violates the protocol.
   */
  until(holds: (stream: this) => boolean): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const look = () => {
      try {
        if (this.#fault) throw this.#fault;
        if (holds(this)) resolve();
        else if (this.ending)
          throw new Error(`the stream ended (${this.ending}) after ${JSON.stringify(this.events.at(-1))}`);
        else return;
      } catch (error) {
        reject(error);
      }
      this.#looks.delete(look);
    };
    this.#looks.add(look);
    look();
    return promise;
  }

  /** The first event of this type, past or future. */
  async next(type: string, matches: (event: StreamEvent) => boolean = () => true): Promise<StreamEvent> {
    const find = () => this.events.find((event) => event.type === type && matches(event));
    await this.until(() => find() !== undefined);
    return find()!;
  }

  /** Resolves when the stream has ended. Rejects when it violated the protocol. */
  async over(): Promise<"clean" | "cut"> {
    await this.until(({ ending }) => ending !== undefined);
    return this.ending!;
  }

  typesHeard(): string[] {
    return this.events.map(({ type }) => type);
  }

  #hear(response: IncomingMessage): void {
    this.#response = response;
    this.status = response.statusCode!;
    this.headers = response.headers;
    response.on("data", (bytes: Uint8Array) => {
      try {
        if (this.status === 200) this.#read(bytes);
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
    this.#tell();
  }

  #read(bytes: Uint8Array): void {
    for (const frame of this.#reader.read(bytes)) {
      this.onFrame(frame);
      if (frame.kind === "comment") this.comments += 1;
      else if (frame.kind === "retry") this.retries.push(frame.ms);
      else if (frame.kind === "place") this.position = frame.id;
      else this.#take(frame.event);
    }
  }

  #take(event: StreamEvent): void {
    this.position = event.id ?? this.position;
    this.events.push(event);
    this.onEvent(event);
    this.#tell();
  }

  #end(ending: "clean" | "cut"): void {
    if (this.ending) return;
    this.ending = ending;
    // A killed server cuts the stream; a server that shuts down ends it.
    if (ending === "clean" && this.events.at(-1)?.type === "bye" && this.#reader.rest !== "")
      this.#fault ??= new Error(`the stream ended within a frame: ${JSON.stringify(this.#reader.rest)}`);
    this.#opened.resolve();
    this.#tell();
  }

  #tell(): void {
    for (const look of this.#looks) look();
  }
}
