import { describe, expect, test } from "vitest";
import { playHistory } from "./history.ts";
import { playMany } from "./play-many.ts";
import { report } from "./report.ts";

/** How many histories, and from which seed: `SIMULATION_HISTORIES=20000 SIMULATION_FROM=1000000 npm test`. */
const HISTORIES = Number(process.env["SIMULATION_HISTORIES"] ?? 2_000);
const FROM = Number(process.env["SIMULATION_FROM"] ?? 1);
const BLOCK = 100;

const blocks = Array.from({ length: Math.ceil(HISTORIES / BLOCK) }, (_, index) => {
  const from = FROM + index * BLOCK;
  return [from, Math.min(from + BLOCK, FROM + HISTORIES) - 1] as const;
});

describe("several nodes, whatever the network, the store, the queue and the nodes themselves do", () => {
  test.each(blocks)("keep what is promised in histories %i to %i", async (first, last) => {
    const failed = await playMany(first, last - first + 1);
    if (failed) expect.fail(report(failed));
  });
});

describe("a history", () => {
  test("is the same for the same seed, whatever was played before it", async () => {
    const hashOf = async (seed: number) => (await playHistory(seed)).world.trace.hash();
    const seeds = [1, 2, 3, 4, 5];
    const hashes = [];
    for (const seed of seeds) hashes.push(await hashOf(seed));
    expect(new Set(hashes).size).toBe(seeds.length);
    for (const seed of seeds.toReversed()) expect([seed, await hashOf(seed)]).toEqual([seed, hashes[seed - 1]]);
  });

  test("meets what it is to meet: conflicts, attempts that are replaced, readers that come back, nodes that die", async () => {
    const seen = new Map<string, number>();
    for (let seed = 1; seed <= 60; seed++) {
      const { world } = await playHistory(seed);
      for (const [what, count] of world.counts) seen.set(what, (seen.get(what) ?? 0) + count);
    }
    for (const what of [
      "commits",
      "conflicts",
      "runs done",
      "runs stopped",
      "runs failed",
      "attempts replaced",
      "answers that were lost",
      "readers that came back",
      "nodes that died",
      "nodes that slept",
      "questions answered",
    ]) {
      expect([what, seen.get(what) ?? 0]).toEqual([what, expect.toSatisfy((count: number) => count > 0)]);
    }
  });
});
