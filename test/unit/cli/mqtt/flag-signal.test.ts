import { expect, test } from "vitest";
import { type FlagEvent, type FlagSignal, newFlagSignal, stepFlag } from "../../../../src/cli/mqtt/flag-signal.ts";

/** What is sent to the node for events, in order. */
function sent(...events: readonly FlagEvent[]): (boolean | undefined)[] {
  let flag: FlagSignal = newFlagSignal();
  return events.map((event) => {
    const [next, order] = stepFlag(flag, event);
    flag = next;
    return order;
  });
}

const signal = (isOn: boolean, topic = "a"): FlagEvent => ({ type: "signal", topic, isOn });
const done: FlagEvent = { type: "done" };

test("a thousand messages with one value are one request", () => {
  const flood = Array.from({ length: 1_000 }, () => signal(true));
  expect(sent(...flood, done, ...flood).filter((order) => order !== undefined)).toEqual([true]);
});

test("there is one request at a time, and the newest value is sent after it", () => {
  expect(sent(signal(true), signal(false), signal(true), signal(false), done, done)).toEqual([
    true,
    undefined,
    undefined,
    undefined,
    false,
    undefined,
  ]);
});

test("a flag is on while any of its signals is", () => {
  expect(sent(signal(true), done, signal(true, "b"), signal(false), signal(false, "b"))).toEqual([
    true,
    undefined,
    undefined,
    undefined,
    false,
  ]);
});

test("a flag without a signal stays as the floor has it, and one that another client changed is set again", () => {
  expect(sent({ type: "read", isOn: true })).toEqual([undefined]);
  expect(sent(signal(false), done, { type: "read", isOn: true })).toEqual([false, undefined, false]);
  expect(sent({ type: "read", isOn: true }, signal(true))).toEqual([undefined, undefined]);
});

test("what the node does not take is sent again after a while, with the newest value", () => {
  expect(sent(signal(true), { type: "failed" }, { type: "try again" })).toEqual([true, undefined, true]);
  expect(sent(signal(true), signal(false), { type: "failed" }, { type: "try again" })).toEqual([
    true,
    undefined,
    undefined,
    false,
  ]);
});

test("while its signals are lost a flag is what when_lost says, until a signal comes again", () => {
  expect(sent(signal(true), done, { type: "lost", to: false }, done, signal(true))).toEqual([
    true,
    undefined,
    false,
    undefined,
    true,
  ]);
  expect(sent({ type: "lost", to: true })).toEqual([true]);
});

test("the signals of a wildcard are bounded", () => {
  let flag = newFlagSignal();
  for (let n = 0; n < 3_000; n++) [flag] = stepFlag(flag, signal(false, `t${n}`));
  expect(flag.signals.size).toBe(1_024);
});
