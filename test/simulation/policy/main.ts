import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { tryHours } from "../../support/policy/hours-trial.ts";
import { tryMoments } from "../../support/policy/moments-trial.ts";
import { tryProver } from "../../support/policy/prover-trial.ts";
import { ALL_JUDGES, PLANTED, plantedWith } from "./planted-faults.ts";

/**
 * `npm run test:prover` tries `interlock prove` with as many random catalogues as 10⁶ steps of random walks take;
 * `-- --catalogues 20 --from 1000` with these. `-- --planted` plants one fault after the other, and says what finds it.
 */
const { values } = parseArgs({
  options: {
    catalogues: { type: "string", default: "160" },
    from: { type: "string", default: "1" },
    planted: { type: "boolean", default: false },
    only: { type: "string", default: "" },
    seeds: { type: "string" },
    quick: { type: "boolean", default: false },
    directed: { type: "boolean", default: false },
  },
});

const PROCESSES = 2;
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

/** One process: a line for each seed. A planted fault that hours or moments show needs no judge that walks. */
function tryOnly(seeds: readonly number[]): void {
  for (const seed of seeds) {
    const early = [...tryHours(seed), ...tryMoments(seed)];
    if (values.directed || (values.quick && early.length > 0)) {
      const none = { held: 0, broken: 0, unfinished: 0, stories: 0, steps: 0 };
      console.log(JSON.stringify({ seed, ...none, differences: early } satisfies Line));
      continue;
    }
    const trial = tryProver(seed, values.quick ? QUICK : {});
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
  const count = async (part: number) => {
    const seeds = all.filter((_, index) => index % PROCESSES === part);
    const child = spawn(process.execPath, [MAIN, "--seeds", seeds.join()], { stdio: ["ignore", "pipe", "inherit"] });
    const ended = once(child, "exit");
    for await (const text of createInterface({ input: child.stdout })) {
      const { seed, differences, ...counts } = JSON.parse(text) as Line;
      for (const name of Object.keys(counts) as (keyof typeof counts)[]) sum[name] += counts[name];
      sum.catalogues += 1;
      sum.differences += differences.length;
      for (const difference of differences) console.log(`catalogue ${seed}: ${difference}`);
    }
    const [code] = await ended;
    if (code !== 0) process.exitCode = 1;
  };
  await Promise.all(Array.from({ length: PROCESSES }, (_, part) => count(part)));
  console.log(
    Object.entries(sum)
      .map(([what, number]) => `${what} ${number.toLocaleString("en")}`)
      .join(", "),
  );
  if (sum.differences > 0) process.exitCode = 1;
}

async function plantAll(): Promise<void> {
  const unplanted = await plantedWith({ edits: [] }, ALL_JUDGES);
  if (unplanted !== undefined) throw new Error(`something is found without a planted fault: ${unplanted}`);
  const faults = PLANTED.filter(({ kind, name }) => `${kind}: ${name}`.includes(values.only));
  let missed = 0;
  const next = faults.values();
  const work = async () => {
    for (const fault of next) {
      const found = await plantedWith(fault, ALL_JUDGES);
      if (found === undefined) missed += 1;
      console.log(
        `${found === undefined ? "MISSED" : "found "}  ${fault.kind}: ${fault.name}${found ? ` — ${found}` : ""}`,
      );
    }
  };
  await Promise.all(Array.from({ length: PROCESSES }, work));
  console.log(`${faults.length - missed} of ${faults.length} planted faults are found`);
  if (missed > 0) process.exitCode = 1;
}

if (values.seeds !== undefined) tryOnly(values.seeds.split(",").map(Number));
else await (values.planted ? plantAll() : tryAll());
