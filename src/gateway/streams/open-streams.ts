import type { Socket } from "node:net";
import { BOUNDS } from "../../config/bounds.ts";
import type { ByeReason } from "../../protocol/event.ts";
import type { ConnectionId } from "../../protocol/ids.ts";
import type { Clock, Timer } from "../../shared/ports/clock.ts";
import { every } from "../../shared/waiting.ts";
import type { ConnectionRow } from "../../store/store.ts";
import type { Caller } from "../access/caller.ts";
import { SilentPeers, type Unanswered } from "./silent-peers.ts";
import type { SseWriter } from "./sse-writer.ts";

/** How often every stream is checked, in ms. */
const CHECK_MS = 1_000;
/** How many streams are reconciled with each check. Each costs one small read. */
const RECONCILED = 1_000;
/**
 * Of several open connections of one owner, the newest counts for this long, in ms: the others may be those that the
 * same client has lost, which are ended by then.
 */
const JUST_CAME_MS = 60_000;
/** Streams of one owner: a few devices with a few pages each. Operators read for many users and have no such limit. */
export const OWNER_STREAMS = 128;

/** The writer of an open stream. */
export interface StreamWriter
  extends Pick<SseWriter, "isClosed" | "isCut" | "onClose" | "heartbeat" | "destroy" | "cut" | "socket"> {
  /** End the stream before its own end. With `reconnectInMs` the client reconnects after that time. */
  endEarly(reason: ByeReason, at: number, reconnectInMs?: number): void;
}

/** An open event stream of any kind, or another answer that takes as long as a run. */
export interface Stream {
  readonly writer: StreamWriter;
  /** Its reader reconnects without a loss, so a newer stream of the same owner may replace it. Default: false. */
  readonly isResumable?: boolean;
  /** For the stream of a client's connection: its id and owner. */
  readonly connection?: Pick<ConnectionRow, "id" | "ownerId">;
  /** Check from time to time whether the stream missed something. */
  reconcile?(): void;
  /** Release everything the stream holds. Called once, when its socket is closed. */
  close(): void;
}

export interface StreamsOptions {
  clock: Clock;
  /** Measures elapsed time, and never jumps. */
  stopwatch: Clock;
  /** 0 to 1. */
  random: () => number;
  /** The peers that answer nothing. Absent: they are not looked for. */
  unanswered?: (() => Promise<Unanswered>) | undefined;
  /** A reader was cut off because it is too slow, or has vanished. */
  onCut: () => void;
  /** Whether a key behind the credentials of readers was withdrawn. Default: none is. */
  isWithdrawn?: ((keyId: string) => boolean) | undefined;
}

/** All event streams of this node: heartbeats, limits and an orderly end. */
export class Streams {
  readonly #options: StreamsOptions;
  /** By writer, least recently reconciled first. */
  readonly #open = new Map<object, Stream>();
  /** One for all: thousands of idle streams would each keep theirs in memory. */
  readonly #onClose = (writer: object) => this.#remove(writer);
  /**
   * Streams of connections and when each came, by owner, in this order. A connection that is open twice is listed
   * twice.
   */
  readonly #connections = new Map<string | undefined, Map<Stream, number>>();
  /** The owner of each stream, where callers authenticate. */
  readonly #readers = new Map<Stream, Caller>();
  /** The number of streams of each owner. */
  readonly #counts = new Map<string, number>();
  readonly #peers = new SilentPeers();
  #timer: Timer | undefined;
  #lookTimer: Timer | undefined;
  #drainMs: number | undefined;

  constructor(options: StreamsOptions) {
    this.#options = options;
  }

  get count(): number {
    return this.#open.size;
  }

