import { z } from "zod";
import { Name } from "../protocol/ids.ts";
import { readBounded, whyUnreadable } from "./bounded-file.ts";
import { type Fault, faultLine } from "./fault.ts";
import { parseYamlFile, withoutValue } from "./yaml-file.ts";

/** An entry of the file. It has a hash instead of the key, so that a reader of the file cannot use it. */
const KeyEntry = z.strictObject({
  owner: Name,
  /** The hash of the key's characters, as `printf %s "$key" | sha256sum` prints it. */
  sha256: z.string().regex(/^[0-9a-f]{64}$/, "the SHA-256 of a key: 64 of 0-9 a-f"),
  operator: z.boolean().default(false),
});
export type KeyEntry = z.infer<typeof KeyEntry>;

/** The maximum number of keys; more callers need a service that issues tokens. */
const MAX_KEYS = 10_000;
const KeysFile = z.strictObject({ keys: z.array(KeyEntry).min(1).max(MAX_KEYS) }).superRefine(({ keys }, context) => {
  const seen = new Set<string>();
  for (const [index, { sha256 }] of keys.entries()) {
    const path = ["keys", index, "sha256"];
    if (seen.has(sha256)) context.addIssue({ code: "custom", path, message: "is a duplicate" });
    seen.add(sha256);
  }
});
/** Enough for ten thousand keys with long names; a larger file is not a keys file. */
const MAX_KEYS_BYTES = 4_194_304;

export type KeysReading = { ok: true; keys: KeyEntry[] } | { ok: false; faults: Fault[] };

/**
 * Parse a keys file. Returns all keys, or all faults. Faults never repeat the file's contents: they may include a key.
 */
export function readKeys(text: string): KeysReading {
  const empty = "the file is empty: it needs a list of keys";
  const parsing = parseYamlFile(text, KeysFile, { shown: withoutValue, empty });
  return parsing.ok ? { ok: true, keys: parsing.file.keys } : parsing;
}

/** Read a keys file. @throws Error that lists every fault with its line and column */
export async function loadKeys(path: string): Promise<KeyEntry[]> {
  const reading = await readKeysOf(path);
  if (reading.ok) return reading.keys;
  const lines = reading.faults.map((fault) => faultLine(path, fault));
  throw new Error(`the keys cannot be used\n${lines.join("\n")}`);
}

async function readKeysOf(path: string): Promise<KeysReading> {
  try {
    const bytes = await readBounded(path, MAX_KEYS_BYTES);
    if (bytes.length > MAX_KEYS_BYTES) return refuse("the file is larger than 4 MiB");
    return readKeys(new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes));
  } catch (error) {
    return refuse(error instanceof TypeError ? "the file is not UTF-8 text" : whyUnreadable(error));
  }
}

function refuse(message: string): KeysReading {
  return { ok: false, faults: [{ line: 1, column: 1, path: "", message }] };
}
