import { readCatalog } from "../../../src/config/catalog/catalog-file.ts";

/** The faults of a catalogue's text as `line:column path: message`. */
export function faultsOf(text: string): string[] {
  const reading = readCatalog(text);
  return reading.ok
    ? []
    : reading.faults.map(({ line, column, path, message }) => `${line}:${column} ${path}: ${message}`);
}

/** Joins lines to a text. */
export const lines = (...all: string[]) => `${all.join("\n")}\n`;
