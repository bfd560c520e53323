import { describe, expect, test } from "vitest";
import type { AgentId } from "../../../src/protocol/ids.ts";
import { testRegistry } from "../../support/agents/test-registry.ts";
import { makeCatalog } from "../../support/catalogs/catalog.ts";

const id = (name: string) => name as AgentId;
const aiSdk = (name: string, adapter: object = {}) => ({
  name,
  adapter: { kind: "ai-sdk", provider: "openai", model: "m", ...adapter },
});

describe("finding an agent", () => {
  test("an agent behaves as its catalogue entry says", () => {
    const patient = aiSdk("patient", { yields: "hold", restartable: true });
    const catalog = makeCatalog([{ name: "song" }, aiSdk("model"), patient]);
    const registry = testRegistry({ catalog: () => catalog, env: {} });
    expect(["song", "model", "patient"].map((name) => registry.find(id(name)))).toMatchObject([
      { yields: "hold", restartable: true },
      { yields: "abort", restartable: false },
      { yields: "hold", restartable: true },
    ]);
  });

  test("an agent stays the same object while the catalogue keeps its entry, and is a new one afterwards", () => {
    let catalog = makeCatalog([{ name: "a" }, { name: "b" }]);
    const registry = testRegistry({ catalog: () => catalog, env: {} });
    const [a, b] = [registry.find(id("a")), registry.find(id("b"))];
    expect(registry.find(id("a"))).toBe(a);
    const changed = makeCatalog([{ name: "b", adapter: { kind: "scripted", yields: "abort" } }]);
    catalog = { ...changed, agents: new Map([["a", catalog.agents.get(id("a"))!], ...changed.agents]) as never };
    expect(registry.find(id("a"))).toBe(a);
    expect(registry.find(id("b"))).not.toBe(b);
    expect(registry.find(id("b"))!.yields).toBe("abort");
  });

  test("an unknown agent is not found; a disabled one is, so that its session can end its turn", () => {
    const catalog = makeCatalog([{ name: "a" }, { name: "off", enabled: false }]);
    const registry = testRegistry({ catalog: () => catalog, env: {} });
    expect(registry.find(id("nobody"))).toBeUndefined();
    expect(registry.find(id("off"))).toBeDefined();
  });
});

describe("availability", () => {
  const catalog = makeCatalog([
    { name: "song" },
    { name: "off", enabled: false },
    aiSdk("named", { api_key_env: "MY_KEY" }),
    aiSdk("openai"),
    aiSdk("anthropic", { provider: "anthropic" }),
    aiSdk("local", { provider: "openai-compatible", base_url: "http://127.0.0.1:11434/v1" }),
  ]);
  const problems = (env: Record<string, string>) => {
    const registry = testRegistry({ catalog: () => catalog, env });
    const found: Record<string, string> = {};
    for (const name of [...catalog.agents.keys(), "nobody"]) {
      const problem = registry.findProblem(id(name));
      expect(registry.isAvailable(id(name))).toBe(problem === undefined);
      if (problem !== undefined) found[name] = problem;
    }
    return found;
  };

  test("an agent that is a program is available where the program and its folder are found", () => {
    const programs = makeCatalog([
      { name: "there", adapter: { kind: "command", command: "env" } },
      { name: "path", adapter: { kind: "acp", profile: "kimi", command: process.execPath } },
      { name: "missing", adapter: { kind: "acp", profile: "kimi" } },
      { name: "folder", adapter: { kind: "command", command: "env", cwd: "/nowhere" } },
    ]);
    const problemsOf = (isWorker: boolean) => {
      const registry = testRegistry({ catalog: () => programs, env: { PATH: "/usr/bin:/bin" }, isWorker });
      return [...programs.agents.keys()].map((name) => registry.findProblem(id(name)));
    };
    const missing = "the program kimi is not found";
    expect(problemsOf(true)).toEqual([undefined, undefined, missing, "the folder /nowhere does not exist"]);
    // A gateway does not run agents, so it cannot know which programs the workers have.
    expect(problemsOf(false)).toEqual([undefined, undefined, undefined, undefined]);
  });

  test("an agent is available if it is enabled and its key is set", () => {
    expect(problems({})).toEqual({
      off: "it is disabled",
      named: "the environment variable MY_KEY is not set",
      openai: "the environment variable OPENAI_API_KEY is not set",
      anthropic: "the environment variable ANTHROPIC_API_KEY is not set",
      nobody: "the catalogue has no such agent",
    });
    const keys = { MY_KEY: "k", OPENAI_API_KEY: "k", ANTHROPIC_API_KEY: "k" };
    expect(Object.keys(problems(keys))).toEqual(["off", "nobody"]);
  });

  test.each([
    [" \n", "is not set"],
    ["one\ntwo", "contains characters that a key cannot have"],
  ])("the key %j counts as missing, because it %s", (key, problem) => {
    expect(problems({ MY_KEY: key })["named"]).toBe(`the environment variable MY_KEY ${problem}`);
  });
});
