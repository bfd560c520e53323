import { expect, test } from "vitest";
import { within } from "../../../src/shared/waiting.ts";
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
