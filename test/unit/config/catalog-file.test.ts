import { createHash } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { RE2JS } from "re2js";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import {
  decodeCatalogApart,
  examineApart,
  loadCatalog,
  readCatalog,
} from "../../../src/config/catalog/catalog-file.ts";
import { isMatch } from "../../../src/config/catalog/pattern.ts";
import { catalogOf, faultsOf, lines } from "../../support/catalogs/catalog-faults.ts";
import { writeTemporary } from "../../support/clients/callers.ts";

it("a valid file becomes a catalogue with every default filled in", () => {
  const { agents, defaultAgentId } = catalogOf("agents:\n  - name: music_agent\n");
  expect(agents.get("music_agent")).toMatchObject({
    id: "music_agent",
    label: "Music Agent",
    priority: 50,
    interruptible: true,
    enabled: true,
    whenBlocked: ["reject"],
    adapter: { kind: "scripted", yields: "hold" },
  });
  expect(defaultAgentId).toBe("music_agent");
});

it("a valid file's version is the first 12 hex digits of its text's SHA-256", () => {
  const text = "agents: [{ name: a }]\n";
  expect(catalogOf(text).hash).toBe(createHash("sha256").update(text).digest("hex").slice(0, 12));
});

it("a valid file may use anchors and aliases, and give all of a thousand agents the value of one anchor", () => {
  const others = Array.from({ length: 999 }, (_, index) => `  - { name: b${index}, adapter: *quiet }`);
  const first = "  - { name: a, adapter: &quiet { kind: scripted, replies: [{ say: hm }] } }";
  const { agents } = catalogOf(lines("agents:", first, ...others));
  for (const name of ["b0", "b998"]) expect(agents.get(name)?.adapter).toMatchObject({ replies: [{ say: ["hm"] }] });
});

it("a valid file may have a byte order mark and Windows line ends", () => {
  expect(readCatalog("\uFEFFagents:\r\n  - name: a\r\n").ok).toBe(true);
});

const external = "adapter: { kind: external }";
const defaultOf = (...agents: string[]) =>
  catalogOf(lines("agents:", ...agents.map((agent) => `  - { ${agent} }`))).defaultAgentId;

it("the default agent is the first enabled one that takes turns; without one, the first that is enabled", () => {
  expect(defaultOf(`name: a, ${external}`, "name: b, enabled: false", "name: c", "name: d")).toBe("c");
  expect(defaultOf(`name: a, enabled: false, ${external}`, `name: b, ${external}`, "name: c, enabled: false")).toBe(
    "b",
  );
});

it("an external default agent is a fault, because a message that names no agent needs one that takes turns", () => {
  expect(faultsOf(lines("agents:", `  - { name: a, ${external} }`, "  - name: b", "default_agent: a"))).toEqual([
    "4:16 default_agent: must not name a: an external agent takes no turns",
  ]);
});

it.each([
  ['"-14"', 'the text "-14"'],
  ["quiet", 'the text "quiet"'],
  ["true", "true"],
])("a level is a number or pause, and %s is neither", (level, shown) => {
  expect(faultsOf(lines("agents:", `  - { name: a, beneath: { all: ${level} } }`))).toEqual([
    `2:32 agents[0].beneath.all: must be pause, or a number from -60 to 0, not ${shown}`,
  ]);
});

const summaryOf = (text: string) => {
  const model = `{ name: a, adapter: { kind: ai-sdk, provider: openai, model: m${text} } }`;
  const { adapter } = catalogOf(`agents: [${model}]`).agents.get("a")!;
  return adapter.kind === "ai-sdk" ? adapter.summary : "none";
};

it("summaries of an agent with a model are off by default, and have defaults", () => {
  expect(summaryOf("")).toBeUndefined();
  expect(summaryOf(", summary: {}")).toEqual({ after: 20, keep: 4 });
  expect(summaryOf(", summary: { after: 5, keep: 0, model: n }")).toEqual({ after: 5, keep: 0, model: "n" });
});

it.each([
  ["is empty", "", "1:1 : the file is empty: it needs at least a list of agents"],
  ["has only comments", "# nothing\n", "1:1 : the file is empty: it needs at least a list of agents"],
  ["is a list", "- a\n", "1:1 : must be a map of keys and values, not a list"],
  ["is a text", "\nhello\n", '2:1 : must be a map of keys and values, not the text "hello"'],
  ["lacks the agents", "policy: {}\n", "1:1 agents: is missing; it must be a list"],
  ["is too large", `# ${"x".repeat(1_048_576)}`, "1:1 : the file is larger than 1 MiB"],
])("a file that %s has one clear fault", (_, text, fault) => {
  expect(faultsOf(text)).toEqual([fault]);
});

it("a byte order mark does not count as a column", () => {
  expect(faultsOf("\uFEFFpolcy: {}\nagents: [{ name: a }]\n")).toEqual([expect.stringMatching(/^1:1 polcy: /)]);
  expect(faultsOf("\uFEFFpolicy: {}\n")).toEqual(["1:1 agents: is missing; it must be a list"]);
});

it("a hostile file is refused for aliases that multiply", () => {
  const rungs = ["b", "c", "d", "e"].map((name, index) => {
    const below = "abcd"[index];
    return `${name}: &${name} [${`*${below},`.repeat(10)}]`;
  });
  expect(faultsOf(lines("a: &a [x]", ...rungs))).toEqual([
    expect.stringMatching(/^2:8 : aliases such as this are used more than 100 times/),
  ]);
});

