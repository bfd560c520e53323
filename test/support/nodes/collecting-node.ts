import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { readSettings } from "../../../src/config/settings.ts";
import { createApp } from "../../../src/node/app.ts";
import { collectYoung, oldBytes } from "../runner/heap.ts";

/** A node in a process of its own. It answers each message with its old generation's bytes, after minor collections. */
const folder = mkdtempSync(join(tmpdir(), "interlock-collecting-"));
const config = join(folder, "agents.yaml");
writeFileSync(config, "agents:\n  - { name: music, priority: 20 }\n");
const file = join(folder, "interlock.db");
const flags = ["--port", "0", "--config", config, "--store", `sqlite:${file}`, "--log-level", "warn"];
const reading = readSettings({}, flags);
if (!reading.ok) throw new Error(JSON.stringify(reading.faults));
const app = createApp({ settings: { ...reading.settings, drainMs: 0 } });
const { url } = await app.start();
process.on("message", () => {
  // An object is old after it has survived two.
  collectYoung();
  collectYoung();
  process.send!(oldBytes());
});
process.once("disconnect", async () => {
  await app.stop();
  rmSync(folder, { recursive: true });
});
process.send!(url);
