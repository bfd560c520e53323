import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import { createApp } from "../../src/app.ts";
import { RollCall } from "../../src/cluster/roll-call.ts";
import { readSettings } from "../../src/config/settings.ts";
import { Orchestrator } from "../../src/orchestrator.ts";
import { Worker } from "../../src/runs/worker.ts";

/** Nodes on one database file, one after the other. */
async function makeNodes() {
  const folder = await mkdtemp(join(tmpdir(), "interlock-start-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  const config = join(folder, "agents.yaml");
  await writeFile(config, JSON.stringify({ agents: [{ name: "general" }] }));
  const reading = readSettings({
    PORT: "0",
    INTERLOCK_STORE: `sqlite:${join(folder, "interlock.db")}`,
    INTERLOCK_CONFIG: config,
    LOG_LEVEL: "silent",
  });
  if (!reading.ok) throw new Error(JSON.stringify(reading.faults));
  return () => createApp({ settings: reading.settings, env: {} });
}

const listening = () => process.getActiveResourcesInfo().filter((kind) => kind === "TCPServerWrap").length;

test.each([
  ["worker", Worker],
  ["orchestrator", Orchestrator],
  ["roll call", RollCall],
])("a node whose %s cannot start closes its port and its database, which the next node then opens", async (_, part) => {
  const make = await makeNodes();
  const before = listening();
  vi.spyOn(part.prototype, "start").mockImplementationOnce(async () => {
    expect(listening()).toBe(before + 1);
    throw new Error("halfway");
  });
  await expect(make().start()).rejects.toThrow("halfway");
  expect(listening()).toBe(before);
  const next = make();
  const { url } = await next.start();
  expect((await fetch(`${url}/ready`)).status).toBe(200);
  await next.stop();
});
