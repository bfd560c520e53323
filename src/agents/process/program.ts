import { accessSync, constants, statSync } from "node:fs";
import { delimiter, isAbsolute, join, resolve } from "node:path";
import { Redactor } from "./redactor.ts";

/** Variables with the paths and the language of a program. None is secret. */
const BASIC = ["PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ", "TMPDIR"];

/** Environment variables, by name. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** The program of an agent, from its entry in the catalogue. */
export interface ProgramEntry {
  readonly command: string;
  readonly args: readonly string[];
  readonly cwd?: string | undefined;
  /** Variables that it receives: `NAME`, or `NAME=OTHER` for the worker's `OTHER` under `NAME`. */
  readonly env: readonly string[];
  /** Variables with values that are not secret. */
  readonly set: Readonly<Record<string, string>>;
  /** The user as which it runs; absent: the worker's. */
  readonly run_as?: SystemUser | undefined;
}

/** A user and a group, by their numbers. */
export interface SystemUser {
  readonly uid: number;
  readonly gid: number;
}

/** The executable file of a program, or why it cannot be started on this machine, as text for the operator. */
export function locateProgram(
  { command, cwd, run_as }: ProgramEntry,
  env: Environment,
): { file: string; problem?: undefined } | { file?: undefined; problem: string } {
  if (run_as && process.getuid?.() !== 0) {
    return { problem: "run_as needs Linux or macOS, and a worker that runs as root" };
  }
  const file = findExecutable(command, env);
  if (file === undefined) return { problem: `the program ${command} is not found` };
  if (cwd !== undefined && !isFolder(cwd)) return { problem: `the folder ${cwd} does not exist` };
  return { file };
}

/** The path of a program that can be started, or undefined. A name without a slash is looked up in PATH. */
function findExecutable(command: string, env: Environment): string | undefined {
  if (isAbsolute(command) || command.includes("/")) {
    const file = resolve(command);
    return isExecutable(file) ? file : undefined;
  }
  const folders = (env["PATH"] ?? "").split(delimiter).filter((folder) => folder !== "");
  return folders.map((folder) => resolve(join(folder, command))).find(isExecutable);
}

/** The program's environment: the variables that every program gets, and those of its catalogue entry. */
export function environmentOf({ env, set }: ProgramEntry, from: Environment): Record<string, string> {
  const listed = env.map(namesOf).map(({ name, source }) => [name, from[source]] as const);
  const basic = BASIC.map((name) => [name, from[name]] as const);
  const entries = [...basic, ...Object.entries(set), ...listed];
  return Object.fromEntries(entries.filter((entry): entry is [string, string] => entry[1] !== undefined));
}

/**
 * Removes the values of the listed variables, because a program may print its key in an error, and logs and errors are
 * visible.
 * @param others further secrets
 */
export function createRedactor(
  { env }: Pick<ProgramEntry, "env">,
  from: Environment,
  others: readonly (readonly [name: string, value: string])[] = [],
): Redactor {
  const listed = env.map(namesOf).map(({ name, source }) => [name, from[source] ?? ""] as const);
  return new Redactor([...listed, ...others]);
}

function namesOf(entry: string): { name: string; source: string } {
  const [name = "", source = name] = entry.split("=");
  return { name, source };
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return statSync(file).isFile();
  } catch {
    return false;
  }
}

function isFolder(path: string): boolean {
  try {
    return statSync(path).isDirectory();
  } catch {
    return false;
  }
}
