import { AppError } from "../../protocol/errors.ts";
import type { Clock } from "../../protocol/ports/clock.ts";
import type { CommitOutcome, FloorChange } from "../store.ts";
import { PATIENCE_MS } from "./connection-pool.ts";

/** Writes changes to the database: see `FloorCommit`. */
export interface Committer {
  commit(change: FloorChange): Promise<CommitOutcome>;
  commitAll(changes: readonly FloorChange[], until: number): Promise<CommitOutcome[] | undefined>;
}

interface Waiting {
  change: FloorChange;
  /** When its outcome is no longer waited for, in ms of the clock. */
  until: number;
  settle: PromiseWithResolvers<CommitOutcome>;
}

/** Statements of commits under way at once. On two cores, more of them make smaller groups, and fewer commits a second. */
const LANES = 4;
/** Most changes of a group … */
const GROUP = 32;
/** … and the characters of text beyond which it takes no further one. */
const GROUP_LENGTH = 262_144;
/** Most waiting changes, more than a working database accumulates. Beyond it, commits are `unavailable`. */
export const MAX_WAITING = 4_096;

/**
 * Commits whatever has come. A change is sent at once while a lane is free. The changes that come while all lanes are
 * under way go together with the next statement, so under load many floors share a round trip and a wait for the disk.
 */
export class CommitQueue {
  readonly #committer: Committer;
  readonly #clock: Clock;
  readonly #waiting: Waiting[] = [];
  #underWay = 0;

  constructor(committer: Committer, clock: Clock) {
    this.#committer = committer;
    this.#clock = clock;
  }

  /**
   * No other change of the same floor may be waiting or under way.
   * @throws AppError `unavailable`: whether it was committed is unknown
   * @throws StatementRefused the change refers to a missing row; nothing was done
   */
  async commit(change: FloorChange): Promise<CommitOutcome> {
    if (this.#waiting.length >= MAX_WAITING) throw new AppError("unavailable", "too many commits are waiting");
    const settle = Promise.withResolvers<CommitOutcome>();
    this.#waiting.push({ change, until: this.#clock.now() + PATIENCE_MS, settle });
    this.#fillLanes();
    return await settle.promise;
  }

  #fillLanes(): void {
    while (this.#underWay < LANES && this.#waiting.length > 0) void this.#send(this.#nextGroup());
  }

  #nextGroup(): Waiting[] {
    let length = 0;
    let count = 0;
    while (count < Math.min(GROUP, this.#waiting.length) && length < GROUP_LENGTH) {
      length += lengthOf(this.#waiting[count]!.change);
      count += 1;
    }
    return this.#waiting.splice(0, count);
  }

  async #send(group: Waiting[]): Promise<void> {
    this.#underWay += 1;
    const inTime = group.filter((each) => this.#isInTime(each));
    if (inTime.length === 1) await this.#commitAlone(inTime[0]!);
    else if (inTime.length > 1) await this.#commitTogether(inTime);
    this.#underWay -= 1;
    this.#fillLanes();
  }

  #isInTime({ until, settle }: Waiting): boolean {
    const isInTime = this.#clock.now() < until;
    if (!isInTime) settle.reject(new AppError("unavailable", "the commit waited for too long"));
    return isInTime;
  }

  /** Each change has its own outcome (rule C5): one that fails, or waits for a lock, does so without the others. */
  async #commitTogether(group: readonly Waiting[]): Promise<void> {
    const inOrder = group.toSorted((one, other) => (one.change.floorId < other.change.floorId ? -1 : 1));
    const changes = inOrder.map(({ change }) => change);
    const until = Math.min(...group.map((each) => each.until));
    try {
      const outcomes = await this.#committer.commitAll(changes, until);
      for (const [place, waiting] of inOrder.entries()) {
        if (outcomes) waiting.settle.resolve(outcomes[place]!);
        else void this.#commitAlone(waiting);
      }
    } catch (error) {
      for (const { settle } of group) settle.reject(error);
    }
  }

  async #commitAlone({ change, settle }: Waiting): Promise<void> {
    await this.#committer.commit(change).then(settle.resolve, settle.reject);
  }
}

/** About how many characters a change sends. */
function lengthOf({ snapshot, events, messages }: FloorChange): number {
  let length = snapshot.length;
  for (const { json } of events) length += json.length;
  for (const write of messages) {
    if ("message" in write) length += write.message.content.length;
    else if (write.kind === "append") length += write.text.length;
  }
  return length;
}
