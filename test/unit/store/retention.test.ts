import { expect, test } from "vitest";
import { AppError } from "../../../src/protocol/errors.ts";
import { Retention } from "../../../src/store/retention.ts";
import type { PruneLimits } from "../../../src/store/store.ts";
import { VirtualClock } from "../../support/runner/virtual-clock.ts";
import { DAY, HOUR } from "../../support/stores/floor-writer.ts";
import { KeptLog } from "../../support/stores/sqlite-place.ts";

const MINUTE = 60_000;

/**
 * A store with the given amount to prune, and the calls it receives.
 * @param retentionMs null: events are kept forever
 */
function makeRetention(retentionMs: number | null = 30 * DAY) {
  const clock = new VirtualClock();
  const log = new KeptLog();
  const asked: PruneLimits[] = [];
  const failing = { failure: undefined as Error | undefined, gate: undefined as Promise<void> | undefined };
  const hand = { ...failing, pages: 0, isMine: true, doubtUntil: 0, jumpedMs: 0, cannotSave: false };
  const retention = new Retention({
    store: {
      loadJumps: async () => ({ jumpedMs: 0, doubtUntil: hand.doubtUntil }),
      saveJumps: async ({ jumpedMs, doubtUntil }) => {
        if (hand.cannotSave) throw new AppError("unavailable");
        Object.assign(hand, { jumpedMs, doubtUntil });
      },
      prune: async (limits) => {
        asked.push(limits);
        await hand.gate;
        if (hand.failure) throw hand.failure;
        hand.pages -= 1;
        return hand.pages > 0;
      },
    },
    clock,
    jumpedMs: () => 42,
    log,
    everyMs: MINUTE,
    limit: 100,
    receiptMs: DAY,
    stagedMs: HOUR,
    retentionMs: retentionMs ?? undefined,
    doubtMs: DAY,
    isMine: () => hand.isMine,
  });
  /** The wall clock jumps, and the retention learns of it. */
  const jump = (ms: number) => {
    clock.jump(ms);
    retention.suspend(ms);
  };
  return { retention, clock, log, asked, hand, jump };
}

function started(retentionMs?: null) {
  const made = makeRetention(retentionMs);
  made.retention.start();
  return made;
}

/** It prunes the first of five pages, and continues when the gate opens. */
async function pruning() {
  const { hand, ...made } = started();
  hand.pages = 5;
  const gate = Promise.withResolvers<void>();
  hand.gate = gate.promise;
  await made.clock.advance(MINUTE);
  return { ...made, gate };
}

test("expired rows are pruned every minute: receipts after a day, and events after the configured time", async () => {
  const { clock, asked } = started();
  await clock.advance(MINUTE - 1);
  expect(asked).toEqual([]);
  await clock.advance(1);
  const now = clock.now();
  expect(asked).toEqual([
    {
      ...{ now, receiptsBefore: now - DAY, stagedBefore: now - HOUR, eventsBefore: now - 30 * DAY, limit: 100 },
      usage: { day: Math.floor(now / DAY) - 400, sumDay: Math.floor(now / DAY) - 2, time: now - 42 },
    },
  ]);
  await clock.advance(3 * MINUTE);
  expect(asked).toHaveLength(4);
});

test("expired rows are pruned in pieces until none is left", async () => {
  const { clock, asked, hand } = started();
  hand.pages = 5;
  await clock.advance(MINUTE);
  expect(asked).toHaveLength(5);
});

test("all events are kept if retention is unset", async () => {
  const { clock, asked } = started(null);
  await clock.advance(MINUTE);
  expect(asked[0]).not.toHaveProperty("eventsBefore");
});

test("pruning is postponed while the store is away, with a line in the log", async () => {
  const { clock, log, asked, hand } = started();
  hand.failure = new AppError("unavailable");
  await clock.advance(MINUTE);
  expect(log.lines).toEqual(["expired rows could not be pruned"]);
  hand.failure = undefined;
  await clock.advance(MINUTE);
  expect([asked.length, log.lines.length]).toEqual([2, 1]);
});

test("pruning moves to the node that is responsible for it, between two pieces", async () => {
  const { clock, asked, hand } = started();
  hand.isMine = false;
  await clock.advance(MINUTE);
  expect(asked).toEqual([]);
  hand.isMine = true;
  hand.pages = 5;
  const gate = Promise.withResolvers<void>();
  hand.gate = gate.promise;
  await clock.advance(MINUTE);
  hand.isMine = false;
  gate.resolve();
  await clock.advance(0);
  expect(asked).toHaveLength(1);
});

