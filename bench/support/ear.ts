import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";

const SAMPLE_RATE = 48_000;
/** A sample beyond this is audible: -60 dB of full scale. */
const AUDIBLE = 33;
/**
 * Silence and sound last this long before they count, in ms: longer than any gap between two pieces of the recording.
 */
const LASTS_MS = 300;
const STEP_MS = 5;
const TIMEOUT_MS = 20_000;

/** Listens to a sink's monitor, and knows when it heard the last audible sample. */
export class Ear implements AsyncDisposable {
  readonly #recorder: ChildProcess;
  /** When the last audible sample was heard, and the last one that was not, in the time of `performance.now`. */
  #audibleAt = Number.NEGATIVE_INFINITY;
  #silentAt = Number.NEGATIVE_INFINITY;

  private constructor(recorder: ChildProcess) {
    this.#recorder = recorder;
    recorder.stdout!.on("data", (chunk: Buffer) => this.#take(chunk));
  }

  static async open(sink: string, env: NodeJS.ProcessEnv): Promise<Ear> {
    const format = ["--raw", "--format=s16le", `--rate=${SAMPLE_RATE}`, "--channels=1", "--latency-msec=5"];
    const recorder = spawn("parec", [`--device=${sink}.monitor`, ...format], {
      env,
      stdio: ["ignore", "pipe", "ignore"],
    });
    await once(recorder, "spawn");
    return new Ear(recorder);
  }

  /** Wait for silence. @returns when the last audible sample was heard, in the time of `performance.now` */
  async silence(): Promise<number> {
    await this.#until("silence", () => this.#silentAt - this.#audibleAt > LASTS_MS);
    return this.#audibleAt;
  }

  /** Wait for sound. */
  async sound(): Promise<void> {
    let begunAt: number | undefined;
    await this.#until("sound", () => {
      const isAudible = this.#audibleAt >= this.#silentAt - STEP_MS;
      begunAt = isAudible ? (begunAt ?? performance.now()) : undefined;
      return begunAt !== undefined && performance.now() - begunAt > LASTS_MS;
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const ended = once(this.#recorder, "exit");
    this.#recorder.kill("SIGKILL");
    await ended;
  }

  async #until(what: string, isSo: () => boolean): Promise<void> {
    const end = performance.now() + TIMEOUT_MS;
    while (!isSo()) {
      if (performance.now() > end) throw new Error(`no ${what} within ${TIMEOUT_MS} ms`);
      await sleep(STEP_MS);
    }
  }

  #take(chunk: Buffer): void {
    const now = performance.now();
    const count = Math.floor(chunk.length / 2);
    this.#silentAt = now;
    for (let at = count - 1; at >= 0; at -= 1) {
      if (Math.abs(chunk.readInt16LE(at * 2)) <= AUDIBLE) continue;
      this.#audibleAt = now - ((count - 1 - at) / SAMPLE_RATE) * 1_000;
      return;
    }
  }
}
