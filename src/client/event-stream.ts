import { createParser } from "eventsource-parser";
import type { ByeReason } from "../protocol/event.ts";
import { backoffMs } from "../shared/waiting.ts";
import { ClientError, failureOf, unexpectedAnswer, unreachable } from "./client-error.ts";
import { type Delay, delay } from "./delay.ts";
import { awaitedHeaders, type HeaderSource } from "./requester.ts";
import { SeenEvents } from "./seen-events.ts";
import { parseServerEvent, type ServerEvent } from "./server-event.ts";
import type { SignInGate } from "./sign-in-gate.ts";

/** The state of a stream: connecting, open, or waiting to reconnect. */
export type StreamStatus = "connecting" | "open" | "waiting";

/** Details of the status. */
export interface StreamState {
  /** While `waiting`: for how long, in ms. */
  waitMs?: number | undefined;
  /** While `waiting`: why the last attempt failed. Absent if the connection broke or the server ended it. */
  failure?: ClientError | undefined;
  /** While `waiting`: the reason with which the server ended the last connection. Absent if it ended without one. */
  bye?: ByeReason | undefined;
}

export interface EventStreamOptions {
  /** The address for a position; undefined: from the beginning. */
  urlAt: (position: string | undefined) => string;
  /** The position to begin after, from an earlier stream or an answer. */
  position?: string | undefined;
  /** Ends the stream, without an error. */
  signal?: AbortSignal | undefined;
  headers?: HeaderSource | undefined;
  /** Fetch a ticket for each connection, instead of sending headers. A ticket opens one stream and expires soon. */
  ticket?: ((signal: AbortSignal) => Promise<string>) | undefined;
  /** Asks for a new sign-in after a 401. Unused where a ticket or a function gives the credential. */
  gate?: SignInGate | undefined;
  fetch?: typeof globalThis.fetch | undefined;
  /** A random number from 0 to 1. Spreads reconnections. */
  random?: (() => number) | undefined;
  delay?: Delay | undefined;
  /** A connection without any bytes for this long is considered dead, in ms. Default: 45 000, three heartbeats. */
  silenceMs?: number | undefined;
  onStatus?: ((status: StreamStatus, state?: StreamState) => void) | undefined;
  /**
   * Called with each position that the server reports: that of an event before the event is delivered, and the one
   * after events that the stream does not carry, such as the messages of a floor.
   */
  onPosition?: ((position: string) => void) | undefined;
}

/** A stream of events, for one `for await` loop. */
export interface EventStream extends AsyncIterable<ServerEvent, void, undefined> {
  /** The reader's position, after the last event it received. It stays valid after the stream and the process end. */
  readonly position: string | undefined;
  /** Ends the stream, even while the loop waits for the next event. */
  close(): void;
}

/** Characters of one event. The server's largest events hold a message's text. */
const MAX_EVENT = 8_388_608;
/** The delay before a reconnection until the server sets another, in ms. */
const RETRY_MS = 2_000;
/** The longest delay, whatever the server sets and however many attempts failed, in ms. */
const MAX_RETRY_MS = 30_000;
/** The shortest delay, even for `retry: 0`, in ms. */
const MIN_BACKOFF_MS = 100;
const SILENCE_MS = 45_000;

/**
 * Follow a stream across disconnections. A connection that breaks, falls silent or is ended by the server is reopened
 * after the position of the last event, when the server allows it. No event is delivered twice. The stream ends when
 * the server reports that nothing follows (`bye ended`, 204), when it is aborted, and with a `ClientError` for a final
 * refusal. `bye` and `reset` are delivered too: after a `reset` the reader has missed events and reads the state again.
 *
 * The stream reads at most the network chunk with the next event ahead, so a reader that pauses makes the server hold
 * events back.
 */
export function openEvents(options: EventStreamOptions): EventStream {
  return new Reader(options);
}

/** What a connection delivered, in order. */
type Item = { position: string } | { event: ServerEvent };

class Reader implements EventStream {
  readonly #options: EventStreamOptions;
  readonly #closing = new AbortController();
  readonly #signal: AbortSignal;
  readonly #seen = new SeenEvents();
  #position: string | undefined;
  #retryMs = RETRY_MS;
  /** Consecutive connections that delivered nothing. */
  #failed = 0;
  /** The delay that the server requested, for the next reconnection only. */
  #reconnectMs: number | undefined;
  /** The reason of the `bye` that ended the last connection. */
  #bye: ByeReason | undefined;
  /** Why the last attempt failed. */
  #failure: ClientError | undefined;
  /** Whether a new token or ticket was fetched since the last event. */
  #isRenewed = false;
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
    if (this.#isStarted) throw new TypeError("A stream can be read only once; open another.");
    this.#isStarted = true;
    return this.#events();
  }

