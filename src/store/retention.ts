import type { Clock, Timer } from "../protocol/clock.ts";
import type { Logger } from "../protocol/logger.ts";
import type { Store } from "./store.ts";

export interface RetentionOptions {
  store: Pick<Store, "prune">;
  clock: Clock;
  log: Logger;
  /** How often, and how many rows at a time. */
  everyMs: number;
  limit: number;
  /** Receipts and tombstones are kept so long. */
  receiptMs: number;
  /** Events of archived sessions are kept so long; undefined keeps them for ever. */
  retentionMs: number | undefined;
  /** After the wall clock jumped nothing is pruned for so long: what it says is in doubt (rule C9). */
  doubtMs: number;
  /** Whether it is this node that prunes, of several on one store. */
  isMine: () => boolean;
}

/** Forgets what is past its time, a little at a time, so that no writer waits behind it. */
export class Retention {
  readonly #options: RetentionOptions;
  #timer: Timer | undefined;
  #pruning: Promise<void> | undefined;
  #doubtfulUntil = 0;
  #isStopped = false;

  constructor(options: RetentionOptions) {
    this.#options = options;
  }

  start(): void {
    const { clock, everyMs } = this.#options;
    this.#timer = clock.after(everyMs, () => {
      this.#pruning = this.prune().finally(() => {
        if (!this.#isStopped) this.start();
      });
    });
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#timer?.cancel();
    await this.#pruning;
  }

  /** The wall clock jumped. */
  suspend(): void {
    this.#doubtfulUntil = this.#options.clock.now() + this.#options.doubtMs;
  }

  /** Prune until there is nothing more to prune. Never rejects. */
  async prune(): Promise<void> {
    const { store, clock, log, limit, receiptMs, retentionMs, isMine } = this.#options;
    try {
      for (let isMore = true; isMore && !this.#isStopped && isMine(); ) {
        const now = clock.now();
        if (now < this.#doubtfulUntil) return;
        isMore = await store.prune({
          now,
          receiptsBefore: now - receiptMs,
          ...(retentionMs !== undefined && { eventsBefore: now - retentionMs }),
          limit,
        });
      }
    } catch (error) {
      log.warn({ err: error }, "what is past its time could not be pruned");
    }
  }
}
