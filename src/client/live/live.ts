import type { ByeReason } from "../../protocol/event.ts";
import { backoffMs } from "../../shared/waiting.ts";
import { ClientError } from "../client-error.ts";
import { delay } from "../delay.ts";
import type { StreamState, StreamStatus } from "../event-stream.ts";
import { Watchers } from "../watchers.ts";

/** `closed`: no more events follow. `refused`: the server refused the request; `failure` has the reason. */
export type LiveStatus = StreamStatus | "closed" | "refused";

/** The status of a view's stream. */
export interface LiveState {
  status: LiveStatus;
  /** Why the last attempt failed, or why the view ended. */
  failure?: ClientError | undefined;
  /** Until the stream is open again: the reason with which the server ended it. */
  bye?: ByeReason | undefined;
  /** While `waiting`: when the next attempt begins, in ms since 1970. */
  retryAt?: number | undefined;
}

/** Watchers are notified at most once in this many ms, about once per frame of a screen. */
const NOTIFY_MS = 16;
const BETWEEN_TRIES = { firstMs: 1_000, maxMs: 30_000 };
/**
 * How long the stream outlives its last watcher, in ms, so that a component that is mounted again does not reconnect.
 */
const LINGER_MS = 1_000;

/**
 * The state of something on the server, which a stream keeps current while it is watched. `view` is replaced and never
 * mutated: the same object means that nothing changed.
 */
export abstract class Live<T extends LiveState> {
  readonly #watchers = new Watchers();
  #view: T;
  #next: T;
  #running: AbortController | undefined;
  #notifying: ReturnType<typeof setTimeout> | undefined;
  #leaving: ReturnType<typeof setTimeout> | undefined;

  constructor(first: T) {
    this.#view = first;
    this.#next = first;
  }

  get view(): T {
    return this.#view;
  }

  get isWatched(): boolean {
    return !this.#watchers.isEmpty;
  }

  /** Watch for changes. Returns the function that stops watching. Bound, so that it can be passed to React directly. */
  readonly subscribe = (watcher: () => void): (() => void) => {
    const leave = this.#watchers.subscribe(watcher);
    clearTimeout(this.#leaving);
    this.#start();
    return () => {
      leave();
      clearTimeout(this.#leaving);
      if (this.isWatched) return;
      this.#leaving = setTimeout(() => this.#stop(), LINGER_MS);
    };
  };

  /** Start again after `refused` or `closed`, for example with a new token. Does nothing while the stream runs. */
  restart(): void {
    if (this.isWatched) this.#start();
  }

  /** Close the stream but keep the view and its position until `restart`, for a hidden page. */
  suspend(): void {
    this.#stop();
  }

  /**
   * Follow the server until the signal is aborted. Returns when nothing more will follow. After a temporary failure it
   * is called again, and continues from its position.
   */
  protected abstract follow(signal: AbortSignal): Promise<void>;

  /** The newest state, which watchers may not have been notified of yet. */
  protected get known(): T {
    return this.#next;
  }

  protected change(change: Partial<T>): void {
    this.#next = { ...this.#next, ...change };
    this.#notifying ??= setTimeout(() => this.#notify(), NOTIFY_MS);
  }

  /** Handler for a stream's `onStatus`. */
  protected readonly note = (status: StreamStatus, { waitMs, failure, bye }: StreamState = {}): void => {
    const retryAt = waitMs === undefined ? undefined : Date.now() + waitMs;
    this.change({
      status,
      failure: status === "open" ? undefined : (failure ?? this.#next.failure),
      bye: status === "open" ? undefined : (bye ?? this.#next.bye),
      retryAt,
    } as Partial<T>);
  };

  #start(): void {
    if (this.#running) return;
    const running = new AbortController();
    this.#running = running;
    this.#persist(running.signal).then(
      () => this.#end(running, { status: "closed", failure: undefined }),
      (error: unknown) => {
        if (running.signal.aborted) return;
        this.#end(running, { status: "refused", failure: error instanceof ClientError ? error : undefined });
        // An error of this program itself is not handled here, so that it is reported as unhandled.
        if (!(error instanceof ClientError)) throw error;
      },
    );
  }

  /** Retries the requests that precede the stream. The stream itself reconnects on its own. */
  async #persist(signal: AbortSignal): Promise<void> {
    for (let failed = 1; !signal.aborted; failed += 1) {
      try {
        return await this.follow(signal);
      } catch (error) {
        if (signal.aborted || !(error instanceof ClientError) || !error.wantsRepeat) throw error;
        if (this.#next.status === "open") failed = 1;
        const waitMs = Math.max(error.retryAfterMs ?? 0, backoffMs(failed, BETWEEN_TRIES, Math.random));
        this.note("waiting", { waitMs, failure: error });
        await delay(waitMs, signal);
      }
    }
  }

  #end(running: AbortController, state: LiveState): void {
    // Ignore a run that was stopped, even if another has started since.
    if (this.#running !== running) return;
    this.#running = undefined;
    this.change({ bye: undefined, ...state, retryAt: undefined } as Partial<T>);
  }

  #stop(): void {
    clearTimeout(this.#leaving);
    this.#running?.abort();
    this.#running = undefined;
    this.change({ status: "connecting", retryAt: undefined } as Partial<T>);
  }

  #notify(): void {
    this.#notifying = undefined;
    if (this.#view === this.#next) return;
    this.#view = this.#next;
    this.#watchers.notify();
  }
}
