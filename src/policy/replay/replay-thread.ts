import { Worker } from "node:worker_threads";
import type { AgentDefinition } from "../../config/catalog/definition.ts";
import type { Fault } from "../../config/fault.ts";

export interface ReplayJob {
  floorId: string;
  /** The other catalogue, as text. */
  yaml: Uint8Array;
  /** Agents that are defined in the database: the other catalogue has them too. */
  definitions: readonly AgentDefinition[];
  /** How long a session that was refused is heard, if it is not refused now, in ms. */
  refusedLastMs: number;
}

/** The JSON of events, the newest first; or that these were all. `hasMore`: older ones were left out. */
export type ReplayInput = { readonly events: readonly string[] } | { readonly hasMore: boolean };

/** `json`: a `FloorReplay` with the events before and after. */
export type ReplayOutcome =
  | { readonly kind: "played"; readonly json: string }
  | { readonly kind: "faulty"; readonly faults: readonly Fault[] }
  /** It needs too much memory, or too long an answer. */
  | { readonly kind: "too_large" }
  /** It was closed before it was done. */
  | { readonly kind: "closed" };

const ENTRY = new URL(import.meta.url.endsWith(".ts") ? "./replay-main.ts" : "./replay-main.js", import.meta.url);

/**
 * Plays a floor's log with another catalogue, in a thread of its own: reading a catalogue and playing a log take
 * seconds, which would hold up everything else that a node does. The thread has bounded memory, and can be ended at any
 * time.
 */
export class ReplayThread {
  readonly outcome: Promise<ReplayOutcome>;
  readonly #worker: Worker;
  readonly #exited = Promise.withResolvers<void>();
  #isEnding = false;

  /** @param maxMemory in MiB */
  constructor(job: ReplayJob, maxMemory: number) {
    const worker = new Worker(ENTRY, { workerData: job, resourceLimits: { maxOldGenerationSizeMb: maxMemory } });
    this.#worker = worker;
    const { promise, resolve, reject } = Promise.withResolvers<ReplayOutcome>();
    this.outcome = promise;
    // Its failure is told where it is awaited, which may be later.
    promise.catch(() => undefined);
    worker.on("message", resolve);
    worker.on("error", (error: NodeJS.ErrnoException) => {
      if (error.code === "ERR_WORKER_OUT_OF_MEMORY") resolve({ kind: "too_large" });
      else reject(error);
    });
    worker.on("exit", () => {
      this.#isEnding = true;
      resolve({ kind: "closed" });
      this.#exited.resolve();
    });
  }

  /** Give it events of the log, the newest first. */
  add(events: readonly string[]): void {
    this.#worker.postMessage({ events } satisfies ReplayInput);
  }

  /** All events were added. @param hasMore older ones were left out */
  play(hasMore: boolean): Promise<ReplayOutcome> {
    this.#worker.postMessage({ hasMore } satisfies ReplayInput);
    return this.outcome;
  }

  get isEnding(): boolean {
    return this.#isEnding;
  }

  /** End the thread, whatever it does. Resolves when its memory is free. */
  async close(): Promise<void> {
    this.#isEnding = true;
    await this.#worker.terminate();
    await this.#exited.promise;
  }
}
