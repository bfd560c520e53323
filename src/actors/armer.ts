import type { RunQueue } from "../bus/run-queue.ts";
import { type Clock, sleep, type Timer } from "../protocol/clock.ts";
import type { Envelope } from "../protocol/command.ts";
import type { Effect, TimerEffect } from "../protocol/effect.ts";
import type { Logger } from "../protocol/logger.ts";
import type { Reply } from "../protocol/reply.ts";
import type { Store } from "../store/store.ts";

/** Between two sweeps, in ms; what is due later is left to a later one (rules C8 and C9). */
const SWEEP_MS = 10_000;
/** Effects read at a time. */
const PAGE = 1_000;
/** Between two tries to move effects, in ms. */
const MOVE_AGAIN_MS = 1_000;
/** Timers that are fired at a time. */
const FIRING = 64;

export interface ArmerOptions {
  store: Pick<Store, "dueEffects" | "shiftEffects">;
  queue: RunQueue;
  clock: Clock;
  newId: () => string;
  ask: (envelope: Envelope) => Promise<Reply>;
  askTimeoutMs: number;
  /** Whose effects this node arms (rule C8); absent or undefined: those of all floors. */
  partitions?: () => readonly number[] | undefined;
  log: Logger;
}

/**
 * Sees to it that committed effects are carried out: those of a commit at once, and by a sweep whatever a crash, a full
 * queue or a lost job left behind. An effect is in the store until its outcome is committed, so arming it twice does no
 * harm and forgetting it costs one sweep.
 */
export class Armer {
  readonly #options: ArmerOptions;
  #nextSweepAt = 0;
  #timer: Timer | undefined;
  #isStopped = false;
  #sweeping: Promise<void> | undefined;
  /** Floors came to this node while it was reading what others have. */
  #isSweptAgain = false;
  /** Jumps of the wall clock that the store's effects do not know of yet. */
  #jumps = 0;
  #stopFiring: (() => Promise<void>) | undefined;

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

  /** An effect was committed. */
  arm(effect: Effect): void {
    if (this.#isIdle || effect.dueAt > this.#nextSweepAt) return;
    // A full queue leaves it to the next sweep.
    this.#options.queue.add(effect).catch(() => {});
  }

  /** Read what is due before the next sweep, now. */
  sweep(): void {
    this.#timer?.cancel();
    if (this.#isIdle) return;
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
   * The wall clock jumped: what waits for an instant waits as long as before (rule C9). What is armed waits for time to
   * pass and is left alone; nothing else is armed until the store has moved it.
   */
  shift(byMs: number): void {
    this.#jumps += 1;
    // Asked for at once, before whatever is committed at the new time.
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
        // Whatever was committed before it is told of in this turn of the event loop, with the instants of old.
        return await sleep(clock, 0);
      } catch (error) {
        log.error({ err: error, byMs }, "what waits for an instant could not be moved; it is tried again");
      }
      await sleep(clock, MOVE_AGAIN_MS);
      if (this.#isStopped) return;
    }
  }

  /** Whether an instant in the store may mean something else than it says, or nobody wants to know. */
  get #isIdle(): boolean {
    return this.#isStopped || this.#jumps > 0;
  }

  async #sweepOnce(): Promise<void> {
    const { store, queue, clock, partitions, log } = this.#options;
    // A little further than the next sweep, so that nothing falls between two.
    this.#nextSweepAt = clock.now() + 2 * SWEEP_MS;
    try {
      let after: Effect | undefined;
      for (;;) {
        const due = await store.dueEffects({
          until: this.#nextSweepAt,
          after,
          partitions: partitions?.(),
          limit: PAGE,
        });
        for (const effect of due) if (!this.#isIdle) await queue.add(effect);
        after = due.at(-1);
        if (due.length < PAGE || this.#isIdle) return;
      }
    } catch (error) {
      log.warn({ err: error }, "effects could not be armed; the next sweep tries again");
    }
  }

  async #fire({ id, floorId, sessionId }: TimerEffect): Promise<void> {
    const { ask, clock, newId, askTimeoutMs, log } = this.#options;
    const command = { type: "timer" as const, timerId: id, ...(sessionId !== undefined && { sessionId }) };
    try {
      await ask({ floorId, commandId: newId(), bodyHash: "", deadline: clock.now() + askTimeoutMs, command });
    } catch (error) {
      log.warn(
        { err: error, floorId, sessionId, timerId: id },
        "a timer could not be fired; the next sweep tries again",
      );
    }
  }
}