it("a hostile file is refused for aliases that repeat a large value", () => {
  const large = `a: &a [${"x,".repeat(2_000)}]`;
  expect(faultsOf(lines(large, `b: [${"*a,".repeat(51)}]`))).toEqual([
    "2:5 : aliases such as this repeat more than 100000 values in all",
  ]);
});

it.each([
  ["brackets", `agents: ${"[".repeat(66)}`, "1:74"],
  ["closed brackets", `a: ${"[".repeat(80)}${"]".repeat(80)}`, "1:69"],
  ["braces", "{a: ".repeat(66), "1:262"],
  ["lists in lists", "- ".repeat(66), "1:132"],
  ["keys that are maps", "? ".repeat(66), "1:132"],
  ["maps in maps", Array.from({ length: 66 }, (_, depth) => `${" ".repeat(depth)}a:`).join("\n"), "66:67"],
  ["anchors before lists", `a: ${"&a [".repeat(66)}`, "1:264"],
])("a hostile file is refused for excessive nesting: %s", (_, text, position) => {
  expect(faultsOf(text)).toEqual([`${position} : maps and lists are nested deeper than 64 here`]);
});

it("brackets, dashes and quotes in texts and comments are not nested", () => {
  const signs = "[{- ".repeat(100);
  const text = lines(
    `agents: # ${signs}`,
    "  - name: a",
    `    label: "${"[{".repeat(60)}"`,
    `    description: '${signs}'`,
    "    instructions: |",
    `      ${signs}`,
  );
  expect(faultsOf(text)).toEqual([]);
});

it.each([
  ["brackets", "["],
  ["dashes", "- "],
  ["comments", "#\n"],
  ["quotes that are not closed", '- "a\n'],
  ["documents", "---\na: 1\n"],
])("a hostile file is refused for its number of parts, before it is parsed: 1 MB of %s", (_, unit) => {
  expect(faultsOf(unit.repeat(1_048_000 / unit.length))).toEqual([
    "1:1 : the text has too many parts: more than 400000 words and signs",
  ]);
});

describe("a large text", () => {
  const agents = Array.from({ length: 600 }, (_, index) => `  - { name: a${index}, replaces: [a1] }`);
  const rules = ["routing:", "  - { agent: a2, patterns: [hm] }"];

  it.each([
    ["without faults", lines("agents:", ...agents, ...rules)],
    ["with faults", lines("agents:", ...agents.slice(1), ...rules, "polcy: {}")],
  ])("is read as a small one is, while the event loop goes on: %s", async (_, text) => {
    const reading = decodeCatalogApart(Buffer.from(text));
    const loop = new Promise((resolve) => setImmediate(() => resolve("the event loop went on")));
    expect(await Promise.race([reading, loop])).toBe("the event loop went on");
    expect(await reading).toEqual(readCatalog(text));
  });

  it.each([
    ["a count", "(ab){900}"],
    ["a count whose sign YAML escapes", "(ab)\\x7b900}"],
    ["a class", "\\\\p{L}"],
  ])("that is short is read so too if a pattern is larger than its text: %s", async (_, pattern) => {
    const text = lines(
      "agents:",
      `  - { name: a, adapter: { kind: scripted, replies: [{ match: "${pattern}", say: hm }] } }`,
    );
    const compile = vi.spyOn(RE2JS, "compile");
    const reading = await decodeCatalogApart(Buffer.from(text));
    expect(compile).not.toHaveBeenCalled();
    expect(reading).toEqual(readCatalog(text));
  });

  it("has its schema applied in the thread alone: its patterns are compiled when they are first matched", async () => {
    const text = lines(
      "agents:",
      "  - { name: a, adapter: { kind: scripted, replies: [{ match: hm, say: hm }] } }",
      ...agents,
    );
    const compile = vi.spyOn(RE2JS, "compile");
    const reading = await decodeCatalogApart(Buffer.from(text));
    expect(compile).not.toHaveBeenCalled();
    const adapter = reading.ok ? reading.catalog.agents.get("a")!.adapter : undefined;
    expect(adapter?.kind === "scripted" && isMatch(adapter.replies[0]!.match!, "ah, HM")).toBe(true);
    expect(compile).toHaveBeenCalledOnce();
  });

  it("is read before the next one, so that their memory does not add up", async () => {
    const order: string[] = [];
    const examined = (name: string, text: string) => examineApart(text).then(() => order.push(name));
    await Promise.all([examined("large", "- !!x a\n".repeat(20_000)), examined("small", "agents: [{ name: a }]")]);
    expect(order).toEqual(["large", "small"]);
  });

  it("that takes too much memory is refused", async () => {
    const text = lines("agents:", ...agents);
    await expect(examineApart(text, 6)).rejects.toThrow("takes too much memory to read");
    expect(await examineApart(text)).toMatchObject({ ok: true });
  });
});

it("loading a file with the text of a known catalogue returns that one, and parses any other text", async () => {
  const path = await writeTemporary("agents.yaml", "agents: [{ name: a }]\n", onTestFinished);
  const known = catalogOf("agents: [{ name: a }]\n");
  const again = await loadCatalog(path, known);
  expect(again.ok && again.catalog).toBe(known);
  for (const text of ["agents: [{ name: a }]", "agents: [{ name: b }]\n", "agents: [{ nam: a }]\n"]) {
    await writeFile(path, text);
    expect(await loadCatalog(path, known)).toEqual(readCatalog(text));
  }
});

it("loading says whether a file is missing or refused", async () => {
  expect(await loadCatalog("/nowhere/agents.yaml")).toMatchObject({ unreadable: "missing" });
  expect(await loadCatalog(tmpdir())).toMatchObject({ unreadable: "refused" });
});
