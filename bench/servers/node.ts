import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { optimiseEarly } from "../../src/cli/early-optimisation.ts";
import { readSettings } from "../../src/config/settings.ts";
import { createApp } from "../../src/node/app.ts";
import { serveParent } from "../support/child.ts";

/** A real node with the flags it is given: `node.ts --roles gateway --store postgres://…`. */
const CATALOG = `
agents:
  - { name: music, priority: 20, adapter: { kind: scripted, replies: [{ match: sing, say: ["la la la la la la la la "], repeat: 300, delay: 20ms }, { say: ["Yes."], delay: 0ms }] } }
  - { name: phone, priority: 90, interruptible: false }
`;

/** The address of a model's provider; the catalogue then has an agent that uses it. */
const provider = process.env["BENCH_PROVIDER"];
const MODEL = `  - { name: model, adapter: { kind: ai-sdk, provider: openai-compatible, model: fake, base_url: "${provider}/v1" } }
`;

// As `interlock serve` does.
optimiseEarly();
const folder = mkdtempSync(join(tmpdir(), "interlock-bench-"));
const config = join(folder, "agents.yaml");
writeFileSync(config, provider === undefined ? CATALOG : CATALOG + MODEL);
const flags = ["--port", "0", "--config", config, "--log-level", "warn", ...process.argv.slice(2)];
const reading = readSettings({}, flags);
if (!reading.ok) throw new Error(JSON.stringify(reading.faults));
const app = createApp({ settings: { ...reading.settings, drainMs: 0 } });
const { url } = await app.start();
serveParent(url, {
  async stop() {
    await app.stop();
    rmSync(folder, { recursive: true });
  },
});
