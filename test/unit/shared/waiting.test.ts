import { expect, test } from "vitest";
import { every, within } from "../../../src/shared/waiting.ts";
import { VirtualClock } from "../../support/runner/virtual-clock.ts";

test("work that ends in time, or fails, has its own result, and leaves no timer", async () => {
  const clock = new VirtualClock();
  expect(await within(clock, 10, Promise.resolve(1))).toBe(1);
  await expect(within(clock, 10, Promise.reject(new Error("broken")))).rejects.toThrow("broken");
  expect(clock.timerCount).toBe(0);
});

test("work that takes longer has what its limit gives or throws, and fails unnoticed afterwards", async () => {
  const clock = new VirtualClock();
  const work = Promise.withResolvers<number>();
  const limited = [
    within(clock, 10, work.promise),
    within(clock, 10, work.promise, () => "late"),
    within(clock, 10, work.promise, () => {
      throw new Error("late");
    }),
  ];
  const all = Promise.allSettled(limited);
  await clock.advance(10);
  const outcomes = await all;
  expect(outcomes.map((each) => (each.status === "rejected" ? each.reason.message : each.value))).toEqual([
    undefined,
    "late",
    "late",
  ]);
  work.reject(new Error("broken"));
});

test("work is called after each period, which begins when the work has ended, until it is cancelled", async () => {
  const clock = new VirtualClock();
  const calls: string[] = [];
  const atOnce = every(clock, 10, () => void calls.push("at once"));
  await clock.advance(30);
  expect(calls).toEqual(["at once", "at once", "at once"]);
  atOnce.cancel();

  const ends: (() => void)[] = [];
  const slow = every(clock, 10, () => new Promise((resolve) => ends.push(resolve)));
  await clock.advance(30);
  expect(ends).toHaveLength(1);
  ends[0]!();
  await clock.advance(10);
  expect(ends).toHaveLength(2);
  slow.cancel();
  ends[1]!();
  await clock.advance(10);
  expect([ends.length, calls.length, clock.timerCount]).toEqual([2, 3, 0]);
});
