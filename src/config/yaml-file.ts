import type { z } from "zod";
import { readBounded, whyUnreadable } from "./bounded-file.ts";
import { explain, explainIssues } from "./catalog/explanation.ts";
import { readYaml, type YamlText } from "./catalog/yaml-text.ts";
import { type Fault, faultLine, sortFaults } from "./fault.ts";

/** The largest file of a bridge, in bytes: a thousand entries have 100 KB. */
const MAX_FILE_BYTES = 262_144;

export type YamlParsing<T> = ({ ok: true; file: T } & Pick<YamlText, "faultAt">) | { ok: false; faults: Fault[] };
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

/**
 * Parse the text of such a file. Returns it, or all its faults.
 * @param shown what is shown of a fault's message @param empty what is wrong with a text without a value
 */
export function parseYamlFile<S extends z.ZodType>(
  text: string,
  schema: S,
  { shown = (message) => message, empty }: { shown?: (message: string) => string; empty?: string } = {},
): YamlParsing<z.output<S>> {
  const yaml = readYaml(text);
  if (empty !== undefined && yaml.faults.length === 0 && (yaml.value ?? null) === null) {
    return { ok: false, faults: [{ line: 1, column: 1, path: "", message: empty }] };
  }
  const parsed = schema.safeParse(yaml.value, { error: explain });
  if (parsed.success && yaml.faults.length === 0) return { ok: true, file: parsed.data, faultAt: yaml.faultAt };
  const explained = parsed.success || yaml.value === undefined ? [] : explainIssues(parsed.error.issues);
  const located = explained.flatMap(({ path, on, message }) => yaml.faultAt(path, on, shown(message)) ?? []);
  return { ok: false, faults: sortFaults([...yaml.faults, ...located]) };
}

/** Remove a file's value from a message, as it may be a secret: `must be text, not 7` → `must be text`. */
export const withoutValue = (message: string): string => message.replace(/, not .*$/su, "");
