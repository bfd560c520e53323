import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { findPrograms } from "./find-programs.ts";
import { PROGRAMS, type Program, packagesOf } from "./programs.ts";

// `npm run setup:debian`: installs all programs that tests start and that this machine lacks.

const ROOT = fileURLToPath(new URL("../../..", import.meta.url));
/** Coding agents and programs of other projects: packages of their own, since they weigh hundreds of megabytes. */
const NPM_FOLDERS = ["test/outside-programs", "test/real-agents"];
const NPM = ["--ignore-scripts", "--prefer-offline", "--no-audit", "--no-fund"];

function run(command: string, args: readonly string[]): void {
  const env = { ...process.env, DEBIAN_FRONTEND: "noninteractive" };
  const { status, error } = spawnSync(command, args, { cwd: ROOT, env, stdio: ["ignore", "ignore", "inherit"] });
  if (status === 0) return;
  process.stderr.write(`${[command, ...args].join(" ")} failed${error ? `: ${error.message}` : ""}\n`);
  process.exit(1);
}

// A server that the environment names, or a container, does not replace a program that tests stop and start again.
const found = await findPrograms({ PATH: process.env["PATH"] });
const missing = (Object.keys(PROGRAMS) as Program[]).filter((name) => found[name]?.machine === undefined);
const packages = packagesOf(missing);
if (packages.length > 0) {
  const [command, ...before] = process.getuid?.() === 0 ? ["apt-get"] : ["sudo", "apt-get"];
  process.stdout.write(`Installing with apt-get: ${packages.join(" ")}\n`);
  run(command!, [...before, "update", "-qq"]);
  run(command!, [...before, "install", "-y", "-qq", "--no-install-recommends", ...packages]);
}
for (const folder of NPM_FOLDERS) {
  process.stdout.write(`Installing with npm: ${folder}\n`);
  run("npm", ["ci", "--prefix", folder, ...NPM]);
}
