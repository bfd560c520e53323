import type { Envelope } from "../protocol/internal/command.ts";
import type { Effect, TimerEffect } from "../protocol/internal/effect.ts";
import type { Reply } from "../protocol/internal/reply.ts";
import { type Clock, sleep, type Timer } from "../protocol/ports/clock.ts";
import type { Logger } from "../protocol/ports/logger.ts";
import { LogThrottle } from "../shared/log-throttle.ts";
import type { Store } from "../store/store.ts";
import type { RunQueue } from "./run-queue.ts";

/** The interval between two sweeps, in ms. Each sweep arms only effects that are due soon (rules C8 and C9). */
const SWEEP_MS = 10_000;
/** Effects per read from the store. */
const PAGE = 1_000;
/** The pause between two attempts to shift effects, in ms. */
const MOVE_AGAIN_MS = 1_000;
/** Timers that fire concurrently. */
const FIRING = 64;

export interface ArmerOptions {
  store: Pick<Store, "dueEffects" | "shiftEffects">;
  queue: RunQueue;
  clock: Clock;
  newId: () => string;
  ask: (envelope: Envelope) => Promise<Reply>;
  askTimeoutMs: number;
  /** The hashes of the floors whose effects this node arms (rule C8). Absent or undefined: all floors. */
  floorHashes?: () => readonly number[] | undefined;
  /** Called when the queue did not take an effect; the next sweep adds it again. */
  onNotQueued?: () => void;
  log: Logger;
}

/**
 * Ensures that committed effects are carried out: it queues the effects of a commit at once, and a periodic sweep
 * queues effects left behind by a crash, a full queue or a lost job. An effect stays in the store until its outcome is
 * committed, so arming it twice is harmless and missing it costs one sweep.
 */
export class Armer {
  readonly #options: ArmerOptions;
  #armedUntil = 0;
  #timer: Timer | undefined;
  #isStopped = false;
  #sweeping: Promise<void> | undefined;
  /** A sweep was requested while another was running, for example because floors came to this node. */
  #isSweptAgain = false;
  /** Jumps of the wall clock by which the store's effects have not been shifted yet. */
  #jumps = 0;
  #stopFiring: (() => Promise<void>) | undefined;
  // While the store or the bus is away, each sweep and each due timer fails.
  readonly #shiftNotes = new LogThrottle();
  readonly #sweepNotes = new LogThrottle();
  readonly #fireNotes = new LogThrottle();

  constructor(options: ArmerOptions) {
    this.#options = options;
  }

  async start(): Promise<void> {
    const { queue } = this.#options;
    const firing = await queue.process("timer", (timer) => this.#fire(timer), { concurrency: FIRING });
    this.#stopFiring = () => firing.stop();
    this.sweep();
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#timer?.cancel();
    await this.#sweeping;
    await this.#stopFiring?.();
  }

  /** Queue an effect that was committed, if it is due soon. */
  arm(effect: Effect): void {
    if (this.#isSuspended || effect.dueAt > this.#armedUntil) return;
    // When the queue is full, the next sweep adds the effect.
    this.#add(effect).catch(() => {});
  }

  /** Arm everything that is due within two sweeps. Only one sweep runs at a time; a request meanwhile runs another. */
  sweep(): void {
    this.#timer?.cancel();
    if (this.#isSuspended) return;
    if (this.#sweeping) {
      this.#isSweptAgain = true;
      return;
    }
    this.#sweeping = this.#sweepOnce().finally(() => {
      this.#sweeping = undefined;
      const delayMs = this.#isSweptAgain ? 0 : SWEEP_MS;
      this.#isSweptAgain = false;
      if (!this.#isStopped) this.#timer = this.#options.clock.after(delayMs, () => this.sweep());
    });
  }

  /**
   * Handle a jump of the wall clock: shift the due times in the store, so that effects wait as long as before (rule
   * C9). Queued effects wait for elapsed time and need no shift. No further effect is armed until the store has
   * shifted.
   */
  shift(byMs: number): void {
    this.#jumps += 1;
    // Start the shift at once, before any commit at the new time.
    void this.#move(byMs, this.#options.store.shiftEffects(byMs)).then(() => {
      this.#jumps -= 1;
      this.sweep();
    });
  }

  async #move(byMs: number, moving: Promise<void>): Promise<void> {
    const { store, clock, log } = this.#options;
    for (let moved = moving; ; moved = store.shiftEffects(byMs)) {
      try {
        await moved;
        // Commits from before the shift report their effects, with old due times, in this turn of the event loop.
        return await sleep(clock, 0);
      } catch (error) {
        if (this.#shiftNotes.isDue(clock.now())) {
          log.error({ err: error, byMs }, "due times could not be shifted after a clock jump; retrying");
        }
      }
      await sleep(clock, MOVE_AGAIN_MS);
      if (this.#isStopped) return;
    }
  }

  /** Whether to arm nothing: the armer is stopped, or due times in the store have not been shifted after a jump. */
  get #isSuspended(): boolean {
    return this.#isStopped || this.#jumps > 0;
  }

  async #sweepOnce(): Promise<void> {
    const { store, clock, floorHashes, log } = this.#options;
    // Reach beyond the next sweep, so that no effect falls between two sweeps.
    this.#armedUntil = clock.now() + 2 * SWEEP_MS;
    try {
      let after: Effect | undefined;
      for (;;) {
        const due = await store.dueEffects({
          until: this.#armedUntil,
          after,
          floorHashes: floorHashes?.(),
          limit: PAGE,
        });
        for (const effect of due) if (!this.#isSuspended) await this.#add(effect);
        after = due.at(-1);
        if (due.length < PAGE || this.#isSuspended) return;
      }
    } catch (error) {
      if (!this.#sweepNotes.isDue(clock.now())) return;
      log.warn({ err: error }, "effects could not be armed; the next sweep retries");
    }
  }

  async #add(effect: Effect): Promise<void> {
    const { queue, onNotQueued } = this.#options;
    try {
      await queue.add(effect);
    } catch (error) {
      onNotQueued?.();
      throw error;
    }
  }

  async #fire({ id, floorId, sessionId }: TimerEffect): Promise<void> {
    const { ask, clock, newId, askTimeoutMs, log } = this.#options;
    const command = { type: "timer" as const, timerId: id, ...(sessionId !== undefined && { sessionId }) };
    try {
      await ask({ floorId, commandId: newId(), bodyHash: "", deadline: clock.now() + askTimeoutMs, command });
    } catch (error) {
      if (!this.#fireNotes.isDue(clock.now())) return;
      log.warn({ err: error, floorId, sessionId, timerId: id }, "a timer could not be fired; the next sweep retries");
    }
  }
}
