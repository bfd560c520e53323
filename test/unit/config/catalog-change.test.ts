import { expect, test } from "vitest";
import { CatalogFile } from "../../../src/config/catalog/catalog.ts";
import { compareCatalogs } from "../../../src/config/catalog/catalog-change.ts";
import { catalogOf } from "../../support/catalogs/catalog-faults.ts";

const AGENTS = "agents: [{ name: a }, { name: b }]";

/** Each key of the file beside `agents`, with a value that is not its default. */
const CHANGES: Readonly<Record<string, string>> = {
  budgets: "[{ per: owner, runs: 5, within: 1h }]",
  claims: "[{ name: b goes on, never: { silenced: b, by: [a] } }]",
  default_agent: "b",
  mcp_servers: "[{ name: files, command: files }]",
  policy: "{ ties: newest }",
  priority_rules: "[{ name: night, adjust: 5 }]",
  restrictions: "[{ name: reverse, when: reverse_gear }]",
  routing: "[{ says: hello, agent: b }]",
  user_preferences: "{ alice: { agent_priority_overrides: { a: 7 } } }",
};

test("the changes tried here cover every key of the file", () => {
  const keys = Object.keys(CatalogFile.shape).filter((key) => key !== "agents");
  expect(Object.keys(CHANGES).sort()).toEqual(keys.sort());
});

test.each(Object.entries(CHANGES))("a reload that changes %s alone names it, and no agent", (key, value) => {
  const change = compareCatalogs(catalogOf(AGENTS), catalogOf(`${AGENTS}\n${key}: ${value}`));
  expect(change).toEqual({ added: [], removed: [], changed: [], parts: [key] });
});

test("a reload of the same patterns changes nothing", () => {
  const text = `agents: [{ name: a, adapter: { kind: scripted, replies: [{ match: x }] } }]\nrouting: [{ says: x, agent: a }]`;
  expect(compareCatalogs(catalogOf(text), catalogOf(text))).toEqual({ added: [], removed: [], changed: [], parts: [] });
});
