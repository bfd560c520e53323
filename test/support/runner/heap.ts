import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

setFlagsFromString("--expose-gc");

/** Collect all garbage now. */
export const collectGarbage: () => void = runInNewContext("gc");

/** The bytes that are in use after a collection of garbage. */
export function heapBytes(): number {
  collectGarbage();
  return process.memoryUsage().heapUsed;
}
