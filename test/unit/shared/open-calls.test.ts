import { beforeEach, expect, test, vi } from "vitest";
import { OpenCalls } from "../../../src/shared/open-calls.ts";

let calls: OpenCalls;
beforeEach(() => {
  calls = new OpenCalls();
});

test("a call is cancelled once, by the id that its caller gave to it", () => {
  const cancel = vi.fn();
  calls.add("ann", 7, cancel);
  calls.cancel("ann", 8);
  expect(cancel).not.toHaveBeenCalled();
  calls.cancel("ann", 7);
  calls.cancel("ann", 7);
  expect(cancel).toHaveBeenCalledTimes(1);
});

test("ids of other callers, and the same id as text, are different ids", () => {
  const cancel = vi.fn();
  calls.add("ann", 7, cancel);
  calls.cancel("bob", 7);
  calls.cancel("ann", "7");
  expect(cancel).not.toHaveBeenCalled();
});

test("a call that has ended is not cancelled, and its id may be used again", () => {
  const [ended, next] = [vi.fn(), vi.fn()];
  calls.add("ann", "a", ended)();
  calls.add("ann", "a", next);
  calls.cancel("ann", "a");
  expect([ended, next].map(({ mock }) => mock.calls.length)).toEqual([0, 1]);
});

test("neither of two calls with one id is cancelled, and the second can be once the first has ended", () => {
  const [first, second] = [vi.fn(), vi.fn()];
  const endFirst = calls.add("ann", "a", first);
  calls.add("ann", "a", second);
  calls.cancel("ann", "a");
  expect([first, second].map(({ mock }) => mock.calls.length)).toEqual([0, 0]);
  endFirst();
  calls.cancel("ann", "a");
  expect([first, second].map(({ mock }) => mock.calls.length)).toEqual([0, 1]);
});

test("a caller may use the name of any property as an id", () => {
  const cancel = vi.fn();
  for (const id of ["__proto__", "constructor", "toString"]) {
    calls.cancel("ann", id);
    calls.add("ann", id, cancel);
    calls.cancel("ann", id);
  }
  expect(cancel).toHaveBeenCalledTimes(3);
});
