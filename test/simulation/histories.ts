import { describe, expect, test } from "vitest";
import { playMany } from "./play-many.ts";
import { report } from "./report.ts";

/** The number of histories, and the first seed: `SIMULATION_HISTORIES=20000 SIMULATION_FROM=1000000 npm test`. */
const HISTORIES = Number(process.env["SIMULATION_HISTORIES"] ?? 2_000);
const FROM = Number(process.env["SIMULATION_FROM"] ?? 1);
const BLOCK = 100;

const blocks = Array.from({ length: Math.ceil(HISTORIES / BLOCK) }, (_, index) => {
  const from = FROM + index * BLOCK;
  return [from, Math.min(from + BLOCK, FROM + HISTORIES) - 1] as const;
});

/** One half of the histories. Each half is a separate file, because files run on different cores. */
export function describeHistories(half: 1 | 2): void {
  const middle = Math.ceil(blocks.length / 2);
  const own = half === 1 ? blocks.slice(0, middle) : blocks.slice(middle);
  describe("several nodes under any faults of the network, the store, the queue and the nodes", () => {
    test.each(own)("several nodes under any faults keep the promises in histories %i to %i", async (first, last) => {
      const failed = await playMany(first, last - first + 1);
      if (failed) expect.fail(report(failed));
    });
    // A file without a test fails: with fewer histories than a block, the second half has none.
    test.runIf(own.length === 0)("several nodes under any faults have no history left for this half", () => {});
  });
}
