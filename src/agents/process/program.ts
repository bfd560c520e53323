import { accessSync, constants, statSync } from "node:fs";
import { delimiter, isAbsolute, join, resolve } from "node:path";

/** Variables that say where a program finds other programs, its user's files and its language. None is a secret. */
const BASIC = ["PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ", "TMPDIR"];
/** Shorter values are words that may stand anywhere. */
const MIN_SECRET_UNITS = 8;

export type Variables = Readonly<Record<string, string | undefined>>;

/** What an entry of the catalogue says about the program of its agent. */
export interface ProgramEntry {
  readonly command: string;
  readonly args: readonly string[];
  readonly cwd?: string | undefined;
  /** Variables that it gets: `NAME`, or `NAME=OTHER` where it finds the worker's `OTHER` under `NAME`. */
  readonly env: readonly string[];
  /** Variables with values that are not secret. */
  readonly set: Readonly<Record<string, string>>;
}

/** The file that a command names; undefined where there is no such program. A name without a slash is looked for in PATH. */
export function findProgram(command: string, env: Variables): string | undefined {
  if (isAbsolute(command) || command.includes("/")) {
    const file = resolve(command);
    return isExecutable(file) ? file : undefined;
  }
  const folders = (env["PATH"] ?? "").split(delimiter).filter((folder) => folder !== "");
  return folders.map((folder) => resolve(join(folder, command))).find(isExecutable);
}

/** Why the program cannot be started here, for the operator; undefined when it can. */
export function findProgramProblem({ command, cwd }: ProgramEntry, env: Variables): string | undefined {
  if (findProgram(command, env) === undefined) return `the program ${command} is not found`;
  if (cwd !== undefined && !isFolder(cwd)) return `the folder ${cwd} is not there`;
  return undefined;
}

/** The environment of the program: what every program gets, and what its entry lists. */
export function environmentOf({ env, set }: ProgramEntry, from: Variables): Record<string, string> {
  const listed = env.map(namesOf).map(({ name, source }) => [name, from[source]] as const);
  const basic = BASIC.map((name) => [name, from[name]] as const);
  const entries = [...basic, ...Object.entries(set), ...listed];
  return Object.fromEntries(entries.filter((entry): entry is [string, string] => entry[1] !== undefined));
}

/**
 * Takes the values of the listed variables out of a text: a program may print its key in an error, and logs and errors
 * are shown.
 */
export function createRedactor({ env }: ProgramEntry, from: Variables): (text: string) => string {
  const secrets = env
    .map(namesOf)
    .map(({ name, source }) => ({ name, value: from[source]?.trim() ?? "" }))
    .filter(({ value }) => value.length >= MIN_SECRET_UNITS)
    // Of two where one holds the other, the longer one first.
    .toSorted((one, other) => other.value.length - one.value.length);
  return (text) => secrets.reduce((clean, { name, value }) => clean.replaceAll(value, `[${name}]`), text);
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
