import { killMarked } from "./process-sweep.ts";

/**
 * A process of its own beside each worker that has started programs. Its standard input ends when the worker does,
 * however that came about, and then it kills what the worker's programs left running.
 */
const owner = process.argv[2] ?? "";
process.stdin.resume();
process.stdin.on("error", () => {});
process.stdin.on("close", async () => {
  if (owner !== "") await killMarked(owner);
});
