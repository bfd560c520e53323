import { describe, expect, test } from "vitest";
import { playHistory } from "./history.ts";
import { playMany, report } from "./play-many.ts";

/**
 * The number of histories, and the first seed: `SIMULATION_HISTORIES=20000 SIMULATION_FROM=1000000 npm test`. The
 * default is the number within which each planted fault is found.
 */
const HISTORIES = Number(process.env["SIMULATION_HISTORIES"] ?? 100);
const FROM = Number(process.env["SIMULATION_FROM"] ?? 1);
const BLOCK = 50;

const blocks = Array.from({ length: Math.ceil(HISTORIES / BLOCK) }, (_, index) => {
  const from = FROM + index * BLOCK;
  return [from, Math.min(from + BLOCK, FROM + HISTORIES) - 1] as const;
});

describe("several nodes under any faults of the network, the store, the queue and the nodes", () => {
  test.each(blocks)("several nodes under any faults keep the promises in histories %i to %i", async (first, last) => {
    const failed = await playMany(first, last - first + 1);
    if (failed) expect.fail(report(failed));
  });
});

describe("a history", () => {
  test("a history depends only on its seed", async () => {
    const hashOf = async (seed: number) => (await playHistory(seed)).world.trace.hash();
    const seeds = [1, 2, 3, 4, 5];
    const hashes = [];
    for (const seed of seeds) hashes.push(await hashOf(seed));
    expect(new Set(hashes).size).toBe(seeds.length);
    for (const seed of seeds.toReversed()) expect([seed, await hashOf(seed)]).toEqual([seed, hashes[seed - 1]]);
  });

  test("the histories contain conflicts, replaced attempts, reconnecting readers, and nodes that die", async () => {
    const promised = [
      "commits",
      "conflicts",
      "runs done",
      "runs stopped",
      "runs failed",
      "attempts replaced",
      "heartbeats answered",
      "lapses",
      "answers that were lost",
      "readers that came back",
      "readers that were away for long",
      "orchestrators that only the store did not answer",
      "errors of the database's clock",
      "heavy messages",
      "sessions ducked",
      "sessions beneath",
      "sessions critical",
      "sessions replaced",
      "sessions restricted",
      "readers that were cut off for taking nothing",
      "sessions that ended while their reader was away",
      "nodes that died",
      "nodes that slept",
      "questions answered",
    ];
    const missing = new Set(promised);
    for (let seed = 1; seed <= 60 && missing.size > 0; seed++) {
      const { world } = await playHistory(seed);
      for (const what of world.counts.keys()) missing.delete(what);
    }
    expect([...missing]).toEqual([]);
  });
});
