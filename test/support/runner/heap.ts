import { getHeapSpaceStatistics, setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

setFlagsFromString("--expose-gc");

/** Collect all garbage now. */
export const collectGarbage: () => void = runInNewContext("gc");

/** The bytes that are in use after a collection of garbage. */
export function heapBytes(): number {
  collectGarbage();
  return process.memoryUsage().heapUsed;
}

/** Collect garbage among what is new. What survives it twice is old. */
export const collectYoung: () => void = runInNewContext("() => gc({ type: 'minor' })");

/** Bytes of the old generation, those included that only a major collection would find to be garbage. */
export const oldBytes = (): number =>
  getHeapSpaceStatistics().find(({ space_name }) => space_name === "old_space")!.space_used_size;

/**
 * Repeat work that keeps nothing, with minor collections between.
 * @returns the bytes that it left to major collections for each repetition: a minor one took them for still in use
 */
export async function bytesLeft(work: () => void | Promise<void>, repetitions = 40): Promise<number> {
  // What the work has in use meanwhile becomes old first, as in a process that has run for long.
  for (let warmUp = 0; warmUp < 5; warmUp++) {
    await work();
    collectYoung();
    collectYoung();
  }
  collectGarbage();
  const before = oldBytes();
  for (let repetition = 0; repetition < repetitions; repetition++) {
    await work();
    collectYoung();
    collectYoung();
  }
  return Math.round((oldBytes() - before) / repetitions);
}

/** Some 3 KB of small objects. */
export const ballast = (): object[] => Array.from({ length: 50 }, () => ({}));

/** The bytes of a hundred of them. */
export const ROUND_BYTES = 330_000;
