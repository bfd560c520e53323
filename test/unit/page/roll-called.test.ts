import { expect, test } from "vitest";
import { type RollCalled, rateOf } from "../../../page/node/roll-called.ts";

const reading = (at: number, ...nodes: object[]) => ({ at, nodes }) as RollCalled;

test("a node's rate is computed from its last two answers, even if one between them was missed", () => {
  const readings = [
    reading(0, { node: "a", commands: 0 }, { node: "b", commands: 5 }),
    reading(2_000, { node: "a", commands: 100 }, { node: "b", commands: 5, silentMs: 2_000 }),
    reading(4_000, { node: "a", commands: 400 }, { node: "b", commands: 45 }),
  ];
  expect(rateOf(readings, "a", "commands")).toBe(150);
  expect(rateOf(readings, "b", "commands")).toBe(10);
});

test("no rates are shown for a node that answered at most once, or to a reader that is no operator", () => {
  const readings = [{ at: 0, nodes: undefined }, reading(2_000, { node: "a", commits: 3 })];
  expect(rateOf(readings, "a", "commits")).toBeUndefined();
  expect(rateOf(readings, "c", "commits")).toBeUndefined();
});
