import { expect, test } from "vitest";
import { Adapter } from "../../../src/config/catalog/adapter.ts";
import type { AgentId } from "../../../src/protocol/ids.ts";
import { gone } from "../../support/agents/processes.ts";
import { acpAdapter, commandAdapter, programSubject } from "../../support/agents/programs.ts";
import { testRegistry } from "../../support/agents/test-registry.ts";
import { makeCatalog } from "../../support/catalogs/catalog.ts";
import { startProviderServer } from "../../support/servers/provider-server.ts";
import { WIRES } from "../../support/servers/provider-wire.ts";
import { type AgentSubject, agentContract, SPOKEN } from "./agent-contract.ts";

const AGENT = "subject" as AgentId;

/** The kinds of adapters whose agents take no turns, so that they have nothing to show. */
const WITHOUT_TURNS = ["external"];
const shown = new Set<string>(WITHOUT_TURNS);

/** @param name the kind of the adapter, and its variant after a comma */
function contractOf(name: string, make: () => Promise<AgentSubject>): void {
  shown.add(name.split(",")[0]!);
  agentContract(name, make);
}

contractOf("scripted", async (): Promise<AgentSubject> => {
  const catalog = makeCatalog([
    {
      name: AGENT,
      adapter: {
        kind: "scripted",
        replies: [
          { match: "speak", say: SPOKEN, usage: { input: 3, output: 4 } },
          { match: "stall", say: [SPOKEN[0], "never"], delay: "1h" },
          { match: "fail", fail: { code: "provider_rate_limited" } },
        ],
      },
    },
  ]);
  return {
    agent: testRegistry({ catalog: () => catalog, env: {} }).find(AGENT)!,
    speaks: () => "speak",
    stalls: () => "stall",
    fails: () => "fail",
    released: async () => {},
    close: async () => {},
  };
});

for (const [name, adapter, failing] of [
  ["acp", acpAdapter(), "limited"],
  ["command, jsonl", { ...commandAdapter("jsonl"), format: "jsonl" }, "fail"],
] as const) {
  contractOf(name, async (): Promise<AgentSubject> => {
    const subject = programSubject({}, adapter);
    return {
      agent: subject.agent,
      speaks: () => "speak",
      stalls: () => "stall",
      fails: () => failing,
      released: () => gone(subject.tag),
      close: () => subject.close(),
    };
  });
}

for (const provider of Object.keys(WIRES)) {
  contractOf(`ai-sdk, ${provider}`, async (): Promise<AgentSubject> => {
    const server = await startProviderServer();
    const adapter = { kind: "ai-sdk", provider, model: "model", base_url: server.baseUrl, api_key_env: "KEY" };
    const catalog = makeCatalog([{ name: AGENT, adapter }]);
    return {
      agent: testRegistry({ catalog: () => catalog, env: { KEY: "key" } }).find(AGENT)!,
      speaks() {
        server.willReply({ kind: "stream", text: SPOKEN, usage: { input: 3, output: 4 } });
        return "speak";
      },
      stalls() {
        server.willReply({ kind: "stream", text: SPOKEN.slice(0, 1), ending: "never" });
        return "stall";
      },
      fails() {
        server.willReply({ kind: "refusal", status: 429 });
        return "fail";
      },
      released: () => Promise.all(server.requests.map(({ closed }) => closed)),
      close: () => server.close(),
    };
  });
}

test("every kind of adapter of the catalogue keeps the contract", () => {
  const kinds = Adapter.options.flatMap(({ shape }) => [...shape.kind.values]);
  const missing = kinds.filter((kind) => !shown.has(kind));
  expect(missing, "add a contractOf for these kinds to this file").toEqual([]);
});
