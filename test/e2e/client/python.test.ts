import { execFile } from "node:child_process";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { promisify } from "node:util";
import { beforeAll, expect, onTestFinished, test } from "vitest";
import { readPage } from "../../docs/page.ts";
import { BARE_ENV } from "../../support/agents/bare-env.ts";
import { E2E_AGENTS } from "../../support/catalogs/e2e-catalog.ts";
import { CuttingProxy } from "../../support/networks/cutting-proxy.ts";
import { LosingProxy } from "../../support/networks/losing-proxy.ts";
import { makeInstallation } from "../../support/nodes/child-server.ts";
import { describeWith } from "../../support/programs/suites.ts";
import { freePort } from "../../support/servers/free-port.ts";
import { makeFolder } from "../../support/stores/sqlite-place.ts";

const execute = promisify(execFile);
const ROOT = join(import.meta.dirname, "../../..");
const CLIENT = join(ROOT, "clients/python");

/** Prints ten thousand events. */
const FLOOD = `
import json
for number in range(10_000):
    print(json.dumps({"type": "data", "name": "number", "data": number}))
`;

/** A node in its own process behind proxies, and an address where a program in another language rules all of them. */
async function startStage(python: string): Promise<Record<string, string>> {
  const player = { name: "player", priority: 20, lease: "1s", adapter: { kind: "external" } };
  const flood = {
    name: "flood",
    adapter: { kind: "command", format: "jsonl", command: python, args: ["-c", FLOOD] },
  };
  const catalog = { agents: [...E2E_AGENTS, player, flood], default_agent: "general" };
  const installation = await makeInstallation(catalog, { PORT: String(await freePort()) });
  let node = await installation.start();
  const cutting = await CuttingProxy.start(node.url);
  cutting.isHasty = true;
  const losing = await LosingProxy.start(node.url);
  const deeds: Record<string, () => unknown> = {
    kill: async () => {
      await node.kill();
      node = await installation.start();
    },
    cut: () => cutting.cut(),
    refuse: () => cutting.refuse(),
    admit: () => cutting.admit(),
    lose: () => losing.loseNextAnswer(),
  };
  const server = createServer(async ({ url = "" }, response) => {
    await deeds[url.slice(1)]?.();
    response.end();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close());
  return {
    INTERLOCK_URL: node.url,
    INTERLOCK_CUTTING_URL: cutting.url,
    INTERLOCK_LOSING_URL: losing.url,
    INTERLOCK_STAGE: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
  };
}

describeWith(["python"], "the Python client", (python) => {
  /** What a program of Python prints, if it fails. */
  const complaintOf = (args: readonly string[], env: Record<string, string> = {}) =>
    execute(python, args, {
      cwd: CLIENT,
      env: { ...BARE_ENV, PYTHONDONTWRITEBYTECODE: "1", ...env },
      timeout: 110_000,
    }).then(
      () => "",
      ({ stdout, stderr }) => `${stdout}${stderr}`,
    );
  let types: Promise<string>;
  beforeAll(async () => {
    const { folder, remove } = await makeFolder();
    const programs = readPage("docs/use/python.md").blocks.filter(({ info }) => info.startsWith("python"));
    expect(programs.length).toBeGreaterThan(4);
    const files = programs.map((_, index) => join(folder, `program_${index}.py`));
    await Promise.all(programs.map(({ text }, index) => writeFile(files[index]!, text)));
    const cache = `--cache-dir=${join(ROOT, "node_modules/.cache/mypy")}`;
    const voice = join(ROOT, "examples/python-voice/voice.py");
    types = complaintOf(["-m", "mypy", cache, "src", "tests", voice, ...files]).finally(remove);
  });

  test("its tests hold, against a node that is killed, cut off, and whose answers are lost", async () => {
    expect(await complaintOf(["-W", "error", "-m", "pytest"], await startStage(python))).toBe("");
  });

  test("its package, its tests, the programs of its page and the voice loop pass mypy --strict", async () => {
    expect(await types).toBe("");
  });
});
