import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { AgentId, FloorId, RunId, RunRequestId, SessionId } from "../../../src/protocol/ids.ts";
import { type Alarm, alarmOf, type RunRequest } from "../../../src/protocol/internal/run-request.ts";
import type { Queued, RunQueue } from "../../../src/queue/run-queue.ts";
import type { Clock } from "../../../src/shared/ports/clock.ts";

/** A queue under test, and its clock, which is real. */
interface QueueSubject {
  queue: RunQueue;
  clock: Clock;
}

let ids = 0;

/** A run that is due. */
export const runOf = (clock: Clock, rest: Partial<RunRequest> = {}): RunRequest => ({
  kind: "run",
  id: `stamp.run.${++ids}` as RunRequestId,
  floorId: "u:ann" as FloorId,
  sessionId: "session" as SessionId,
  runId: `run${ids}` as RunId,
  agentId: "music" as AgentId,
  priority: 50,
  dueAt: clock.now(),
  ...rest,
});

/** Executes one kind of entries; each runs until `finish`, or ends at once with `atOnce`. */
export async function carryOut(
  queue: RunQueue,
  { kind = "run" as Queued["kind"], concurrency = 100, atOnce = true } = {},
) {
  const begun: Queued[] = [];
  const ends = new Map<Queued["id"], PromiseWithResolvers<void>>();
  let wake = () => {};
  const handle = (entry: Queued) => {
    begun.push(entry);
    wake();
    if (atOnce) return Promise.resolve();
    const end = Promise.withResolvers<void>();
    ends.set(entry.id, end);
    return end.promise;
  };
  const processing = await queue.process(kind, handle, { concurrency });
  const beginnings = () => begun.map(({ id }) => id);
  return {
    setConcurrency: (more: number) => processing.setConcurrency(more),
    stop: () => processing.stop(),
    begun,
    beginnings,
    /** Resolves when as many have begun, counting those with an id only if one is given. */
    async until(count: number, id?: Queued["id"]) {
      while (beginnings().filter((each) => id === undefined || each === id).length < count) {
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
    },
    finish: ({ id }: Queued) => ends.get(id)!.resolve(),
    fail: ({ id }: Queued) => ends.get(id)!.reject(new Error("it broke")),
  };
}

/** The contract of the port, for every queue. */
export function queueContract(name: string, open: () => Promise<QueueSubject>): void {
  describe(`queue: ${name}`, () => {
    let queue: RunQueue;
    let clock: Clock;
    beforeEach(async () => {
      ({ queue, clock } = await open());
    });
    afterEach(() => queue.close());

    const newRun = (rest: Partial<RunRequest> = {}) => runOf(clock, rest);
    const alarmIn = (delayMs: number, of = `u:${++ids}`): Alarm => alarmOf(of as FloorId, clock.now() + delayMs);

    /** Adds them one after another, and again later ones if the first came due before the last was added. */
    async function addBeforeDue<Q extends Queued>(make: (delayMs: number) => Q[]): Promise<Q[]> {
      for (let delayMs = 100; ; delayMs *= 2) {
        const made = make(delayMs);
        for (const queued of made) await queue.add(queued);
        if (clock.now() < made[0]!.dueAt) return made;
      }
    }

    /** A run that takes the queue's only place until it is finished. */
    async function begin() {
      const work = await carryOut(queue, { concurrency: 1, atOnce: false });
      const run = newRun();
      await queue.add(run);
      await work.until(1);
      return { work, run };
    }

    test("a queue keeps an added entry until a handler executes it", async () => {
      const runs = [newRun(), newRun(), newRun()];
      for (const run of runs) await queue.add(run);
      const work = await carryOut(queue);
      await work.until(3);
      expect(work.beginnings()).toEqual(runs.map(({ id }) => id));
    });

    test("a queue counts the runs that are due and have no handler, and since when the oldest waits", async () => {
      const none = { count: 0, since: undefined };
      expect(await queue.waitingRuns()).toEqual(none);
      const now = clock.now();
      const [first, older] = [newRun({ priority: 90, dueAt: now }), newRun({ priority: 10, dueAt: now - 5_000 })];
      for (const run of [first, older, newRun({ dueAt: now + 60_000 })]) await queue.add(run);
      expect(await queue.waitingRuns()).toEqual({ count: 2, since: now - 5_000 });
      const work = await carryOut(queue, { atOnce: false });
      await work.until(2);
      await expect.poll(() => queue.waitingRuns()).toEqual(none);
      for (const run of [first, older]) work.finish(run);
    });

    test("an entry that the queue already has, waiting or running, is not added twice", async () => {
      const run = newRun();
      await queue.add(run);
      await queue.add(run);
      const work = await carryOut(queue, { atOnce: false });
      await work.until(1);
      await queue.add(run);
      const next = newRun();
      await queue.add(next);
      await work.until(2);
      expect(work.beginnings()).toEqual([run.id, next.id]);
      for (const entry of [run, next]) work.finish(entry);
    });

    test("a queue executes nothing before it is due", async () => {
      const early: boolean[] = [];
      const done = Promise.withResolvers<void>();
      await queue.process(
        "alarm",
        async ({ dueAt }) => {
          early.push(clock.now() < dueAt);
          if (early.length === 5) done.resolve();
        },
        { concurrency: 100 },
      );
      for (const delayMs of [80, 20, 0, 50, 5]) await queue.add(alarmIn(delayMs));
      await done.promise;
      expect(early).toEqual([false, false, false, false, false]);
    });

    test("a floor has one alarm in the queue: a new one takes the place of one that has not come yet", async () => {
      const alarms = await carryOut(queue, { kind: "alarm" });
      const added = await addBeforeDue((delayMs) => [
        alarmIn(delayMs, "u:ann"),
        alarmIn(3 * delayMs, "u:bob"),
        alarmIn(2 * delayMs, "u:ann"),
      ]);
      const [, other, late] = added;
      await alarms.until(1, other!.id);
      expect(alarms.begun.filter((alarm) => added.some(({ id }) => id === alarm.id))).toEqual([late, other]);
      const next = alarmIn(0, "u:ann");
      await queue.add(next);
      await alarms.until(1, next.id);
      expect(alarms.begun.at(-1)).toEqual(next);
    });

    test("an alarm that is set while the floor's former one is carried out comes too", async () => {
      const alarms = await carryOut(queue, { kind: "alarm", concurrency: 1, atOnce: false });
      const [first, next] = [alarmIn(0, "u:ann"), alarmIn(50, "u:ann")];
      await queue.add(first);
      await alarms.until(1);
      await queue.add(next);
      alarms.finish(first);
      await alarms.until(2);
      expect(alarms.begun).toEqual([first, next]);
      alarms.finish(next);
    });

    test("a queue delivers an entry that is due now before one that is due later", async () => {
      const work = await carryOut(queue, { concurrency: 1 });
      const [later, now] = await addBeforeDue((delayMs) => [
        newRun({ dueAt: clock.now() + delayMs, priority: 100 }),
        newRun({ priority: 1 }),
      ]);
      await work.until(1, later!.id);
      expect(work.beginnings().slice(-2)).toEqual([now!.id, later!.id]);
    });

    test("a queue delivers runs of higher priority first, and equals in order of arrival", async () => {
      const { work, run: first } = await begin();
      const waiting = [20, 90, 0, 20, 100, 50].map((priority) => newRun({ priority }));
      for (const run of waiting) await queue.add(run);
      const begun = [first, ...[4, 1, 5, 0, 3, 2].map((index) => waiting[index]!)];
      for (const [index, run] of begun.entries()) {
        await work.until(index + 1);
        expect(work.begun[index]).toEqual(run);
        work.finish(run);
      }
    });

    test("a queue runs no more entries at once than its limit, and more when the limit is raised", async () => {
      const work = await carryOut(queue, { concurrency: 2, atOnce: false });
      const runs = [newRun(), newRun(), newRun(), newRun(), newRun()];
      for (const run of runs) await queue.add(run);
      await work.until(2);
      work.finish(runs[0]!);
      await work.until(3);
      expect(work.begun).toHaveLength(3);
      work.setConcurrency(4);
      await work.until(5);
      for (const run of runs.slice(1)) work.finish(run);
    });

    test("a queue keeps runs and alarms apart: neither waits for the other", async () => {
      const alarms = await carryOut(queue, { kind: "alarm", concurrency: 1 });
      const { work: runs, run } = await begin();
      await queue.add(alarmIn(0));
      await alarms.until(1);
      expect([runs.begun.length, alarms.begun.length]).toEqual([1, 1]);
      runs.finish(run);
    });

    test("a queue forgets an entry whose handler fails: it can be added again, and other entries are not affected", async () => {
      const { work, run } = await begin();
      const next = newRun();
      work.fail(run);
      await queue.add(next);
      await work.until(2);
      await queue.add(run);
      work.finish(next);
      await work.until(3);
      expect(work.beginnings()).toEqual([run.id, next.id, run.id]);
      work.finish(run);
    });

    test("a stopping queue starts no further work, and reports when all running work has ended", async () => {
      const { work, run } = await begin();
      await queue.add(newRun());
      let isStopped = false;
      const stopped = work.stop().then(() => {
        isStopped = true;
      });
      await new Promise(setImmediate);
      expect(isStopped).toBe(false);
      work.finish(run);
      await stopped;
      expect(work.beginnings()).toEqual([run.id]);
    });

    test("a queue has one handler for each kind, and without running work it stops at once", async () => {
      const work = await carryOut(queue);
      await expect(carryOut(queue)).rejects.toThrow("already has a handler");
      await work.stop();
    });

    test("a queue executes many entries, each once", async () => {
      const work = await carryOut(queue, { concurrency: 16 });
      const runs = Array.from({ length: 500 }, (_, index) => newRun({ priority: index % 101 }));
      let refusals = 0;
      // A server that has no time for so many is away, and whether it has them is then unknown: they are added again.
      const add = async (run: RunRequest): Promise<void> => {
        const isAdded = await queue.add(run).then(
          () => true,
          (error) => void expect(error).toMatchObject({ code: "unavailable" }),
        );
        if (isAdded) return;
        refusals += 1;
        await add(run);
      };
      await Promise.all(runs.map(add));
      for (const { id } of runs) await work.until(1, id);
      expect(new Set(work.beginnings()).size).toBe(500);
      expect(work.begun.length).toBeLessThanOrEqual(500 + refusals);
    });

    test("a closed queue accepts no work: unavailable", async () => {
      await queue.close();
      await expect(queue.add(newRun())).rejects.toMatchObject({ name: "AppError", code: "unavailable" });
    });
  });
}
