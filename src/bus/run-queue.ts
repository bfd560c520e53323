import type { Effect } from "../protocol/effect.ts";

/** Effects on their way to whoever carries them out: at least once, not before they are due. */
export interface RunQueue {
  /**
   * Idempotent by the effect's id while the queue has it. Rejects with `AppError("unavailable")` when the queue is
   * full or away; the effect is in the store then, and is added again by the next sweep.
   */
  add(effect: Effect): Promise<void>;
  /**
   * Carry out effects of one kind, runs of a higher priority first. A handler that rejects has its effect forgotten by
   * the queue: the store still has it.
   */
  process<K extends Effect["kind"]>(
    kind: K,
    handler: (effect: Extract<Effect, { kind: K }>) => Promise<void>,
    options: { concurrency: number },
  ): Promise<Processing>;
  close(): Promise<void>;
}

export interface Processing {
  /** How many handlers may be under way; those that are go on. */
  setConcurrency(concurrency: number): void;
  /** Take no more; resolves when all that were under way have ended. */
  stop(): Promise<void>;
}
