import { expect, test } from "vitest";
import { z } from "zod";
import { Adapter } from "../../src/config/catalog/adapter.ts";
import { CatalogFile } from "../../src/config/catalog/catalog.ts";
import { readCatalog } from "../../src/config/catalog/catalog-file.ts";
import { AgentDefinition, findDefinitionFault } from "../../src/config/catalog/definition.ts";
import { readKeys } from "../../src/config/keys-file.ts";
import { PlayersFile } from "../../src/config/players-file.ts";
import { parseYamlFile } from "../../src/config/yaml-file.ts";
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

test("the shipped catalogue accepts the definition that docs/use/agents.md shows", () => {
  const { text } = readPage("docs/use/agents.md").blocks.find((block) => block.text.includes('"basedOn"'))!;
  const definition = AgentDefinition.parse(JSON.parse(text));
  const shipped = readCatalog(readPage("config/agents_config.yaml").text);
  if (!shipped.ok) throw new Error("the shipped catalogue has faults");
  expect(findDefinitionFault(shipped.catalog, definition)).toBeUndefined();
});

test("docs/operate/operations.md shows a valid file of keys", () => {
  const shown = readPage("docs/operate/operations.md").blocks.filter(({ info }) => info === "yaml keys");
  expect(shown.map(({ text }) => readKeys(text))).toMatchObject([
    { ok: true, keys: [{ owner: "alice" }, { operator: true }] },
  ]);
});

test("the pages of players and the shipped file of players are valid", () => {
  const shown = readPages().flatMap(({ blocks }) => blocks.filter(({ info }) => info === "yaml players"));
  expect(shown).toHaveLength(2);
  for (const text of [readPage("config/players.yaml").text, ...shown.map((block) => block.text)]) {
    expect(parseYamlFile(text, PlayersFile)).toMatchObject({ ok: true, file: { notify: true } });
  }
});

test("docs/use/arbitration.md shows every key of the catalogue", () => {
  const { text } = readPage("docs/use/arbitration.md").blocks.find(({ info }) => info === "yaml")!;
  const { agents, policy, priority_rules, restrictions, user_preferences } = CatalogFile.shape;
  const agent = agents.element.shape;
  const keys = [
    ...Object.keys(CatalogFile.shape),
    ...Object.keys(agent),
    ...Object.keys(agent.messages.unwrap().shape),
    ...Object.keys(policy.unwrap().in.shape),
    ...Object.keys(priority_rules.unwrap().element.shape),
    ...Object.keys(restrictions.unwrap().element.shape),
    ...Object.keys(user_preferences.unwrap().valueType.shape),
  ];
  expect(keys.length).toBeGreaterThan(40);
  expect(keys.filter((key) => !mentions(text, key))).toEqual([]);
});

test("the comments of the shipped catalogue name every key of an agent, every choice of it and every adapter", () => {
  const { text } = readPage("config/agents_config.yaml");
  const comments = text.match(/^#.*$/gm)!.join("\n");
  const { shape } = CatalogFile.shape.agents.element;
  const choices = Object.values(shape).flatMap((key) => {
    const inner = key instanceof z.ZodDefault ? key.unwrap() : key;
    return inner instanceof z.ZodEnum ? inner.options : [];
  });
  const kinds = Adapter.options.flatMap(({ shape: { kind } }) => [...kind.values]);
  const sayings = Object.keys(shape.messages.unwrap().shape);
  const names = [...Object.keys(shape), ...choices.map(String), ...kinds, ...sayings];
  expect(names.filter((name) => !mentions(comments, name))).toEqual([]);
});

test("docs/use/agents.md shows every key of tools, modes and MCP servers", () => {
  const { text } = readPage("docs/use/agents.md");
  const { tools, modes } = CatalogFile.shape.agents.element.shape;
  const tool = (tools.unwrap().element as z.ZodPipe).out as z.ZodObject;
  const { shape: server } = CatalogFile.shape.mcp_servers.unwrap().element;
  const keys = [tool.shape, modes.unwrap().element.shape, server].flatMap((shape) => Object.keys(shape));
  expect(keys.length).toBeGreaterThan(10);
  expect(keys.filter((key) => !mentions(text, key))).toEqual([]);
});

test("docs/use/agents.md shows every key of every adapter", () => {
  const { text } = readPage("docs/use/agents.md");
  for (const { shape } of Adapter.options) {
    expect(
      Object.keys(shape).filter((key) => !mentions(text, key)),
      [...shape.kind.values].join(),
    ).toEqual([]);
    expect(text).toContain(`## ${[...shape.kind.values].join()}`);
  }
});
