// Plays a newcomer: clones the committed state into an empty folder, and runs the two commands of README.md as printed, with
// a PATH that has node, npm and git, and the shell with which npm runs scripts. Suites that need other programs are left out.
import { spawn, spawnSync } from "node:child_process";
import { accessSync, constants, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
/** It only ends what hangs. */
const TIMEOUT_MS = 1_200_000;

const folder = mkdtempSync(join(tmpdir(), "interlock-fresh-"));
const bin = join(folder, "bin");
const clone = join(folder, "interlock");
mkdirSync(bin);
/** npm puts the project's programs before the PATH, which a newcomer has not installed yet. */
const folders = process.env.PATH.split(delimiter).filter((each) => !each.includes("node_modules"));
for (const name of ["node", "npm", "npx", "git", "sh"]) symlinkSync(find(name), join(bin, name));
const { HOME, LANG } = process.env;
// Without second tries: what a newcomer sees first has to be green at once.
const env = { PATH: bin, HOME, LANG, TEST_RETRIES: "0", ...npmSettings() };
// The node takes a free port, and keeps nothing.
const nodeEnv = { ...env, PORT: "0", INTERLOCK_STORE: "sqlite::memory:" };

try {
  const cloned = spawnSync("git", ["clone", "--quiet", ROOT, clone], { stdio: "inherit" });
  if (cloned.status !== 0) throw new Error("git clone failed");
  const [start, test] = commandsOf(readFileSync(join(clone, "README.md"), "utf8"));
  await run(start, nodeEnv, /^Interlock is listening on http:/m);
  await run(withoutInstall(test), env);
} finally {
  rmSync(folder, { recursive: true, force: true });
}

/** The shell blocks of README.md that run and test Interlock. */
function commandsOf(page) {
  return ["Run it", "Test it"].map((title) => {
    const [, command] = new RegExp(`^## ${title}\\n[^]*?^\`\`\`sh\\n(.*)\\n\`\`\``, "m").exec(page);
    return command;
  });
}

/** Both commands begin with the same installation, which the first has just made. */
function withoutInstall(command) {
  const [, rest] = /^npm ci && (.*)$/.exec(command);
  return rest;
}

/**
 * Runs a command, which must exit with 0.
 *
 * @param end what it prints before its program is asked to end, as Ctrl-C does
 */
async function run(command, env, end) {
  console.log(`In a fresh clone, with node, npm and git: ${command}`);
  const child = spawn("sh", ["-c", command], { cwd: clone, env, detached: true, stdio: ["ignore", "pipe", "inherit"] });
  const timer = setTimeout(() => process.kill(-child.pid, "SIGKILL"), TIMEOUT_MS);
  let printed = "";
  let isEnding = false;
  child.stdout.setEncoding("utf8").on("data", (text) => {
    process.stdout.write(text);
    printed += text;
    if (isEnding || !end?.test(printed)) return;
    isEnding = true;
    process.kill(leafOf(child.pid), "SIGINT");
  });
  const code = await new Promise((resolve) => child.once("close", resolve));
  clearTimeout(timer);
  if (code !== 0) throw new Error(`${command} exited with ${code}`);
  if (end && !isEnding) throw new Error(`${command} ended without printing ${end}`);
}

/** The program that a shell, npm and a shell again have started: they exit as it does, and would die of a signal of their own. */
function leafOf(pid) {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim();
  return children === "" ? pid : leafOf(Number(children.split(" ").at(-1)));
}

/** What the environment says of npm's registry and of the way there. */
function npmSettings() {
  const isOfNpm = /^(npm_config_(?!prefix$).*|(https?|all|no)_proxy|node_extra_ca_certs|ssl_cert_(file|dir))$/i;
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => isOfNpm.test(name)));
}

function find(name) {
  for (const each of folders) {
    try {
      accessSync(join(each, name), constants.X_OK);
      return join(each, name);
    } catch {}
  }
  throw new Error(`${name} is not on the PATH`);
}
