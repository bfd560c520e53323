import type { z } from "zod";
import { readBounded, whyUnreadable } from "./bounded-file.ts";
import { explain, explainIssues } from "./catalog/explanation.ts";
import { readYaml } from "./catalog/yaml-text.ts";
import { type Fault, faultLine, sortFaults } from "./fault.ts";

/** The largest file of a bridge, in bytes: a thousand entries have 100 KB. */
const MAX_FILE_BYTES = 262_144;

export type YamlParsing<T> = { ok: true; file: T } | { ok: false; faults: Fault[] };
export type YamlReading<T> = { ok: true; file: T } | { ok: false; faults: readonly string[] };

/** Read a file of a bridge. Never rejects: `faults` are sentences with line and column, all at once. */
export async function readYamlFile<S extends z.ZodType>(path: string, schema: S): Promise<YamlReading<z.output<S>>> {
  let bytes: Buffer;
  try {
    bytes = await readBounded(path, MAX_FILE_BYTES);
  } catch (error) {
    return { ok: false, faults: [`${path}: ${whyUnreadable(error)}`] };
  }
  if (bytes.length > MAX_FILE_BYTES) return { ok: false, faults: [`${path}: the file is larger than 256 KiB`] };
  const reading = parseYamlFile(bytes.toString("utf8"), schema);
  return reading.ok ? reading : { ok: false, faults: reading.faults.map((fault) => faultLine(path, fault)) };
}

/** Parse the text of such a file. Returns it, or all its faults. */
export function parseYamlFile<S extends z.ZodType>(text: string, schema: S): YamlParsing<z.output<S>> {
  const yaml = readYaml(text);
  const parsed = schema.safeParse(yaml.value, { error: explain });
  if (parsed.success && yaml.faults.length === 0) return { ok: true, file: parsed.data };
  const explained = parsed.success || yaml.value === undefined ? [] : explainIssues(parsed.error.issues);
  const located = explained.map(({ path, on, message }) => yaml.faultAt(path, on, message));
  return { ok: false, faults: sortFaults([...yaml.faults, ...located.filter((fault) => fault !== undefined)]) };
}
