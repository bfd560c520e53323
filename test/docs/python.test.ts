import { execFile, spawn } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, onTestFinished, test } from "vitest";
import { describeWith } from "../support/programs/suites.ts";
import { makeFolder } from "../support/stores/sqlite-place.ts";
import { expectObedience, postTo } from "./obedience.ts";
import { codeOf, readPage, root, tablesOf } from "./page.ts";
import { startShipped } from "./shipped-node.ts";
import { SHOWN_URL } from "./shown.ts";

const execute = promisify(execFile);
/** The programs of the Chinese page are the same (`pages.test.ts`). */
const page = readPage("docs/use/python.md");
const programs = page.blocks.filter(({ info }) => info.startsWith("python"));
const CLIENT = join(root, "clients/python");
/** What each program prints, in their order; the player needs another node. */
const PRINTED = [
  /^(.+\n)+$/,
  /^rejected 409 True\n.+\nlower_priority\n$/,
  /^(.{7}) \| (?!\1).+\n$/s,
  undefined,
  /^user Do I need an umbrella\?\nassistant .+\n$/s,
];

describeWith(["python"], "docs/use/python.md", (python) => {
  const env = { PATH: "", PYTHONPATH: join(CLIENT, "src"), PYTHONDONTWRITEBYTECODE: "1" };

  /** The files of the page's programs, for a node at this address. */
  async function writePrograms(url: string): Promise<string[]> {
    const { folder } = await makeFolder(onTestFinished);
    const files = programs.map((_, index) => join(folder, `program_${index}.py`));
    for (const [index, { text }] of programs.entries()) {
      await writeFile(files[index]!, text.replaceAll(SHOWN_URL, url));
    }
    return files;
  }

  test("its programs run, and print what they say", async () => {
    const files = await writePrograms(await startShipped("agents_config.yaml", onTestFinished));
    expect(files).toHaveLength(PRINTED.length);
    for (const [index, wanted] of PRINTED.entries()) {
      if (!wanted) continue;
      const { stdout } = await execute(python, ["-W", "error", files[index]!], { env });
      expect(stdout).toMatch(wanted);
    }
  });

  test("its player follows its session to its end", async () => {
    const url = await startShipped("car.yaml", onTestFinished);
    const files = await writePrograms(url);
    const post = postTo(url);
    await post("/session/create", { id: "song", agentId: "music_agent", userId: "ann" });
    const file = files[programs.findIndex(({ info }) => info === "python player")]!;
    const player = spawn(python, ["-W", "error", file, "song"], { env, stdio: ["ignore", "pipe", "inherit"] });
    onTestFinished(() => void player.kill("SIGKILL"));
    const next = await expectObedience(player.stdout, post);
    await post("/session/song/archive");
    expect(await next()).toBe("stop");
  });

  test("it lists every method and every option of a client, and no other", async () => {
    const script = `
import inspect, interlock_client as i
print(*[name for name in dir(i.Client) if not name.startswith("_")])
print(*list(inspect.signature(i.Client).parameters))
`;
    const { stdout } = await execute(python, ["-c", script], { env });
    const [methods, options] = stdout.split("\n").map((line) => line.split(" "));
    const [listed] = tablesOf(page, "about", "methods");
    const names = listed!.flatMap(([, cell]) => codeOf(cell!)).filter((name) => !/^(aclose|AsyncClient)$/.test(name));
    expect(names.sort()).toEqual(methods!.sort());
    const [shown] = tablesOf(page, "option of a client", "means");
    expect(shown!.flatMap(([cell]) => codeOf(cell!))).toEqual(options);
  });
});
