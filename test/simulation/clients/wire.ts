import { EventEmitter } from "node:events";
import type { ServerResponse } from "node:http";
import type { Life } from "../nodes/life.ts";
import type { SimClock } from "../sim-clock.ts";

/** The kernel's buffers are small here: this multiple of the unread data counts as unsent. */
const SCALE = 64;
const TRAVEL_MS = 2;
/** The limit of unread characters, besides the largest frame: the bound of a stream and a few frames more. */
const MAX_UNREAD = 131_072;

export interface WireListener {
  /** The written data, in order. */
  receive(text: string): void;
  /** The gateway keeps writing to a reader that does not read. */
  overrun(bytes: number): void;
  /** The gateway ended it in order, or it broke. */
  ended(isClean: boolean): void;
}

/** One response between a gateway and a reader: the parts of `ServerResponse` and its socket that a stream uses. */
export class Wire extends EventEmitter {
  readonly #life: Life;
  readonly #clock: SimClock;
  readonly #listener: WireListener;
  #state: "open" | "ending" | "closed" = "open";
  #hasReaderLeft = false;
  /** Written, and not read yet. */
  #unread: string[] = [];
  #unreadBytes = 0;
  #taken = 0;
  #isStuffed = false;
  #unreadSince: number | undefined;

  constructor(life: Life, clock: SimClock, listener: WireListener) {
    super();
    this.#life = life;
    this.#clock = clock;
    this.#listener = listener;
    life.onDeath(() => this.#break());
  }

  get asResponse(): ServerResponse {
    return this as unknown as ServerResponse;
  }

  // The gateway's side.

  get destroyed(): boolean {
    return this.#state === "closed";
  }

  get socket(): this {
    return this;
  }

  get writable(): boolean {
    return this.#state === "open";
  }

  get writableEnded(): boolean {
    return false;
  }

  get writableLength(): number {
    return this.#unreadBytes * SCALE;
  }

  get bytesWritten(): number {
    return this.#taken + this.writableLength;
  }

  resetAndDestroy(): void {
    this.destroy();
  }

  writeHead(): void {}

  flushHeaders(): void {}

  write(chunk: Uint8Array | string): void {
    if (this.#state !== "open" || !this.#life.acts()) return;
    const text = typeof chunk === "string" ? chunk : Buffer.from(chunk).toString();
    this.#unread.push(text);
    this.#unreadBytes += text.length;
    this.#unreadSince ??= this.#clock.now();
    // One frame of any size takes a stream past its bound, and a few small ones that cannot wait follow.
    if (this.#unreadBytes > MAX_UNREAD && this.#unreadBytes - this.#largestUnread > MAX_UNREAD)
      this.#listener.overrun(this.#unreadBytes);
    if (!this.#isStuffed) this.#clock.after(TRAVEL_MS, () => this.#take());
  }

  end(): void {
    if (this.#state !== "open" || !this.#life.acts()) return;
    this.#state = "ending";
    this.#clock.after(TRAVEL_MS, () => this.#take());
  }

  destroy(): void {
    if (this.#state === "closed" || !this.#life.acts()) return;
    this.#close(false);
  }

  /** Since when text waits that the reader does not read; undefined when none does. */
  get unreadSince(): number | undefined {
    return this.#isStuffed && this.#state === "open" ? this.#unreadSince : undefined;
  }

  get isStuffed(): boolean {
    return this.#isStuffed;
  }

  get #largestUnread(): number {
    return Math.max(...this.#unread.map(({ length }) => length));
  }

  // The reader's side.

  /** Stop reading for a while. */
  stuff(isStuffed: boolean): void {
    this.#isStuffed = isStuffed;
    if (!isStuffed) this.#take();
  }

  /** Disconnect without notice. Until the gateway notices, its writes are lost. */
  leave(unnoticedMs = 0): void {
    this.#hasReaderLeft = true;
    if (unnoticedMs > 0) return void this.#clock.after(unnoticedMs, () => this.leave());
    if (this.#state === "closed") return;
    this.#state = "closed";
    this.#clock.after(TRAVEL_MS, () => this.#life.enter(() => this.emit("close")));
  }

  #take(): void {
    if (this.#isStuffed || this.#hasReaderLeft) return;
    const wasBehind = this.#unreadBytes > 0;
    this.#unreadSince = undefined;
    for (const text of this.#unread.splice(0)) {
      this.#unreadBytes -= text.length;
      this.#taken += text.length;
      this.#listener.receive(text);
      if (this.#hasReaderLeft) return;
    }
    if (this.#state === "ending") this.#close(true);
    else if (wasBehind && this.#state === "open") this.#life.enter(() => this.emit("drain"));
  }

  #close(isClean: boolean): void {
    this.#state = "closed";
    if (!this.#hasReaderLeft) this.#clock.after(TRAVEL_MS, () => this.#tellEnded(isClean));
    this.#clock.after(0, () => this.#life.enter(() => this.emit("close")));
  }

  /** The process at the other end is gone. */
  #break(): void {
    if (this.#state === "closed") return;
    this.#state = "closed";
    this.#clock.after(TRAVEL_MS, () => this.#tellEnded(false));
  }

  #tellEnded(isClean: boolean): void {
    if (this.#hasReaderLeft) return;
    this.#hasReaderLeft = true;
    this.#listener.ended(isClean);
  }
}
