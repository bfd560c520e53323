import type { Effect } from "../protocol/internal/effect.ts";

/** Delivers effects to their handlers: at least once, and not before they are due. */
export interface RunQueue {
  /**
   * Add an effect. Idempotent by the effect's id while the queue has it. Rejects with `AppError("unavailable")` when
   * the queue is full or away; the effect remains in the store, and the next sweep adds it again.
   */
  add(effect: Effect): Promise<void>;
  /**
   * Handle effects of one kind, runs with a higher priority first. When a handler rejects, the queue drops the effect;
   * the store still has it. Throws when the kind already has a handler.
   */
  process<K extends Effect["kind"]>(
    kind: K,
    handler: (effect: Extract<Effect, { kind: K }>) => Promise<void>,
    options: { concurrency: number },
  ): Promise<Processing>;
  close(): Promise<void>;
}

export interface Processing {
  /** Set the maximum number of concurrent handlers. Handlers that are already running continue. */
  setConcurrency(concurrency: number): void;
  /** Take no further effects. Resolves when all running handlers have ended. */
  stop(): Promise<void>;
}
