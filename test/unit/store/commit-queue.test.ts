import { expect, test } from "vitest";
import { AppError } from "../../../src/protocol/errors.ts";
import { CommitQueue, type Committer, MAX_WAITING_COMMITS } from "../../../src/store/postgres/commit-queue.ts";
import { RowsLocked } from "../../../src/store/postgres/connections/connection-pool.ts";
import type { CommitOutcome, FloorChange } from "../../../src/store/store.ts";
import { turn } from "../../support/runner/virtual-clock.ts";
import { FloorWriter } from "../../support/stores/floor-writer.ts";
import { StandingClock } from "../../support/stores/sqlite-place.ts";

/** Holds requested statements until the test answers them. */
class HeldCommitter implements Committer {
  /** The floors of each statement, in the order in which they were sent. */
  readonly statements: string[][] = [];
  readonly #answers: PromiseWithResolvers<CommitOutcome[] | undefined>[] = [];

  async commit(change: FloorChange): Promise<CommitOutcome> {
    return (await this.#send([change]))![0]!;
  }

  commitAll(changes: readonly FloorChange[]): Promise<CommitOutcome[] | undefined> {
    return this.#send(changes);
  }

  #send(changes: readonly FloorChange[]): Promise<CommitOutcome[] | undefined> {
    this.statements.push(changes.map(({ floorId }) => floorId));
    const answer = Promise.withResolvers<CommitOutcome[] | undefined>();
    this.#answers.push(answer);
    return answer.promise;
  }

  /** Answer the statement with this number: as given, or with a commit of every change. */
  answer(
    number: number,
    outcomes: CommitOutcome[] | undefined = this.statements[number]!.map(() => "committed"),
  ): void {
    this.#answers[number]!.resolve(outcomes);
  }

  failEach(number: number): void {
    this.#answers[number]!.resolve(undefined);
  }

  fail(number: number, error: Error): void {
    this.#answers[number]!.reject(error);
  }
}

const changeOf = (floor: string, over: Partial<FloorChange> = {}) => ({
  ...new FloorWriter(undefined as never, floor).change(),
  ...over,
});
const names = (prefix: string, count: number) => Array.from({ length: count }, (_, n) => `${prefix}${n}`);

function makeQueue() {
  const committer = new HeldCommitter();
  const clock = new StandingClock();
  const queue = new CommitQueue(committer, clock);
  const commit = (floor: string, over?: Partial<FloorChange>) => queue.commit(changeOf(floor, over));
  return { committer, clock, commit, commitAll: (floors: string[]) => floors.map((floor) => commit(floor)) };
}

/** A queue whose four statements are under way with the floors l0 to l3. */
function makeBusyQueue() {
  const made = makeQueue();
  return { ...made, first: made.commitAll(names("l", 4)) };
}

test("a change is sent at once and alone while fewer than four statements are under way", async () => {
  const { committer, first } = makeBusyQueue();
  expect(committer.statements).toEqual([["l0"], ["l1"], ["l2"], ["l3"]]);
  for (const number of names("", 4).keys()) committer.answer(number);
  expect(await Promise.all(first)).toEqual(Array(4).fill("committed"));
});

test("the changes that arrived meanwhile are sent with one statement, in the order of floors", async () => {
  const { committer, commitAll } = makeBusyQueue();
  const commits = commitAll(["c", "a", "b"]);
  committer.answer(2);
  await turn();
  expect(committer.statements.slice(4)).toEqual([["a", "b", "c"]]);
  committer.answer(4, ["committed", "conflict", "committed"]);
  expect(await Promise.all(commits)).toEqual(["committed", "committed", "conflict"]);
});

test("a statement has at most 32 changes", async () => {
  const { committer, commitAll } = makeBusyQueue();
  commitAll(names("f", 40));
  committer.answer(0);
  committer.answer(1);
  await turn();
  expect(committer.statements.slice(4).map(({ length }) => length)).toEqual([32, 8]);
});

