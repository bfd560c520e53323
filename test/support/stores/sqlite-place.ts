import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Clock } from "../../../src/shared/ports/clock.ts";
import type { Logger } from "../../../src/shared/ports/logger.ts";
import { NOON } from "./floor-writer.ts";

/** A clock that stands still until the test moves it; its waits never end. */
export class StandingClock implements Clock {
  time = NOON;

  now(): number {
    return this.time;
  }

  after(): { cancel(): void } {
    return { cancel() {} };
  }
}

/** Collects log entries. */
export class KeptLog implements Logger {
  readonly lines: string[] = [];
  #error = Promise.withResolvers<string>();
  #info = Promise.withResolvers<string>();

  debug(): void {}

  info(_facts: object, message: string): void {
    this.lines.push(message);
    this.#info.resolve(message);
    this.#info = Promise.withResolvers();
  }

  warn(_facts: object, message: string): void {
    this.lines.push(message);
  }

  error(_facts: object, message: string): void {
    this.lines.push(message);
    this.#error.resolve(message);
    this.#error = Promise.withResolvers();
  }

  /** Resolves with the next line of the level "info". */
  nextInfo(): Promise<string> {
    return this.#info.promise;
  }

  /** Resolves with the next error. */
  nextError(): Promise<string> {
    return this.#error.promise;
  }
}

/** A private folder for one database or for anything else. `atEnd` is given what removes it. */
export async function makeFolder(atEnd?: (remove: () => Promise<void>) => void) {
  const folder = await mkdtemp(join(tmpdir(), "interlock-test-"));
  const remove = () => rm(folder, { recursive: true, force: true });
  atEnd?.(remove);
  return { folder, file: join(folder, "interlock.db"), remove };
}
