import { createHash } from "node:crypto";
import type { z } from "zod";
import { readBounded, whyUnreadable } from "../bounded-file.ts";
import { BOUNDS } from "../bounds.ts";
import { type Fault, faultLine, sortFaults, type ValueFault } from "../fault.ts";
import { readApart, SMALL_BYTES, UnfinishedReading } from "../reading-thread.ts";
import { type Catalog, CatalogFile, toCatalog } from "./catalog.ts";
import { findContradictions } from "./contradictions.ts";
import { type Explained, explain, explainIssues } from "./explanation.ts";
import { LenientCatalog } from "./lenient-catalog.ts";
import { findStrayNames } from "./stray-names.ts";
import { readYaml } from "./yaml-text.ts";

export type CatalogReading = { ok: true; catalog: Catalog } | RefusedCatalog;

export interface RefusedCatalog {
  ok: false;
  faults: Fault[];
  /** The file does not exist (`missing`) or cannot be read (`refused`); the only fault says why. */
  unreadable?: "missing" | "refused";
}

/** The lines that report a refused file: each fault with its line and column, which an unreadable file lacks. */
export function describeRefusal(path: string, { faults, unreadable }: RefusedCatalog): string[] {
  return faults.map((fault) => (unreadable ? `${path}: ${fault.message}` : faultLine(path, fault)));
}

const MAX_CATALOG_BYTES = BOUNDS.catalogBytes;
/** Counts and classes, with which a pattern is larger than its text, also where YAML escapes their signs. */
const GROWTH = /\{\d|\\[pPuUx\r\n]/;
const TOO_LARGE = "the file is larger than 1 MiB";

/** Parse a catalogue. Returns it, or all faults at once: of syntax, keys, values, and names of unknown agents. */
export function readCatalog(text: string): CatalogReading {
  const examined = examineCatalog(text);
  return examined.ok ? { ok: true, catalog: toCatalog(examined.file, hashOf(text)) } : examined;
}

type Examined = { ok: true; file: z.output<typeof CatalogFile> } | RefusedCatalog;

/** @throws UnfinishedReading if it needs more memory, in MiB, or its thread fails */
export const examineApart = (text: string, maxMemory?: number): Promise<Examined> =>
  readApart(new URL("./catalog-main", import.meta.url), text, maxMemory);

/** Look for all faults of a catalogue. Without any: what the schema makes of it. */
export function examineCatalog(text: string): Examined {
  if (Buffer.byteLength(text) > MAX_CATALOG_BYTES) return refuse(TOO_LARGE);
  const yaml = readYaml(text);
  if (yaml.faults.length === 0 && (yaml.value === undefined || yaml.value === null)) {
    return refuse("the file is empty: it needs at least a list of agents");
  }
  const file = CatalogFile.safeParse(yaml.value, { error: explain, reportInput: true });
  const readable = LenientCatalog.parse(yaml.value);
  const misfits = [...findStrayNames(readable), ...findContradictions(readable)];
  if (file.success && misfits.length === 0 && yaml.faults.length === 0) {
    return { ok: true, file: file.data };
  }
  const faults = [...yaml.faults];
  // Without a parsed value, the contents cannot be checked.
  if (yaml.value !== undefined) {
    const explained = file.success ? [] : explainIssues(file.error.issues);
    for (const { path, on, message } of [...explained, ...misfits.map(locate)]) {
      const fault = yaml.faultAt(path, on, message);
      if (fault) faults.push(fault);
    }
  }
  return { ok: false, faults: sortFaults(faults) };
}

const KEYED_BY_NAME: ReadonlySet<unknown> = new Set(["agent_priority_overrides", "beneath"]);

/** Overrides and `beneath` have agent names as keys; everywhere else a name is a value. */
function locate({ path, message }: ValueFault): Explained {
  return { path, on: KEYED_BY_NAME.has(path.at(-2)) ? "key" : "value", message };
}

/**
 * Read and parse a catalogue file. Never rejects: an unreadable file is reported as a fault.
 * @param known returned if the file has its text
 */
export async function loadCatalog(path: string, known?: Catalog): Promise<CatalogReading> {
  let bytes: Buffer;
  try {
    bytes = await readBounded(path, MAX_CATALOG_BYTES);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    const isMissing = code === "ENOENT" || code === "ENOTDIR";
    return { ...refuse(whyUnreadable(error)), unreadable: isMissing ? "missing" : "refused" };
  }
  return await decodeCatalogApart(bytes, known);
}

/** Parse the bytes of a catalogue in this thread, which may take seconds. */
export function decodeCatalog(bytes: Uint8Array): CatalogReading {
  const text = textOf(bytes);
  return typeof text === "string" ? readCatalog(text) : text;
}

/**
 * Parse the bytes of a catalogue, one that may take long in a thread of its own. Never rejects.
 * @param known returned if it has the same text
 */
export async function decodeCatalogApart(bytes: Uint8Array, known?: Catalog): Promise<CatalogReading> {
  const text = textOf(bytes);
  if (typeof text !== "string") return text;
  const hash = hashOf(text);
  if (known?.hash === hash) return { ok: true, catalog: known };
  if (bytes.length <= SMALL_BYTES && !GROWTH.test(text)) return readCatalog(text);
  try {
    const examined = await examineApart(text);
    return examined.ok ? { ok: true, catalog: toCatalog(examined.file, hash) } : examined;
  } catch (error) {
    if (!(error instanceof UnfinishedReading)) throw error;
    return { ...refuse(`the file ${error.message}`), unreadable: "refused" };
  }
}

function textOf(bytes: Uint8Array): string | RefusedCatalog {
  // The last character of a file that is too long may be cut, and would not be UTF-8.
  if (bytes.length > MAX_CATALOG_BYTES) return refuse(TOO_LARGE);
  try {
    // Keep a byte order mark, so that the hash equals that of `sha256sum`.
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return refuse("the file is not UTF-8 text", endOfUtf8(Buffer.from(bytes)));
  }
}

function refuse(message: string, { line, column } = { line: 1, column: 1 }): RefusedCatalog {
  return { ok: false, faults: [{ line, column, path: "", message }] };
}

/** The line and column of the first bytes that are not UTF-8. */
function endOfUtf8(bytes: Buffer): { line: number; column: number } {
  // Only these bytes differ when they are decoded and encoded again.
  const again = Buffer.from(new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes));
  const end = bytes.findIndex((byte, index) => byte !== again[index]);
  const lines = bytes.toString("utf8", 0, end < 0 ? bytes.length : end).split("\n");
  return { line: lines.length, column: lines.at(-1)!.length + 1 };
}

function hashOf(text: string): string {
  return createHash("sha256").update(text).digest("hex").slice(0, 12);
}
