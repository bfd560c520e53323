import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { checkCatalog } from "../../../src/cli/check.ts";

let folder: string;
let path: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "interlock-check-"));
  path = join(folder, "agents.yaml");
});
afterEach(() => rm(folder, { recursive: true }));

/** What is printed, line by line, and the exit code. */
async function check(text?: string): Promise<{ code: number; lines: string[] }> {
  if (text !== undefined) await writeFile(path, text);
  let printed = "";
  const code = await checkCatalog(path, { write: (piece) => (printed += piece) });
  expect(printed.endsWith("\n")).toBe(true);
  return { code, lines: printed.slice(0, -1).replaceAll(path, "FILE").split("\n") };
}

it("a valid file is told in one line, with exit code 0", async () => {
  expect(await check("agents: [{ name: a }, { name: b }]\n")).toEqual({
    code: 0,
    lines: [expect.stringMatching(/^FILE: 2 agents, no faults, hash [0-9a-f]{12}$/)],
  });
});

it("every fault is a line with its place, with exit code 1", async () => {
  expect(await check("agents:\n  - name: a\n    priority: 101\ndefault_agent: b\n")).toEqual({
    code: 1,
    lines: [
      "FILE:3:15 agents[0].priority: must be at most 100, not 101",
      "FILE:4:16 default_agent: there is no agent b",
    ],
  });
  expect(await check("")).toEqual({
    code: 1,
    lines: ["FILE:1:1 the file is empty: it needs at least a list of agents"],
  });
});

it("no file is a sentence, with exit code 2", async () => {
  expect(await check()).toEqual({ code: 2, lines: ["FILE: there is no such file"] });
});

it("a pair in which the more important agent is refused is a warning", async () => {
  const { code, lines } = await check(`agents:
  - { name: phone, priority: 90, interruptible: false }
  - { name: navigation, priority: 80, interruptible: false }
  - { name: music, priority: 20 }
`);
  expect(code).toBe(0);
  expect(lines.slice(1)).toEqual([
    "warning: phone (90) cannot interrupt navigation (80): navigation is not interruptible and has no preemption_threshold",
  ]);
});

it("no warning where a threshold was set, where both are equal, or where one of the two is disabled", async () => {
  const { lines } = await check(`agents:
  - { name: top, priority: 90 }
  - { name: same, priority: 90, interruptible: false }
  - { name: thought_of, priority: 80, interruptible: false, preemption_threshold: 95 }
  - { name: off, priority: 10, interruptible: false, enabled: false }
`);
  expect(lines).toHaveLength(1);
});

it("many warnings are cut off with their number", async () => {
  const agents = Array.from(
    { length: 12 },
    (_, index) => `{ name: a${index}, priority: ${index}, interruptible: false }`,
  );
  const { lines } = await check(`agents: [${agents.join(", ")}]\n`);
  expect(lines).toHaveLength(52);
  expect(lines.at(-1)).toBe("warning: and 16 more such pairs");
});
