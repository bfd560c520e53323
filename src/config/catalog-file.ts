import { createHash } from "node:crypto";
import { readBounded, whyUnreadable } from "./bounded-file.ts";
import { type Catalog, CatalogFile, toCatalog } from "./catalog.ts";
import { type Explained, explain, flatten } from "./explanation.ts";
import { type Fault, sortFaults } from "./fault.ts";
import { findStrayNames, type StrayName } from "./stray-names.ts";
import { readYaml } from "./yaml-text.ts";

export type CatalogReading =
  | { ok: true; catalog: Catalog }
  /** `unreadable`: there is no such file, or it cannot be read; the one fault says why. */
  | { ok: false; faults: Fault[]; unreadable?: "missing" | "refused" };

/** A catalogue of a thousand agents has 300 KiB; what is larger is some other file. */
const MAX_BYTES = 1_048_576;

/** The whole catalogue, or every fault at once: of syntax, of keys, of values, and names that point nowhere. */
export function readCatalog(text: string): CatalogReading {
  if (Buffer.byteLength(text) > MAX_BYTES) return refuse("the file is larger than 1 MiB");
  const yaml = readYaml(text);
  if (yaml.faults.length === 0 && (yaml.value === undefined || yaml.value === null)) {
    return refuse("the file is empty: it needs at least a list of agents");
  }
  const file = CatalogFile.safeParse(yaml.value, { error: explain });
  const strays = findStrayNames(yaml.value);
  if (file.success && strays.length === 0 && yaml.faults.length === 0) {
    return { ok: true, catalog: toCatalog(file.data, hashOf(text)) };
  }
  const faults = [...yaml.faults];
  // Without a value nothing can be said of what the file means.
  if (yaml.value !== undefined) {
    const explained = file.success ? [] : flatten(file.error.issues);
    for (const { path, on, message } of [...explained, ...strays.map(blameName)]) {
      const fault = yaml.faultAt(path, on, message);
      if (fault) faults.push(fault);
    }
  }
  return { ok: false, faults: sortFaults(faults) };
}

/** Overrides name agents by their keys; everywhere else a name is a value. */
function blameName({ path, message }: StrayName): Explained {
  return { path, on: path.at(-2) === "agent_priority_overrides" ? "key" : "value", message };
}

/** `readCatalog` of a file's text. Never rejects: a file that cannot be read is a fault too. */
export async function loadCatalog(path: string): Promise<CatalogReading> {
  let bytes: Buffer;
  try {
    bytes = await readBounded(path, MAX_BYTES);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    const isMissing = code === "ENOENT" || code === "ENOTDIR";
    return { ...refuse(whyUnreadable(error)), unreadable: isMissing ? "missing" : "refused" };
  }
  let text: string;
  try {
    // The mark some editors put first stays, so that the hash is the one `sha256sum` shows.
    text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return refuse("the file is not UTF-8 text");
  }
  return readCatalog(text);
}

function refuse(message: string): { ok: false; faults: Fault[] } {
  return { ok: false, faults: [{ line: 1, column: 1, path: "", message }] };
}

function hashOf(text: string): string {
  return createHash("sha256").update(text).digest("hex").slice(0, 12);
}
