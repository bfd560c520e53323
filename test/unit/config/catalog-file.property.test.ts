/** Any edit or torn write of the shipped file is read as a catalogue or as a list of faults. */

import { readFileSync } from "node:fs";
import fc from "fast-check";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { z } from "zod";
import { readCatalog } from "../../../src/config/catalog/catalog-file.ts";
import { catalogSchema } from "../../../src/config/catalog/catalog-schema.ts";

const shipped = readFileSync(new URL("../../../config/agents_config.yaml", import.meta.url), "utf8");

const inserted = fc.oneof(
  fc.constantFrom("", ...'\t|\n|  |:|- |"|{|[|]|}|&a |*a|!x |---\n|? |#|%'.split("|"), "'", "|"),
  fc.string({ maxLength: 8, unit: "binary" }),
);
const edit = fc.record({ at: fc.nat(shipped.length), removed: fc.nat(60), inserted });

function apply(edits: { at: number; removed: number; inserted: string }[]): string {
  return edits.reduce(
    (text, { at, removed, inserted }) => text.slice(0, at) + inserted + text.slice(at + removed),
    shipped,
  );
}

test("every fault of a damaged file has a position within the file", () => {
  fc.assert(
    fc.property(fc.array(edit, { minLength: 1, maxLength: 3 }), (edits) => {
      const text = apply(edits);
      const reading = readCatalog(text);
      if (reading.ok) return;
      expect(reading.faults.length).toBeGreaterThan(0);
      const lines = text.split("\n");
      for (const { line, column, message } of reading.faults) {
        expect(line).toBeLessThanOrEqual(lines.length);
        expect(column).toBeGreaterThan(0);
        expect(column).toBeLessThanOrEqual(lines[line - 1]!.length + 1);
        expect(message).not.toBe("");
      }
    }),
    { numRuns: 60 },
  );
});

test("a file that was cut off at any place is read without an exception", () => {
  fc.assert(
    fc.property(fc.nat(shipped.length), (end) => {
      readCatalog(shipped.slice(0, end));
    }),
    { numRuns: 40 },
  );
});

const schema = z.fromJSONSchema(catalogSchema() as z.core.JSONSchema.JSONSchema);
const car = readFileSync(new URL("../../../config/car.yaml", import.meta.url), "utf8");

test("the schema accepts the shipped files, which name it", () => {
  for (const text of [shipped, car]) {
    expect(schema.safeParse(parse(text)).error).toBeUndefined();
    expect(text).toMatch(/^# yaml-language-server: \$schema=\.\.\/dist\/catalogue\.schema\.json\n/);
  }
});

test("the schema accepts every file that is a catalogue", () => {
  fc.assert(
    fc.property(fc.array(edit, { minLength: 1, maxLength: 2 }), (edits) => {
      const text = apply(edits);
      if (readCatalog(text).ok) expect(schema.safeParse(parse(text)).error).toBeUndefined();
    }),
    { numRuns: 40 },
  );
});

test.each([
  ["a misspelt key", { priorty: 10 }, ["agents", 0]],
  ["a priority out of range", { priority: 101 }, ["agents", 0, "priority"]],
  ["an unknown way", { when_blocked: "wait" }, ["agents", 0, "when_blocked"]],
  ["a duration without a unit", { lease: "30" }, ["agents", 0, "lease"]],
  ["an unknown tool", { tools: ["clock", "clocks"] }, ["agents", 0, "tools", 1]],
])("the schema refuses %s", (_, keys, path) => {
  const { error } = schema.safeParse({ agents: [{ name: "a", ...keys }] });
  expect(error?.issues.map((issue) => issue.path)).toEqual([path]);
});
