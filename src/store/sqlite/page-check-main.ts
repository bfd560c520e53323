import { parentPort, workerData } from "node:worker_threads";
import { findDamage } from "./database-file.ts";
import type { PageCheckData } from "./page-check.ts";

/** The thread of a check. It posts what is wrong, if anything is, and ends. */
function check(port: NonNullable<typeof parentPort>, { file, ending }: PageCheckData): void {
  const fault = findDamage(file, () => Atomics.load(ending, 0) === 1);
  if (fault !== undefined) port.postMessage(fault);
}

if (parentPort) check(parentPort, workerData as PageCheckData);
