import { expect, test } from "vitest";
import { definedId } from "../../../src/config/catalog/catalog.ts";
import { AgentDefinition, withDefinitions } from "../../../src/config/catalog/definition.ts";
import { type RouteAnswer, type RouteQuestion, route } from "../../../src/routing/route.ts";
import { makeCatalog } from "../../support/catalogs/catalog.ts";

const AGENTS = [
  { name: "dialog" },
  { name: "music" },
  { name: "chat" },
  { name: "off", enabled: false },
  { name: "alarm", critical: true },
  { name: "router" },
];

/** The choice for a sentence; `answer` answers what rows ask. */
function choose(
  routing: readonly object[],
  sentence: string,
  {
    answer = () => undefined,
    isOperator = true,
  }: { answer?: (asked: RouteQuestion) => RouteAnswer; isOperator?: boolean } = {},
) {
  const steps = route(makeCatalog(AGENTS, { routing, default_agent: "dialog" }), sentence, { isOperator });
  let step = steps.next();
  while (!step.done) step = steps.next(answer(step.value));
  return step.value;
}

const JOKES = { says: ["(讲|说)个笑话", "tell me a joke"], agent: "chat" };
const SONGS = { says: ["play (?<what>.+) by (?<who>.+)", "play (?<what>.+)", "joke song"], agent: "music" };

test.each([
  ["给我讲个笑话吧", "chat", 1],
  ["TELL ME A JOKE", "chat", 1],
  ["play some jazz", "music", 2],
  ["what is the weather", "dialog", 3],
])("%s goes to %s by row %i", (sentence, agent, row) => {
  expect(choose([JOKES, SONGS, { agent: "dialog" }], sentence).routed).toMatchObject({ agent, row });
});

test("the first row that fits decides, and the others whose patterns fit are alternatives, but not the row for the rest", () => {
  const { routed } = choose([JOKES, SONGS, { agent: "dialog" }], "tell me a joke, then play the joke song");
  expect(routed).toMatchObject({ agent: "chat", by: "says", row: 1, alternatives: ["music"] });
});

test("the named groups of the first pattern of the row that fits are passed on", () => {
  expect(choose([SONGS], "please play Blue by Joni").routed.groups).toEqual({ what: "Blue", who: "Joni" });
  expect(choose([SONGS], "the joke song").routed.groups).toBeUndefined();
});

test("of 1,000 patterns the one that fits decides, whatever comes after the first 1,000 characters", () => {
  const says = Array.from({ length: 999 }, (_, index) => `open the window number ${index}\\b`);
  const rows = [
    { says, agent: "chat" },
    { says: "play", agent: "music" },
  ];
  expect(choose(rows, "open the window number 998").routed).toMatchObject({ agent: "chat", row: 1 });
  expect(choose(rows, `please play ${"x".repeat(100_000)}`).routed).toMatchObject({ agent: "music", row: 2 });
  expect(choose(rows, `${"x".repeat(100_000)} play`).routed).toMatchObject({ agent: "dialog", by: "default" });
});

test("without a row that decides the default agent hears the sentence", () => {
  expect(choose([JOKES], "what is the weather").routed).toEqual({ agent: "dialog", by: "default", alternatives: [] });
});

test.each([
  ["mhm", true],
  [" Mhm… ", true],
  ["嗯。", true],
  ["okay, play music", false],
  ["mhmm", false],
  [`${" ".repeat(1_000)}mhm`, false],
])("a row with ignore takes %j only as a whole: %s", (sentence, isIgnored) => {
  const { routed } = choose([{ says: ["mhm", "嗯", "okay"], ignore: true }], sentence);
  expect(routed.ignored).toBe(isIgnored ? true : undefined);
  if (isIgnored) expect(routed).toEqual({ ignored: true, by: "says", row: 1, alternatives: [] });
});

test("rows whose agent this caller may not use are passed over, and told", () => {
  const rows = [
    { says: "help", agent: "off" },
    { says: "help", agent: "alarm" },
    { says: "help", agent: "chat" },
  ];
  const passed = [1, 2].map((row) => ({ row, why: "not_usable" }));
  expect(choose(rows, "help", { isOperator: false }).routed).toMatchObject({ agent: "chat", row: 3, passed });
  expect(choose(rows, "help").routed).toMatchObject({ agent: "alarm", row: 2, alternatives: ["chat"] });
});

test("a row with continues takes the session that goes on, or leaves the sentence to the next row", () => {
  const rows = [{ continues: "30s" }, JOKES];
  const going = { sessionId: "s1", agentId: "music" } as RouteAnswer;
  const asked: RouteQuestion[] = [];
  const answer = (question: RouteQuestion) => {
    asked.push(question);
    return going;
  };
  expect(choose(rows, "tell me a joke", { answer })).toMatchObject({
    sessionId: "s1",
    routed: { agent: "music", by: "continues", row: 1, alternatives: ["chat"] },
  });
  expect(asked).toEqual([{ kind: "continues", withinMs: 30_000 }]);
  expect(choose(rows, "tell me a joke").routed).toMatchObject({ agent: "chat", row: 2 });
});

test.each<[RouteAnswer, string, string | undefined]>([
  [{ named: "music" }, "music", undefined],
  [{ named: "dialog" }, "chat", "unknown"],
  [{ named: "off" }, "chat", "not_usable"],
  [{ why: "late" }, "chat", "late"],
  [{ why: "too_much" }, "chat", "too_much"],
])("a router that answers %j: %s hears it", (answer, agent, why) => {
  const rows = [{ ask: "router", among: ["music", "off"] }, { agent: "chat" }];
  const { routed } = choose(rows, "hm", { answer: () => answer });
  expect(routed.agent).toBe(agent);
  expect(routed.passed).toEqual(why === undefined ? undefined : [{ row: 1, why }]);
});

test("a router that may not be used is not asked", () => {
  const rows = [{ ask: "off", among: ["music"] }];
  const answer = () => {
    throw new Error("it was asked");
  };
  expect(choose(rows, "hm", { answer }).routed.passed).toEqual([{ row: 1, why: "not_usable" }]);
});

test.each(["w", "other", undefined])(
  "a router in the workspace %s cannot name an agent that is defined in a workspace, also not by its id",
  (workspaceId) => {
    const file = makeCatalog(AGENTS, {
      routing: [{ ask: "router", among: ["music"] }, { agent: "chat" }],
      default_agent: "dialog",
    });
    const catalog = withDefinitions(file, [
      AgentDefinition.parse({ name: "planner", workspaceId: "w", basedOn: "chat" }),
    ]);
    expect(catalog.agents.has(definedId("planner", "w"))).toBe(true);
    for (const named of ["planner", definedId("planner", "w")]) {
      const steps = route(catalog, "plan", { isOperator: true, workspaceId });
      steps.next();
      const { value } = steps.next({ named });
      expect(value).toMatchObject({ routed: { agent: "chat", passed: [{ row: 1, why: "unknown" }] } });
    }
  },
);
