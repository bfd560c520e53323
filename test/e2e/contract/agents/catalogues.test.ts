import { afterAll, expect, test } from "vitest";
import { NodeUnderTest } from "../../../support/nodes/node-under-test.ts";

const AGENTS = [
  { name: "phone", priority: 90, interruptible: false },
  { name: "music", priority: 20 },
  { name: "chat", priority: 10 },
];
const RULES = [{ name: "urgent", agents: ["chat"], when: "urgent", adjust: 50 }];
const node = await NodeUnderTest.start({ agents: AGENTS, catalog: { priority_rules: RULES } });
afterAll(() => node.stop());

const YAML = { "Content-Type": "application/yaml" };
const compare = (raw: string, query = "", at = node) =>
  at.post(`/catalogue/diff${query}`, undefined, { raw, headers: YAML });
const textOf = (agents: object[], rest: object = { priority_rules: RULES }) => JSON.stringify({ agents, ...rest });

interface Cell {
  challenger: string;
  holder: string;
  effect: string;
}

interface CatalogueAnswer {
  hash: string;
  agents: object[];
  rows: Cell[][];
  cells: { before: Cell; after: Cell }[];
  faults: object[];
}

const bodyOf = (answer: { body: unknown }) => answer.body as CatalogueAnswer;
const wordsOf = (cells: Cell[]) =>
  cells.map(({ challenger, holder, effect }) => `${challenger} over ${holder}: ${effect}`);

test("the matrix has the decision for each pair, in the order of the file", async () => {
  const { hash, agents, rows } = bodyOf(await node.get("/catalogue/matrix"));
  expect(hash).toBe((await node.get("/ready")).body.catalog.hash);
  expect(agents).toEqual(AGENTS.map(({ name: id, priority }) => ({ id, priority })));
  expect(rows.map(({ length }) => length)).toEqual([3, 3, 3]);
  const words = ["phone over music: pauses", "music over music: refused", "chat over music: refused"];
  expect(wordsOf(rows[1]!)).toEqual(words);
});

test("the matrix is made for a time, a user and flags, and refuses those that the catalogue does not name", async () => {
  const { rows } = bodyOf(await node.get("/catalogue/matrix?flag=urgent&at=23:30"));
  expect(wordsOf(rows[1]!)).toContain("chat over music: pauses");
  for (const [query, error] of [
    ["flag=urgant", "No rule and no restriction names the flag urgant; did you mean urgent?"],
    ["userId=bob", "No entry of user_preferences names bob."],
  ]) {
    expect(await node.get(`/catalogue/matrix?${query}`), query).toMatchObject({ status: 400, body: { error } });
  }
  const issues = [
    { path: "querystring.at", message: "must be a time from 00:00 to 23:59, perhaps after a day, as in sat 23:30" },
  ];
  expect(await node.get("/catalogue/matrix?at=24:00")).toMatchObject({ status: 400, body: { issues } });
});

test("the difference has each cell that changes, and the catalogue in use stays", async () => {
  const before = await node.get("/ready");
  const edited = [...AGENTS.slice(0, 1), { name: "music", priority: 5 }, AGENTS[2]!, { name: "news", priority: 1 }];
  const { status, body } = await compare(textOf(edited, { policy: { ties: "newest" } }));
  expect(status).toBe(200);
  expect(body).toMatchObject({
    hash: before.body.catalog.hash,
    added: [{ id: "news", priority: 1 }],
    removed: [],
    priorities: [{ id: "music", before: 20, after: 5 }],
    changed: ["music"],
    parts: ["policy", "priority_rules"],
  });
  const { cells } = bodyOf({ body });
  expect(wordsOf(cells.map(({ before: cell }) => cell))).toContain("chat over music: refused");
  expect(wordsOf(cells.map(({ after: cell }) => cell))).toEqual([
    "music over music: pauses",
    "chat over music: pauses",
    "music over chat: refused",
    "chat over chat: pauses",
  ]);
  expect((await node.get("/ready")).body).toEqual(before.body);
  expect((await node.get("/agents")).body.agents).toHaveLength(3);
});

test("a catalogue with faults is refused with each fault's line and column", async () => {
  const { status, body } = await compare("agents:\n  - name: a\n    priority: 101\ndefault_agent: b\n");
  expect(status).toBe(400);
  expect(body).toMatchObject({
    errorCode: "bad_request",
    error: "The catalogue has faults.",
    faults: [
      { line: 3, column: 15, path: "agents[0].priority", message: "must be at most 100, not 101" },
      { line: 4, column: 16, path: "default_agent", message: "there is no agent b" },
    ],
  });
  const empty = bodyOf(await compare(""));
  expect(empty.faults).toMatchObject([{ line: 1, message: "the file is empty: it needs at least a list of agents" }]);
  const bytes = { method: "POST", headers: YAML, body: Uint8Array.of(0x61, 0x0a, 0xff) };
  const faults = [{ line: 2, column: 1, message: "the file is not UTF-8 text" }];
  expect(await (await fetch(`${node.url}/catalogue/diff`, bytes)).json()).toMatchObject({ faults });
});

test("a body that is no YAML, too large, or has too many agents is refused with a sentence", async () => {
  const many = Array.from({ length: 101 }, (_, index) => ({ name: `a${index}` }));
  for (const [answer, status, error] of [
    [node.post("/catalogue/diff", {}), 400, "The request has another Content-Type. Send it as application/yaml."],
    [compare(" ".repeat(1_048_577)), 413, "A request has at most 1048576 bytes."],
    [compare(textOf(many, {})), 400, "A matrix shows at most 100 agents, and 101 are enabled."],
  ] as const) {
    expect(await answer).toMatchObject({ status, body: { error } });
  }
  expect((await node.post("/agents/definitions", undefined, { raw: "a: b", headers: YAML })).status).toBe(400);
});
