import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { parseAllDocuments } from "yaml";
import { readSettings, SETTINGS, type Settings } from "../../../src/config/settings.ts";

const folder = resolve(import.meta.dirname, "../../../deploy");

/** A file of `deploy/`. */
export const deployed = (path: string): string => readFileSync(join(folder, path), "utf8");

/** Every YAML file in `deploy/`. */
export const yamlFiles = readdirSync(folder, { recursive: true, encoding: "utf8" })
  .filter((name) => /\.ya?ml$/.test(name))
  .sort();

/**
 * The documents of a YAML file.
 * @throws the parser's error, for example for a duplicate key
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

/**
 * The settings that an environment gives a node. @throws Error that names every unknown setting and every wrong value
 * @param secretAt the contents of the file that a variable `NAME_FILE` names
 */
export function settingsOf(env: Readonly<Record<string, string>>, secretAt: (path: string) => string): Settings {
  const known = new Set<string>(SETTINGS.map(({ name }) => name));
  // Keys of providers are for agents.
  const given = Object.entries(env).filter(([name]) => !name.endsWith("_API_KEY_FILE"));
  const unknown = given.map(([name]) => name).filter((name) => !known.has(name.replace(/_FILE$/, "")));
  if (unknown.length > 0) throw new Error(`${unknown.join()} is no setting`);
  const reading = readSettings(
    Object.fromEntries(
      given.map(([name, value]) =>
        known.has(name) ? [name, value] : [name.slice(0, -"_FILE".length), secretAt(value)],
      ),
    ),
  );
  if (reading.ok) return reading.settings;
  throw new Error(reading.faults.map(({ name, message }) => `${name} ${message}`).join("\n"));
}

/** The JSON array of an instruction that occurs once in the Dockerfile. */
export function commandOf(instruction: "HEALTHCHECK" | "CMD"): string[] {
  const lines = deployed("Dockerfile").replaceAll("\\\n", " ").split("\n");
  const [line, ...more] = lines.filter((each) => each.startsWith(`${instruction} `));
  if (line === undefined || more.length > 0) throw new Error(`there is not one ${instruction}`);
  return JSON.parse(line.slice(line.indexOf("[")));
}
