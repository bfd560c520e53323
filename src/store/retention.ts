// Rule C9 of docs/inside/correctness.md.
import type { Clock, Timer } from "../shared/ports/clock.ts";
import type { Logger } from "../shared/ports/logger.ts";
import { every, sleep } from "../shared/waiting.ts";
import type { RetentionStore } from "./store.ts";

/** How long a blob of an unknown session waits for the command that brings its message, in ms. */
export const BLOB_GRACE_MS = 600_000;
/** How long an unused blob of a known session is kept, in ms. */
export const BLOB_UNUSED_MS = 86_400_000;

const DAY_MS = 86_400_000;
/** For how many days it is known what turns used. */
const USAGE_DAYS = 400;
/** For how many days each floor has rows of its own, in days: longer than a commit is under way. */
const SEPARATE_DAYS = 2;

/** The pause between two attempts to save a jump, in ms. */
const SAVE_AGAIN_MS = 1_000;
/** How long pruning rests after each jump at least, in ms, also when a rest that had begun before it would end. */
const LEAST_REST_MS = 3_600_000;

export interface RetentionOptions {
  store: RetentionStore;
  clock: Clock;
  /** The sum of the wall clock's jumps, in ms, which is saved with the doubt. */
  jumpedMs: () => number;
  log: Logger;
  /** The interval between passes in ms, and the rows per step. */
  everyMs: number;
  limit: number;
  /** How long receipts and tombstones are kept, in ms. */
  receiptMs: number;
  /** How long a staged session is kept after the last addition, in ms. */
  stagedMs: number;
  /** How long events of archived sessions are kept, in ms; undefined: forever. */
  retentionMs: number | undefined;
  /**
   * How long pruning rests after the wall clock jumped, in ms, because its time is in doubt (rule C9). A further jump
   * does not begin the rest again, or a machine that sleeps every night would never prune.
   */
  doubtMs: number;
  /** Whether this node does the pruning, where several nodes share a store. */
  isMine: () => boolean;
}

/** Deletes expired rows in small steps, so that no writer waits for long. */
export class Retention {
  readonly #options: RetentionOptions;
  #timer: Timer | undefined;
  #pruning: Promise<void> | undefined;
  #doubtfulUntil = 0;
  /** The store records the doubt, so that it outlives this process. */
  #isDoubtSaved = true;
  /** Jumps whose rest is not known yet. Nothing is pruned meanwhile. */
  #newJumps = 0;
  #noted = Promise.resolve();
  #isStopped = false;

  constructor(options: RetentionOptions) {
    this.#options = options;
  }

  start(): void {
    const { clock, everyMs } = this.#options;
    this.#timer = every(clock, everyMs, () => {
      this.#pruning = this.prune();
      return this.#pruning;
    });
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#timer?.cancel();
    await this.#pruning;
    await this.#noted;
  }

  /** Pause pruning: the wall clock jumped forward, to the present time. */
  suspend(byMs: number): void {
    const now = this.#options.clock.now();
    this.#newJumps += 1;
    this.#noted = this.#noted.then(async () => {
      await this.#rest(now, byMs);
      this.#newJumps -= 1;
    });
  }

  /** Begin a rest, or let the rest that was under way before the jump go on for as long as before. Never rejects. */
  async #rest(now: number, byMs: number): Promise<void> {
    const { store, doubtMs } = this.#options;
    const whole = now + doubtMs;
    const saved = await store.loadJumps().then(
      ({ doubtUntil }) => doubtUntil,
      () => 0,
    );
    const former = Math.max(this.#doubtfulUntil, saved);
    const isResting = former > now - byMs;
    this.#doubtfulUntil = isResting ? Math.min(whole, Math.max(former + byMs, now + LEAST_REST_MS)) : whole;
    this.#isDoubtSaved = false;
    await this.#saveJumps();
    // A restart before it is saved would count the jump as elapsed time.
    while (!this.#isDoubtSaved && !this.#isStopped) {
      await sleep(this.#options.clock, SAVE_AGAIN_MS);
      await this.#saveJumps();
    }
  }

  /** Prune until no expired rows are left. Never rejects. */
  async prune(): Promise<void> {
    const { store, clock, jumpedMs, log, limit, receiptMs, stagedMs, retentionMs, isMine } = this.#options;
    try {
      await this.#recallDoubt();
      for (let isMore = true; isMore && !this.#isStopped && isMine(); ) {
        const now = clock.now();
        const today = Math.floor(now / DAY_MS);
        if (this.#newJumps > 0 || now < this.#doubtfulUntil) return;
        isMore = await store.prune({
          now,
          receiptsBefore: now - receiptMs,
          stagedBefore: now - stagedMs,
          ...(retentionMs !== undefined && { eventsBefore: now - retentionMs }),
          usage: { day: today - USAGE_DAYS, sumDay: today - SEPARATE_DAYS, time: now - jumpedMs() },
          limit,
        });
      }
    } catch (error) {
      log.warn({ err: error }, "expired rows could not be pruned");
    }
  }

  /**
   * Load a doubt that an earlier process or another node recorded; save this node's if it could not be saved before.
   */
  async #recallDoubt(): Promise<void> {
    const { store, clock, doubtMs } = this.#options;
    const latest = clock.now() + doubtMs;
    const { doubtUntil: saved, jumpedMs } = await store.loadJumps();
    this.#doubtfulUntil = Math.max(this.#doubtfulUntil, Math.min(saved, latest));
    // The clock that recorded it was ahead and no longer is, so the doubt must not last until that time.
    if (saved > latest) await store.saveJumps({ jumpedMs, doubtUntil: latest });
  }

  async #saveJumps(): Promise<void> {
    const doubtUntil = this.#doubtfulUntil;
    try {
      await this.#options.store.saveJumps({ jumpedMs: this.#options.jumpedMs(), doubtUntil });
      this.#isDoubtSaved = doubtUntil === this.#doubtfulUntil;
    } catch (error) {
      this.#options.log.warn({ err: error }, "a jump of the clock could not be saved; retrying");
    }
  }
}
