import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { cp, mkdir, mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { readPage, root } from "../../docs/page.ts";

const run = promisify(execFile);
/** npm, with the project's Node first on the PATH for the programs that it starts. */
const env = { ...process.env, PATH: [dirname(process.execPath), process.env["PATH"]].join(delimiter) };
/** Packing builds everything, and installing fetches what the cache lacks. */
const LONG_MS = 300_000;

describe("the package of a fresh clone", () => {
  let folder: string;
  let listed: string[];

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "interlock-package-"));
    const clone = join(folder, "clone");
    const { stdout: names } = await run("git", ["ls-files", "-co", "--exclude-standard"], { cwd: root });
    for (const name of names.split("\n").filter(Boolean)) {
      await mkdir(dirname(join(clone, name)), { recursive: true });
      await cp(join(root, name), join(clone, name)).catch((error) => {
        // Files that are deleted but not committed yet.
        if (error.code !== "ENOENT") throw error;
      });
    }
    await symlink(join(root, "node_modules"), join(clone, "node_modules"));
    await run("npm", ["pack", "--pack-destination", folder], { cwd: clone, env });
    const { version } = JSON.parse(await readFile(join(root, "package.json"), "utf8"));
    const tarball = join(folder, `interlock-${version}.tgz`);
    listed = (await run("tar", ["-tzf", tarball])).stdout.split("\n").map((name) => name.replace(/^package\//, ""));
    const user = join(folder, "user");
    await mkdir(user);
    await writeFile(join(user, "package.json"), '{ "name": "user", "private": true, "type": "module" }');
    const quick = ["--prefer-offline", "--ignore-scripts", "--no-audit", "--no-fund"];
    await run("npm", ["install", ...quick, tarball], { cwd: user, env });
  }, LONG_MS);
  afterAll(() => rm(folder, { recursive: true, force: true }));

  const user = () => join(folder, "user");

  /** What these files of the package take where it is installed. */
  async function bytesOf(names: readonly string[]): Promise<number> {
    const found = await Promise.all(names.map((name) => stat(join(user(), "node_modules/interlock", name))));
    return found.reduce((sum, { size }) => sum + size, 0);
  }

  /** README's programs. */
  const programs = () =>
    readPage("README.md")
      .blocks.filter(({ info }) => info === "ts")
      .map(({ text }) => text);

  test("players add less than 1 MB, their unit is in the package, and the library of D-Bus is not installed with it", async () => {
    const own = listed.filter((name) => /^dist\/cli\/players\/|^config\/players|^deploy\//.test(name));
    expect(own).toContain("deploy/interlock-players.service");
    expect(await bytesOf(own)).toBeLessThan(1_000_000);
    expect((await readdir(join(user(), "node_modules"))).filter((name) => /dbus|jellybrick/.test(name))).toEqual([]);
    const bridge = run("npx", ["--no", "interlock", "players"], { cwd: user(), env });
    await expect(bridge).rejects.toMatchObject({
      code: 1,
      stderr: expect.stringContaining("npm install @jellybrick/dbus-next@"),
    });
  });

  test("the bridge of MQTT adds less than 300 kB, and its library is not installed with it", async () => {
    const own = listed.filter((name) => /^dist\/cli\/(mqtt|playing)\/|^docs\/use\/(mqtt|vehicle|house)/.test(name));
    expect(own).toContain("docs/use/mqtt.schema.json");
    expect(await bytesOf(own)).toBeLessThan(300_000);
    expect(await readdir(join(user(), "node_modules"))).not.toContain("mqtt");
    await writeFile(join(user(), "mqtt.yaml"), "broker: { url: mqtt://127.0.0.1:1 }\n");
    const bridge = run("npx", ["--no", "interlock", "mqtt"], { cwd: user(), env });
    await expect(bridge).rejects.toMatchObject({ code: 1, stderr: expect.stringContaining("npm install mqtt@5.16.0") });
  });

  test("the package contains the build, the catalogue, and each migration once", () => {
    for (const name of [
      "bin/interlock.js",
      "dist/index.js",
      "dist/index.d.ts",
      "dist/catalogue.schema.json",
      "config/agents_config.yaml",
    ]) {
      expect(listed).toContain(name);
    }
    const migrations = listed.filter((name) => name.endsWith(".sql"));
    expect(migrations).toContain("migrations/sqlite/0001_initial.sql");
    expect(new Set(migrations.map((name) => name.split("/").slice(-2).join("/"))).size).toBe(migrations.length);
    expect(listed.filter((name) => /^(src|test|page|bench|clients|examples)\//.test(name))).toEqual([]);
  });

  test("the package contains every page of the docs that it names", async () => {
    const named = new Set<string>();
    for (const name of listed.filter((each) => /^(dist|config|bin)\/.*\.(js|yaml)$|^README/.test(each))) {
      const text = await readFile(join(user(), "node_modules/interlock", name), "utf8");
      for (const [page] of text.matchAll(/\bdocs\/[\w./-]+\.md\b/g)) named.add(page);
    }
    expect(named.size).toBeGreaterThan(5);
    expect([...named].filter((page) => !listed.includes(page))).toEqual([]);
  });

  test(
    "the package's types compile README's two programs under strict",
    async () => {
      const files: string[] = [];
      const types = `
      import type { Client, ClientErrorCode, EventStream, Message, MessageText, ServerEvent, Session } from "interlock/client";
      import { ClientError } from "interlock/client";
      export const codeOf = (error: unknown): ClientErrorCode | undefined => (error instanceof ClientError ? error.code : undefined);
      export type All = [Client, EventStream, Message, MessageText, ServerEvent, Session];`;
      for (const [index, text] of [...programs(), types].entries()) {
        files.push(`program${index}.mts`);
        await writeFile(join(user(), files.at(-1)!), text);
      }
      const tsc = join(root, "node_modules/typescript/bin/tsc");
      const options =
        "--ignoreConfig --noEmit --strict --skipLibCheck --target es2024 --lib es2024,dom --module nodenext --types node";
      const roots = ["--typeRoots", join(root, "node_modules/@types")];
      const { stdout } = await run(process.execPath, [tsc, ...options.split(" "), ...roots, ...files], {
        cwd: user(),
      }).catch((error) => error);
      expect(stdout).toBe("");
    },
    LONG_MS,
  );

  test("the example of a chat starts with one command where a team copied it to", async () => {
    await cp(join(root, "examples/chat"), join(user(), "chat"), { recursive: true });
    const settings = join(user(), "chat/page/tsconfig.json");
    const { compilerOptions, extends: _, ...rest } = JSON.parse(await readFile(settings, "utf8"));
    await writeFile(settings, JSON.stringify({ ...rest, compilerOptions: { ...compilerOptions, paths: {} } }));
    await mkdir(join(user(), "node_modules/@vitejs"), { recursive: true });
    // `jose` came with the package.
    for (const name of ["react", "react-dom", "vite", "@vitejs/plugin-react"])
      await symlink(join(root, "node_modules", name), join(user(), "node_modules", name));
    const chat = spawn(process.execPath, ["chat/main.ts"], {
      cwd: user(),
      env: { ...env, PORT: "0", NODE_ENV: "production" },
    });
    const [line] = await once(chat.stdout.setEncoding("utf8"), "data");
    const [url] = /http:\/\/127\.0\.0\.1:\d+/.exec(String(line))!;
    expect(await (await fetch(url)).text()).toMatch(/<script type="module"/);
    const signedIn = await fetch(`${url}/sign-in`, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: '{"user":"ann","password":"tulip"}',
    });
    const cookie = signedIn.headers.get("set-cookie")!.split(";")[0]!;
    const answer = await (await fetch(`${url}/token`, { headers: { Cookie: cookie } })).json();
    const { token, node } = answer as { token: string; node: string };
    const listed = await fetch(`${node}/agents`, { headers: { Authorization: `Bearer ${token}` } });
    expect(((await listed.json()) as { agents: unknown[] }).agents).toHaveLength(2);
    chat.kill("SIGTERM");
    expect(await once(chat, "exit")).toEqual([0, null]);
  });

  test(
    "the package serves in an empty folder, and runs README's two programs",
    async () => {
      const [node, client] = programs();
      await writeFile(join(user(), "node.mts"), node!);
      const own = spawn(process.execPath, ["node.mts"], { cwd: user(), env });
      const [url] = await once(own.stdout.setEncoding("utf8"), "data");
      expect(String(url)).toMatch(/^http:\/\/127\.0\.0\.1:\d+\n$/);
      own.kill("SIGTERM");
      expect(await once(own, "exit")).toEqual([0, null]);

      // A process group, because npm is the parent of the program: all of it is ended.
      const served = spawn("npx", ["--no", "interlock", "serve", "--port", "0"], { cwd: user(), env, detached: true });
      try {
        let printed = "";
        for await (const piece of served.stdout.setEncoding("utf8").iterator({ destroyOnReturn: false })) {
          printed += piece;
          if (printed.includes("roles")) break;
        }
        expect(printed).toContain("shipped");
        const address = /listening on (\S+)/.exec(printed)![1]!;
        expect((await fetch(`${address}/agents`)).status).toBe(200);
        await writeFile(join(user(), "client.mts"), client!.replace("http://127.0.0.1:3000", address));
        const { stdout } = await run(process.execPath, ["client.mts"], { cwd: user(), env });
        expect(stdout).toMatch(/^general [^\n]+$/m);
      } finally {
        process.kill(-served.pid!, "SIGTERM");
      }
    },
    LONG_MS,
  );
});
