import { expect, test } from "vitest";
import { checkFaults } from "./fault-check.ts";

/** `npm run test:faults`: the number of seeds, and the first one. Without it one seed is played. */
const SEEDS = Number(process.env["FAULT_SEEDS"] ?? 1);
const FROM = Number(process.env["FAULT_FROM"] ?? 1);

test.each(Array.from({ length: SEEDS }, (_, n) => FROM + n))(
  "a killed node keeps what it acknowledged under random commands, once, by every kind of read (seed %i)",
  async (seed) => {
    const { commands, done, kills } = await checkFaults(seed);
    console.info(`seed ${seed}: ${commands} commands, ${done} done, ${kills} kills`);
    expect(done).toBeGreaterThan(commands / 4);
  },
);
