/**
 * Writes the generated files of the Python client: `types.py`, from the schemas of `/openapi.json`, and the blocking
 * client and stream, from the asynchronous ones. Run it by `npm run build:python`.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { createApp, readSettings } from "../../src/index.ts";
import { blockingSource } from "./generator/blocking.ts";
import { pythonTypes } from "./generator/python-types.ts";

const PACKAGE = new URL("./src/interlock_client/", import.meta.url);

/** The generated files by name, as they should be. */
export async function generatedFiles(): Promise<Record<string, string>> {
  const blocking = ["_client.py", "_stream.py"].map((name) => {
    const source = `_async${name}`;
    return [name, blockingSource(source, readFileSync(new URL(source, PACKAGE), "utf8"))];
  });
  return { "types.py": pythonTypes(await readDocument()), ...Object.fromEntries(blocking) };
}

/** A generated file as it is; empty if it does not exist. */
export function presentFile(name: string): string {
  try {
    return readFileSync(new URL(name, PACKAGE), "utf8");
  } catch {
    return "";
  }
}

/** The document of a node with the shipped catalogue: no setting changes the schemas of answers. */
async function readDocument(): Promise<Parameters<typeof pythonTypes>[0]> {
  const reading = readSettings({ PORT: "0", INTERLOCK_STORE: "sqlite::memory:", LOG_LEVEL: "silent" });
  if (!reading.ok) throw new Error(JSON.stringify(reading.faults));
  const app = createApp({ settings: reading.settings, env: {} });
  const { url } = await app.start();
  try {
    return (await (await fetch(`${url}/openapi.json`)).json()) as Parameters<typeof pythonTypes>[0];
  } finally {
    await app.stop();
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  for (const [name, text] of Object.entries(await generatedFiles())) writeFileSync(new URL(name, PACKAGE), text);
}
