import { fileURLToPath } from "node:url";
import { expect, onTestFinished, test } from "vitest";
import { checkCatalog, type ShownMatrix } from "../../../src/cli/check/check.ts";
import { type MatrixFormat, matrixText } from "../../../src/cli/check/matrix-text.ts";
import { carCatalog } from "../../support/catalogs/car-catalog.ts";
import { makeCatalog } from "../../support/catalogs/catalog.ts";
import { writeTemporary } from "../../support/clients/callers.ts";
import { decisionOf, FloorStage } from "../../support/floors/floor-stage.ts";

const CAR = fileURLToPath(new URL("../../../config/car.yaml", import.meta.url));

interface Pair {
  holder: string;
  challenger: string;
  effect: string;
  level?: number;
  rule: number;
}

const pairsOf = (catalog: ReturnType<typeof makeCatalog>): Pair[] => JSON.parse(matrixText(catalog, "json")).pairs;

async function print(path: string, query: MatrixFormat | ShownMatrix) {
  const matrix = typeof query === "string" ? { format: query } : query;
  let printed = "";
  const code = await checkCatalog(path, { write: (piece) => (printed += piece) }, {}, { matrix });
  return { code, printed };
}

const fileOf = (text: string) => writeTemporary("agents.yaml", text, onTestFinished);

test("each pair shows what a floor does when one agent requests it while the other has it", () => {
  const catalog = carCatalog();
  const pairs = pairsOf(catalog);
  expect(pairs).toHaveLength(catalog.agents.size ** 2);
  for (const { holder, challenger, effect, level, rule } of pairs) {
    const floor = new FloorStage(catalog);
    floor.create(holder, { id: "H" });
    const reply = floor.create(challenger, { id: "C" });
    const seen = [decisionOf(reply)?.rule, floor.state("H"), floor.state("C")];
    const levelOf = (id: string) => floor.actors.machineState(id as never)?.view.level;
    const expected = {
      // An agent with `max_pause: 0ms` does not stay paused.
      pauses: [catalog.agents.get(holder as never)?.maxPauseMs === 0 ? "archived" : "paused", "active.idle"],
      ducks: ["ducked.idle", "active.idle"],
      replaces: ["archived", "active.idle"],
      beneath: ["active.idle", "ducked.idle"],
      waits: ["active.idle", "created"],
      refused: ["active.idle", undefined],
    }[effect];
    expect(seen, `${challenger} asks of ${holder}`).toEqual([rule, ...expected!]);
    expect(level, `${challenger} asks of ${holder}`).toBe(levelOf("H") ?? levelOf("C"));
  }
});

test("a challenger of an agent with idle_yields is shown to follow it, and is heard at once if nothing runs in it", () => {
  const queue = { when_blocked: "queue" };
  const catalog = makeCatalog(
    [
      { name: "dialog", priority: 50, idle_yields: true, ...queue },
      { name: "podcast", priority: 20, ...queue },
      { name: "quiet", priority: 10 },
      { name: "hasty", priority: 5, queue_timeout: "0ms", ...queue },
    ],
    { restrictions: [{ name: "r", when: "r", allow: ["dialog", "quiet"] }] },
  );
  const rows = (flags: string[]) => {
    const { pairs } = JSON.parse(matrixText(catalog, "json", { flags })) as { pairs: Pair[] };
    return pairs.map(({ holder, challenger, effect }) => `${challenger} asks ${holder}: ${effect}`);
  };
  expect(rows([]).slice(0, 3)).toEqual([
    "dialog asks dialog: follows",
    "podcast asks dialog: follows",
    "quiet asks dialog: refused",
  ]);
  expect(rows(["r"])[1]).toBe("podcast asks dialog: waits");
  // It gives way before any wait runs out; nobody else waits for no time.
  expect(rows([])).toContain("hasty asks dialog: follows");
  expect(rows([])).toContain("hasty asks podcast: refused");
  expect(matrixText(catalog, "text")).toContain(
    "follows   the challenger waits, and gets the floor as soon as nothing runs in\n          the holder\n",
  );
  const floor = new FloorStage(catalog);
  floor.create("dialog");
  floor.create("podcast");
  expect(floor.state("podcast")).toBe("active.idle");
});

