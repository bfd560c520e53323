// Rule C21 of docs/inside/correctness.md.
import type { Clock, Timer } from "../shared/ports/clock.ts";

/**
 * The interval between two beats, in ms. After two missed beats the bus counts as away. An outage is therefore detected
 * within 1.5 s, whenever it begins, so that commands are answered within 2 s (rule C21).
 */
const BEAT_MS = 500;
const MISSED = 2;
/** A line that has missed this many beats in a row is replaced by a new connection: it may never recover. */
const DEAD_AFTER = 10;

export interface OutageDetectorOptions {
  clock: Clock;
  /** The number of lines that messages arrive on; each is probed separately. */
  lines: number;
  /** Publish a beat that comes back on this line when the bus works. */
  send: (line: number, beat: string) => void;
  /** Called when a line has missed two beats in a row. */
  onAway: () => void;
  /** Called when beats come back on every line again. */
  onBack: () => void;
  /** Called with the lines that have missed ten further beats in a row. */
  onDead: (lines: number[]) => void;
}

/**
 * Detects whether the messages that this node publishes come back to it. A frozen or cut-off server leaves its
 * connections open and writes to them wait, so only a missing answer reveals the outage (rule C21).
 */
export class OutageDetector {
  readonly #options: OutageDetectorOptions;
  /** The newest beat that came back, by line. */
  readonly #heard: number[];
  #beat = 0;
  #missed: number[];
  #isAway = false;
  #timer: Timer | undefined;

  constructor(options: OutageDetectorOptions) {
    this.#options = options;
    this.#heard = Array.from({ length: options.lines }, () => 0);
    this.#missed = this.#heard.map(() => 0);
  }

  get isAway(): boolean {
    return this.#isAway;
  }

  start(): void {
    this.#next();
  }

  stop(): void {
    this.#timer?.cancel();
  }

  /**
   * Record a beat that came back. An older beat than the newest says nothing about the present and is ignored, as is one
   * that was not sent: it would hide every outage until its number is reached.
   */
  hear(line: number, text: string): void {
    const beat = Number(text);
    if (!(beat > this.#heard[line]! && beat <= this.#beat)) return;
    this.#heard[line] = beat;
    if (!this.#isAway || this.#heard.some((each) => each < this.#beat)) return;
    this.#isAway = false;
    this.#options.onBack();
  }

  #next(): void {
    const { clock, lines, send, onAway, onDead } = this.#options;
    this.#missed = this.#missed.map((missed, line) => (this.#heard[line]! < this.#beat ? missed + 1 : 0));
    if (!this.#isAway && this.#missed.some((missed) => missed >= MISSED)) {
      this.#isAway = true;
      onAway();
    }
    const dead = this.#missed.flatMap((missed, line) => (missed > 0 && missed % DEAD_AFTER === 0 ? [line] : []));
    if (dead.length > 0) onDead(dead);
    this.#beat += 1;
    for (let line = 0; line < lines; line++) send(line, String(this.#beat));
    this.#timer = clock.after(BEAT_MS, () => this.#next());
  }
}
