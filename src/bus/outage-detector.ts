// Rule C21 of docs/inside/correctness.md.
import type { Clock, Timer } from "../shared/ports/clock.ts";
import { every } from "../shared/waiting.ts";

/**
 * The interval between two beats, in ms. After two missed beats the bus counts as away. An outage is therefore detected
 * within 1.5 s, whenever it begins, so that commands are answered within 2 s (rule C21).
 */
const BEAT_MS = 500;
const MISSED = 2;
/** A connection that has missed this many beats in a row is replaced by a new connection: it may never recover. */
const DEAD_AFTER = 10;

export interface OutageDetectorOptions {
  clock: Clock;
  /** The number of connections that messages arrive on; each is probed separately. */
  connections: number;
  /** Publish a beat, which arrives on this connection if the bus works. */
  send: (connection: number, beat: string) => void;
  /** Called when a connection has missed two beats in a row. */
  onAway: () => void;
  /** Called when beats come back on every connection again. */
  onBack: () => void;
  /** Called with the connections that have missed ten beats in a row, and again after each ten more. */
  onDead: (connections: number[]) => void;
}

/**
 * Detects whether the messages that this node publishes come back to it. A frozen or cut-off server leaves its
 * connections open and writes to them wait, so only a missing answer reveals the outage (rule C21).
 */
export class OutageDetector {
  readonly #options: OutageDetectorOptions;
  /** The newest beat that came back, by connection. */
  readonly #received: number[];
  #beat = 0;
  #missed: number[];
  #isAway = false;
  #timer: Timer | undefined;

  constructor(options: OutageDetectorOptions) {
    this.#options = options;
    this.#received = Array.from({ length: options.connections }, () => 0);
    this.#missed = this.#received.map(() => 0);
  }

  get isAway(): boolean {
    return this.#isAway;
  }

  start(): void {
    this.#next();
    this.#timer = every(this.#options.clock, BEAT_MS, () => this.#next());
  }

  stop(): void {
    this.#timer?.cancel();
  }

  /**
   * Record a beat that came back. An older beat than the newest says nothing about the present and is ignored, as is
   * one that was not sent: it would hide every outage until its number is reached.
   */
  receive(connection: number, text: string): void {
    const beat = Number(text);
    if (!(beat > this.#received[connection]! && beat <= this.#beat)) return;
    this.#received[connection] = beat;
    if (!this.#isAway || this.#received.some((each) => each < this.#beat)) return;
    this.#isAway = false;
    this.#options.onBack();
  }

  #next(): void {
    const { connections, send, onAway, onDead } = this.#options;
    this.#missed = this.#missed.map((missed, connection) =>
      this.#received[connection]! < this.#beat ? missed + 1 : 0,
    );
    if (!this.#isAway && this.#missed.some((missed) => missed >= MISSED)) {
      this.#isAway = true;
      onAway();
    }
    const dead = this.#missed.flatMap((missed, connection) =>
      missed > 0 && missed % DEAD_AFTER === 0 ? [connection] : [],
    );
    if (dead.length > 0) onDead(dead);
    this.#beat += 1;
    for (let connection = 0; connection < connections; connection++) send(connection, String(this.#beat));
  }
}