test("a session that would wait is shown as queued, and disabled agents are left out", () => {
  const pairs = pairsOf(
    makeCatalog([
      { name: "call", priority: 90 },
      { name: "news", priority: 10, when_blocked: "queue" },
      { name: "off", priority: 10, enabled: false },
    ]),
  );
  expect(pairs.map(({ holder, challenger, effect }) => `${holder}, ${challenger}: ${effect}`)).toEqual([
    "call, call: refused",
    "call, news: waits",
    "news, call: pauses",
    "news, news: waits",
  ]);
});

test("a matrix fits 80 columns with names and priorities of any length, and with the maximum number of agents", () => {
  const agents = Array.from({ length: 100 }, (_, index) => ({ name: `${"a".repeat(61)}${index}`, priority: index }));
  const lines = matrixText(makeCatalog(agents), "text").split("\n");
  expect(Math.max(...lines.map(({ length }) => length))).toBeLessThanOrEqual(80);
});

test("a matrix can be printed as a Markdown table with the same words", async () => {
  const { printed } = await print(CAR, "markdown");
  const rows = printed.split("\n").filter((line) => line.startsWith("|"));
  expect(rows).toHaveLength(10);
  for (const row of rows) expect(row.split("|")).toHaveLength(11);
  expect(rows[9]).toMatch(/^\| `music_agent` \| pauses \| ducks 0 \| pauses \|/);
});

test("the legend keeps each word apart from its meaning", async () => {
  const { printed } = await print(await fileOf(HOURS), { format: "text", flags: ["parked"] });
  expect(printed).toContain("\nrestricted  the flags or the hours do not let the holder be heard\n");
  expect(printed).toContain("\nrefused     the challenger is refused, and the holder notices nothing\n");
});

test("a matrix of too many agents is refused with a sentence", async () => {
  const agents = Array.from({ length: 101 }, (_, index) => ({ name: `a${index}` }));
  const path = await fileOf(JSON.stringify({ agents }));
  expect(await print(path, "text")).toEqual({
    code: 1,
    printed: `${path}: a matrix shows at most 100 agents, and 101 are enabled\n`,
  });
});

test("the matrix of a faulty file lists its faults", async () => {
  const { printed, code } = await print("/nowhere/agents.yaml", "json");
  expect({ printed, code }).toEqual({ code: 2, printed: "/nowhere/agents.yaml: there is no such file\n" });
});

const HOURS = `agents:
  - { name: phone, priority: 90, interruptible: false }
  - { name: music, priority: 20 }
  - { name: chat, priority: 10 }
priority_rules:
  - { name: quiet nights, agents: [phone], between: "22:00-07:00", timezone: Asia/Shanghai, adjust: -80 }
  - { name: emergency, agents: [chat], when: emergency, adjust: 50 }
restrictions:
  - { name: garage, when: parked, allow: [phone], others: stop }
  - { name: siesta, between: "13:00-15:00", days: [mon], timezone: Asia/Shanghai, allow: [phone] }
user_preferences: { ann: { agent_priority_overrides: { music: 30, chat: 35 } } }
`;

