import { expect, test } from "vitest";
import { abortAfter } from "../../../src/shared/abort-after.ts";
import { VirtualClock } from "../../support/runner/virtual-clock.ts";

const late = new Error("late");

test("a signal aborts after its time, or with the reason of the outer one", async () => {
  const clock = new VirtualClock();
  const outer = new AbortController();
  const [first, second] = [
    abortAfter(clock, 10, () => late, outer.signal),
    abortAfter(clock, 20, () => late, outer.signal),
  ];
  await clock.advance(10);
  expect([first.signal.reason, second.signal.aborted]).toEqual([late, false]);
  outer.abort("left");
  expect([first.signal.reason, second.signal.reason]).toEqual([late, "left"]);
  expect(abortAfter(clock, 10, () => late, outer.signal).signal.reason).toBe("left");
});

test("a signal that was disposed, or has no time, is not aborted by the clock", async () => {
  const clock = new VirtualClock();
  const outer = new AbortController();
  const endless = abortAfter(clock, undefined, () => late, outer.signal);
  const disposed = abortAfter(clock, 10, () => late, outer.signal);
  disposed[Symbol.dispose]();
  expect(clock.timerCount).toBe(0);
  outer.abort("left");
  expect([endless.signal.reason, disposed.signal.aborted]).toEqual(["left", false]);
});
