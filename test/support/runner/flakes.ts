import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createWriteStream } from "node:fs";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { parseArgs } from "node:util";

// `npm run flakes -- --runs 20 --load 2 --seed 7 --files test/e2e/crash`: the tests again and again, without second
// tries, beside busy loops, each time in another order of files, in every other run with an empty compile cache. It
// names each test that failed, and ends with code 1 if one did.

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    /** How often. */
    runs: { type: "string", default: "20" },
    /** Busy loops beside the tests. */
    load: { type: "string", default: "2" },
    /** The order of files of the first run; the next one has the next seed. */
    seed: { type: "string", default: String(1 + Math.floor(Math.random() * 999_999)) },
    /** Only test files whose path has this; more of them may follow. Default: all. */
    files: { type: "string", multiple: true, default: [] },
  },
});
const ROOT = process.cwd();
const VITEST = join(ROOT, "node_modules/vitest/vitest.mjs");
/** Works without a pause, and ends when the pipe to this process is closed. */
const BUSY = `process.stdin.on("close", () => process.exit()).resume();
  const work = () => { for (const until = Date.now() + 50; Date.now() < until; ); setImmediate(work); };
  work();`;

interface Failure {
  test: string;
  message: string;
}

/** The report of vitest, as far as it is read here. */
interface Report {
  testResults: {
    name: string;
    message: string;
    assertionResults: { fullName: string; status: string; failureMessages: string[] }[];
  }[];
}

let isStopped = false;
process.on("SIGINT", () => {
  // The tests get it too, as they are in the same group of processes.
  isStopped = true;
});

async function main(): Promise<number> {
  const [runs, load, first] = [countOf("runs", 1), countOf("load", 0), countOf("seed", 0)];
  const folder = await mkdtemp(join(tmpdir(), "interlock-flakes-"));
  const loops = Array.from({ length: load }, () =>
    spawn(process.execPath, ["-e", BUSY], { stdio: ["pipe", "ignore", "ignore"] }),
  );
  const failures: (Failure & { run: number; seed: number })[] = [];
  let [done, red] = [0, 0];
  try {
    for (let run = 1; run <= runs && !isStopped; run++) {
      const seed = first + run - 1;
      const isEmptied = run % 2 === 0;
      const began = Date.now();
      const found = await oneRun(folder, { run, seed, isEmptied });
      if (isStopped) break;
      done += 1;
      if (found.length > 0) red += 1;
      failures.push(...found.map((failure) => ({ ...failure, run, seed })));
      const how = `seed ${seed}, ${load} busy loops${isEmptied ? ", empty compile cache" : ""}`;
      const seconds = Math.round((Date.now() - began) / 1_000);
      const outcome = found.length === 0 ? "clean" : `${found.length} failed, see ${logOf(folder, run)}`;
      console.log(`run ${run} of ${runs} (${how}), ${seconds} s: ${outcome}`);
    }
  } finally {
    for (const loop of loops) loop.stdin!.end();
  }
  console.log(`\n${done - red} of ${done} runs were clean.`);
  for (const [test, all] of Map.groupBy(failures, (failure) => failure.test)) {
    const seeds = all.map(({ run, seed }) => `run ${run} with seed ${seed}`).join(", ");
    console.log(`\n${all.length} of ${done}  ${test}\n  ${seeds}\n  ${all[0]!.message}`);
  }
  if (red === 0) await rm(folder, { recursive: true });
  else console.log(`\nThe logs of the red runs are in ${folder}`);
  return red > 0 || done < runs ? 1 : 0;
}

function countOf(name: "runs" | "load" | "seed", least: number): number {
  const count = /^\d{1,9}$/.test(values[name]) ? Number(values[name]) : Number.NaN;
  if (count >= least) return count;
  console.error(`flakes: --${name} is a number from ${least}`);
  process.exit(2);
}

const logOf = (folder: string, run: number): string => join(folder, `run-${run}.log`);

/** One run. The log of a clean one is removed. */
async function oneRun(
  folder: string,
  { run, seed, isEmptied }: { run: number; seed: number; isEmptied: boolean },
): Promise<Failure[]> {
  const cache = join(folder, `compile-${run}`);
  const report = join(folder, `run-${run}.json`);
  const log = createWriteStream(logOf(folder, run));
  const env = { ...process.env, TEST_RETRIES: "0", TEST_ORDER: String(seed), NO_COLOR: "1" };
  if (isEmptied) Object.assign(env, { NODE_COMPILE_CACHE: cache });
  const reporters = ["--reporter=default", "--reporter=json", `--outputFile.json=${report}`];
  const words = [VITEST, "run", ...values.files, ...positionals, ...reporters];
  const child = spawn(process.execPath, words, { cwd: ROOT, env, stdio: ["ignore", "pipe", "pipe"] });
  for (const output of [child.stdout, child.stderr]) output.pipe(log, { end: false });
  const code = await ended(child);
  log.end();
  await once(log, "close");
  const failures = await failuresIn(report);
  for (const path of [report, cache]) await rm(path, { recursive: true, force: true });
  if (code !== 0 && failures.length === 0) {
    failures.push({ test: "no test, but the run", message: `vitest ended with ${code}: its log says why` });
  }
  if (failures.length === 0) await rm(logOf(folder, run));
  return failures;
}

async function ended(child: ChildProcess): Promise<number | string> {
  const [code, signal] = (await once(child, "close")) as [number | null, string | null];
  return code ?? signal!;
}

async function failuresIn(report: string): Promise<Failure[]> {
  const text = await readFile(report, "utf8").catch(() => undefined);
  if (text === undefined) return [];
  return (JSON.parse(text) as Report).testResults.flatMap(({ name, message, assertionResults }) => {
    const file = relative(ROOT, name);
    const failed = assertionResults.filter(({ status }) => status === "failed");
    const inTests = failed.map(({ fullName, failureMessages }) => ({
      test: `${file} > ${fullName}`,
      message: firstLine(failureMessages[0]),
    }));
    // A file that cannot be loaded, or whose hooks fail, has a message of its own.
    return inTests.length > 0 || message === "" ? inTests : [{ test: file, message: firstLine(message) }];
  });
}

const firstLine = (text = ""): string => text.split("\n", 1)[0]!;

process.exitCode = await main();
