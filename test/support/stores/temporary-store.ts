import { onTestFinished } from "vitest";
import type { Clock } from "../../../src/shared/ports/clock.ts";
import { openSqliteStore } from "../../../src/store/sqlite/sqlite-store.ts";
import type { Store } from "../../../src/store/store.ts";
import { KeptLog, makeFolder, StandingClock } from "./sqlite-place.ts";

/** A private folder for one database, which is deleted when the test ends, a clock that stands still and a log. */
export async function makePlace(): Promise<{ folder: string; file: string; clock: StandingClock; log: KeptLog }> {
  const { folder, file, remove } = await makeFolder();
  onTestFinished(remove);
  return { folder, file, clock: new StandingClock(), log: new KeptLog() };
}

/** A real SQLite store that is deleted when the test ends. */
export async function openTemporaryStore(clock: Clock = new StandingClock()): Promise<Store> {
  const store = await openSqliteStore({ file: ":memory:", clock, log: new KeptLog() });
  onTestFinished(() => store.close());
  return store;
}

/** A store, or another port, with some of its methods replaced. */
export function withMethods<T extends object = Store>(port: T, methods: Partial<T>): T {
  return new Proxy(port, {
    get(target, name) {
      const replaced = methods[name as keyof T];
      if (replaced !== undefined) return replaced;
      const own = target[name as keyof T];
      return typeof own === "function" ? (own as (...given: unknown[]) => unknown).bind(target) : own;
    },
  });
}
