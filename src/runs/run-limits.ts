// Rule C14 of docs/inside/correctness.md.
import { type RunId, userOf } from "../protocol/ids.ts";
import type { RunRequest } from "../protocol/internal/run-request.ts";

/** Runs that wait in the queues of all owners; further runs stay in the store until the next sweep. */
const MAX_QUEUED_RUNS = 4_096;
/** Summaries that a worker writes at a time; the next sweep offers the others again. */
const MAX_SUMMARIES = 4;

/** A running run always has a permit; a held run and a summary never; a waiting run only beyond its limits. */
export type RunState = "running" | "held" | "waiting" | "summary";

export interface RunLimitsOptions {
  /** Concurrent runs. */
  total: number;
  /** Concurrent runs of one owner; its further runs wait in a queue. */
  perOwner: number;
  /** Runs that may wait for a person without a permit: per owner, and in total. Further ones keep theirs. */
  waitingPerOwner: number;
  waiting: number;
  /** Called when a run from a queue may be claimed. */
  onRoom: (runRequest: RunRequest) => void;
}

interface Owner {
  readonly key: string;
  readonly counts: Record<RunState, number>;
  readonly queue: Map<RunId, RunRequest>;
}

/**
 * Counts the permits of a worker (rule C14). Held runs, runs that wait for a person, and summaries have no permit, and
 * one owner's runs cannot have all permits. The queue keeps the order among owners.
 */
export class RunLimits {
  readonly #options: RunLimitsOptions;
  readonly #runs = new Map<RunId, { owner: Owner | undefined; state: RunState }>();
  readonly #owners = new Map<string, Owner>();
  readonly #counts: Record<RunState, number> = { running: 0, held: 0, waiting: 0, summary: 0 };
  /** Waiting runs that keep a permit because their owner has more than `waitingPerOwner`. */
  #waitingWithPermit = 0;
  #queued = 0;

  constructor(options: RunLimitsOptions) {
    this.#options = options;
  }

  /** Runs that the queue may have handed over at a time: the permits, plus the runs without one. */
  get concurrency(): number {
    const { total, waiting } = this.#options;
    const { held, summary } = this.#counts;
    return total + held + summary + Math.min(waiting, this.#counts.waiting - this.#waitingWithPermit);
  }

  count(state: RunState): number {
    return this.#counts[state];
  }

  /**
   * @returns false if the owner has no permit left, and the run waits in the owner's queue, unless the queues are full;
   *   or if too many summaries are being written
   */
  reserve(runRequest: RunRequest): boolean {
    const { runId, purpose } = runRequest;
    if (purpose) {
      if (this.#counts[purpose] >= MAX_SUMMARIES) return false;
      this.#runs.set(runId, { owner: undefined, state: purpose });
      this.#add(undefined, purpose, 1);
      return true;
    }
    const key = keyOf(runRequest);
    const owner = key === undefined ? undefined : this.#ownerOf(key);
    if (owner && this.#roomOf(owner) <= 0) {
      if (!owner.queue.has(runId)) {
        if (this.#queued >= MAX_QUEUED_RUNS) return false;
        this.#queued += 1;
      }
      owner.queue.set(runId, runRequest);
      return false;
    }
    if (owner?.queue.delete(runId)) this.#queued -= 1;
    this.#runs.set(runId, { owner, state: "running" });
    this.#add(owner, "running", 1);
    return true;
  }

  set(runId: RunId, state: RunState): void {
    const run = this.#runs.get(runId);
    if (!run || run.state === state) return;
    this.#add(run.owner, run.state, -1);
    run.state = state;
    this.#add(run.owner, state, 1);
    this.#callNext(run.owner);
  }

  release(runId: RunId): void {
    const run = this.#runs.get(runId);
    if (!run) return;
    this.#runs.delete(runId);
    this.#add(run.owner, run.state, -1);
    this.#callNext(run.owner);
    if (run.owner) this.#forgetIfGone(run.owner);
  }

  #ownerOf(key: string): Owner {
    let owner = this.#owners.get(key);
    if (!owner) {
      owner = { key, counts: { running: 0, held: 0, waiting: 0, summary: 0 }, queue: new Map() };
      this.#owners.set(key, owner);
    }
    return owner;
  }

  /**
   * Forget an owner without runs. Runs left in its queue are also in the store, and the next sweep offers them again.
   */
  #forgetIfGone({ key, counts, queue }: Owner): void {
    if (counts.running + counts.held + counts.waiting > 0) return;
    this.#queued -= queue.size;
    this.#owners.delete(key);
  }

  #add(owner: Owner | undefined, state: RunState, by: 1 | -1): void {
    this.#counts[state] += by;
    if (!owner) return;
    const before = this.#waitingWithPermitOf(owner);
    owner.counts[state] += by;
    this.#waitingWithPermit += this.#waitingWithPermitOf(owner) - before;
  }

  #waitingWithPermitOf({ counts }: Owner): number {
    return Math.max(0, counts.waiting - this.#options.waitingPerOwner);
  }

  #roomOf(owner: Owner): number {
    return this.#options.perOwner - owner.counts.running - this.#waitingWithPermitOf(owner);
  }

  /** Offer as many runs from the queue as fit: highest priority first, then first come first served. */
  #callNext(owner: Owner | undefined): void {
    if (!owner || owner.queue.size === 0) return;
    const room = Math.max(0, this.#roomOf(owner));
    const next = [...owner.queue.values()].sort((one, other) => other.priority - one.priority).slice(0, room);
    for (const runRequest of next) {
      owner.queue.delete(runRequest.runId);
      this.#queued -= 1;
      this.#options.onRoom(runRequest);
    }
  }
}

/** The run's owner. Undefined for a session with its own floor while authentication is off. */
function keyOf({ ownerId, floorId }: RunRequest): string | undefined {
  return ownerId ?? userOf(floorId);
}
