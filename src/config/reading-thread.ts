import { Worker } from "node:worker_threads";
import { BOUNDS } from "../bounds.ts";
import type { Fault } from "../fault.ts";

/** Without faults: the value that the text has as YAML, from which the catalogue follows. */
export type ExaminedText = { ok: true; value: unknown } | { ok: false; faults: Fault[] };

/** The thread ended without a result. The message says why, and continues “the file”. */
export class UnfinishedExamination extends Error {}

const ENTRY = new URL(import.meta.url.endsWith(".ts") ? "./catalog-main.ts" : "./catalog-main.js", import.meta.url);
/** The last examination of this process: one runs at a time, so that they do not add up their memory. */
let last: Promise<unknown> = Promise.resolve();

/**
 * Examine the text of a catalogue in a thread of its own, with bounded memory: a large one takes seconds, which would
 * hold up everything else that a node does.
 * @param maxMemory in MiB
 * @throws UnfinishedExamination if it needs too much memory, or its thread fails
 */
export function examineApart(text: string, maxMemory: number = BOUNDS.catalogMemory): Promise<ExaminedText> {
  const examination = last.then(() => examine(text, maxMemory));
  last = examination.catch(() => undefined);
  return examination;
}

function examine(text: string, maxMemory: number): Promise<ExaminedText> {
  const { promise, resolve, reject } = Promise.withResolvers<ExaminedText>();
  const worker = new Worker(ENTRY, { workerData: text, resourceLimits: { maxOldGenerationSizeMb: maxMemory } });
  worker.on("message", resolve);
  worker.on("error", (error: NodeJS.ErrnoException) => {
    const isMemory = error.code === "ERR_WORKER_OUT_OF_MEMORY";
    const reason = isMemory ? "takes too much memory to read" : `cannot be examined: ${error.message}`;
    reject(new UnfinishedExamination(reason, { cause: error }));
  });
  worker.on("exit", (code) => reject(new UnfinishedExamination(`cannot be examined: its thread ended with ${code}`)));
  return promise;
}
