import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { parseAllDocuments } from "yaml";
import { readSettings, SETTINGS, type Settings } from "../../../src/config/settings.ts";

const folder = resolve(import.meta.dirname, "../../../deploy");

/** A file of `deploy/`. */
export const deployed = (path: string): string => readFileSync(join(folder, path), "utf8");

/** Every file of `deploy/` that is YAML. */
export const yamlFiles = readdirSync(folder, { recursive: true, encoding: "utf8" })
  .filter((name) => /\.ya?ml$/.test(name))
  .sort();

/**
 * The documents of a file.
 * @throws what the parser has against it: a key that is there twice, say
 */
export function documentsOf(path: string): unknown[] {
  const documents = parseAllDocuments(deployed(path), { merge: true, strict: true, uniqueKeys: true });
  if (!Array.isArray(documents)) throw new Error(`${path} is empty`);
  return documents.map((document) => {
    const [fault] = [...document.errors, ...document.warnings];
    if (fault) throw new Error(`${path}: ${fault.message}`);
    return document.toJS();
  });
}

/** What an environment makes of a node. @throws Error with every name that is no setting, and every value that is wrong */
export function settingsOf(env: Readonly<Record<string, string>>): Settings {
  const known = new Set<string>(SETTINGS.map(({ name }) => name));
  const unknown = Object.keys(env).filter((name) => !known.has(name));
  if (unknown.length > 0) throw new Error(`${unknown.join()} is no setting`);
  const reading = readSettings(env);
  if (reading.ok) return reading.settings;
  throw new Error(reading.faults.map(({ name, message }) => `${name} ${message}`).join("\n"));
}

/** The JSON array of an instruction that a Dockerfile has once. */
export function commandOf(instruction: "HEALTHCHECK" | "CMD"): string[] {
  const lines = deployed("Dockerfile").replaceAll("\\\n", " ").split("\n");
  const [line, ...more] = lines.filter((each) => each.startsWith(`${instruction} `));
  if (line === undefined || more.length > 0) throw new Error(`there is not one ${instruction}`);
  return JSON.parse(line.slice(line.indexOf("[")));
}
