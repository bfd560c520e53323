import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import { test } from "vitest";
import { BARE_ENV } from "../agents/bare-env.ts";
import { reportUntested } from "../runner/untested.ts";

/** Where other projects' programs are installed: `npm ci --prefix test/outside-programs --ignore-scripts`. */
const FOLDER = resolve(import.meta.dirname, "../../outside-programs");
export const OUTSIDE_MODULES = join(FOLDER, "node_modules");

const PROGRAMS = {
  redocly: "@redocly/cli/bin/cli.js",
  spectral: "@stoplight/spectral-cli/dist/index.js",
  "openapi-typescript": "openapi-typescript/bin/cli.js",
  tsc: "typescript/bin/tsc",
} as const;
type Program = keyof typeof PROGRAMS;

/** Ends what hangs: a compiler takes its time on a machine that is busy too. */
const TIMEOUT_MS = 240_000;

/** They must neither report that they were used nor look for newer versions of themselves. */
const QUIET = { ...BARE_ENV, REDOCLY_TELEMETRY: "off", REDOCLY_SUPPRESS_UPDATE_NOTICE: "true", NO_COLOR: "1" };

const entryOf = (program: Program) => join(OUTSIDE_MODULES, PROGRAMS[program]);

/** Run one of the programs in a folder. */
export function runProgram(program: Program, args: readonly string[], folder: string) {
  return runNode([entryOf(program), ...args], folder);
}

/** Run Node in a folder, and collect what it prints. */
export async function runNode(args: readonly string[], folder: string) {
  const { HOME } = process.env;
  const stdio = ["ignore", "pipe", "pipe"] as const;
  const child = spawn(process.execPath, args, { cwd: folder, env: { ...QUIET, HOME }, stdio: [...stdio] });
  let [stdout, stderr] = ["", ""];
  child.stdout!.setEncoding("utf8").on("data", (text) => (stdout += text));
  child.stderr!.setEncoding("utf8").on("data", (text) => (stderr += text));
  const [code] = (await once(child, "close")) as [number | null];
  return { code, stdout, stderr };
}

/** A test that needs some of the programs. Without them it is skipped and says so; where `CI` is set that is a failure. */
export function testWithPrograms(programs: readonly Program[], name: string, run: () => Promise<void>): void {
  const missing = programs.filter((program) => !existsSync(entryOf(program)));
  if (missing.length === 0) return void test(name, run, TIMEOUT_MS);
  const why = `${missing.join(", ")} not installed: npm ci --prefix test/outside-programs --ignore-scripts`;
  reportUntested(name, why);
}
