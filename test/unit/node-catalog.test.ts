import { rename, writeFile } from "node:fs/promises";
import { expect, onTestFinished, test } from "vitest";
import { MemoryBus } from "../../src/bus/memory-bus.ts";
import type { Deployment } from "../../src/node/deployment.ts";
import { openCatalog, readNodeCatalog } from "../../src/node/node-catalog.ts";
import { RealClock, ReceivedLog } from "../support/catalogs/watched-file.ts";
import { writeTemporary } from "../support/clients/callers.ts";

/** What the log has of the change from one catalogue to another. */
async function loggedChange(before: object[], after: object[]): Promise<string[]> {
  const path = await writeTemporary("agents.yaml", JSON.stringify({ agents: before }), onTestFinished);
  const log = new ReceivedLog();
  const store = { epoch: "e", definitionsVersion: async () => 0, listDefinitions: async () => [] };
  const deployment = { store, bus: new MemoryBus(), clock: new RealClock() } as unknown as Deployment;
  const catalog = await openCatalog(path, await readNodeCatalog(path), deployment, log as never);
  try {
    await writeFile(`${path}.new`, JSON.stringify({ agents: after }));
    await rename(`${path}.new`, path);
    const { facts } = await log.until("the catalogue was replaced");
    return facts["matrix"] as string[];
  } finally {
    await catalog[Symbol.asyncDispose]();
  }
}

test("a new catalogue is logged with each cell of the matrix that it changes", async () => {
  const phone = { name: "phone", priority: 90, interruptible: false };
  const music = { name: "music", priority: 20 };
  expect(
    await loggedChange([phone, music], [{ ...phone, priority: 10 }, music, { name: "chat", priority: 5 }]),
  ).toEqual([
    "new agent: chat (5)",
    "phone: priority 90 → 10",
    "phone asks while music is heard: pauses → refused",
    "1 cell changes",
  ]);
});

test("a change of many cells is logged in a bounded number of lines", async () => {
  const agents = (priority: number) => Array.from({ length: 100 }, (_, index) => ({ name: `a${index}`, priority }));
  const steps = agents(0).map((agent, priority) => ({ ...agent, priority }));
  const lines = await loggedChange(agents(5), steps);
  expect(lines).toHaveLength(103);
  expect(lines.slice(50, 52)).toEqual(["and 49 more", "a1 asks while a0 is heard: refused → pauses"]);
  expect(lines.slice(-2)).toEqual(["and 4900 more", "4950 cells change"]);
});

test("a catalogue that is too large for a matrix is logged as such", async () => {
  const agents = Array.from({ length: 101 }, (_, index) => ({ name: `a${index}` }));
  expect(await loggedChange([{ name: "a" }], agents)).toEqual([
    "a matrix shows at most 100 agents, and 101 are enabled",
  ]);
});
