import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { tryHours } from "../../support/policy/hours-trial.ts";
import { tryProver } from "../../support/policy/prover-trial.ts";
import { tryMoments, tryTurns } from "../../support/policy/steps-trial.ts";
import { ALL_JUDGES, PLANTED, plantedWith } from "./planted-faults.ts";

/**
 * `npm run test:prover` tries `interlock prove` with as many random catalogues as 10⁶ steps of random walks take;
 * `-- --catalogues 20 --from 1000` with these, and `--walks 400` walks of each. `-- --planted` plants one fault after
 * the other, and says what finds it. It prints a line for each catalogue, or for each fault.
 */
const { values } = parseArgs({
  options: {
    catalogues: { type: "string", default: "64" },
    from: { type: "string", default: "1" },
    walks: { type: "string", default: "1000" },
    processes: { type: "string", default: "2" },
    planted: { type: "boolean", default: false },
    only: { type: "string", default: "" },
    seeds: { type: "string" },
    quick: { type: "boolean", default: false },
    directed: { type: "boolean", default: false },
  },
});

/** For planted faults, each with many catalogues. */
const QUICK = { walks: 300, needed: 4_000 };
const MAIN = fileURLToPath(import.meta.url);

interface Line {
  readonly seed: number;
  readonly held: number;
  readonly broken: number;
  readonly unfinished: number;
  readonly stories: number;
  readonly steps: number;
  readonly differences: readonly string[];
}

/** One process: a line for each seed. A planted fault that hours, moments or turns show needs no judge that walks. */
function tryOnly(seeds: readonly number[]): void {
  for (const seed of seeds) {
    const early = [...tryHours(seed), ...tryMoments(seed), ...tryTurns(seed)];
    if (values.directed || (values.quick && early.length > 0)) {
      const none = { held: 0, broken: 0, unfinished: 0, stories: 0, steps: 0 };
      console.log(JSON.stringify({ seed, ...none, differences: early } satisfies Line));
      continue;
    }
    const trial = tryProver(seed, values.quick ? QUICK : { walks: Number(values.walks) });
    const { held, broken, isUnfinished, stories, steps } = trial;
    const differences = [...early, ...trial.differences];
    const unfinished = Number(isUnfinished);
    const line: Line = { seed, held, broken, unfinished, stories: stories.length, steps, differences };
    console.log(JSON.stringify(line));
  }
}

async function tryAll(): Promise<void> {
  const sum = { catalogues: 0, steps: 0, held: 0, broken: 0, unfinished: 0, stories: 0, differences: 0 };
  const all = Array.from({ length: Number(values.catalogues) }, (_, index) => Number(values.from) + index);
  const processes = Number(values.processes);
  const count = async (part: number) => {
    const seeds = all.filter((_, index) => index % processes === part);
    const words = [MAIN, "--walks", values.walks, "--seeds", seeds.join()];
    const child = spawn(process.execPath, words, { stdio: ["ignore", "pipe", "inherit"] });
    const ended = once(child, "exit");
    for await (const text of createInterface({ input: child.stdout })) {
      const { seed, differences, ...counts } = JSON.parse(text) as Line;
      for (const name of Object.keys(counts) as (keyof typeof counts)[]) sum[name] += counts[name];
      sum.catalogues += 1;
      sum.differences += differences.length;
      for (const difference of differences) console.log(`catalogue ${seed}: ${difference}`);
      console.log(`catalogue ${seed} is tried; in all: ${described(sum)}`);
    }
    const [code] = await ended;
    if (code !== 0) process.exitCode = 1;
  };
  await Promise.all(Array.from({ length: processes }, (_, part) => count(part)));
  console.log(`all are tried: ${described(sum)}`);
  if (sum.differences > 0) process.exitCode = 1;
}

const described = (sum: Readonly<Record<string, number>>): string =>
  Object.entries(sum)
    .map(([what, number]) => `${what} ${number.toLocaleString("en")}`)
    .join(", ");

async function plantAll(): Promise<void> {
  const unplanted = await plantedWith({ edits: [] }, ALL_JUDGES);
  if (unplanted !== undefined) throw new Error(`something is found without a planted fault: ${unplanted}`);
  const faults = PLANTED.filter(({ kind, name }) => `${kind}: ${name}`.includes(values.only));
  let missed = 0;
  const next = faults.values();
  const work = async () => {
    for (const fault of next) {
      const begun = performance.now();
      const found = await plantedWith(fault, ALL_JUDGES);
      if (found === undefined) missed += 1;
      const seconds = ((performance.now() - begun) / 1_000).toFixed(1);
      const verdict = `${found === undefined ? "MISSED" : "found "} after ${seconds} s`;
      console.log(`${verdict}  ${fault.kind}: ${fault.name}${found ? ` — ${found}` : ""}`);
    }
  };
  await Promise.all(Array.from({ length: Number(values.processes) }, work));
  console.log(`${faults.length - missed} of ${faults.length} planted faults are found`);
  if (missed > 0) process.exitCode = 1;
}

if (values.seeds !== undefined) tryOnly(values.seeds.split(",").map(Number));
else await (values.planted ? plantAll() : tryAll());
