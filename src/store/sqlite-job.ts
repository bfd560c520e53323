import type { Fault } from "./sqlite-fault.ts";
import type { Blob, ConnectionRow, FloorChange, PruneLimits } from "./store.ts";

/** Something to write. Jobs of every kind ride in the same transactions, in the order in which they came. */
export type Job =
  | { kind: "change"; change: FloorChange }
  | { kind: "connection"; row: ConnectionRow }
  | { kind: "blob"; sessionId: string; blob: Blob }
  | { kind: "shift"; byMs: number }
  | { kind: "prune"; limits: PruneLimits };

/** `conflict`: nothing was written. `more`: a prune that has not found everything yet. */
export type Outcome = "done" | "conflict" | "more";

/** What the writer's thread is started with. */
export interface WriterSettings {
  file: string;
  /** False: a commit is answered before it is on disk. */
  isDurable: boolean;
}

/** What the thread is told: the jobs of one transaction, or to end. */
export type WriterMessage = Job[] | "close";

/** What the thread says: once that it is ready, then one answer per transaction. */
export type WriterAnswer = "ready" | { outcomes: Outcome[] } | { fault: Fault; error: Error };
