import { createParser } from "eventsource-parser";
import { backoffMs, type Delay, delay } from "./backoff.ts";
import { ClientError, failureOf, unexpectedAnswer, unreachable } from "./client-error.ts";
import type { HeaderSource } from "./requester.ts";
import { SeenEvents } from "./seen-events.ts";
import { parseServerEvent, type ServerEvent } from "./server-event.ts";

/** How a stream stands: it asks, it is carried, or it waits to ask again. */
export type StreamStatus = "connecting" | "open" | "waiting";

export interface EventStreamOptions {
  /** The address to ask when one stands at this position; undefined: from the beginning. */
  urlAt: (position: string | undefined) => string;
  /** Where to begin: what `position` said, on an earlier stream or in an answer. */
  position?: string | undefined;
  /** Ends the stream, without an error. */
  signal?: AbortSignal | undefined;
  headers?: HeaderSource | undefined;
  fetch?: typeof globalThis.fetch | undefined;
  /** 0 to 1; spreads reconnections. */
  random?: (() => number) | undefined;
  delay?: Delay | undefined;
  /** A connection on which nothing comes for so long is dead, in ms; default 45 000, three heartbeats. */
  silenceMs?: number | undefined;
  onStatus?: ((status: StreamStatus) => void) | undefined;
}

/** Events as they come, for one `for await`. */
export interface EventStream extends AsyncIterable<ServerEvent, void, undefined> {
  /** Where the reader stands: after the event it was given last. It outlives the stream, the process too. */
  readonly position: string | undefined;
  /** Ends the stream, also while somebody waits for its next event. */
  close(): void;
}

/** Characters of one event. The server's largest are a message's text and what stands around it. */
const MAX_EVENT = 8_388_608;
/** Until the server says otherwise. */
const RETRY_MS = 2_000;
/** Neither a server nor a row of failures makes a reader wait longer. */
const MAX_RETRY_MS = 30_000;
/** Not even with `retry: 0` does a reader knock on a closed door without a pause. */
const MIN_BACKOFF_MS = 100;
const SILENCE_MS = 45_000;

/**
 * Follow a stream, whatever happens on the way. A connection that breaks, falls silent or is sent away comes back after
 * the position of the last event, as soon as the server wants it to; no event is handed on twice. It ends when the
 * server says that nothing will follow (`bye ended`, 204), when it is aborted, and with a `ClientError` when it is
 * refused for good. `bye` and `reset` are handed on as well: after a `reset` the reader has missed something and reads
 * the state anew.
 *
 * Nothing is read ahead of the reader but the piece of the network's that holds the next event: who does not take its
 * events makes the server hold them back.
 */
export function openEvents(options: EventStreamOptions): EventStream {
  return new Reader(options);
}

/** What a connection brought, in its order. */
type Item = { position: string } | { event: ServerEvent };

class Reader implements EventStream {
  readonly #options: EventStreamOptions;
  readonly #closing = new AbortController();
  readonly #signal: AbortSignal;
  readonly #seen = new SeenEvents();
  #position: string | undefined;
  #retryMs = RETRY_MS;
  /** Connections in a row that brought nothing. */
  #failed = 0;
  /** The server's word on when to come back, for the next time only. */
  #toldMs: number | undefined;
  #isStarted = false;

  constructor(options: EventStreamOptions) {
    this.#options = options;
    this.#position = options.position;
    const { signal } = this.#closing;
    this.#signal = options.signal ? AbortSignal.any([options.signal, signal]) : signal;
  }

  get position(): string | undefined {
    return this.#position;
  }

  close(): void {
    this.#closing.abort();
  }

