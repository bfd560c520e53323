import { DatabaseSync } from "node:sqlite";
import { expect, onTestFinished, test, vi } from "vitest";
import { prepareFile } from "../../../src/store/sqlite/database-file.ts";
import { FileGuard } from "../../../src/store/sqlite/file-identity.ts";
import { JobWriter } from "../../../src/store/sqlite/rows/job-writer.ts";
import type { Job, WriteFailure } from "../../../src/store/sqlite/writer/writer-job.ts";
import { makeFolder } from "../../support/stores/sqlite-place.ts";

const failure = (fault: WriteFailure["fault"], message: string): WriteFailure => ({ fault, error: new Error(message) });
const data = failure("data", "no such message");
const taken = failure("taken", "UNIQUE");
const full = failure("engine", "disk full");
const damaged = failure("damage", "malformed");

const discard = (stagedAs: string): Job => ({ kind: "discard", stagedAs: stagedAs as never });
const nameOf = (job: Job): string => (job.kind === "discard" ? job.stagedAs : job.kind);

/**
 * The transactions of a database in which these jobs fail, and the outcomes of a group of jobs with one letter each.
 */
async function commit(jobs: string, faults: Record<string, WriteFailure>) {
  const { file, remove } = await makeFolder();
  onTestFinished(remove);
  const opened = { database: undefined, lock: undefined };
  await prepareFile({ file, opened, isDurable: false }, { now: 0, checksPages: false });
  const db = new DatabaseSync(file);
  onTestFinished(() => db.close());
  const writer = new JobWriter(db, new FileGuard(file, opened));
  const transactions: string[] = [];
  vi.spyOn(writer, "transact").mockImplementation((together) => {
    const names = together.map(nameOf);
    transactions.push(names.join(""));
    const failing = names.find((name) => faults[name]);
    return failing === undefined ? names.map(() => "done") : faults[failing]!;
  });
  return { outcomes: writer.commit([...jobs].map(discard)), transactions };
}

test.each<[what: string, faults: Record<string, WriteFailure>, outcomes: unknown[], transactions: string[]]>([
  ["is one transaction, with an outcome for each", {}, ["done", "done"], ["ab"]],
  [
    "with failing jobs is done again one job at a time, in order, and only those fail",
    { b: data, d: taken },
    ["done", data, "done", taken],
    ["abcd", "a", "b", "c", "d"],
  ],
  ["that the engine cannot write fails completely, and is not tried again", { b: full }, [full, full], ["ab"]],
  [
    "with a job that needs a damaged page is done again, and only that one fails",
    { b: damaged },
    ["done", damaged],
    ["ab", "a", "b"],
  ],
  [
    "in which the engine fails during the repeat is answered job by job",
    { a: data, b: full },
    [data, full, "done"],
    ["abc", "a", "b", "c"],
  ],
  ["of one job is not done twice", { a: data }, [data], ["a"]],
])("a group of jobs %s", async (_, faults, outcomes, transactions) => {
  expect(await commit(transactions[0]!, faults)).toEqual({ outcomes, transactions });
});
