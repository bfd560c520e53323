import { expect, test } from "vitest";
import { TransientMap } from "../../../src/shared/transient-map.ts";
import { ballast, bytesLeft, ROUND_BYTES } from "../../support/runner/heap.ts";

test("entries are in the order of their addition, and a deleted one is gone", () => {
  const map = new TransientMap<string, { n: number }>();
  for (const [n, key] of ["b", "a", "c"].entries()) map.set(key, { n });
  map.set("b", { n: 3 });
  expect([map.size, map.entries().map(([key, { n }]) => `${key}${n}`)]).toEqual([3, ["b3", "a1", "c2"]]);
  expect([map.delete("a"), map.delete("a"), map.size]).toEqual([true, false, 2]);
  expect([map.has("a"), map.get("a"), map.values()]).toEqual([false, undefined, [{ n: 3 }, { n: 2 }]]);
});

test("names of an object's own are keys like others", () => {
  const map = new TransientMap<string, object>();
  for (const key of ["__proto__", "constructor", "toString"]) {
    expect(map.has(key)).toBe(false);
    map.set(key, {});
  }
  expect(map.entries().map(([key]) => key)).toEqual(["__proto__", "constructor", "toString"]);
});

test("entries may be deleted while they are gone through", () => {
  const map = new TransientMap<string, { key: string }>();
  for (const key of ["a", "b", "c"]) map.set(key, { key });
  for (const { key } of map.values()) map.delete(key);
  expect([map.size, map.values()]).toEqual([0, []]);
});

test("a deleted entry is garbage for a minor collection", async () => {
  const map = new TransientMap<string, object>();
  const open: string[] = [];
  let added = 0;
  const left = await bytesLeft(() => {
    for (let count = 0; count < 100; count++) {
      const key = `key${added++}`;
      map.set(key, ballast());
      if (open.push(key) > 8) map.delete(open.shift()!);
    }
  });
  // The entries that are there become old: 8 of 100.
  expect(left).toBeLessThan(ROUND_BYTES / 4);
});
