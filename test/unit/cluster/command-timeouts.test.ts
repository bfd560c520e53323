import { beforeEach, expect, test } from "vitest";
import { type CommandTimeout, CommandTimeouts } from "../../../src/cluster/command-timeouts.ts";
import { ballast, bytesLeft, ROUND_BYTES } from "../../support/runner/heap.ts";
import { VirtualClock } from "../../support/runner/virtual-clock.ts";

let clock: VirtualClock;
let timeouts: CommandTimeouts;
let passed: string[];

beforeEach(() => {
  clock = new VirtualClock();
  timeouts = new CommandTimeouts(clock);
  passed = [];
});

const add = (name: string, inMs: number) => timeouts.add(clock.now() + inMs, () => passed.push(name));

test("each timeout is called at its instant, in any order of addition", async () => {
  add("late", 300);
  add("early", 100);
  add("between", 200);
  await clock.advance(99);
  expect(passed).toEqual([]);
  await clock.advance(1);
  expect(passed).toEqual(["early"]);
  await clock.advance(100);
  expect(passed).toEqual(["early", "between"]);
  await clock.advance(1_000);
  expect(passed).toEqual(["early", "between", "late"]);
});

test("a timeout that has already passed is called in a later turn, not within the caller's call", async () => {
  add("past", -1);
  expect(passed).toEqual([]);
  await clock.advance(0);
  expect(passed).toEqual(["past"]);
});

test("a removed timeout is not called, also if a timeout of the same instant removes it", async () => {
  const first = add("first", 100);
  timeouts.add(clock.now() + 200, () => timeouts.remove(third));
  const third = add("third", 200);
  timeouts.remove(first);
  await clock.advance(1_000);
  expect(passed).toEqual([]);
});

test("any number of timeouts share one timer, which ends with the last of them", async () => {
  const all = Array.from({ length: 100 }, (_, index) => add(String(index), 1_000 - index));
  expect(clock.timerCount).toBe(1);
  for (const timeout of all) timeouts.remove(timeout);
  await clock.advance(1_000);
  expect(passed).toEqual([]);
  expect(clock.timerCount).toBe(0);
});

test("a clock that went back delays a timeout but does not lose it", async () => {
  add("one", 100);
  clock.jump(-50);
  await clock.advance(100);
  expect(passed).toEqual([]);
  await clock.advance(50);
  expect(passed).toEqual(["one"]);
});

test("a removed timeout is garbage for a minor collection", async () => {
  const open: CommandTimeout[] = [];
  const left = await bytesLeft(() => {
    for (let count = 0; count < 100; count++) {
      const held = ballast();
      open.push(timeouts.add(clock.now() + 1_000, () => passed.push(String(held))));
      if (open.length > 8) timeouts.remove(open.shift()!);
    }
  });
  // The pending ones become old: 8 of 100.
  expect(left).toBeLessThan(ROUND_BYTES / 4);
});
