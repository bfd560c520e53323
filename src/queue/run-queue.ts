import type { Alarm, RunRequest } from "../protocol/internal/run-request.ts";

/** What waits in the queue. */
export type Queued = RunRequest | Alarm;
export type Handler = (queued: Queued) => Promise<void>;

/**
 * Delivers runs and alarms to their handlers: at least once, and not before they are due. Due times are in the floors'
 * time.
 */
export interface RunQueue {
  /**
   * Add a run, or an alarm in place of the one that its floor has here. Idempotent by the id while the queue has it.
   * Rejects with `AppError("unavailable")` when the queue is full or away; the store still has it, and the next sweep
   * adds it again.
   */
  add(queued: Queued): Promise<void>;
  /**
   * Handle runs, those with a higher priority first, or alarms. When a handler rejects, the queue drops what it
   * handled; the store still has it. Throws when the kind already has a handler.
   */
  process<K extends Queued["kind"]>(
    kind: K,
    handler: (queued: Extract<Queued, { kind: K }>) => Promise<void>,
    options: { concurrency: number },
  ): Promise<Processing>;
  /** The runs that are due and that no handler has begun, of all nodes. Rejects when the queue does not answer. */
  waitingRuns(): Promise<WaitingRuns>;
  close(): Promise<void>;
}

export interface WaitingRuns {
  count: number;
  /** When the oldest was due; undefined if none waits. */
  since: number | undefined;
}

export interface Processing {
  /** Set the maximum number of concurrent handlers. Handlers that are already running continue. */
  setConcurrency(concurrency: number): void;
  /** Take no further runs or alarms. Resolves when all running handlers have ended. */
  stop(): Promise<void>;
}