test("a wall clock that has jumped is in doubt for a day: nothing is pruned by its time", async () => {
  const { clock, asked, jump } = started();
  await clock.advance(HOUR);
  const { length } = asked;
  jump(56 * 365 * DAY);
  await clock.advance(DAY - 1);
  expect(asked).toHaveLength(length);
  await clock.advance(MINUTE);
  expect(asked).toHaveLength(length + 1);
});

test("the doubt about a wall clock that has jumped continues in the next process for the rest of the day", async () => {
  const before = makeRetention();
  before.jump(DAY);
  await before.clock.advance(HOUR);
  const { retention, clock, asked, hand } = makeRetention();
  hand.doubtUntil = before.hand.doubtUntil;
  clock.jump(before.clock.now() - clock.now());
  retention.start();
  await clock.advance(DAY - HOUR - MINUTE);
  expect(asked).toEqual([]);
  await clock.advance(2 * MINUTE);
  expect(asked.length).toBeGreaterThan(0);
});

test("the doubt is stored as soon as the store is writable, and lasts at most a day, even if the clock went back", async () => {
  const { clock, asked, hand, jump } = started();
  hand.cannotSave = true;
  jump(10 * 365 * DAY);
  await clock.advance(MINUTE);
  expect(hand.doubtUntil).toBe(0);
  hand.cannotSave = false;
  await clock.advance(MINUTE);
  expect(hand.doubtUntil).toBeGreaterThan(clock.now());
  const next = makeRetention();
  next.hand.doubtUntil = hand.doubtUntil;
  next.retention.start();
  await next.clock.advance(DAY + 3 * MINUTE);
  expect([asked.length, next.asked.length > 0]).toEqual([0, true]);
});

test("a machine that sleeps every night is pruned all the same, but never in the first hour after it wakes", async () => {
  const { clock, asked, jump } = started();
  await clock.advance(HOUR);
  const { length } = asked;
  const counts: number[] = [];
  for (let night = 0; night < 9; night++) {
    jump(14 * HOUR);
    const before = asked.length;
    await clock.advance(HOUR - 1);
    expect(asked).toHaveLength(before);
    await clock.advance(9 * HOUR);
    counts.push(asked.length - before);
  }
  // The day of rest is over in the third day of ten hours, and the next night begins another.
  expect(asked.length).toBeGreaterThan(length);
  expect(counts.map((count) => count > 0)).toEqual([false, false, true, false, false, true, false, false, true]);
});

test("a machine that learns the time at each start is pruned when it has worked for a day in all", async () => {
  let doubtUntil = 0;
  let time = 0;
  let starts = 0;
  for (let isPruned = false; !isPruned; starts++) {
    const { retention, clock, asked, hand, jump } = makeRetention();
    hand.doubtUntil = doubtUntil;
    if (starts > 0) clock.jump(time - clock.now());
    jump(22 * HOUR);
    retention.start();
    await clock.advance(2 * HOUR);
    await retention.stop();
    ({ doubtUntil } = hand);
    time = clock.now();
    isPruned = asked.length > 0;
    expect(starts).toBeLessThan(20);
  }
  expect(starts).toBe(12);
});

test("a jump of the wall clock ends a pruning that uses the former time", async () => {
  const { clock, asked, gate, jump } = await pruning();
  jump(DAY);
  gate.resolve();
  await clock.advance(0);
  expect(asked).toHaveLength(1);
});

test("a stopping node prunes no more, and waits for the pruning in progress", async () => {
  const { retention, clock, asked, gate } = await pruning();
  let isStopped = false;
  const stopped = retention.stop().then(() => {
    isStopped = true;
  });
  await clock.advance(0);
  expect(isStopped).toBe(false);
  gate.resolve();
  await stopped;
  await clock.advance(HOUR);
  expect([asked.length, clock.timerCount]).toEqual([1, 0]);
});

test("a stopping node that has nothing to prune leaves no timer", async () => {
  const { retention, clock, asked } = makeRetention();
  retention.start();
  await retention.stop();
  expect(clock.timerCount).toBe(0);
  await clock.advance(HOUR);
  expect(asked).toEqual([]);
});
