import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { optimiseEarly } from "../../src/cli/early-optimisation.ts";
import { readSettings } from "../../src/config/settings.ts";
import { createApp } from "../../src/node/app.ts";
import { serveParent } from "../support/child.ts";

/**
 * A real node in the embedded deployment. Arguments: the SQLite file (default: a new one), and `together` for a
 * catalogue whose sessions are heard together, `routed` for one that routes sentences by 1,000 patterns, or `car` for
 * `config/car.yaml`.
 */
const ALONE = `
agents:
  - { name: music, priority: 20, when_busy: interrupt, adapter: { kind: scripted, replies: [{ match: play, say: ["la "], repeat: 100000, delay: 1h }, { say: ["Yes."], delay: 0ms }] } }
  - { name: phone, priority: 90, interruptible: false }
  - { name: patient, priority: 20, max_pause: 1d }
policy: { ties: newest }
`;
const TOGETHER = `
agents:
  - { name: prompt, priority: 80, beneath: { all: -14 } }
  - { name: front, priority: 40, beneath: { all: -14 }, when_preempted: duck }
  - { name: low, priority: 10, beneath: { all: -14, low: -14 }, when_preempted: duck, when_blocked: duck }
  - { name: plain, priority: 20 }
policy: { ties: newest }
`;
const PATTERNS = Array.from({ length: 999 }, (_, index) => `\\b(open|close) the (door|window) ${index}\\b`);
const ROUTED = `
agents:
  - { name: chat, priority: 20 }
  - { name: vehicle, priority: 50 }
routing:
  - { says: ${JSON.stringify(PATTERNS)}, agent: vehicle }
  - { says: "\\bjoke\\b", agent: chat }
`;
const CATALOGS = new Map([
  ["together", TOGETHER],
  ["routed", ROUTED],
]);

// As `interlock serve` does.
optimiseEarly();
const folder = mkdtempSync(join(tmpdir(), "interlock-bench-"));
const config = join(folder, "agents.yaml");
const [, , named, heard] = process.argv;
const CAR = new URL("../../config/car.yaml", import.meta.url);
writeFileSync(config, heard === "car" ? readFileSync(CAR) : (CATALOGS.get(heard ?? "") ?? ALONE));
const file = named || join(folder, "interlock.db");
const flags = ["--port", "0", "--config", config, "--store", `sqlite:${file}`, "--log-level", "warn"];
// All clients of a benchmark connect from one address.
const reading = readSettings({ INTERLOCK_ADDRESS_CONNECTIONS: "10000" }, flags);
if (!reading.ok) throw new Error(JSON.stringify(reading.faults));
const app = createApp({ settings: { ...reading.settings, drainMs: 0 } });
const { url } = await app.start();
serveParent(url, {
  async stop() {
    await app.stop();
    rmSync(folder, { recursive: true });
  },
});
