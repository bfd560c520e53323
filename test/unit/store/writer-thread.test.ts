import { Worker } from "node:worker_threads";
import { beforeEach, expect, onTestFinished, test, vi } from "vitest";
import { AppError } from "../../../src/protocol/errors.ts";
import { openWriter, prepareFile } from "../../../src/store/sqlite/database-file.ts";
import { identityOf } from "../../../src/store/sqlite/file-identity.ts";
import type { Job } from "../../../src/store/sqlite/writer/writer-job.ts";
import { JobFailed, MAX_WAITING_WRITES, WriterThread } from "../../../src/store/sqlite/writer/writer-thread.ts";
import { makePlace } from "../../support/stores/temporary-store.ts";

const unavailable = { name: "AppError", code: "unavailable" };
const nextTurn = () => new Promise((resolve) => setImmediate(resolve));
const PROBE: Job = { kind: "probe" };
const BLOB_WITHOUT_BYTES: Job = {
  kind: "blob",
  sessionId: "s",
  blob: { hash: "h", mimeType: "image/png", createdAt: 0, bytes: null as never },
};

let thread: WriterThread;
let settings: ConstructorParameters<typeof WriterThread>[0];
/** The number of jobs in each message to the thread. */
let lots: number[];

beforeEach(async () => {
  const { file, clock, log } = await makePlace();
  settings = { file, opened: { database: undefined, lock: undefined }, isDurable: false };
  await prepareFile(settings, { now: 0, checksPages: false });
  settings.opened = { database: identityOf(file), lock: undefined };
  thread = new WriterThread(settings, clock, log, () => {});
  await thread.start();
  onTestFinished(() => thread.close());
  lots = [];
  const post = Worker.prototype.postMessage;
  const spy = vi.spyOn(Worker.prototype, "postMessage").mockImplementation(function (this: Worker, message: Job[]) {
    if (Array.isArray(message)) lots.push(message.length);
    post.call(this, message);
  });
  onTestFinished(() => spy.mockRestore());
});

test("the writes of one turn of the event loop are sent together", async () => {
  const adds = [thread.add(PROBE), Promise.resolve().then(() => thread.add(PROBE))];
  expect(lots).toEqual([]);
  await nextTurn();
  expect(lots).toEqual([2]);
  expect(await Promise.all(adds)).toEqual(["done", "done"]);
});

test("a write is not delayed until earlier ones are answered", async () => {
  const other = openWriter(settings);
  other.exec("BEGIN IMMEDIATE");
  const adds: Promise<unknown>[] = [];
  for (let n = 0; n < 3; n++) {
    adds.push(thread.add(PROBE));
    await nextTurn();
  }
  expect(lots).toEqual([1, 1, 1]);
  other.exec("ROLLBACK");
  other.close();
  expect(await Promise.all(adds)).toEqual(["done", "done", "done"]);
});

test("a write is answered only after its commit, with its own result", async () => {
  const other = openWriter(settings);
  other.exec("BEGIN IMMEDIATE");
  const copy: Job = { kind: "copy", from: "a", to: "b", hash: "none", now: 0 };
  const answered: string[] = [];
  const adds = [PROBE, copy].map((job) => thread.add(job).finally(() => answered.push(job.kind)));
  await nextTurn();
  await nextTurn();
  expect(answered).toEqual([]);
  other.exec("ROLLBACK");
  other.close();
  expect(await Promise.all(adds)).toEqual(["done", "missing"]);
});

test("writes are sent in lots of eight before the turn ends, and the rest at its end", async () => {
  const adds = Array.from({ length: 19 }, () => thread.add(PROBE));
  expect(lots).toEqual([8, 8]);
  await nextTurn();
  expect(lots).toEqual([8, 8, 3]);
  await nextTurn();
  expect(lots).toEqual([8, 8, 3]);
  expect(new Set(await Promise.all(adds))).toEqual(new Set(["done"]));
});

test("a write that is itself at fault fails alone, with its cause", async () => {
  const [data, done] = await Promise.allSettled([thread.add(BLOB_WITHOUT_BYTES), thread.add(PROBE)]);
  expect((data as PromiseRejectedResult).reason).toBeInstanceOf(JobFailed);
  expect(data).toMatchObject({ reason: { cause: { message: expect.stringContaining("NOT NULL") } } });
  expect(done).toMatchObject({ value: "done" });
});

test("writes beyond the limit are refused at once, and accepted again when some are answered", async () => {
  const waiting = Array.from({ length: MAX_WAITING_WRITES }, () => thread.add(PROBE));
  await expect(thread.add(PROBE)).rejects.toMatchObject(unavailable);
  await waiting[0];
  expect(await thread.add(PROBE)).toBe("done");
  expect(new Set(await Promise.all(waiting))).toEqual(new Set(["done"]));
});

test("the queue finishes when all accepted jobs are answered, and accepts none from then on", async () => {
  let isAnswered = false;
  const add = thread.add(PROBE).finally(() => {
    isAnswered = true;
  });
  const finished = thread.finish();
  await expect(thread.add(PROBE)).rejects.toBeInstanceOf(AppError);
  await finished;
  expect(isAnswered).toBe(true);
  expect(await add).toBe("done");
  await thread.finish();
});

test("a queue that was never used finishes at once", async () => {
  await expect(thread.finish()).resolves.toBeUndefined();
});
