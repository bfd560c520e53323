import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { SAMPLE_RATE } from "./sound-server.ts";

/** Length of one measurement, in ms. */
const STEP_MS = 10;
const BYTES_PER_STEP = (SAMPLE_RATE * STEP_MS) / 500;
/** The length of the measured window, in ms: longer than the pause between two syllables. */
const WINDOW_MS = 400;
const TIMEOUT_MS = 20_000;
/** A root mean square below this counts as silence, in dB of full scale. One bit of 16 is at -90. */
export const SILENCE_DB = -90;

interface Wait {
  test: (level: number) => boolean;
  resolve: (level: number) => void;
}

/** Records a sink's monitor and measures its level. */
export class Meter implements Disposable {
  readonly sink: string;
  readonly #recorder: ChildProcess;
  readonly #waits = new Set<Wait>();
  /** The energies of the newest steps, oldest first: sums of squared samples between -1 and 1. */
  readonly #energies: number[] = [];
  #rest: Buffer = Buffer.alloc(0);

  private constructor(sink: string, recorder: ChildProcess) {
    this.sink = sink;
    this.#recorder = recorder;
    recorder.stdout?.on("data", (chunk: Buffer) => this.#take(chunk));
  }

  /** @throws Error if the sink is not recorded within 20 s */
  static async open(sink: string, environment: Readonly<Record<string, string>>): Promise<Meter> {
    const format = ["--raw", "--format=s16le", `--rate=${SAMPLE_RATE}`, "--channels=1", "--latency-msec=20"];
    const recorder = spawn("parec", [`--device=${sink}.monitor`, ...format], {
      env: { ...process.env, ...environment },
      stdio: ["ignore", "pipe", "ignore"],
    });
    await once(recorder, "spawn");
    const meter = new Meter(sink, recorder);
    // It gets samples of silence too; a recording that was begun while the server was starting may get none.
    try {
      await once(recorder.stdout!, "data", { signal: AbortSignal.timeout(TIMEOUT_MS) });
      return meter;
    } catch (cause) {
      meter[Symbol.dispose]();
      throw new Error(`${sink}: nothing was recorded within 20 s`, { cause });
    }
  }

  /**
   * Wait until the last 400 ms pass the test.
   *
   * @param what the awaited sound, for the error
   * @param test gets the root mean square (RMS), in dB of full scale; `-Infinity` for digital silence
   * @returns the level that passed
   * @throws Error if no window passes within 20 s; it names the last level
   */
  async until(what: string, test: (level: number) => boolean): Promise<number> {
    const { promise, resolve, reject } = Promise.withResolvers<number>();
    // Sound from before the call does not count.
    this.#energies.length = 0;
    const wait = { test, resolve };
    this.#waits.add(wait);
    const timer = setTimeout(() => {
      reject(
        new Error(
          `${this.sink}: ${what} was not heard within 20 s; the last level was ${levelOf(this.#energies).toFixed(1)} dB`,
        ),
      );
    }, TIMEOUT_MS);
    try {
      return await promise;
    } finally {
      clearTimeout(timer);
      this.#waits.delete(wait);
    }
  }

  [Symbol.dispose](): void {
    this.#recorder.kill("SIGKILL");
  }

  #take(chunk: Buffer): void {
    const bytes = Buffer.concat([this.#rest, chunk]);
    let at = 0;
    for (; at + BYTES_PER_STEP <= bytes.length; at += BYTES_PER_STEP) {
      this.#energies.push(energyOf(bytes.subarray(at, at + BYTES_PER_STEP)));
      if (this.#energies.length > WINDOW_MS / STEP_MS) this.#energies.shift();
      this.#answer();
    }
    this.#rest = bytes.subarray(at);
  }

  #answer(): void {
    if (this.#waits.size === 0 || this.#energies.length < WINDOW_MS / STEP_MS) return;
    const level = levelOf(this.#energies);
    for (const wait of this.#waits) if (wait.test(level)) wait.resolve(level);
  }
}

function levelOf(energies: readonly number[]): number {
  const sum = energies.reduce((total, energy) => total + energy, 0);
  return sum === 0 ? Number.NEGATIVE_INFINITY : 10 * Math.log10(sum / ((energies.length * BYTES_PER_STEP) / 2));
}

function energyOf(samples: Buffer): number {
  let sum = 0;
  for (let at = 0; at < samples.length; at += 2) sum += (samples.readInt16LE(at) / 32_768) ** 2;
  return sum;
}
