import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { DatabaseTime, keepComparing } from "../../src/system/database-time.ts";
import { SystemClock } from "../../src/system/system-clock.ts";
import { VirtualClock } from "../support/runner/virtual-clock.ts";
import { KeptLog } from "../support/stores/sqlite-place.ts";

const BOOT = Date.UTC(2026, 0, 1, 12);

/** A clock over a wall clock and a monotonic clock, both moved by the test. */
function makeClock({ at = BOOT, mayFall = false } = {}) {
  const time = { wall: at, monotonic: 1_000 };
  const clock = new SystemClock({ wall: () => time.wall, monotonic: () => time.monotonic, mayFall });
  const jumps: number[] = [];
  clock.onJump((byMs) => jumps.push(byMs));
  return {
    clock,
    jumps,
    /** Let time pass on both clocks. */
    pass(ms: number) {
      time.wall += ms;
      time.monotonic += ms;
    },
    /** Set the wall clock. */
    set(byMs: number) {
      time.wall += byMs;
    },
  };
}

test("the process's time starts at the wall clock, and advances in whole milliseconds", () => {
  const { clock, pass } = makeClock();
  expect(clock.now()).toBe(BOOT);
  for (const [ms, later] of [
    [0.7, 0],
    [0.7, 1],
    [1_500, 1_501],
  ] as const) {
    pass(ms);
    expect(clock.now()).toBe(BOOT + later);
  }
});

test("the process's time does not follow the wall clock before the two are compared", () => {
  const { clock, set } = makeClock();
  set(3_600_000);
  expect(clock.now()).toBe(BOOT);
  clock.compare();
  expect(clock.now()).toBe(BOOT + 3_600_000);
});

test("a wall clock that is read in whole milliseconds, or a moment later, was not set", () => {
  const time = { ms: 0.9 };
  const clock = new SystemClock({ wall: () => Math.floor(BOOT + time.ms), monotonic: () => time.ms });
  for (let second = 0; second < 10; second += 1) {
    time.ms += 1_000.3;
    clock.compare();
  }
  expect([clock.jumpedMs, clock.now() - clock.elapsed.now()]).toEqual([0, 0]);
});

test("the process's time never goes back: it waits for a wall clock that is behind", () => {
  const { clock, jumps, pass, set } = makeClock();
  set(-60_000);
  clock.compare();
  expect(clock.now()).toBe(BOOT);
  let before = clock.now();
  for (let second = 0; second < 120; second += 1) {
    pass(1_000);
    clock.compare();
    expect(clock.now()).toBeGreaterThanOrEqual(before + 1_000);
    before = clock.now();
  }
  // As far ahead of the wall clock as on the first day: the clock runs at its normal rate.
  expect(clock.now()).toBe(BOOT + 120_000);
  expect(jumps).toEqual([]);
});

test("the process's time may go back only if the wall clock had been ahead by more than 5 s", () => {
  const { clock, jumps, pass, set } = makeClock({ mayFall: true });
  set(600_000);
  clock.compare();
  set(-600_000);
  pass(1_000);
  clock.compare();
  expect(clock.now()).toBe(BOOT + 1_000);
  set(-5_000);
  clock.compare();
  expect(clock.now()).toBe(BOOT + 1_000);
  expect(jumps).toEqual([600_000]);
});

test("the process's time starts at the given time if it is behind that, and follows the wall clock once it is ahead", () => {
  const { clock, jumps, pass, set } = makeClock({ at: Date.UTC(1970, 0, 1) });
  for (const instant of [BOOT, BOOT - 1, 0]) clock.startAt(instant);
  expect(clock.now()).toBe(BOOT);
  pass(10);
  expect(clock.now()).toBe(BOOT + 10);
  clock.compare();
  expect(clock.now()).toBe(BOOT + 10);
  set(BOOT + 3_600_000);
  clock.compare();
  expect(clock.now()).toBe(BOOT + 3_600_010);
  expect(jumps).toEqual([3_600_000]);
});

test("a jump forward by more than 5 s is reported once, to all listeners, which read the new time, with its length", () => {
  const { clock, jumps, pass, set } = makeClock();
  const others: [byMs: number, now: number][] = [];
  clock.onJump((byMs) => others.push([byMs, clock.now()]));
  set(5_001);
  for (let times = 0; times < 3; times += 1) {
    clock.compare();
    expect(clock.now()).toBe(BOOT + 5_001 + times * 1_000);
    pass(1_000);
  }
  expect([jumps, others]).toEqual([[5_001], [[5_001, BOOT + 5_001]]]);
});

