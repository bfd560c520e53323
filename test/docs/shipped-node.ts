import { join } from "node:path";
import { createApp, readSettings } from "../../src/index.ts";
import { root } from "./page.ts";

/** The settings of a node with a shipped catalogue: the name of its file in `config/`. */
export function settingsWith(catalogue: string, store = "sqlite::memory:") {
  const flags = ["--port", "0", "--store", store, "--drain", "0ms", "--log-level", "silent"];
  const reading = readSettings({ INTERLOCK_CONFIG: join(root, "config", catalogue) }, flags);
  if (!reading.ok) throw new Error(JSON.stringify(reading.faults));
  return reading.settings;
}

/** A node with a shipped catalogue. @returns its address */
export async function startShipped(catalogue: string, atEnd: (stop: () => Promise<void>) => void): Promise<string> {
  const app = createApp({ settings: settingsWith(catalogue), env: {} });
  const { url } = await app.start();
  atEnd(() => app.stop());
  return url;
}