  async *#events(): AsyncGenerator<ServerEvent, void, undefined> {
    const { onStatus, delay: wait = delay } = this.#options;
    while (!this.#signal.aborted) {
      onStatus?.("connecting");
      const isOver = yield* this.#carry();
      if (isOver || this.#signal.aborted) return;
      const waitMs = this.#pauseMs();
      onStatus?.("waiting", { waitMs, failure: this.#failure, bye: this.#bye });
      await wait(waitMs, this.#signal);
    }
  }

  /**
   * One connection, from the request to its end.
   * @returns whether the stream is over
   */
  async *#carry(): AsyncGenerator<ServerEvent, boolean, undefined> {
    const watch = new Watch(this.#options.silenceMs ?? SILENCE_MS, this.#signal);
    this.#failed += 1;
    this.#failure = undefined;
    this.#bye = undefined;
    try {
      const response = await this.#openSignedIn(watch);
      if (response === "over") return true;
      this.#options.onStatus?.("open");
      for await (const event of this.#read(response, watch)) {
        this.#failed = 0;
        this.#isRenewed = false;
        yield event;
        if (this.#signal.aborted) return true;
        if (event.type === "bye") return this.#handleBye(event.data);
      }
      return false;
    } catch (error) {
      if (this.#signal.aborted) return true;
      this.#handleFailure(error);
      return false;
    } finally {
      // Also when the loop is left early: nothing holds the connection any longer.
      watch.end();
    }
  }

  /** @returns whether the stream is over */
  #handleBye({ reason, reconnectInMs }: Extract<ServerEvent, { type: "bye" }>["data"]): boolean {
    if (reason === "ended") return true;
    this.#bye = reason;
    this.#reconnectMs = reconnectInMs;
    return false;
  }

  /** @throws the error itself, if no other connection may succeed */
  #handleFailure(error: unknown): void {
    if (!(error instanceof ClientError)) throw error;
    if (!comesBack(error) && !this.#mayRenew(error)) throw error;
    this.#reconnectMs = error.retryAfterMs;
    this.#failure = error;
  }

  #openSignedIn(watch: Watch): Promise<Response | "over"> {
    const { gate, ticket, headers, onStatus } = this.#options;
    if (!gate || ticket || typeof headers === "function") return this.#open(watch);
    const open = () => this.#open(watch);
    return gate.pass(open, watch.signal, (failure) => onStatus?.("waiting", { failure }));
  }

  /** @throws ClientError if the stream cannot be opened */
  async #open(watch: Watch): Promise<Response | "over"> {
    const { urlAt, ticket, fetch = globalThis.fetch } = this.#options;
    const address = urlAt(this.#position);
    const url = ticket ? withTicket(address, await watch.over(ticket(watch.signal))) : address;
    const headers = ticket ? undefined : this.#options.headers;
    const ownHeaders = await watch.over(awaitedHeaders(headers, url, watch.signal));
    try {
      const response = await watch.over(
        fetch(url, {
          headers: { ...ownHeaders, accept: "text/event-stream" },
          cache: "no-store",
          signal: watch.signal,
        }),
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

  /** The new events of one connection. A broken connection ends them; the next connection continues. */
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
      yield* this.#newEvents(items.splice(0));
    }
  }

  *#newEvents(items: readonly Item[]): Generator<ServerEvent, void, undefined> {
    for (const item of items) {
      if ("event" in item) {
        if (this.#seen.noteIfNew(item.event, this.#position)) yield item.event;
        continue;
      }
      this.#position = item.position || undefined;
      if (this.#position !== undefined) this.#options.onPosition?.(this.#position);
    }
  }

  /** A token may expire and a ticket may be used up in transit, so credentials are fetched again once. */
  #mayRenew({ status }: ClientError): boolean {
    const { headers, ticket } = this.#options;
    if (status !== 401 || this.#isRenewed || (!ticket && typeof headers !== "function")) return false;
    this.#isRenewed = true;
    return true;
  }

  #pauseMs(): number {
    const { random = Math.random } = this.#options;
    const reconnectMs = this.#reconnectMs;
    this.#reconnectMs = undefined;
    if (reconnectMs !== undefined) return Math.min(Math.max(reconnectMs, 0), MAX_RETRY_MS);
    // Clients that one node disconnected together do not return together.
    if (this.#failed === 0) return Math.round(this.#retryMs * (1 + random() / 4));
    const firstMs = Math.max(this.#retryMs, MIN_BACKOFF_MS);
    return Math.max(firstMs, backoffMs(this.#failed, { firstMs, maxMs: MAX_RETRY_MS }, random));
  }
}

function withTicket(address: string, ticket: string): string {
  const url = new URL(address);
  url.searchParams.set("ticket", ticket);
  return url.href;
}

/** Whether another attempt may succeed. It cannot after a definite refusal. */
function comesBack({ code, status }: ClientError): boolean {
  return code === "unreachable" || status === 429 || status >= 500;
}

/** Aborts a connection that stays silent. Only time spent waiting for bytes counts, so a slow reader is no silence. */
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
