import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Worker } from "node:worker_threads";
import { onTestFinished } from "vitest";
import type { Clock } from "../../../src/protocol/ports/clock.ts";
import type { Logger } from "../../../src/protocol/ports/logger.ts";
import { openSqliteStore } from "../../../src/store/sqlite/sqlite-store.ts";
import { NOON } from "./floor-writer.ts";

/** A clock that stands still until it is moved; nothing waits on it. */
export class StandingClock implements Clock {
  time = NOON;

  now(): number {
    return this.time;
  }

  after(): { cancel(): void } {
    return { cancel() {} };
  }
}

/** Keeps what is logged. */
export class KeptLog implements Logger {
  readonly lines: string[] = [];
  #error = Promise.withResolvers<string>();

  debug(): void {}

  info(_facts: object, message: string): void {
    this.lines.push(message);
  }

  warn(_facts: object, message: string): void {
    this.lines.push(message);
  }

  error(_facts: object, message: string): void {
    this.lines.push(message);
    this.#error.resolve(message);
    this.#error = Promise.withResolvers();
  }

  /** Resolves with the next error. */
  nextError(): Promise<string> {
    return this.#error.promise;
  }
}

/** A private folder with room for one database. */
export async function makeFolder(): Promise<{ folder: string; file: string; remove: () => Promise<void> }> {
  const folder = await mkdtemp(join(tmpdir(), "interlock-test-"));
  return { folder, file: join(folder, "interlock.db"), remove: () => rm(folder, { recursive: true, force: true }) };
}

/** Open a store; closed when the test ends, if not before. */
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
