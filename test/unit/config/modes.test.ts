import { expect, test } from "vitest";
import { inMode } from "../../../src/config/catalog/catalog.ts";
import { withDefinitions } from "../../../src/config/catalog/definition.ts";
import type { AgentId } from "../../../src/protocol/ids.ts";
import { makeCatalog } from "../../support/catalogs/catalog.ts";
import { faultsOf } from "../../support/catalogs/catalog-faults.ts";

const adapter = { kind: "ai-sdk", provider: "openai", model: "m" };
const CATALOG = makeCatalog([
  {
    name: "model",
    instructions: "Be brief.",
    tools: ["clock", "ask-user", { name: "web-fetch", hosts: ["example.com"] }],
    modes: [
      { name: "talk", tools: ["ask-user"] },
      { name: "work", tools: ["web-fetch", "clock"], instructions: "Look it up." },
    ],
    adapter,
  },
  { name: "plain", tools: ["clock"], adapter },
]);
const MODEL = CATALOG.agents.get("model")!;
const shown = ({ tools, instructions }: typeof MODEL) => ({ tools: tools.map(({ name }) => name), instructions });

test("an agent in a mode has the mode's tools, with their limits, and its instructions", () => {
  expect(shown(inMode(MODEL, "work"))).toEqual({
    tools: ["clock", "web-fetch"],
    instructions: "Be brief.\n\nLook it up.",
  });
  expect(inMode(MODEL, "work").tools.at(-1)).toMatchObject({ hosts: ["example.com"] });
});

test("an agent without the given mode has its first mode's tools, or all its tools if it has no modes", () => {
  const first = { tools: ["ask-user"], instructions: "Be brief." };
  expect([undefined, "gone"].map((mode) => shown(inMode(MODEL, mode)))).toEqual([first, first]);
  expect(shown(inMode(CATALOG.agents.get("plain")!, "work"))).toEqual({ tools: ["clock"], instructions: undefined });
});

test("an agent that is defined in the database has no tool that its definition lacks, in any mode", () => {
  const definition = { name: "mine" as AgentId, workspaceId: "w", basedOn: "model" as AgentId, enabled: true };
  const { agents } = withDefinitions(CATALOG, [{ ...definition, tools: ["clock"] }]);
  const mine = [...agents.values()].at(-1)!;
  expect(["talk", "work"].map((mode) => shown(inMode(mine, mode)).tools)).toEqual([[], ["clock"]]);
});

test.each([
  ["a mode twice", "tools: [clock], modes: [{ name: a }, { name: a }]", "modes[1].name: there is already a mode a"],
  [
    "a tool that the agent lacks",
    "tools: [clock], modes: [{ name: a, tools: [ask-user] }]",
    "modes[0].tools[0]: ask-user is not one of the agent's tools",
  ],
  [
    "a tool twice",
    "tools: [clock], modes: [{ name: a, tools: [clock, clock] }]",
    "modes[0].tools[1]: clock is listed twice",
  ],
  ["an invalid name", "modes: [{ name: A B }]", "modes[0].name: must be 1 to 64 of a-z 0-9 _ -"],
  ["a key that modes lack", "modes: [{ name: a, model: m }]", "modes[0].model: is not a known key"],
])("a mode with %s is a fault at its place", (_, keys, fault) => {
  const faults = faultsOf(`agents:\n  - { name: a, ${keys}, adapter: { kind: ai-sdk, provider: openai, model: m } }\n`);
  expect(faults).toEqual([expect.stringMatching(/^2:/)]);
  expect(faults[0]).toContain(` agents[0].${fault}`);
});

test.each([
  ["scripted", "kind: scripted", "agents[0].modes: must not be used with adapter scripted"],
  ["external", "kind: external", "agents[0].modes: must not be used with adapter external"],
  ["acp, with instructions", "kind: acp, profile: codex", "agents[0].modes[0].instructions: must not be used"],
])("modes of an agent of kind %s are a fault", (_, kind, fault) => {
  const faults = faultsOf(`agents:\n  - { name: a, modes: [{ name: b, instructions: c }], adapter: { ${kind} } }\n`);
  expect(faults).toEqual([expect.stringContaining(fault)]);
});
