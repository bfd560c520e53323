import { expect, test } from "vitest";
import { commitGroup, type Transact } from "../../../src/store/sqlite/rows/job-writer.ts";
import type { Job, Result, WriteFailure } from "../../../src/store/sqlite/writer/writer-job.ts";

const failure = (fault: WriteFailure["fault"], message: string): WriteFailure => ({ fault, error: new Error(message) });

const discard = (stagedAs: string): Job => ({ kind: "discard", stagedAs: stagedAs as never });
const nameOf = (job: Job): string => (job.kind === "discard" ? job.stagedAs : job.kind);

/** Fails every transaction that contains a job with a planned fault. */
class PickyDatabase {
  readonly transactions: string[][] = [];
  readonly #faults: Record<string, WriteFailure>;

  constructor(faults: Record<string, WriteFailure> = {}) {
    this.#faults = faults;
  }

  commit(...names: string[]): Result[] {
    return commitGroup(names.map(discard), this.#transact);
  }

  readonly #transact: Transact = (jobs) => {
    const names = jobs.map(nameOf);
    this.transactions.push(names);
    for (const name of names) if (this.#faults[name]) return this.#faults[name];
    return jobs.map(() => "done");
  };
}

test("a group of jobs is one transaction, with an outcome for each", () => {
  const database = new PickyDatabase();
  expect(database.commit("a", "b")).toEqual(["done", "done"]);
  expect(database.transactions).toEqual([["a", "b"]]);
});

test("a group with one failing job is done again one job at a time, in order, and only that one fails", () => {
  const fault = failure("data", "no such message");
  const taken = failure("taken", "UNIQUE");
  const database = new PickyDatabase({ b: fault, d: taken });
  expect(database.commit("a", "b", "c", "d")).toEqual(["done", fault, "done", taken]);
  expect(database.transactions).toEqual([["a", "b", "c", "d"], ["a"], ["b"], ["c"], ["d"]]);
});

test("a group that the engine cannot write fails completely, and is not tried again", () => {
  const full = failure("engine", "disk full");
  const database = new PickyDatabase({ b: full });
  expect(database.commit("a", "b")).toEqual([full, full]);
  expect(database.transactions).toEqual([["a", "b"]]);
});

test("a group with a job that needs a damaged page is done again one job at a time, and only that one fails", () => {
  const damaged = failure("damage", "malformed");
  const database = new PickyDatabase({ b: damaged });
  expect(database.commit("a", "b")).toEqual(["done", damaged]);
});

test("a group in which the engine fails during the repeat is answered job by job", () => {
  const fault = failure("data", "?");
  const full = failure("engine", "disk full");
  const database = new PickyDatabase({ a: fault, b: full });
  expect(database.commit("a", "b", "c")).toEqual([fault, full, "done"]);
});

test("a group of one job is not done twice", () => {
  const fault = failure("data", "?");
  const database = new PickyDatabase({ a: fault });
  expect(database.commit("a")).toEqual([fault]);
  expect(database.transactions).toEqual([["a"]]);
});
