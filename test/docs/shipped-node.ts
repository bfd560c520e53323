import { join } from "node:path";
import { createApp } from "../../src/index.ts";
import { settingsOf } from "../support/catalogs/settings.ts";
import { root } from "./page.ts";

/** A node with a shipped catalogue: the name of its file in `config/`. @returns its address */
export async function startShipped(catalogue: string, atEnd: (stop: () => Promise<void>) => void): Promise<string> {
  const flags = ["--port", "0", "--store", "sqlite::memory:", "--drain", "0ms", "--log-level", "silent"];
  const settings = settingsOf({ INTERLOCK_CONFIG: join(root, "config", catalogue) }, flags);
  const app = createApp({ settings, env: {} });
  const { url } = await app.start();
  atEnd(() => app.stop());
  return url;
}
