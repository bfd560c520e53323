import { expect, test } from "vitest";
import { commitGroup } from "../../../src/store/sqlite/writer/group-commit.ts";
import type { WriteFailure } from "../../../src/store/sqlite/writer/writer-job.ts";

const failure = (fault: WriteFailure["fault"], message: string): WriteFailure => ({ fault, error: new Error(message) });

/** Fails every transaction that contains a job with a planned fault. */
class PickyDatabase {
  readonly transactions: (readonly string[])[] = [];
  readonly #faults: Record<string, WriteFailure>;

  constructor(faults: Record<string, WriteFailure> = {}) {
    this.#faults = faults;
  }

  readonly transact = (jobs: readonly string[]): string[] | WriteFailure => {
    this.transactions.push(jobs);
    for (const job of jobs) if (this.#faults[job]) return this.#faults[job];
    return jobs.map((job) => `${job} done`);
  };
}

test("a group of jobs is one transaction, with an outcome for each", () => {
  const database = new PickyDatabase();
  expect(commitGroup(["a", "b"], database.transact)).toEqual(["a done", "b done"]);
  expect(database.transactions).toEqual([["a", "b"]]);
});

test("a group with one failing job is done again one job at a time, in order, and only that one fails", () => {
  const fault = failure("data", "no such message");
  const taken = failure("taken", "UNIQUE");
  const database = new PickyDatabase({ b: fault, d: taken });
  expect(commitGroup(["a", "b", "c", "d"], database.transact)).toEqual(["a done", fault, "c done", taken]);
  expect(database.transactions).toEqual([["a", "b", "c", "d"], ["a"], ["b"], ["c"], ["d"]]);
});

test("a group that the engine cannot write fails completely, and is not tried again", () => {
  const full = failure("engine", "disk full");
  const database = new PickyDatabase({ b: full });
  expect(commitGroup(["a", "b"], database.transact)).toEqual([full, full]);
  expect(database.transactions).toEqual([["a", "b"]]);
});

test("a group with a job that needs a damaged page is done again one job at a time, and only that one fails", () => {
  const damaged = failure("damage", "malformed");
  const database = new PickyDatabase({ b: damaged });
  expect(commitGroup(["a", "b"], database.transact)).toEqual(["a done", damaged]);
});

test("a group in which the engine fails during the repeat is answered job by job", () => {
  const fault = failure("data", "?");
  const full = failure("engine", "disk full");
  const database = new PickyDatabase({ a: fault, b: full });
  expect(commitGroup(["a", "b", "c"], database.transact)).toEqual([fault, full, "c done"]);
});

test("a group of one job is not done twice", () => {
  const fault = failure("data", "?");
  const database = new PickyDatabase({ a: fault });
  expect(commitGroup(["a"], database.transact)).toEqual([fault]);
  expect(database.transactions).toEqual([["a"]]);
});
