import type { Worker } from "node:worker_threads";
import { onTestFinished } from "vitest";
import { openSqliteStore } from "../../../src/store/sqlite/sqlite-store.ts";
import { KeptLog, makeFolder, StandingClock } from "./sqlite-place.ts";

/** A private folder for one database, which is deleted when the test ends, a clock that stands still and a log. */
export async function makePlace(): Promise<{ folder: string; file: string; clock: StandingClock; log: KeptLog }> {
  const { folder, file, remove } = await makeFolder();
  onTestFinished(remove);
  return { folder, file, clock: new StandingClock(), log: new KeptLog() };
}

/** Open a store; closed when the test ends at the latest. */
export async function openStore(options: Parameters<typeof openSqliteStore>[0]): ReturnType<typeof openSqliteStore> {
  const store = await openSqliteStore(options);
  onTestFinished(() => store.close());
  return store;
}

/** The threads that this test starts from now on. */
export function keepThreads(): Worker[] {
  const threads: Worker[] = [];
  const keep = (thread: Worker) => threads.push(thread);
  process.on("worker", keep);
  onTestFinished(() => void process.off("worker", keep));
  return threads;
}