test.each([
  { what: "snapshots", over: { snapshot: "x".repeat(200_000) } },
  { what: "events", over: { events: [{ floorSeq: 1, type: "data", at: 1, json: "x".repeat(200_000) }] } },
  {
    what: "messages",
    over: { messages: [{ kind: "append", sessionId: "s", id: "m", text: "x".repeat(200_000) }] },
  },
])("a statement takes no further change when its text is long: $what", async ({ over }) => {
  const { committer, commit } = makeBusyQueue();
  for (const floor of ["a", "b", "c"]) void commit(floor, over as Partial<FloorChange>);
  committer.answer(0);
  await turn();
  expect(committer.statements.slice(4)).toEqual([["a", "b"]]);
});

test("each change is sent alone when one of a statement failed, and the next one follows at once", async () => {
  const { committer, commitAll } = makeBusyQueue();
  const commits = commitAll(["a", "b"]);
  committer.answer(0);
  await turn();
  const later = commitAll(["c"]);
  committer.failEach(4);
  await turn();
  expect(committer.statements.slice(4)).toEqual([["a", "b"], ["a"], ["b"], ["c"]]);
  const refused = new Error("there is no session");
  committer.fail(5, refused);
  committer.answer(6);
  committer.answer(7);
  await expect(commits[0]).rejects.toBe(refused);
  expect(await Promise.all([commits[1], ...later])).toEqual(["committed", "committed"]);
});

test("a statement without an answer rejects all its commits, and the queue continues", async () => {
  const { committer, commitAll } = makeBusyQueue();
  const commits = commitAll(["a", "b"]);
  committer.answer(0);
  await turn();
  committer.fail(4, new AppError("unavailable"));
  for (const commit of commits) await expect(commit).rejects.toMatchObject({ code: "unavailable" });
  const next = commitAll(["a"]);
  committer.answer(5);
  expect(await Promise.all(next)).toEqual(["committed"]);
});

test("floors that another session locks are sent apart until one of their commits is answered", async () => {
  const { committer, commit, commitAll } = makeQueue();
  const blocked = names("b", 5);
  for (const [number, floor] of blocked.entries()) {
    const refused = commit(floor);
    committer.fail(number, new RowsLocked(new Error("lock timeout")));
    await expect(refused).rejects.toMatchObject({ code: "unavailable" });
  }
  const again = commitAll(blocked);
  const others = commitAll(names("f", 4));
  // Four of them at once, each alone, beside the four statements.
  expect(committer.statements.slice(5)).toEqual([...names("b", 4), ...names("f", 4)].map((floor) => [floor]));
  committer.answer(5);
  await turn();
  expect(committer.statements.slice(13)).toEqual([["b4"]]);
  expect(await again[0]).toBe("committed");
  void commit("b0");
  expect(committer.statements).toHaveLength(14);
  committer.answer(9);
  await turn();
  expect(committer.statements.slice(14)).toEqual([["b0"]]);
  expect(await others[0]).toBe("committed");
});

test("a change that waited for two seconds is refused without being sent", async () => {
  const { committer, clock, commitAll } = makeBusyQueue();
  const [late] = commitAll(["late"]);
  clock.time += 1_999;
  const [timely] = commitAll(["timely"]);
  clock.time += 1;
  committer.answer(0);
  await expect(late).rejects.toMatchObject({ code: "unavailable" });
  expect(committer.statements.slice(4)).toEqual([["timely"]]);
  committer.answer(4);
  expect(await timely).toBe("committed");
});

test("new changes are refused when too many wait, and the waiting ones are served", async () => {
  const { committer, commit, commitAll } = makeBusyQueue();
  const waiting = commitAll(names("f", MAX_WAITING_COMMITS));
  await expect(commit("more")).rejects.toMatchObject({ code: "unavailable" });
  for (let number = 0; number < committer.statements.length; number++) {
    committer.answer(number);
    await turn();
  }
  expect(new Set(await Promise.all(waiting))).toEqual(new Set(["committed"]));
});
