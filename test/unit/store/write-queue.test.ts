import { expect, test } from "vitest";
import { AppError } from "../../../src/protocol/errors.ts";
import {
  type Carrier,
  JobFailed,
  MAX_WAITING_WRITES,
  WriteQueue,
} from "../../../src/store/sqlite/writer/write-queue.ts";
import type { Result, WriteFailure } from "../../../src/store/sqlite/writer/writer-job.ts";

/** Holds jobs until the test answers them. */
class HeldCarrier implements Carrier<string, string> {
  readonly groups: string[][] = [];
  readonly #open: ((result?: Result<string>) => void)[] = [];

  carryOut(jobs: string[], settle: (index: number, result: Result<string>) => void): void {
    this.groups.push(jobs);
    for (const [index, job] of jobs.entries()) {
      this.#open.push((result = `${job} done`) => settle(index, result));
    }
  }

  /** Answer the oldest job. */
  answer(result?: Result<string>): void {
    this.#open.shift()!(result);
  }

  answerAll(): void {
    while (this.#open.length > 0) this.answer();
  }
}

const unavailable = { name: "AppError", code: "unavailable" };
const failure = (fault: WriteFailure["fault"], error: Error): WriteFailure => ({ fault, error });
const nextTurn = () => new Promise((resolve) => setImmediate(resolve));

test("the writes of one turn of the event loop are sent together", async () => {
  const carrier = new HeldCarrier();
  const queue = new WriteQueue(carrier);
  const adds = [queue.add("a"), Promise.resolve().then(() => queue.add("b"))];
  expect(carrier.groups).toEqual([]);
  await nextTurn();
  expect(carrier.groups).toEqual([["a", "b"]]);
  carrier.answerAll();
  expect(await Promise.all(adds)).toEqual(["a done", "b done"]);
});

test("a write is not delayed until earlier ones are answered", async () => {
  const carrier = new HeldCarrier();
  const queue = new WriteQueue(carrier);
  const adds: Promise<string>[] = [];
  for (const job of ["a", "b", "c"]) {
    adds.push(queue.add(job));
    await nextTurn();
  }
  expect(carrier.groups).toEqual([["a"], ["b"], ["c"]]);
  carrier.answerAll();
  expect(await Promise.all(adds)).toEqual(["a done", "b done", "c done"]);
});

test("a write is answered only after the carrier answered it, with its own result", async () => {
  const carrier = new HeldCarrier();
  const queue = new WriteQueue(carrier);
  const answered: string[] = [];
  const adds = ["a", "b"].map((job) => queue.add(job).finally(() => answered.push(job)));
  await nextTurn();
  await nextTurn();
  expect(answered).toEqual([]);
  carrier.answer("conflict");
  expect(await adds[0]).toBe("conflict");
  expect(answered).toEqual(["a"]);
  carrier.answer();
  expect(await adds[1]).toBe("b done");
});

test("writes are sent in lots of eight before the turn ends, and the rest at its end", async () => {
  const carrier = new HeldCarrier();
  const queue = new WriteQueue(carrier);
  const adds = Array.from({ length: 19 }, (_, n) => queue.add(`${n}`));
  expect(carrier.groups.map((group) => group.length)).toEqual([8, 8]);
  await nextTurn();
  expect(carrier.groups.map((group) => group.length)).toEqual([8, 8, 3]);
  await nextTurn();
  expect(carrier.groups.flat()).toEqual(adds.map((_, n) => `${n}`));
  carrier.answerAll();
  expect(await Promise.all(adds)).toEqual(adds.map((_, n) => `${n} done`));
});

test("a failed job is reported with the side at fault", async () => {
  const carrier = new HeldCarrier();
  const queue = new WriteQueue(carrier);
  const cause = new Error("why");
  const results = Promise.allSettled(["a", "b", "c", "d"].map((job) => queue.add(job)));
  await nextTurn();
  carrier.answer(failure("engine", cause));
  carrier.answer(failure("data", cause));
  carrier.answer(failure("taken", cause));
  carrier.answer();
  const [engine, data, taken, done] = await results;
  expect(engine).toMatchObject({ reason: { ...unavailable, cause } });
  expect(data).toMatchObject({ reason: { name: "JobFailed", message: "why", cause } });
  expect((data as PromiseRejectedResult).reason).toBeInstanceOf(JobFailed);
  expect(taken).toMatchObject({ value: "conflict" });
  expect(done).toMatchObject({ value: "d done" });
});

test("writes beyond the limit are refused at once, and accepted again when some are answered", async () => {
  const carrier = new HeldCarrier();
  const queue = new WriteQueue(carrier);
  const waiting = Array.from({ length: MAX_WAITING_WRITES }, () => queue.add("x"));
  await expect(queue.add("one more")).rejects.toMatchObject(unavailable);
  await nextTurn();
  carrier.answer();
  const late = queue.add("late");
  await nextTurn();
  carrier.answerAll();
  expect(new Set(await Promise.all(waiting))).toEqual(new Set(["x done"]));
  expect(await late).toBe("late done");
});

test("the queue closes when all accepted jobs are answered, and accepts none from then on", async () => {
  const carrier = new HeldCarrier();
  const queue = new WriteQueue(carrier);
  const add = queue.add("a");
  let isClosed = false;
  const closing = queue.close().then(() => {
    isClosed = true;
  });
  await expect(queue.add("b")).rejects.toBeInstanceOf(AppError);
  await nextTurn();
  expect(isClosed).toBe(false);
  carrier.answerAll();
  await closing;
  expect(await add).toBe("a done");
  await queue.close();
});

test("a queue that was never used closes at once", async () => {
  await expect(new WriteQueue(new HeldCarrier()).close()).resolves.toBeUndefined();
});
