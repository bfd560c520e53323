import { killMarked } from "./process-sweep.ts";

/**
 * A separate process for each worker that has started programs. Its standard input ends with the worker, whatever the
 * cause, and then it kills the remaining processes of the worker's programs.
 */
const prefixes = process.argv.slice(2).filter((prefix) => prefix !== "");
process.stdin.resume();
process.stdin.on("error", () => {});
process.stdin.on("close", async () => {
  if (prefixes.length > 0) await killMarked(prefixes);
});
