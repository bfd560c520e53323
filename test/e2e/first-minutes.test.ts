import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { type AddressInfo, createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { afterAll, describe, expect, onTestFinished, test } from "vitest";
import { SETTINGS, SHIPPED_CATALOG } from "../../src/config/settings.ts";
import { BARE_ENV } from "../support/agents/bare-env.ts";
import { endingOf, runHere } from "../support/clients/command-line.ts";
import { CLI } from "../support/nodes/cli.ts";
import { NodeUnderTest } from "../support/nodes/node-under-test.ts";
import { freePort } from "../support/servers/free-port.ts";
import { listen } from "../support/servers/listen.ts";

/** What a user starts. It starts the sources, which takes longer than the built program. */
const ENTRY = fileURLToPath(new URL("../../bin/interlock.js", import.meta.url));
const folder = await mkdtemp(join(tmpdir(), "interlock-first-"));
afterAll(() => rm(folder, { recursive: true }));

/** A catalogue that is read sooner than the shipped one. */
const INTERLOCK_CONFIG = join(folder, "small.yaml");
await writeFile(INTERLOCK_CONFIG, "agents: [{ name: music }]\n");

function begin(args: readonly string[], env: Record<string, string> = {}, node?: readonly string[]) {
  const [program, ...options] = node ?? [process.execPath, CLI];
  const child = spawn(program!, [...options, ...args], {
    cwd: folder,
    env: { ...BARE_ENV, INTERLOCK_CONFIG, INTERLOCK_STORE: "sqlite::memory:", LOG_LEVEL: "silent", ...env },
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  return child;
}

const interlock = (...args: string[]) => endingOf(begin(args));

const parsed = (...words: string[]) => runHere(words);

/** The output of a node when it listens, and its address. */
async function listening(child: ChildProcess): Promise<{ url: string; printed: string }> {
  let printed = "";
  for await (const piece of child.stdout!.setEncoding("utf8").iterator({ destroyOnReturn: false })) {
    printed += piece;
    if (printed.includes("  node ")) break;
  }
  return { url: /listening on (\S+)/.exec(printed)![1]!, printed };
}

describe("help", () => {
  test("help names every command, and the version is the package's", async () => {
    const { code, stdout } = await parsed("--help");
    expect(code).toBe(0);
    for (const verb of ["serve", "check", "drive"]) expect(stdout).toMatch(new RegExp(`^  ${verb} `, "m"));
    for (const arg of ["-h", "help"]) expect(await parsed(arg)).toEqual({ code: 0, stdout, stderr: "" });
    const version = endingOf(begin(["--version"], {}, [process.execPath, ENTRY]));
    expect(await version).toMatchObject({ code: 0, stdout: expect.stringMatching(/^\d+\.\d+\.\d+\n$/) });
  });

  test.each(["serve", "check", "drive"])(
    "--help of %s may precede or follow the command, and has no other effect",
    async (verb) => {
      const behind = await parsed(verb, "--help");
      expect(behind).toMatchObject({ code: 0, stderr: "" });
      expect(behind.stdout).toMatch(new RegExp(`^Usage: interlock ${verb} `));
      expect(await parsed("help", verb)).toEqual(behind);
    },
  );

  test("help of serve lists every setting", async () => {
    const { stdout } = await parsed("serve", "--help");
    for (const { name, flag } of SETTINGS)
      expect(stdout).toMatch(new RegExp(`^  ${flag} \\[value\\] +\\(${name}\\)`, "m"));
  });
});

test("a checkout keeps its sources compiled for the next start, where the environment names no other folder", async () => {
  const shown = `import { getCompileCacheDir } from "node:module"; process.on("exit", () => console.error(getCompileCacheDir()));`;
  const options = ["--import", `data:text/javascript,${encodeURIComponent(shown)}`];
  const folderOf = async (env: Record<string, string>) =>
    (await endingOf(begin(["--version"], env, [process.execPath, ...options, ENTRY]))).stderr;
  expect(await folderOf({ NODE_COMPILE_CACHE: "" })).toContain(join(dirname(ENTRY), "../node_modules/.cache/compile"));
  expect(await folderOf({ NODE_COMPILE_CACHE: folder })).toContain(folder);
});

describe("completion", () => {
  test.each(["bash", "zsh", "fish"])(
    "the script of %s asks interlock, which offers commands, flags and values",
    async (shell) => {
      const { code, stdout } = await parsed("complete", shell);
      expect([code, stdout]).toEqual([0, expect.stringContaining("interlock complete -- ")]);
    },
  );

  test.each([
    [["ch"], "check\t"],
    [["drive", "--l"], "--lang\t"],
    [["check", "--format", ""], "markdown\t"],
    [["check", "config/a"], "config/agents_config.yaml\t"],
  ])("%j is completed", async (words, offered) => {
    expect((await parsed("complete", "--", ...words)).stdout).toMatch(new RegExp(`^${offered}`, "m"));
  });
});

describe("a mistake", () => {
  test.each([
    [["check", "--lenient"], "unknown option '--lenient'\nSee interlock check --help"],
    [["check", "--matrx"], "unknown option '--matrx'\n(Did you mean --matrix?)\nSee interlock check --help"],
    [["drive", "--hepl"], "unknown option '--hepl'\n(Did you mean --help?)"],
    [["check", "one", "two"], "too many arguments for 'check'. Expected 1 argument but got 2"],
    [["check", "--format", "yaml"], "'yaml' is invalid. Allowed choices are text, markdown, json."],
    [
      ["drive", "localhost:3000"],
      "'localhost:3000' is invalid for argument 'url'. A URL is like http://127.0.0.1:3000.",
    ],
    [["inspect", "--floor", "alice"], "'alice' is invalid. A floor is u:<user>, u:<user>/<zone> or s:<session>."],
    [["serve\n{}"], "interlock: unknown command 'serve {}'"],
    [["inspect", "--port", "70000"], "'70000' is invalid. It is a number from 0 to 65535."],
  ])("a mistake in %j is reported with the remedy", async (args, sentence) => {
    const { code, stderr } = await parsed(...args);
    expect(code).toBeGreaterThan(0);
    expect(stderr).toContain(sentence);
  });

  test("a mistake in a command ends the process with code 2, and in a node's flag or variable with code 1", async () => {
    const unknown = "interlock: unknown command 'srve'\n(Did you mean serve?)\n";
    expect(await interlock("srve")).toEqual({ code: 2, stdout: "", stderr: unknown });
    const mistaken = begin(["serve", "--prot", "1"], { INTERLOCK_STOER: "sqlite::memory:" });
    const { code, stderr } = await endingOf(mistaken);
    expect([code, stderr]).toEqual([1, expect.stringContaining("--prot is not a flag; did you mean --port?")]);
    expect(stderr).toContain("did you mean INTERLOCK_STORE?");
    expect(stderr).not.toMatch(/\n\s+at /);
  });

  test("a port in use, or an address of another machine, is reported with the remedy", async () => {
    const port = await listen(createServer());
    const used = await endingOf(begin(["serve", "--port", String(port)]));
    expect(used).toMatchObject({ code: 1, stdout: "" });
    expect(used.stderr).toBe(
      `interlock: port ${port} of 127.0.0.1 is in use: stop what listens there, or choose another with --port (0 picks a free one)\n`,
    );
    expect(await interlock("inspect", "--port", String(port))).toEqual({
      code: 1,
      stdout: "",
      stderr: `interlock: port ${port} is in use: choose another with --port (0 picks a free one)\n`,
    });
  });

  // On /proc the system answers ENOENT to every mkdir, which Node's own recursive mkdir repeats without end.
  test.runIf(process.platform === "linux")("a folder that the system does not create is reported", async () => {
    const made = await endingOf(begin(["serve", "--port", "0", "--store", "sqlite:/proc/none/interlock.db"]));
    expect(made).toMatchObject({ code: 1, stdout: "" });
    expect(made.stderr).toMatch(/^interlock: \/proc\/none\/interlock\.db cannot be opened: ENOENT: [^\n]+\n$/);
  });

  test("inspect says that the node does not answer, and waits for it", async () => {
    const url = `http://127.0.0.1:${await freePort()}`;
    const child = begin(["inspect", url, "--port", "0"]);
    const [line] = await once(child.stderr!.setEncoding("utf8"), "data");
    const hint = "Trying again. Start a node with `interlock serve`, or name another: interlock inspect URL";
    expect(line).toBe(`interlock: ${url} does not answer. ${hint}\n`);
    child.kill("SIGINT");
    expect(await once(child, "exit")).toEqual([0, null]);
  });
});

describe("a start that is stopped", () => {
  test.each<[string, NodeJS.Signals[]]>([
    ["refuses connections", ["SIGTERM"]],
    ["accepts connections and is silent", ["SIGINT", "SIGTERM", "SIGTERM"]],
  ])("a node whose database %s ends with code 0 on a signal, and says that it was stopped", async (how, signals) => {
    const database = createServer().listen(0, "127.0.0.1");
    await once(database, "listening");
    const { port } = database.address() as AddressInfo;
    if (how === "refuses connections") database.close();
    else onTestFinished(() => void database.close());
    const child = begin(["serve", "--port", "0"], {
      INTERLOCK_STORE: `postgres://ann:secret@127.0.0.1:${port}/floors`,
      LOG_LEVEL: "warn",
    });
    const ended = endingOf(child);
    if (how === "refuses connections") await once(child.stderr!, "data");
    else await once(database, "connection");
    for (const signal of signals) child.kill(signal);
    const { code, stdout, stderr } = await ended;
    expect([code, stdout]).toEqual([0, "Interlock is stopping, within 7 s\n"]);
    expect(stderr.split("\n").filter((line) => !line.startsWith("{"))).toEqual([
      "interlock: stopped while it started",
      "",
    ]);
  });

  test("a node without room on its disk says so", async () => {
    const store = join(folder, "full.db");
    const child = begin(["serve", "--port", "0"], { INTERLOCK_STORE: `sqlite:${store}` }, [
      "sh",
      "-c",
      'ulimit -f 16; exec "$@"',
      "sh",
      process.execPath,
      CLI,
    ]);
    const { code, stdout, stderr } = await endingOf(child);
    expect([code, stdout]).toEqual([1, ""]);
    expect(stderr).toMatch(/^interlock: \S+full\.db [^\n]*(database or disk is full|disk I\/O error)\n$/);
  });
});

describe("a stop that does not succeed", () => {
  test.each([
    [
      "does not end",
      "new Promise(() => {})",
      0,
      "the stop took longer than 2100 ms; what was still under way is cut off",
    ],
    ["fails", 'Promise.reject(new Error("the worker sticks"))', 1, "the worker sticks"],
  ])("a node of which a part %s when it stops ends all the same, and says so", async (_, outcome, code, sentence) => {
    const worker = pathToFileURL(fileURLToPath(new URL("../../src/runs/worker.ts", import.meta.url))).href;
    const change = `import { Worker } from ${JSON.stringify(worker)}; Worker.prototype.stop = () => ${outcome};`;
    const child = begin(["serve", "--port", "0", "--drain", "100ms"], {}, [
      process.execPath,
      "--import",
      `data:text/javascript,${encodeURIComponent(change)}`,
      ENTRY,
    ]);
    await listening(child);
    const ended = endingOf(child);
    for (const signal of ["SIGTERM", "SIGINT"] as const) child.kill(signal);
    expect(await ended).toEqual({
      code,
      stdout: "Interlock is stopping, within 3 s\n",
      stderr: `interlock: ${sentence}\n`,
    });
  });
});

describe("a node in an empty folder", () => {
  test("a node in an empty folder starts with the shipped catalogue, and prints its settings and who may connect", async () => {
    const child = begin(["serve", "--port", "0"], { INTERLOCK_CONFIG: "", INTERLOCK_STORE: "" });
    const { url, printed } = await listening(child);
    expect(printed).toMatch(/^Interlock is listening on http:\/\/127\.0\.0\.1:\d+\n/);
    expect(printed).toMatch(
      /catalogue .+agents_config\.yaml \(shipped; there is no config\/agents_config\.yaml here\)/,
    );
    expect(printed).toMatch(/store +data\/interlock\.db \(new: it has no sessions\)\n/);
    expect(printed).toMatch(/callers +all clients that can reach 127\.0\.0\.1: authentication is off\n/);
    const name = /node +(\S+:\d+)\n/.exec(printed)![1];
    const { nodes } = (await (await fetch(`${url}/nodes`)).json()) as { nodes: { name: string }[] };
    expect(nodes.map((each) => each.name)).toEqual([name]);
    expect(await (await fetch(`${url}/metrics`)).text()).toContain(`name="${name}"`);
    const { agents } = (await (await fetch(`${url}/agents`)).json()) as { agents: unknown[] };
    expect(agents.length).toBeGreaterThan(5);
    expect(existsSync(join(folder, "data/interlock.db"))).toBe(true);
    await expectDrain(child, url, "SIGHUP");
  });

  test("a store in another folder is printed with its whole path, and a node listens at INTERLOCK_PORT", async () => {
    const other = await mkdtemp(join(tmpdir(), "interlock-other-"));
    const child = begin(["serve"], { INTERLOCK_STORE: `sqlite:${other}/floors.db`, INTERLOCK_PORT: "0", PORT: "1" });
    onTestFinished(() => rm(other, { recursive: true }));
    const { url, printed } = await listening(child);
    expect(printed).toContain(`store      ${other}/floors.db (new: it has no sessions)\n`);
    expect((await fetch(`${url}/health`)).status).toBe(200);
    await expectDrain(child, url, "SIGINT");
  });
});

/** On a signal the node sends its readers away, and ends with code 0. SIGTERM: see `streams/drain.test.ts`. */
async function expectDrain(child: ChildProcess, url: string, signal: NodeJS.Signals): Promise<void> {
  const stream = await fetch(`${url}/events`);
  const ended = once(child, "exit");
  child.kill(signal);
  expect(await stream.text()).toContain('"type":"bye"');
  expect(await ended).toEqual([0, null]);
}

describe("a command whose reader has left", () => {
  const expectSilence = async (...verb: string[]) => {
    const child = begin(verb);
    child.stdout!.destroy();
    expect(await endingOf(child), verb.join(" ")).toEqual({ code: 0, stdout: "", stderr: "" });
  };

  test("a command that asks a node ends silently when its reader has left", async () => {
    // `drive` plays with the shipped agents.
    const node = await NodeUnderTest.start({ settings: { INTERLOCK_CONFIG: SHIPPED_CATALOG } }, onTestFinished);
    await expectSilence("drive", node.url);
  });

  test("a command that reads a file ends silently when its reader has left", async () => {
    await expectSilence("check");
  });
});

/** What the package exports. */
const PACKAGE = new URL("../../bin/package.js", import.meta.url).href;

test("an older Node prints the required version in a sentence", async () => {
  const older = 'Object.defineProperty(process, "versions", { value: { ...process.versions, node: "20.20.0" } })';
  const pretending = [process.execPath, "--import", `data:text/javascript,${encodeURIComponent(older)}`];
  const printed = await endingOf(begin(["serve"], {}, [...pretending, ENTRY]));
  expect(printed).toMatchObject({ code: 1, stdout: "" });
  expect(printed.stderr).toMatch(/^interlock: needs Node 24 or newer, and this is Node 20\.20\.0\.\n.+\n$/);
  const [node, ...options] = pretending;
  const embedding = await endingOf(
    spawn(node!, [...options, "--input-type=module", "-e", `await import("${PACKAGE}")`]),
  );
  expect(embedding.code).toBe(1);
  expect(embedding.stderr).toContain("Error: interlock needs Node 24 or newer, and this is Node 20.20.0.\n");
});

/** The machine's own Node, if it is an older one: only a real old version shows that it can parse the file. */
const own = "/usr/bin/node";
const isOlder =
  existsSync(own) && Number((await endingOf(spawn(own, ["-p", "process.versions.node.split('.')[0]"]))).stdout) < 24;
test.runIf(isOlder)("a real older Node can parse the entry file", async () => {
  const printed = await endingOf(begin(["serve"], {}, [own, ENTRY]));
  expect(printed).toMatchObject({ code: 1, stdout: "" });
  expect(printed.stderr).toMatch(/^interlock: needs Node 24 or newer, and this is Node \d+\.\d+\.\d+\.\n.+\n$/);
  const embedding = await endingOf(spawn(own, ["--input-type=module", "-e", `await import("${PACKAGE}")`]));
  expect(embedding.stderr).toMatch(/Error: interlock needs Node 24 or newer, and this is Node \d+\.\d+\.\d+\.\n/);
});