test.each<[string, Omit<ShownMatrix, "format">, string[]]>([
  ["before the hours of a rule", { minute: 21 * 60 + 59 }, ["phone over music pauses", "chat over music refused"]],
  ["in the hours of a rule", { minute: 23 * 60 + 30 }, ["phone over music refused", "chat over music refused"]],
  [
    "without a time, rules with hours do not apply",
    { userId: "ann" },
    ["phone over music pauses", "chat over music pauses"],
  ],
  ["with a flag", { flags: ["emergency"] }, ["phone over music pauses", "chat over music pauses"]],
  ["in the hours of a restriction", { minute: 14 * 60 }, ["phone over music restricted", "chat over phone refused"]],
  ["at the end of these hours", { minute: 15 * 60 }, ["phone over music pauses"]],
  ["at that time of another day", { minute: 24 * 60 + 14 * 60 }, ["phone over music pauses"]],
  ["with a restriction", { flags: ["parked"] }, ["phone over music restricted", "chat over phone refused"]],
])("a matrix %s decides as the floor would", async (_, circumstances, expected) => {
  const path = await fileOf(HOURS);
  const { code, printed } = await print(path, { format: "json", ...circumstances });
  expect(code).toBe(0);
  const { pairs } = JSON.parse(printed) as { pairs: Pair[] };
  const words = pairs.map(({ holder, challenger, effect }) => `${challenger} over ${holder} ${effect}`);
  expect(words).toEqual(expect.arrayContaining(expected));
});

test("a matrix says its circumstances, and refuses a user and a flag that the catalogue does not name", async () => {
  const path = await fileOf(HOURS);
  const told = await print(path, { format: "text", minute: 1410, userId: "ann", flags: ["emergency"] });
  expect(told.printed.split("\n")[0]).toBe("Priorities at 23:30 Asia/Shanghai, for ann, with emergency.");
  expect(told.printed).toContain("1 phone (10)");
  expect(await print(path, { format: "text", userId: "bob", flags: ["emergancy"] })).toEqual({
    code: 1,
    printed:
      `${path}: no rule and no restriction names the flag emergancy; did you mean emergency?\n` +
      `${path}: no entry of user_preferences names bob\n`,
  });
});

test("the difference of two catalogues has each cell that changes, the agents that come and go, and priorities", async () => {
  const path = await fileOf(HOURS);
  const edited = HOURS.replace("name: music, priority: 20", "name: music, priority: 5, when_blocked: queue").replace(
    "priority_rules:",
    "  - { name: news, priority: 1 }\npriority_rules:",
  );
  const diff = await fileOf(edited);
  const { code, printed } = await print(path, { format: "text", diff });
  expect(code).toBe(0);
  expect(printed.split("\n")).toEqual([
    "new agent: news (1)",
    "music: priority 20 → 5",
    "music asks while phone is heard: refused → waits",
    "music asks while music is heard: refused → waits",
    "chat asks while music is heard: refused → pauses",
    "music asks while chat is heard: pauses → waits",
    "4 cells change",
    "",
  ]);
  expect((await print(path, { format: "markdown", diff })).printed).toContain(
    "| `music` | `chat` | refused | pauses |\n",
  );
  expect(JSON.parse((await print(path, { format: "json", diff })).printed).cells).toHaveLength(4);
  expect((await print(path, { format: "text", diff: path })).printed).toBe("no cells change\n");
  expect((await print(path, { format: "text", diff: "/nowhere.yaml" })).code).toBe(2);
  // A user whom only the other catalogue names.
  const bob = await fileOf(HOURS.replace("ann:", "bob:"));
  expect((await print(path, { format: "text", diff: bob, userId: "bob" })).code).toBe(0);
});

test("a difference names the parts that it shows only with a time, a user or flags", async () => {
  const path = await fileOf(HOURS);
  const edited = HOURS.replace("adjust: 50", "adjust: 5")
    .replace("others: stop", "others: pause")
    .replace("chat: 35", "chat: 5");
  const diff = await fileOf(edited);
  expect((await print(path, { format: "text", diff })).printed.split("\n")).toEqual([
    "no cells change",
    "priority_rules differ: see what they change with --at and --flag",
    "restrictions differ: see what they change with --flag",
    "user_preferences differ: see what they change with --user",
    "",
  ]);
  expect((await print(path, { format: "text", diff, flags: ["emergency"] })).printed.split("\n")).toEqual([
    "chat: priority 60 → 15",
    "chat asks while music is heard: pauses → refused",
    "music asks while chat is heard: refused → pauses",
    "2 cells change",
    "",
  ]);
});
