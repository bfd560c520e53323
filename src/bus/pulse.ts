import type { Clock, Timer } from "../protocol/clock.ts";

/**
 * Between two beats, in ms. With two of them missed a bus that is away is known to be within 1.5 s, whenever it went,
 * so that commands are answered within two (rule C21).
 */
const BEAT_MS = 500;
const MISSED = 2;
/** A line that has missed so many beats in a row is given up for a new one: nobody may ever answer on it again. */
const HOPELESS = 10;

export interface PulseOptions {
  clock: Clock;
  /** How many lines messages come in on; each is felt apart. */
  lines: number;
  /** Publish a beat so that it comes back on the line, if anything does. */
  send: (line: number, beat: string) => void;
  /** Nothing came back on some line, twice. */
  onAway: () => void;
  /** Everything comes back again. */
  onBack: () => void;
  /** Nothing has come back on these for long. */
  onHopeless: (lines: number[]) => void;
}

/**
 * Whether what this node publishes comes back to it. A server that is frozen, or cut off, leaves its connections as they
 * are, and what is written to them waits: only an answer that stays out tells (rule C21).
 */
export class Pulse {
  readonly #options: PulseOptions;
  /** The newest beat that came back, by line. */
  readonly #heard: number[];
  #beat = 0;
  #missed: number[];
  #isAway = false;
  #timer: Timer | undefined;

  constructor(options: PulseOptions) {
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

  /** A beat came back. One that is late says nothing about now. */
  hear(line: number, text: string): void {
    const beat = Number(text);
    if (!(beat > this.#heard[line]!)) return;
    this.#heard[line] = beat;
    if (!this.#isAway || this.#heard.some((each) => each < this.#beat)) return;
    this.#isAway = false;
    this.#options.onBack();
  }

  #next(): void {
    const { clock, lines, send, onAway, onHopeless } = this.#options;
    this.#missed = this.#missed.map((missed, line) => (this.#heard[line]! < this.#beat ? missed + 1 : 0));
    if (!this.#isAway && this.#missed.some((missed) => missed >= MISSED)) {
      this.#isAway = true;
      onAway();
    }
    const hopeless = this.#missed.flatMap((missed, line) => (missed > 0 && missed % HOPELESS === 0 ? [line] : []));
    if (hopeless.length > 0) onHopeless(hopeless);
    this.#beat += 1;
    for (let line = 0; line < lines; line++) send(line, String(this.#beat));
    this.#timer = clock.after(BEAT_MS, () => this.#next());
  }
}
