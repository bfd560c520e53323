import { expect, test } from "vitest";
import { ownersOf } from "../../../src/bus/rendezvous.ts";

const tally = (owners: readonly string[]) => Object.groupBy(owners, (owner) => owner);

test("all nodes compute the same owner, regardless of the order in which they list the nodes", () => {
  expect(ownersOf(["c", "a", "b"], 256)).toEqual(ownersOf(["a", "b", "c", "a"], 256));
});

test("every partition has one owner, and the partitions are spread over all nodes", () => {
  const partitions = tally(ownersOf(["node-1", "node-2", "node-3", "node-4"], 256));
  const sizes = Object.values(partitions).map((owned) => owned!.length);
  expect(sizes.reduce((sum, size) => sum + size)).toBe(256);
  expect(sizes).toHaveLength(4);
  expect(Math.min(...sizes)).toBeGreaterThan(32);
  expect(Math.max(...sizes)).toBeLessThan(112);
});

test("when a node leaves, only its floors move", () => {
  const before = ownersOf(["a", "b", "c"], 256);
  const after = ownersOf(["a", "c"], 256);
  const moved = before.flatMap((owner, partition) => (owner === after[partition] ? [] : [owner]));
  expect(new Set(moved)).toEqual(new Set(["b"]));
  expect(moved).toHaveLength(before.filter((owner) => owner === "b").length);
});

test("without nodes no floor has an owner", () => {
  expect(ownersOf([], 256)).toEqual([]);
});
