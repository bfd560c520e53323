import type { Message } from "../../../protocol/message.ts";
import type {
  Blob,
  ClaimedNotice,
  CommitOutcome,
  ConnectionRow,
  DisabledHook,
  FailedNotice,
  FloorChange,
  Jumps,
  PruneLimits,
  StagedId,
  StoredDefinitionChange,
} from "../../store.ts";
import type { OpenedFiles } from "../file-identity.ts";
import type { FileFault } from "../result-code.ts";

export interface ChangeJob {
  kind: "change";
  change: FloorChange;
}

/** A write. Jobs of all kinds share transactions, in the order of their arrival. */
export type Job =
  | ChangeJob
  | { kind: "connection"; row: ConnectionRow }
  | { kind: "blob"; sessionId: string; blob: Blob }
  | { kind: "stage"; stagedAs: StagedId; messages: readonly Message[]; now: number }
  | { kind: "discard"; stagedAs: StagedId }
  | { kind: "copy"; from: string; to: string; hash: string; now: number }
  | { kind: "definition"; change: StoredDefinitionChange }
  | { kind: "claim"; hook: string; claim: string; now: number; until: number; limit: number }
  | { kind: "settle"; claimed: ClaimedNotice; now: number; failed: FailedNotice | undefined }
  /** Deletes the notices of a hook up to this key. */
  | { kind: "drop"; hook: string; upTo: number; now: number }
  | { kind: "disable"; disabled: DisabledHook }
  | { kind: "enable"; hook: string }
  | { kind: "jumps"; jumps: Jumps }
  | { kind: "forget"; userId: string; floorId: string }
  /** Writes a row as it is: shows whether the database takes writes. */
  | { kind: "probe" }
  | { kind: "prune"; limits: PruneLimits };

/**
 * `done`: a write that is no change of a floor. `more`: expired rows remain, or free pages with deleted data.
 * `missing`: the row to copy does not exist, or there was nothing to change.
 */
export type WriteOutcome = CommitOutcome | "done" | "more" | "missing";

/** The outcome of a job. */
export type Result = WriteOutcome | WriteFailure;

/** Nothing of the job was written, or that is unknown. `fault`: the kind of error. */
export interface WriteFailure {
  fault: FileFault;
  error: Error;
}

/** Whether a job failed. */
export const isFailure = (result: unknown): result is WriteFailure =>
  typeof result === "object" && result !== null && "fault" in result;

/** The settings of the writer's thread. */
export interface WriterSettings {
  file: string;
  opened: OpenedFiles;
  /** False: a commit is answered before it is on disk. */
  isDurable: boolean;
}

/** Messages to the thread: jobs, or the request to end after the jobs sent before. */
export type WriterMessage = Job[] | "close";

/** Messages from the thread: ready, once; then the results of jobs, in their order. */
export type WriterAnswer = "ready" | Result[];

/** Jobs per transaction: enough to spread the cost of a sync to disk, few enough to be answered soon. */
export const MAX_GROUP = 256;
