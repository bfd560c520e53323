import { Worker } from "node:worker_threads";
import { BOUNDS } from "./bounds.ts";

/** The thread ended without a result. The message says why, and continues “the file”. */
export class UnfinishedReading extends Error {}

/** Reading a text of this size takes a tenth of a second at worst, hardly longer than to begin a thread. */
export const SMALL_BYTES = 16_384;
/** The last reading of this process: one runs at a time, so that they do not add up their memory. */
let last: Promise<unknown> = Promise.resolve();

/**
 * Read a file in a thread of its own, with bounded memory: a large one takes seconds, which would hold up everything
 * else that a node does.
 * @param main the address of a module without its extension: it reads `workerData`, and posts the result
 * @param maxMemory in MiB
 * @throws UnfinishedReading if it needs too much memory, or its thread fails
 */
export function readApart<Reading>(
  main: URL,
  workerData: unknown,
  maxMemory: number = BOUNDS.catalogMemory,
): Promise<Reading> {
  const reading = last.then(() => read<Reading>(main, workerData, maxMemory));
  last = reading.catch(() => undefined);
  return reading;
}

function read<Reading>(main: URL, workerData: unknown, maxMemory: number): Promise<Reading> {
  const { promise, resolve, reject } = Promise.withResolvers<Reading>();
  const entry = new URL(`${main.href}${import.meta.url.endsWith(".ts") ? ".ts" : ".js"}`);
  const worker = new Worker(entry, { workerData, resourceLimits: { maxOldGenerationSizeMb: maxMemory } });
  worker.on("message", resolve);
  worker.on("error", (error: NodeJS.ErrnoException) => {
    const isMemory = error.code === "ERR_WORKER_OUT_OF_MEMORY";
    const reason = isMemory ? "takes too much memory to read" : `cannot be read: ${error.message}`;
    reject(new UnfinishedReading(reason, { cause: error }));
  });
  worker.on("exit", (code) => reject(new UnfinishedReading(`cannot be read: its thread ended with ${code}`)));
  return promise;
}
