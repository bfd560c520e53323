import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { cp, mkdir, mkdtemp, readFile, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { promisify } from "node:util";
import { beforeAll, describe, expect, test } from "vitest";
import { commandOf, deployed } from "../../support/documents/deployment.ts";
import { atEndOfSuite } from "../../support/runner/at-end-of-suite.ts";
import { freePort } from "../../support/servers/free-port.ts";

const root = resolve(import.meta.dirname, "../../..");
const run = promisify(execFile);
const atEnd = atEndOfSuite();

/** What the stages of the Dockerfile copy, and what the first of them runs. */
const [building, running] = deployed("Dockerfile")
  .split(/^FROM /m)
  .slice(1)
  .map((stage) => ({ from: stage.split(/\s/, 1)[0]!, lines: stage.split("\n") }));
const copiedIn = ({ lines }: NonNullable<typeof building>) =>
  lines.flatMap((line) => (/^COPY (?!--from)(.+) \S+$/.exec(line)?.[1] ?? "").split(" ")).filter(Boolean);
const copiedFromBuild = running!.lines.flatMap((line) => /^COPY --from=build \/app\/(\S+)/.exec(line)?.[1] ?? []);

/** A folder with the files of the last stage; the packages are those installed here. */
async function makeImage(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "interlock-image-"));
  atEnd(() => rm(folder, { recursive: true }));
  const [build, app] = [join(folder, "build"), join(folder, "app")];
  for (const [place, paths] of [
    [build, copiedIn(building!)],
    [app, copiedIn(running!)],
  ] as const) {
    await mkdir(place);
    for (const path of paths) await cp(join(root, path), join(place, path), { recursive: true });
    await symlink(join(root, "node_modules"), join(place, "node_modules"));
  }
  await run("npm", ["run", "build"], { cwd: build });
  expect(copiedFromBuild).toEqual(["node_modules", "dist"]);
  await cp(join(build, "dist"), join(app, "dist"), { recursive: true });
  return app;
}

describe("the image of the Dockerfile", () => {
  let app: string;
  beforeAll(async () => {
    app = await makeImage();
  });

  /** Node with the image's arguments, and with only these variables in its environment. */
  const node = (words: readonly string[], env: Record<string, string> = {}): ChildProcess =>
    spawn(process.execPath, words, { cwd: app, env, stdio: ["ignore", "pipe", "inherit"] });

  test("the image's program runs without its sources, and checks its catalogue", async () => {
    const { stdout } = await run(process.execPath, ["dist/cli/main.js", "check", "config/agents_config.yaml"], {
      cwd: app,
    });
    expect(stdout).toMatch(/^config\/agents_config\.yaml: \d+ agents, no faults/);
  });

  test("the image's program serves, is healthy, and ends on SIGTERM", async () => {
    const [program, ...words] = commandOf("CMD");
    const [checker, ...check] = commandOf("HEALTHCHECK");
    expect([program, checker]).toEqual(["node", "node"]);
    const port = await freePort();
    const env = { PORT: String(port), INTERLOCK_STORE: "sqlite::memory:", INTERLOCK_DRAIN: "0ms" };
    const server = node(words, env);
    atEnd(() => server.kill("SIGKILL"));
    let printed = "";
    for await (const piece of server.stdout!.setEncoding("utf8").iterator({ destroyOnReturn: false })) {
      printed += piece;
      if (printed.includes("\n")) break;
    }
    expect(printed).toMatch(new RegExp(`^Interlock is listening on http://127.0.0.1:${port}\n`));
    const [healthy] = await once(node(check, { PORT: env.PORT }), "exit");
    expect(healthy).toBe(0);
    const ended = once(server, "exit");
    server.kill("SIGTERM");
    expect(await ended).toEqual([0, null]);
    const [dead] = await once(node(check, { PORT: env.PORT }), "exit");
    expect(dead).toBe(1);
  });
});

test("the image has the Node version that the program requires, and does not run as root", async () => {
  const { engines } = JSON.parse(await readFile(join(root, "package.json"), "utf8"));
  const [, wanted] = /^>=(\d+)$/.exec(engines.node)!;
  expect([building!.from, running!.from]).toEqual([`node:${wanted}-slim`, `node:${wanted}-slim`]);
  const last = (word: string) => running!.lines.findLast((line) => line.startsWith(`${word} `));
  expect(last("USER")).toBe("USER node");
  expect(last("EXPOSE")).toBe("EXPOSE 3000");
  // The build context contains the copied files only.
  const sent = deployed("Dockerfile.dockerignore").split("\n");
  const needed = new Set([...copiedIn(building!), ...copiedIn(running!)]);
  expect(sent.filter((line) => line.startsWith("!")).sort()).toEqual([...needed].map((path) => `!${path}`).sort());
  expect([...needed].map((path) => dirname(path))).toEqual([...needed].map(() => "."));
});
