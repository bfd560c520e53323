// Rule C5 of docs/inside/correctness.md.
import { AppError } from "../../protocol/errors.ts";
import type { FloorId } from "../../protocol/ids.ts";
import type { Clock } from "../../shared/ports/clock.ts";
import { RecentMap } from "../../shared/recent-map.ts";
import type { CommitOutcome, FloorChange } from "../store.ts";
import { PATIENCE_MS, RowsLocked } from "./connections/connection-pool.ts";
import { byFloor } from "./floor-commit.ts";

/** Writes changes to the database: see `FloorCommit`. */
export interface Committer {
  commit(change: FloorChange): Promise<CommitOutcome>;
  commitAll(changes: readonly FloorChange[], until: number): Promise<CommitOutcome[] | undefined>;
}

interface WaitingCommit {
  change: FloorChange;
  /** When its outcome is no longer waited for, in ms of the clock. */
  until: number;
  answer: PromiseWithResolvers<CommitOutcome>;
}

/** Commits that are sent alone and not in groups, at most `max` at once. */
interface QueueApart {
  readonly waiting: WaitingCommit[];
  underWay: number;
  readonly max: number;
}

/**
 * Statements of commits under way at once. On two cores, more of them make smaller groups, and fewer commits a second.
 */
const MAX_STATEMENTS = 4;
/** Commits under way at once, beside these, of floors that another session locks. */
const APART = 4;
/**
 * Commits under way at once, beside these, that count towards budgets. They wait for each other, so more of them would
 * only take connections.
 */
const COUNTED = 2;
/** Floors known to be locked. A further one replaces a floor that was not found locked lately. */
const MAX_LOCKED = 1_024;
/** The maximum number of changes of a group. */
const GROUP = 32;
/** A group with more characters of text than this gets no further change. */
const GROUP_LENGTH = 262_144;
/**
 * The maximum number of waiting changes, more than a working database accumulates. Beyond it, commits are
 * `unavailable`.
 */
export const MAX_WAITING_COMMITS = 4_096;

/**
 * Commits whatever has come. A change is sent at once while fewer than four statements are under way. Later changes
 * go together with the next statement, so under load many floors share a round trip and a wait for the disk.
 *
 * A floor whose commit met a lock of another session waits apart from then on, and delays no other floors, until
 * one of its commits meets none.
 */
export class CommitQueue {
  readonly #committer: Committer;
  readonly #clock: Clock;
  readonly #waiting: WaitingCommit[] = [];
  #underWay = 0;
  readonly #locked = new RecentMap<FloorId, true>(MAX_LOCKED);
  /** Changes of locked floors. */
  readonly #apart: QueueApart = { waiting: [], underWay: 0, max: APART };
  /** Changes that count towards budgets, also of two floors. */
  readonly #counted: QueueApart = { waiting: [], underWay: 0, max: COUNTED };

  constructor(committer: Committer, clock: Clock) {
    this.#committer = committer;
    this.#clock = clock;
  }

  /**
   * No other change of the same floor, or of that of `along`, may be waiting or under way.
   * @throws AppError `unavailable`: whether it was committed is unknown
   * @throws StatementRefused the change refers to a missing row; nothing was done
   */
  async commit(change: FloorChange): Promise<CommitOutcome> {
    // A statement for two floors has no others, so that a conflict of one of them undoes nothing else.
    if (change.along && !change.budgets) return await this.#committer.commit(change);
    const apart = change.budgets ? this.#counted : this.#locked.has(change.floorId) ? this.#apart : undefined;
    const queue = apart?.waiting ?? this.#waiting;
    if (queue.length >= MAX_WAITING_COMMITS) throw new AppError("unavailable", "too many commits are waiting");
    const answer = Promise.withResolvers<CommitOutcome>();
    queue.push({ change, until: this.#clock.now() + PATIENCE_MS, answer });
    if (apart) this.#sendAlone(apart);
    else this.#sendNext();
    return await answer.promise;
  }

  #sendAlone(queue: QueueApart): void {
    while (queue.underWay < queue.max && queue.waiting.length > 0) {
      const next = queue.waiting.shift()!;
      if (!this.#isInTime(next)) continue;
      queue.underWay += 1;
      void this.#commitAlone(next).then(() => {
        queue.underWay -= 1;
        this.#sendAlone(queue);
      });
    }
  }

  #sendNext(): void {
    while (this.#underWay < MAX_STATEMENTS && this.#waiting.length > 0) void this.#send(this.#nextGroup());
  }

  #nextGroup(): WaitingCommit[] {
    let length = 0;
    let count = 0;
    while (count < Math.min(GROUP, this.#waiting.length) && length < GROUP_LENGTH) {
      length += lengthOf(this.#waiting[count]!.change);
      count += 1;
    }
    return this.#waiting.splice(0, count);
  }

  async #send(group: WaitingCommit[]): Promise<void> {
    this.#underWay += 1;
    const inTime = group.filter((each) => this.#isInTime(each));
    if (inTime.length === 1) await this.#commitAlone(inTime[0]!);
    else if (inTime.length > 1) await this.#commitTogether(inTime);
    this.#underWay -= 1;
    this.#sendNext();
  }

  #isInTime({ until, answer }: WaitingCommit): boolean {
    const isInTime = this.#clock.now() < until;
    if (!isInTime) answer.reject(new AppError("unavailable", "the commit waited for too long"));
    return isInTime;
  }

  /**
   * Each change has its own outcome (rule C5): a change that fails, or waits for a lock, does so without the others.
   */
  async #commitTogether(group: readonly WaitingCommit[]): Promise<void> {
    const inOrder = group.toSorted((one, other) => byFloor(one.change, other.change));
    const changes = inOrder.map(({ change }) => change);
    const until = Math.min(...group.map((each) => each.until));
    try {
      const outcomes = await this.#committer.commitAll(changes, until);
      for (const [index, waiting] of inOrder.entries()) {
        if (outcomes) waiting.answer.resolve(outcomes[index]!);
        else void this.#commitAlone(waiting);
      }
    } catch (error) {
      for (const { answer } of group) answer.reject(error);
    }
  }

  async #commitAlone({ change, answer }: WaitingCommit): Promise<void> {
    const { floorId } = change;
    try {
      const outcome = await this.#committer.commit(change);
      this.#locked.delete(floorId);
      answer.resolve(outcome);
    } catch (error) {
      if (error instanceof RowsLocked) this.#locked.set(floorId, true);
      else this.#locked.delete(floorId);
      answer.reject(error);
    }
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
