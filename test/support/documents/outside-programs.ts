import { spawn } from "node:child_process";
import { once } from "node:events";
import { join, resolve } from "node:path";
import { BARE_ENV } from "../agents/bare-env.ts";
import { testWith } from "../programs/suites.ts";

/** The folder of other projects' programs: `npm ci --prefix test/outside-programs --ignore-scripts`. */
const FOLDER = resolve(import.meta.dirname, "../../outside-programs");
export const OUTSIDE_MODULES = join(FOLDER, "node_modules");

const PROGRAMS = {
  redocly: "@redocly/cli/bin/cli.js",
  spectral: "@stoplight/spectral-cli/dist/index.js",
  "openapi-typescript": "openapi-typescript/bin/cli.js",
  tsc: "typescript/bin/tsc",
} as const;
type Program = keyof typeof PROGRAMS;

/** The timeout of a program that hangs: long, because a compiler is slow on a busy machine. */
const TIMEOUT_MS = 240_000;

/** Variables that switch off usage reports and update checks. */
const QUIET = { ...BARE_ENV, REDOCLY_TELEMETRY: "off", REDOCLY_SUPPRESS_UPDATE_NOTICE: "true", NO_COLOR: "1" };

const entryOf = (program: Program) => join(OUTSIDE_MODULES, PROGRAMS[program]);

/** Run one of the programs in a folder. */
export function runProgram(program: Program, args: readonly string[], folder: string) {
  return runNode([entryOf(program), ...args], folder);
}

/** Run Node in a folder, and collect its output. */
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

/** A test that needs them. */
export function testWithPrograms(name: string, run: () => Promise<void>): void {
  testWith(["outsidePrograms"], name, () => run(), TIMEOUT_MS);
}
