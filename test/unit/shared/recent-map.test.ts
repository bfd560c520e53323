import { expect, test } from "vitest";
import { RecentMap } from "../../../src/shared/recent-map.ts";
import { ballast, bytesLeft, ROUND_BYTES } from "../../support/runner/heap.ts";

function mapOf(keys: string, limit: number): RecentMap<string, number> {
  const map = new RecentMap<string, number>(limit);
  for (const [index, key] of [...keys].entries()) map.set(key, index);
  return map;
}

const keysOf = (map: RecentMap<string, number>): string =>
  map
    .entries()
    .map(([key]) => key)
    .toSorted()
    .join("");

test.each([
  ["abcd", "bcd"],
  ["abacd", "acd"],
  ["abcabcd", "bcd"],
  ["abcaade", "ade"],
  ["aaabcbde", "bde"],
])("after %s, three have room for %s", (written, left) => {
  const map = mapOf(written, 3);
  expect([keysOf(map), map.size]).toEqual([left, 3]);
  expect(map.entries().every(([key, index]) => index === written.lastIndexOf(key))).toBe(true);
});

test("with room for one, a new entry replaces the other", () => {
  expect(mapOf("aaab", 1).entries()).toEqual([["b", 3]]);
});

test("an entry is read, written over, deleted and cleared", () => {
  const map = mapOf("aba", 3);
  expect([map.get("a"), map.has("a"), map.get("c"), map.has("c")]).toEqual([2, true, undefined, false]);
  expect([map.delete("a"), map.delete("a"), map.values()]).toEqual([true, false, [1]]);
  map.clear();
  expect([map.size, map.entries()]).toEqual([0, []]);
});

test("a value that is written over is garbage for a minor collection", async () => {
  const map = new RecentMap<string, object>(100);
  let written = 0;
  const left = await bytesLeft(() => {
    for (let count = 0; count < 100; count++) map.set(`key${written++ % 8}`, ballast());
  });
  // The values that are there become old: 8 of 100.
  expect(left).toBeLessThan(ROUND_BYTES / 4);
});
