import { Worker } from "node:worker_threads";
import type { Logger } from "../../shared/ports/logger.ts";

/** What the check's thread gets. */
export interface PageCheckData {
  file: string;
  /** The first element is 1 when the thread must end. */
  ending: Int32Array;
}

export interface PageCheckOptions {
  file: string;
  log: Logger;
  /** Called at most once, with what is wrong. */
  onDamage: (fault: string) => void;
}

const ENTRY = new URL(
  import.meta.url.endsWith(".ts") ? "./page-check-main.ts" : "./page-check-main.js",
  import.meta.url,
);

/**
 * Checks the pages of a large database once, while it is served. The check takes seconds per gigabyte, so it has a
 * thread of its own, and neither reads nor writes wait for it.
 */
export class PageCheck {
  readonly #ending = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));
  readonly #ended = Promise.withResolvers<void>();

  constructor({ file, log, onDamage }: PageCheckOptions) {
    const worker = new Worker(ENTRY, { workerData: { file, ending: this.#ending } satisfies PageCheckData });
    worker.on("message", onDamage);
    worker.on("error", (err) => log.error({ err, file }, "the database's pages could not be checked"));
    worker.on("exit", () => this.#ended.resolve());
  }

  /** End the check. SQLite cannot be interrupted in the middle of a table, so this waits for the current one. */
  async close(): Promise<void> {
    Atomics.store(this.#ending, 0, 1);
    await this.#ended.promise;
  }
}
