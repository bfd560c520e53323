import { BOUNDS } from "../config/bounds.ts";
import type { Clock, Timer } from "../protocol/clock.ts";
import type { ByeReason } from "../protocol/event.ts";
import type { Caller } from "./auth.ts";
import type { SseWriter } from "./sse-writer.ts";

/** How often every stream is looked at, in ms … */
const TICK_MS = 1_000;
/** … and how many of them are reconciled then: each is one small read. */
const RECONCILED = 1_000;
/** Streams of one owner: some devices, with some pages each. An operator reads for many, and has no bound of its own. */
const OWNER_STREAMS = 128;

/** One open event stream, whatever it carries. */
export interface Stream {
  readonly writer: SseWriter;
  /** Looks whether it missed something; called now and then. */
  reconcile?(): void;
  /** Lets go of everything it holds; called once, when its socket is closed. */
  close(): void;
}

export interface StreamsOptions {
  clock: Clock;
  /** 0 to 1. */
  random: () => number;
  /** A reader that took nothing for too long was cut off. */
  onCut: () => void;
}

/** All event streams of this node: their heartbeats, their bound, and their orderly end. */
export class Streams {
  readonly #options: StreamsOptions;
  /** The one reconciled last stands last. */
  readonly #open = new Set<Stream>();
  /** Whose they are, where owners are told apart. */
  readonly #readers = new Map<Stream, Caller>();
  /** How many each owner has. */
  readonly #counts = new Map<string, number>();
  #timer: Timer | undefined;
  #drainMs: number | undefined;

  constructor(options: StreamsOptions) {
    this.#options = options;
  }

  get count(): number {
    return this.#open.size;
  }

  /** Why no further stream is opened here for this reader, if none is. */
  refusalOf(reader: Caller | undefined): ByeReason | undefined {
    if (this.#drainMs !== undefined) return "draining";
    const isOver = reader && !reader.isOperator && (this.#counts.get(reader.id) ?? 0) >= OWNER_STREAMS;
    return isOver || this.#open.size >= BOUNDS.streams ? "overloaded" : undefined;
  }

  start(): void {
    const tick = () => {
      const { clock, onCut } = this.#options;
      const now = clock.now();
      for (const stream of this.#open) {
        if (stream.writer.tick(now)) continue;
        onCut();
        stream.writer.destroy();
      }
      this.#endExpired(now);
      this.#reconcileNext();
      this.#timer = clock.after(TICK_MS, tick);
    };
    this.#timer = this.#options.clock.after(TICK_MS, tick);
  }

  /** Whoever has a new token by then comes back with it. */
  #endExpired(now: number): void {
    for (const [stream, { expiresAt }] of this.#readers) {
      if (expiresAt !== undefined && expiresAt <= now) stream.writer.bye("token_expired", now);
    }
  }

  #reconcileNext(): void {
    for (const stream of [...this.#open].slice(0, RECONCILED)) {
      this.#open.delete(stream);
      this.#open.add(stream);
      stream.reconcile?.();
    }
  }

  /** @param reader who reads it, where owners are told apart: it ends when what it proved itself with does */
  add(stream: Stream, reader?: Caller): void {
    this.#open.add(stream);
    if (reader) {
      this.#readers.set(stream, reader);
      this.#count(reader, 1);
    }
    stream.writer.onClose = () => {
      this.#open.delete(stream);
      if (this.#readers.delete(stream)) this.#count(reader!, -1);
      stream.close();
    };
    if (stream.writer.isClosed) stream.writer.onClose();
  }

  #count({ id }: Caller, change: number): void {
    const count = (this.#counts.get(id) ?? 0) + change;
    if (count > 0) this.#counts.set(id, count);
    else this.#counts.delete(id);
  }

  /** When a client that is sent away should come back, in ms: no two at once. */
  reconnectInMs(): number {
    return Math.round(1_000 + this.#options.random() * 4_000);
  }

  /** Send everybody away, spread over so many ms. */
  async drain(withinMs: number): Promise<void> {
    this.#drainMs = withinMs;
    const { clock } = this.#options;
    const streams = [...this.#open];
    const spreadMs = Math.min(withinMs / 2, streams.length * 2);
    const ended = streams.map(
      (stream, index) =>
        new Promise<void>((resolve) => {
          const { onClose } = stream.writer;
          stream.writer.onClose = () => {
            onClose();
            resolve();
          };
          clock.after((index / streams.length) * spreadMs, () => {
            stream.writer.bye("draining", clock.now(), this.reconnectInMs());
          });
          // One that does not take its farewell goes without.
          clock.after(Math.max(spreadMs, withinMs - 200), () => stream.writer.destroy());
        }),
    );
    await Promise.all(ended);
    this.stop();
  }

  stop(): void {
    this.#timer?.cancel();
    for (const stream of this.#open) stream.writer.destroy();
  }
}