test.each([
  ["of 5 s or less", [5_000], 5_000],
  ["back, or of the time until the clock has caught up,", [-3_600_000, 3_600_000], 0],
])("a jump of the wall clock %s is followed without a report", (_, sets, later) => {
  const { clock, jumps, set } = makeClock();
  for (const byMs of sets) {
    set(byMs);
    clock.compare();
  }
  expect([clock.now(), jumps]).toEqual([BOOT + later, []]);
});

describe("the real clock", () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  test("the real clock compares the two clocks each second while it runs, and not afterwards", () => {
    const { clock, jumps, set } = makeClock();
    clock.start();
    set(60_000);
    vi.advanceTimersByTime(999);
    expect(jumps).toEqual([]);
    vi.advanceTimersByTime(1);
    expect(jumps).toEqual([60_000]);
    clock.stop();
    set(60_000);
    vi.advanceTimersByTime(10_000);
    expect(jumps).toEqual([60_000]);
    expect(vi.getTimerCount()).toBe(0);
  });

  test("the real clock calls back once, and not if the timer was cancelled", () => {
    const { clock } = makeClock();
    const called: string[] = [];
    clock.after(100, () => called.push("kept"));
    clock.after(50, () => called.push("cancelled")).cancel();
    vi.advanceTimersByTime(99);
    expect(called).toEqual([]);
    vi.advanceTimersByTime(10_000);
    expect(called).toEqual(["kept"]);
  });
});

test("the clock of this machine goes forward", () => {
  const clock = new SystemClock();
  const before = clock.now();
  expect(Math.abs(before - Date.now())).toBeLessThan(60_000);
  expect(clock.now()).toBeGreaterThanOrEqual(before);
});

test("the offset follows small changes at once, and a jump when the next comparison confirms it", () => {
  const time = new DatabaseTime(100);
  expect([time.compare(-4_000), time.offsetMs]).toEqual([true, -4_000]);
  expect([time.compare(600_000), time.offsetMs]).toEqual([false, -4_000]);
  expect([time.compare(-3_000), time.offsetMs]).toEqual([true, -3_000]);
  expect([time.compare(600_000), time.offsetMs]).toEqual([false, -3_000]);
  expect([time.compare(600_400), time.offsetMs]).toEqual([true, 600_400]);
  expect([time.compare(0), time.offsetMs]).toEqual([false, 600_400]);
  expect([time.compare(900_000), time.offsetMs]).toEqual([false, 600_400]);
  expect([time.compare(899_000), time.offsetMs]).toEqual([true, 899_000]);
});

test("a short error of the clock affects only one comparison, also with a slow database", async () => {
  const clock = new VirtualClock();
  const time = new DatabaseTime(0);
  let errorMs = 0;
  const seen: number[] = [];
  const delays = [9_000];
  const measure = async () => {
    await new Promise<void>((resolve) => void clock.after(delays.shift() ?? 0, resolve));
    seen.push(errorMs);
    return errorMs;
  };
  const stop = keepComparing(time, { measure, clock, log: new KeptLog() });
  await clock.advance(18_000);
  errorMs = 600_000;
  await clock.advance(9_900);
  errorMs = 0;
  await clock.advance(12_000);
  expect(seen).toEqual([600_000, 0, 0]);
  expect(time.offsetMs).toBe(0);
  stop();
  expect(clock.timerCount).toBe(0);
});

test("a node continues after a failed comparison, and compares no more once it is stopped", async () => {
  const clock = new VirtualClock();
  const time = new DatabaseTime(0);
  const answers = [new Error("away"), 400];
  const measure = async () => {
    const answer = answers.shift();
    if (typeof answer !== "number") throw answer;
    return answer;
  };
  const stop = keepComparing(time, { measure, clock, log: new KeptLog() });
  await clock.advance(10_000);
  expect(time.offsetMs).toBe(0);
  await clock.advance(10_000);
  expect(time.offsetMs).toBe(400);
  stop();
  expect(clock.timerCount).toBe(0);
});
