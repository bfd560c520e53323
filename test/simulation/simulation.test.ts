import { describe, expect, test } from "vitest";
import { type Outcome, playHistory } from "./history.ts";
import { playMany, report } from "./play-many.ts";

/**
 * The number of histories, and the first seed: `SIMULATION_HISTORIES=20000 SIMULATION_FROM=1000000 npm test`. The
 * default is the number within which each planted fault is found.
 */
const HISTORIES = Number(process.env["SIMULATION_HISTORIES"] ?? 50);
const FROM = Number(process.env["SIMULATION_FROM"] ?? 1);
const BLOCK = 50;

const blocks = Array.from({ length: Math.ceil(HISTORIES / BLOCK) }, (_, index) => {
  const from = FROM + index * BLOCK;
  return [from, Math.min(from + BLOCK, FROM + HISTORIES) - 1] as const;
});

/** What has happened in the histories that were played, and how the first of them went. */
const happened = new Set<string>();
const hashes = new Map<number, string>();
function note({ seed, world }: Outcome): void {
  for (const [what, times] of world.counts) if (times > 0) happened.add(what);
  if (hashes.size < 5) hashes.set(seed, world.trace.hash());
}

describe("several nodes under any faults of the network, the store, the queue and the nodes", () => {
  test.each(blocks)("several nodes under any faults keep the promises in histories %i to %i", async (first, last) => {
    const failed = await playMany(first, last - first + 1, {}, note);
    if (failed) expect.fail(report(failed));
  });
});

describe("a history", () => {
  test("a history depends only on its seed", async () => {
    if (hashes.size < 5) await playMany(FROM, 5, {}, note);
    expect(new Set(hashes.values()).size).toBe(5);
    const again = async (seed: number) => [seed, (await playHistory(seed)).world.trace.hash()];
    for (const entry of [...hashes].toReversed()) expect(await again(entry[0])).toEqual(entry);
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
    const missing = () => promised.filter((what) => !happened.has(what));
    for (let seed = FROM; seed < FROM + 60 && missing().length > 0; seed++) await playMany(seed, 1, {}, note);
    expect(missing()).toEqual([]);
  });
});