  [Symbol.asyncIterator](): AsyncGenerator<ServerEvent, void, undefined> {
    if (this.#isStarted) throw new TypeError("A stream is read once; open another.");
    this.#isStarted = true;
    return this.#events();
  }

  async *#events(): AsyncGenerator<ServerEvent, void, undefined> {
    const { onStatus, delay: wait = delay } = this.#options;
    while (!this.#signal.aborted) {
      onStatus?.("connecting");
      const isOver = yield* this.#carry();
      if (isOver || this.#signal.aborted) return;
      onStatus?.("waiting");
      await wait(this.#pauseMs(), this.#signal);
    }
  }

  /**
   * One connection, from the request to its end.
   * @returns whether the stream is over
   */
  async *#carry(): AsyncGenerator<ServerEvent, boolean, undefined> {
    const watch = new Watch(this.#options.silenceMs ?? SILENCE_MS, this.#signal);
    this.#failed += 1;
    try {
      const response = await this.#open(watch);
      if (response === "over") return true;
      this.#options.onStatus?.("open");
      for await (const event of this.#read(response, watch)) {
        this.#failed = 0;
        yield event;
        if (this.#signal.aborted) return true;
        if (event.type !== "bye") continue;
        if (event.data.reason === "ended") return true;
        this.#toldMs = event.data.reconnectInMs;
        return false;
      }
      return false;
    } catch (error) {
      if (this.#signal.aborted) return true;
      if (!(error instanceof ClientError) || !comesBack(error)) throw error;
      this.#toldMs = error.retryAfterMs;
      return false;
    } finally {
      // Also where the reader walked away: nothing holds the connection any more.
      watch.end();
    }
  }

  /** @throws ClientError when there is no stream to be had */
  async #open(watch: Watch): Promise<Response | "over"> {
    const { urlAt, headers, fetch = globalThis.fetch } = this.#options;
    const url = urlAt(this.#position);
    const given = typeof headers === "function" ? await headers() : headers;
    try {
      const response = await watch.over(
        fetch(url, { headers: { ...given, accept: "text/event-stream" }, cache: "no-store", signal: watch.signal }),
      );
      if (response.status === 204) return "over";
      if (!response.ok) throw await watch.over(failureOf(response));
      const type = response.headers.get("content-type") ?? "";
      if (!/^text\/event-stream\s*(;|$)/i.test(type)) throw unexpectedAnswer(response.status);
      return response;
    } catch (error) {
      throw error instanceof ClientError ? error : unreachable(url, error);
    }
  }

  /** New events, one by one. A connection that breaks ends them; the next one brings the rest. */
  async *#read({ body, status }: Response, watch: Watch): AsyncGenerator<ServerEvent, void, undefined> {
    if (!body) return;
    const items: Item[] = [];
    let isTooLong = false;
    const parser = createParser({
      onId: (position) => items.push({ position }),
      onEvent: ({ data }) => {
        const event = parseServerEvent(data);
        if (event) items.push({ event });
      },
      onRetry: (ms) => {
        this.#retryMs = Math.min(ms, MAX_RETRY_MS);
      },
      onError: ({ type }) => {
        isTooLong ||= type === "max-buffer-size-exceeded";
      },
      maxBufferSize: MAX_EVENT,
    });
    const decoder = new TextDecoder();
    const reader = body.getReader();
    for (;;) {
      const piece = await watch.over(reader.read()).catch(() => undefined);
      if (!piece || piece.done) return;
      parser.feed(decoder.decode(piece.value, { stream: true }));
      if (isTooLong) throw unexpectedAnswer(status);
      for (const item of items.splice(0)) {
        if ("position" in item) this.#position = item.position || undefined;
        else if (this.#seen.admit(item.event, this.#position)) yield item.event;
      }
    }
  }

  #pauseMs(): number {
    const { random = Math.random } = this.#options;
    const toldMs = this.#toldMs;
    this.#toldMs = undefined;
    if (toldMs !== undefined) return Math.min(Math.max(toldMs, 0), MAX_RETRY_MS);
    // What one node's end cut off together does not come back together.
    if (this.#failed === 0) return Math.round(this.#retryMs * (1 + random() / 4));
    const firstMs = Math.max(this.#retryMs, MIN_BACKOFF_MS);
    return Math.max(firstMs, backoffMs(this.#failed, { firstMs, maxMs: MAX_RETRY_MS }, random));
  }
}

/** Whether another try may be let in: not where the server understood, and refused. */
function comesBack({ code, status }: ClientError): boolean {
  return code === "unreachable" || status === 429 || status >= 500;
}

/** Cuts a connection on which nothing comes. A reader that takes its time is no silence: only waiting counts. */
class Watch {
  readonly #silenceMs: number;
  readonly #cutting = new AbortController();
  readonly signal: AbortSignal;

  constructor(silenceMs: number, signal: AbortSignal) {
    this.#silenceMs = silenceMs;
    this.signal = AbortSignal.any([signal, this.#cutting.signal]);
  }

  async over<T>(waiting: Promise<T>): Promise<T> {
    const timer = setTimeout(() => this.#cutting.abort(), this.#silenceMs);
    try {
      return await waiting;
    } finally {
      clearTimeout(timer);
    }
  }

  end(): void {
    this.#cutting.abort();
  }
}
