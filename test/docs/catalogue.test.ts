import { expect, test } from "vitest";
import { Adapter } from "../../src/config/catalog/adapter.ts";
import { CatalogFile } from "../../src/config/catalog/catalog.ts";
import { readCatalog } from "../../src/config/catalog/catalog-file.ts";
import { readKeys } from "../../src/config/keys-file.ts";
import { mentions, readPage, readPages } from "./page.ts";

/** Each piece of a catalogue on a page, as a separate file: `yaml`, or `yaml agent` for a list of agents. */
const excerpts = readPages().flatMap(({ path, blocks }) =>
  blocks
    .filter(({ info }) => info === "yaml" || info === "yaml agent")
    .map(({ info, text }) => ({ path, text: info === "yaml agent" ? `agents:\n${text.replace(/^/gm, "  ")}` : text })),
);

test("every excerpt of a catalogue on a page is valid", () => {
  expect(excerpts.length).toBeGreaterThan(5);
  for (const { path, text } of excerpts) {
    const reading = readCatalog(text);
    expect(reading.ok ? [] : reading.faults, path).toEqual([]);
  }
});

test("docs/operations.md shows a valid file of keys", () => {
  const shown = readPage("docs/operations.md").blocks.filter(({ info }) => info === "yaml keys");
  expect(shown.map(({ text }) => readKeys(text))).toMatchObject([
    { ok: true, keys: [{ owner: "alice" }, { operator: true }] },
  ]);
});

test("docs/arbitration.md shows every key of the catalogue", () => {
  const { text } = readPage("docs/arbitration.md").blocks.find(({ info }) => info === "yaml")!;
  const { agents, policy, priority_rules, user_preferences } = CatalogFile.shape;
  const agent = agents.element.shape;
  const keys = [
    ...Object.keys(CatalogFile.shape),
    ...Object.keys(agent),
    ...Object.keys(agent.messages.unwrap().shape),
    ...Object.keys(policy.unwrap().in.shape),
    ...Object.keys(priority_rules.unwrap().element.shape),
    ...Object.keys(user_preferences.unwrap().valueType.shape),
  ];
  expect(keys.length).toBeGreaterThan(40);
  expect(keys.filter((key) => !mentions(text, key))).toEqual([]);
});

test.each(["docs/agents.md", "docs/agents.zh.md"])("%s shows every key of every adapter", (path) => {
  const { text } = readPage(path);
  for (const { shape } of Adapter.options) {
    expect(
      Object.keys(shape).filter((key) => !mentions(text, key)),
      [...shape.kind.values].join(),
    ).toEqual([]);
    expect(text).toContain(`## ${[...shape.kind.values].join()}`);
  }
});