  /**
   * Make room for a further stream of this reader: at the reader's limit, the stream that has been silent longest gives
   * way.
   * @returns why there is no room; undefined if there is
   */
  makeRoom(reader: Caller | undefined): ByeReason | undefined {
    if (this.#drainMs !== undefined) return "draining";
    if (this.#open.size >= BOUNDS.streams) return "overloaded";
    const isOver = reader && !reader.isOperator && (this.#counts.get(reader.id) ?? 0) >= OWNER_STREAMS;
    return isOver && !this.#giveWay(reader) ? "overloaded" : undefined;
  }

  /** @returns whether a stream of this reader was ended */
  #giveWay(reader: Caller): boolean {
    const silentSince = ({ writer: { socket } }: Stream) => (socket && this.#peers.since(socket)) ?? Infinity;
    let longest: Stream | undefined;
    for (const [stream, { id }] of this.#readers) {
      if (id !== reader.id || !stream.isResumable) continue;
      // Of those that are not silent, the one that was opened first.
      if (!longest || silentSince(stream) < silentSince(longest)) longest = stream;
    }
    if (!longest) return false;
    // It no longer counts, although its socket closes a moment later.
    this.#readers.delete(longest);
    this.#count(reader, -1);
    longest.writer.endEarly("overloaded", this.#options.clock.now(), this.reconnectInMs());
    return true;
  }

  start(): void {
    const { clock, stopwatch, unanswered } = this.#options;
    this.#timer = every(clock, CHECK_MS, () => {
      const elapsed = stopwatch.now();
      for (const { writer } of this.#open.values()) writer.heartbeat(elapsed);
      this.#endExpired(clock.now());
      this.#reconcileNext();
    });
    if (!unanswered) return;
    this.#lookTimer = every(clock, BOUNDS.silentLookMs, async () => {
      if (this.#open.size > 0) this.#cutVanished(await unanswered(), stopwatch.now());
    });
  }

  #cutVanished(unanswered: Unanswered, now: number): void {
    const writers = new Map<Socket, StreamWriter>();
    if (unanswered.size > 0) {
      for (const { writer } of this.#open.values()) if (writer.socket) writers.set(writer.socket, writer);
    }
    for (const socket of this.#peers.look(writers.keys(), unanswered, now)) writers.get(socket)!.cut();
  }

  /** A client that has a new token by then reconnects with it. */
  #endExpired(now: number): void {
    const { isWithdrawn } = this.#options;
    for (const [stream, { expiresAt, keyId }] of this.#readers) {
      const isOver = (expiresAt !== undefined && expiresAt <= now) || (keyId !== undefined && isWithdrawn?.(keyId));
      if (isOver) stream.writer.endEarly("token_expired", now);
    }
  }

  #reconcileNext(): void {
    for (const [writer, stream] of [...this.#open].slice(0, RECONCILED)) {
      this.#open.delete(writer);
      this.#open.set(writer, stream);
      stream.reconcile?.();
    }
  }

  /** @param reader the caller, where callers authenticate: the stream ends with the caller's credential */
  add(stream: Stream, reader?: Caller): void {
    const { writer } = stream;
    this.#open.set(writer, stream);
    this.#addConnection(stream);
    if (reader) {
      this.#readers.set(stream, reader);
      this.#count(reader, 1);
    }
    writer.onClose = this.#onClose;
    if (writer.isClosed) this.#remove(writer);
  }

  #remove(writer: object): void {
    const stream = this.#open.get(writer);
    if (!stream) return;
    this.#open.delete(writer);
    this.#dropConnection(stream);
    const reader = this.#readers.get(stream);
    this.#readers.delete(stream);
    if (reader) this.#count(reader, -1);
    if (stream.writer.isCut) this.#options.onCut();
    stream.close();
  }

  /**
   * The owner's open connection on this node; of several, the one that has just come. Undefined if it has none, or
   * several of which none has just come.
   */
  connectionOf(ownerId: string | undefined): ConnectionId | undefined {
    const open = [...(this.#connections.get(ownerId) ?? [])];
    const [newest, cameAt] = open.at(-1) ?? [];
    const id = newest?.connection?.id;
    const isOnly = open.every(([{ connection }]) => connection!.id === id);
    return isOnly || this.#options.stopwatch.now() - cameAt! < JUST_CAME_MS ? id : undefined;
  }

  #addConnection(stream: Stream): void {
    const { connection } = stream;
    if (!connection) return;
    const { ownerId } = connection;
    const open = this.#connections.get(ownerId) ?? new Map<Stream, number>();
    this.#connections.set(ownerId, open.set(stream, this.#options.stopwatch.now()));
  }

  #dropConnection(stream: Stream): void {
    const ownerId = stream.connection?.ownerId;
    const open = this.#connections.get(ownerId);
    if (open?.delete(stream) && open.size === 0) this.#connections.delete(ownerId);
  }

  #count({ id }: Caller, change: number): void {
    const count = (this.#counts.get(id) ?? 0) + change;
    if (count > 0) this.#counts.set(id, count);
    else this.#counts.delete(id);
  }

  /** When a client that is sent away should reconnect, in ms. Spread, so that clients do not return together. */
  reconnectInMs(): number {
    return Math.round(1_000 + this.#options.random() * 4_000);
  }

  /** End every stream with a `bye`, spread over this many ms. */
  async drain(withinMs: number): Promise<void> {
    this.#drainMs = withinMs;
    const { clock } = this.#options;
    const streams = [...this.#open.values()];
    const spreadMs = Math.min(withinMs / 2, streams.length * 2);
    const ended = streams.map(
      (stream, index) =>
        new Promise<void>((resolve) => {
          const { onClose } = stream.writer;
          stream.writer.onClose = (writer) => {
            onClose(writer);
            resolve();
          };
          clock.after((index / streams.length) * spreadMs, () => {
            stream.writer.endEarly("draining", clock.now(), this.reconnectInMs());
          });
          // Cut a stream whose reader does not take its `bye`.
          clock.after(Math.max(spreadMs, withinMs - 200), () => stream.writer.destroy());
        }),
    );
    await Promise.all(ended);
    this.stop();
  }

  stop(): void {
    this.#timer?.cancel();
    this.#lookTimer?.cancel();
    for (const { writer } of this.#open.values()) writer.destroy();
  }
}
