import type { Catalog } from "../../../src/config/catalog/catalog.ts";
import { readCatalog } from "../../../src/config/catalog/catalog-file.ts";

/** The catalogue of a text. @throws Error with the faults */
export function catalogOf(text: string): Catalog {
  const reading = readCatalog(text);
  if (!reading.ok) throw new Error(JSON.stringify(reading.faults));
  return reading.catalog;
}

/** The faults of a catalogue's text as `line:column path: message`. */
export function faultsOf(text: string): string[] {
  const reading = readCatalog(text);
  return reading.ok
    ? []
    : reading.faults.map(({ line, column, path, message }) => `${line}:${column} ${path}: ${message}`);
}

/** Joins lines to a text. */
export const lines = (...all: string[]) => `${all.join("\n")}\n`;
