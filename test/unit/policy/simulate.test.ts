import { readdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { logSchema } from "../../../page/build/log-schema.ts";
import { readLogFile } from "../../../page/log/log-file.ts";
import { simulate } from "../../../src/cli/simulate.ts";
import type { Catalog } from "../../../src/config/catalog/catalog.ts";
import type * as CatalogFile from "../../../src/config/catalog/catalog-file.ts";
import { readScript } from "../../../src/policy/script.ts";
import { type Play, play, ScriptFault } from "../../../src/policy/simulation.ts";
import { carCatalog } from "../../support/catalogs/car-catalog.ts";
import { makeCatalog } from "../../support/catalogs/catalog.ts";
import { writeTemporary } from "../../support/clients/callers.ts";

/** A catalogue whose text is known is not parsed again, as in a node that looks at its file. */
vi.mock("../../../src/config/catalog/catalog-file.ts", async (load) => {
  const real = await load<typeof CatalogFile>();
  const known = new Map<string, Catalog>();
  const loadCatalog = async (path: string) => {
    const reading = await real.loadCatalog(path, known.get(path));
    if (reading.ok) known.set(path, reading.catalog);
    return reading;
  };
  return { ...real, loadCatalog };
});

const FOLDER = fileURLToPath(new URL("../../../config/scripts/", import.meta.url));
const SCRIPTS = readdirSync(FOLDER);

async function run(path: string, format: "text" | "json" | "svg" = "text") {
  let printed = "";
  const failed: string[] = [];
  const out = { write: (piece: string) => (printed += piece) };
  const options = { format, usualPath: `${FOLDER}../car.yaml`, env: {} };
  const code = await simulate(path, out, options, (line) => failed.push(line));
  return { code, printed, failed };
}

function playText(text: string, catalog: Catalog): Play {
  const read = readScript(text);
  if (!read.ok) throw new Error(JSON.stringify(read.faults));
  return play(read, { catalog });
}

const failures = ({ checks }: Play) =>
  checks.flatMap(({ line, fault }) => (fault === undefined ? [] : [[line, fault]]));

test("a script is played on until what its last step began has ended", () => {
  const catalog = makeCatalog([
    { name: "music", priority: 20 },
    { name: "phone", priority: 90, adapter: { kind: "external" } },
  ]);
  for (const step of ["asks: music", "says: music"]) {
    const script = `{ steps: [{ at: "08:00", ${step}, for: 4m }], expect: [{ agent: music, heard: 4m }] }`;
    expect(failures(playText(script, catalog))).toEqual([]);
  }
  // The music waits for a call that nothing ends.
  const endless = `{ steps: [{ at: "08:00", says: music, for: 4m }, { after: 1m, asks: phone }, { says: music, for: 1m }] }`;
  expect(playText(endless, catalog).endedAt - playText(endless, catalog).startedAt).toBeGreaterThanOrEqual(60_000);
});

describe("the scripts that ship", () => {
  test.each(SCRIPTS)("%s holds, within 80 columns, and the page opens its log", async (name) => {
    const text = await run(`${FOLDER}${name}`);
    expect(text.printed).toContain("expectations hold.");
    expect([text.code, text.failed]).toEqual([0, []]);
    const tooLong = text.printed.split("\n").filter((line) => [...line].length > 80);
    expect(tooLong).toEqual([]);
    const [first] = (await run(`${FOLDER}${name}`, "json")).printed.trim().split("\n");
    const { floorId, events } = readLogFile(first!, logSchema());
    expect(floorId).toBe("u:driver");
    expect(events.length).toBeGreaterThan(5);
    const svg = await run(`${FOLDER}${name}`, "svg");
    expect(svg.printed).toMatch(/^<svg [\s\S]*<rect [\s\S]*<\/svg>\n$/);
  });
});

test("an expectation that does not hold says what is there instead, and the command fails", async () => {
  const script = [
    "steps:",
    "  - { at: '08:00', asks: music_agent }",
    "  - { asks: prompt_agent, expect: { heard: [prompt_agent, music_agent: -3], outcome: rejected } }",
    "expect: [{ agent: music_agent, heard: { at_least: 65s } }]",
  ].join("\n");
  const { code, printed } = await run(await writeTemporary("script.yaml", script, onTestFinished));
  expect(code).toBe(1);
  expect(printed.slice(printed.indexOf("✗ line"))).toMatchInlineSnapshot(`
    "✗ line 3: expected at 08:00:00 outcome: rejected
        but granted, preempted: “Music goes on beneath Navigation prompt.”
    ✗ line 3: expected at 08:00:00 heard: prompt_agent, music_agent at -3
        but heard: prompt_agent, music_agent at -14
    ✗ line 4: expected music_agent is heard at least 1 min 5 s
        but it was 0 s
    3 of 3 expectations do not hold.
    "
  `);
});

test("the faults of a script are all named with their places", async () => {
  const script = [
    "tile: x",
    "steps:",
    "  - { at: '25:00', asks: music_agent }",
    "  - { asks: music_agent, pauses: music_agent }",
    "  - { repeat: 2 }",
    "  - { after: soon, ends: music_agent }",
    "  - {}",
  ].join("\n");
  const path = await writeTemporary("script.yaml", script, onTestFinished);
  const { code, failed } = await run(path);
  expect(code).toBe(1);
  expect(failed.map((line) => line.replace(path, "script.yaml"))).toMatchInlineSnapshot(`
    [
      "script.yaml:1:1 tile: is not a known key; did you mean title?",
      "script.yaml:3:11 steps[0].at: must be a time of day, as in 18:05, 18:05:30 or sat 18:05",
      "script.yaml:4:5 steps[1]: must do one thing, not asks and pauses",
      "script.yaml:5:5 steps[2]: needs both repeat and steps",
      "script.yaml:6:14 steps[3].after: must be a duration: a whole number and ms, s, m, h or d, as in 30s",
      "script.yaml:7:5 steps[4]: must do something (asks, says, hears, schedules, what_if, inquires, answers, cancels, resumes, pauses, ends, dies, returns, switches, moves, set, clear, clock, catalogue, stop, disable, enable, repeat), expect something or let time pass (at, after)",
    ]
  `);
  expect((await run(`${path}.missing`)).code).toBe(2);
});

const KNOWN = `
agents:
  - { name: music, priority: 20 }
  - { name: phone, priority: 90 }
  - { name: radio, priority: 30, adapter: { kind: external } }
restrictions:
  - { name: r, when: reverse, allow: [phone] }
`;

/** The faults of a script whose first step asks for the music. */
async function faultsOf(steps: string, expected = ""): Promise<string[]> {
  const catalog = await writeTemporary("known.yaml", KNOWN, onTestFinished);
  const text = `catalogue: ${catalog}\nsteps:\n  - { at: "08:00", asks: music }\n${steps}\n${expected}`;
  const path = await writeTemporary("names.yaml", text, onTestFinished);
  const { code, failed, printed } = await run(path);
  expect([code, printed]).toEqual([failed.length > 0 ? 1 : 0, failed.length > 0 ? "" : printed]);
  return failed.map((line) => line.slice(path.length + 1));
}

test.each([
  ["asks: phnoe", "4:13 steps[1].asks: there is no agent phnoe; did you mean phone?"],
  ["asks: phnoe, expect: { outcome: rejected }", "4:13 steps[1].asks: there is no agent phnoe; did you mean phone?"],
  ["says: musik", "4:13 steps[1].says: there is neither a session nor an agent musik; did you mean music?"],
  ["says: musik, as: one", "4:13 steps[1].says: there is no agent musik; did you mean music?"],
  ["says: radio", "4:13 steps[1].says: radio is external and takes no turns: use asks"],
  ["disable: musik", "4:16 steps[1].disable: there is no agent musik; did you mean music?"],
  ["switches: music, to: phnoe", "4:28 steps[1].to: there is no agent phnoe; did you mean phone?"],
  ["set: revers", "4:12 steps[1].set: the catalogue names no flag revers; did you mean reverse?"],
  ["pauses: phone", "4:15 steps[1].pauses: no step up to here begins a session phone"],
  ["ends: music-2", "4:13 steps[1].ends: no step up to here begins a session music-2"],
  [
    "asks: phone, expect: { silent: [musik] }",
    "4:39 steps[1].expect.silent[0]: no step up to here begins a session musik; did you mean music?",
  ],
  [
    "asks: phone, expect: { heard: [phnoe] }",
    "4:38 steps[1].expect.heard[0]: no step up to here begins a session phnoe; did you mean phone?",
  ],
  ["after: 1s, expect: { ended: [phone] }", "4:36 steps[1].expect.ended[0]: no step up to here begins a session phone"],
  ["schedules: musik, in: 1m", "4:18 steps[1].schedules: there is no agent musik; did you mean music?"],
  ["schedules: music", "4:5 steps[1]: needs schedules with one of in, due and every"],
  ["schedules: music, in: 1m, due: '09:00'", "4:5 steps[1]: needs schedules with one of in, due and every"],
  ["schedules: music, every: 0 25 * * *", "4:32 steps[1].every: 25 is no hour of cron"],
  ["asks: music, turn: true", "4:5 steps[1]: must not have turn without schedules"],
  ["moves: musik, zone: rear", "4:14 steps[1].moves: no step up to here begins a session musik; did you mean music?"],
  ["moves: music, zone: rera", "4:27 steps[1].zone: zones of the script names no zone rera; did you mean rear?"],
  ["after: 1s, expect: {}", "4:26 steps[1].expect: expects nothing"],
  ["after: 1s, expect: { silent: [] }", "4:36 steps[1].expect.silent: names no session, so it cannot fail"],
])(
  "a script with a wrong name, or an expectation that cannot fail, is refused before it is played: %s",
  async (step, fault) => {
    expect(await faultsOf(`  - { ${step} }`, "zones: [rear]")).toEqual([fault]);
  },
);

test.each([
  ["agent: phnoe, rejected: 0", "6:14 expect[0].agent: there is no agent phnoe; did you mean phone?"],
  [
    "agent: phone, rejected: 0",
    "6:14 expect[0].agent: no step begins a session of phone: what is expected of it says nothing",
  ],
  ["agent: music", "6:5 expect[0]: expects nothing of music"],
  ["agent: music, heard: { at_least: 0s }", "6:28 expect[0].heard: allows any value, so it cannot fail"],
])("an expectation of the whole play that cannot fail is refused: %s", async (expected, fault) => {
  expect(await faultsOf("  - { ends: music }", `expect:\n  - { ${expected} }`)).toEqual([fault]);
});

test("a step finds the sessions of earlier rounds, of other catalogues, and by their numbers", async () => {
  const other = await writeTemporary("other.yaml", "agents:\n  - { name: later, priority: 10 }\n", onTestFinished);
  const faults = await faultsOf(`
  - repeat: 3
    steps:
      - { after: 1m, asks: phone, expect: { heard: [phone] } }
      - { ends: phone, expect: { ended: [phone] } }
  - { asks: phone, expect: { heard: [phone-4] } }
  - { says: music, expect: { silent: [music] } }
  - { ends: phone-4 }
  - { ends: music }
  - { catalogue: ${other} }
  - { asks: later, expect: { heard: [later] } }`);
  expect(faults).toEqual([]);
});

test("a session or an agent that is not there is a fault of the script's line", () => {
  const catalog = makeCatalog([{ name: "music_agent", adapter: { kind: "external" } }, { name: "chat" }]);
  for (const step of ["{ ends: music_agent }", "{ says: nobody }", "{ says: music_agent }"]) {
    expect(() => playText(`steps:\n  - ${step}`, catalog), step).toThrow(ScriptFault);
  }
});

test("a participant is alive until it dies, through hours without a step", () => {
  const script = `
steps:
  - { at: "08:00", asks: music_agent }
  - { after: 10h, expect: { heard: [music_agent] } }
  - { dies: music_agent }
  - { after: 4900ms, expect: { heard: [music_agent] } }
  - { after: 2700ms, expect: { heard: [], silent: [music_agent] } }
  - { returns: music_agent }
  - { resumes: music_agent, expect: { outcome: granted } }
  - { after: 1h, expect: { heard: [music_agent] } }
`;
  const music = { name: "music_agent", adapter: { kind: "external" }, lease: "5s", max_hold: "11h" };
  expect(failures(playText(script, makeCatalog([music, { name: "chat" }])))).toEqual([]);
});

test("a rule of the hour counts by the script's time zone, and by a clock that is set", () => {
  const rule = { name: "night", agents: ["music"], between: "22:00-07:00", timezone: "Asia/Shanghai", adjust: -10 };
  const agents = [
    { name: "music", priority: 20 },
    { name: "chat", priority: 15 },
  ];
  const catalog = makeCatalog(agents, { priority_rules: [rule] });
  const script = `
timezone: Asia/Shanghai
steps:
  - { at: "21:59", asks: music }
  - { asks: chat, expect: { outcome: rejected } }
  - { ends: music }
  - { clock: "22:00" }
  - { asks: music }
  - { asks: chat, expect: { reason: preempted } }
  - { at: "07:00", expect: { silent: [music] } }
  - { ends: chat, expect: { heard: [music] } }
expect:
  - { agent: music, silent: 9h, heard: 0s }
`;
  expect(failures(playText(script, catalog))).toEqual([]);
});

test("the hours of a restriction count on their days, by its own time zone", () => {
  const siesta = { name: "siesta", between: "13:00-15:00", days: ["mon"], timezone: "Europe/Berlin", allow: ["call"] };
  const agents = [{ name: "music" }, { name: "call", priority: 90 }];
  const script = `
timezone: UTC
steps:
  - { at: "11:59", asks: music, expect: { heard: [music] } }
  - { at: "12:00", expect: { silent: [music] } }
  - { asks: call, expect: { heard: [call] } }
  - { ends: call, expect: { silent: [music] } }
  - { at: "14:00", expect: { heard: [music] } }
  - { after: 22h, expect: { heard: [music] } }
`;
  expect(failures(playText(script, makeCatalog(agents, { restrictions: [siesta] })))).toEqual([]);
  const everyDay = makeCatalog(agents, { restrictions: [{ ...siesta, days: undefined }] });
  expect(failures(playText(script, everyDay))).not.toEqual([]);
});

const CALLED = (talk: object) =>
  makeCatalog([
    { name: "talk", priority: 20, ...talk },
    { name: "call", priority: 90 },
  ]);

test("a turn goes on while it is held, as its agent does, and ends with the resume at the earliest", () => {
  const script = `
steps:
  - { at: "08:00", says: talk, for: 60s }
  - { after: 20s, asks: call, for: 30s }
  - { after: 30s, expect: { heard: [talk] } }
  - { after: 9s, expect: { heard: [talk] } }
  - { after: 1s, expect: { ended: [talk] } }
  - { says: talk, for: 60s }
  - { after: 20s, asks: call, for: 1h }
  - { after: 59m, expect: { silent: [talk] } }
  - { after: 1m, expect: { ended: [talk] } }
  - { says: talk, fails: true }
  - { after: 2s, expect: { silent: [talk] } }
`;
  expect(failures(playText(script, CALLED({ after_turn: "archive" })))).toEqual([]);
});

test("a turn ends when the script says so, done or failed, and only if it runs", () => {
  const script = `
steps:
  - { at: "08:00", says: talk, for: 60s }
  - { after: 20s, answers: talk, expect: { ended: [talk] } }
  - { says: talk }
  - { answers: talk, fails: true, expect: { silent: [talk] } }
`;
  const catalog = CALLED({ after_turn: "archive" });
  expect(failures(playText(script, catalog))).toEqual([]);
  expect(() => playText(`${script}  - { answers: talk }\n`, catalog)).toThrow("line 7: no turn runs in talk");
});

test("a question waits for answer_within, or with heard as long as its session is heard", () => {
  const played = (answer_within: object | string, sinceCall: string) => {
    const script = `
steps:
  - { at: "08:00", says: talk, for: 5s }
  - { after: 1s, inquires: talk }
  - { after: 10s, asks: call, for: 1h, expect: { heard: [call], silent: [talk] } }
  - { after: 1h, expect: { heard: [talk] } }
  - { after: ${sinceCall}, answers: talk, expect: { ended: [talk] } }
`;
    return failures(playText(script, CALLED({ after_turn: "archive", answer_within })));
  };
  expect(played({ heard: "20s" }, "9s")).toEqual([]);
  expect(() => played({ heard: "20s" }, "10s")).toThrow("line 7: no turn runs in talk");
  expect(() => played("20s", "1s")).toThrow("line 7: no turn runs in talk");
});

test("a step of a session that is not there says whether it was refused, has ended or has not begun", () => {
  const playing =
    (...steps: string[]) =>
    () =>
      playText(`steps:\n${steps.map((step) => `  - { ${step} }\n`).join("")}`, CALLED({}));
  expect(playing("asks: call", "asks: talk, as: x1", "ends: x1")).toThrow(
    "line 4: there is no session x1: it was refused on line 3",
  );
  expect(playing("asks: talk, as: x1", "ends: x1", "ends: x1")).toThrow("line 4: there is no session x1: it has ended");
  expect(playing("ends: x1", "asks: talk, as: x1")).toThrow(
    "line 2: there is no session x1 yet: no earlier step begins one of this name",
  );
});

test("a question that is answered ends with its turn, and only a turn that runs asks one", () => {
  const script = `
steps:
  - { at: "08:00", says: talk, for: 5s }
  - { inquires: talk }
  - { after: 1h, expect: { heard: [talk] } }
  - { answers: talk, expect: { ended: [talk] } }
  - { says: talk }
  - { inquires: talk }
  - { cancels: talk, expect: { silent: [talk] } }
`;
  const catalog = CALLED({ after_turn: "archive", answer_within: "2h" });
  expect(failures(playText(script, catalog))).toEqual([]);
  expect(() => playText(`${script}  - { inquires: talk }\n`, catalog)).toThrow("line 10: no turn runs in talk");
});

test("a turn ends while its session is silent or waits: it is cancelled, or its end was under way", () => {
  const script = `
steps:
  - { at: "08:00", says: talk, for: 60s }
  - { asks: call, expect: { heard: [call] } }
  - { cancels: talk }
  - { ends: call, expect: { silent: [talk], floor: free } }
  - { says: talk, for: 60s, expect: { heard: [talk] } }
  - { asks: call }
  - { answers: talk, expect: { silent: [talk] } }
  - { says: talk, expect: { outcome: queued } }
  - { cancels: talk }
  - { ends: call, expect: { floor: free } }
`;
  const catalog = CALLED({ after_turn: "yield", when_blocked: "queue" });
  expect(failures(playText(script, catalog))).toEqual([]);
  expect(() => playText(`${script}  - { cancels: talk }\n`, catalog)).toThrow("line 13: no turn runs or waits in talk");
});

test("a session asks at its time: in a while, when it is due, and again and again by the clocks of a zone", () => {
  const script = `
day: 2026-03-27
timezone: Europe/Berlin
steps:
  - { at: "06:00", schedules: talk, as: timer, in: 10m, for: 1m }
  - { schedules: talk, as: alarm, due: "06:20", turn: true, for: 30s }
  - { schedules: talk, as: brief, every: "0 7 * * *", turn: true, for: 1m, expect: { floor: free } }
  - { after: 10m, expect: { heard: [timer] } }
  - { after: 1m, expect: { ended: [timer] } }
  - { at: "06:19", asks: call }
  - { at: "06:20", expect: { heard: [call], silent: [alarm] } }
  - { at: "06:21", ends: call, expect: { heard: [alarm] } }
  - { after: 30s, expect: { ended: [alarm], silent: [brief] } }
  - { at: "07:00", expect: { heard: [brief] } }
  - { after: 1m, expect: { floor: free, silent: [brief] } }
  # In the night to Sunday the clocks go on by an hour.
  - { at: "sun 07:00", expect: { heard: [brief] } }
  - { ends: brief, expect: { silent: [brief] } }
  - { ends: brief, expect: { ended: [brief] } }
  - { at: "mon 07:00", expect: { floor: free } }
expect:
  - { agent: talk, granted: 5, queued: 1 }
`;
  expect(failures(playText(script, CALLED({ when_blocked: "queue", after_turn: "archive" })))).toEqual([]);
  const refused = `
steps:
  - { at: "08:00", asks: call }
  - { schedules: talk, in: 1m }
  - { schedules: talk, as: brief, every: "*/5 * * * *" }
  - { after: 30m, expect: { heard: [call] } }
expect:
  - { agent: talk, granted: 0, rejected: 7 }
`;
  expect(failures(playText(refused, CALLED({})))).toEqual([]);
});

test("a session that moves goes on on the floor of the other zone, waits there, or stays where it is", () => {
  const script = `
zones: [rear, front]
steps:
  - { at: "08:00", says: talk, for: 60s }
  - { after: 10s, moves: talk, zone: rear, expect: { outcome: granted, heard: [talk] } }
  - { expect: { floor: free } }
  - { after: 59s, zone: rear, expect: { heard: [talk] } }
  - { after: 1s, zone: rear, expect: { floor: free, ended: [talk] } }
  - { asks: call, zone: rear }
  - { says: talk, for: 5s, expect: { heard: [talk] } }
  - { moves: talk, zone: rear, expect: { outcome: queued, silent: [talk], heard: [call] } }
  - { expect: { floor: free } }
  - { ends: call, expect: { heard: [talk] } }
  - { moves: talk, expect: { heard: [talk] } }
  - { asks: call, zone: front }
  - { stop: front, expect: { floor: free } }
  - { zone: front, expect: { heard: [call] } }
`;
  const { floors } = playText(script, CALLED({ when_blocked: "queue", after_turn: "archive" }));
  expect(floors.map(({ floorId }) => floorId)).toEqual(["u:driver", "u:driver/rear", "u:driver/front"]);
  expect(failures(playText(script, CALLED({ when_blocked: "queue", after_turn: "archive" })))).toEqual([]);
  const refused = `
zones: [rear]
steps:
  - { at: "08:00", asks: call, zone: rear }
  - { says: talk }
  - { moves: talk, zone: rear, expect: { outcome: rejected, heard: [call] } }
  - { expect: { heard: [talk] } }
`;
  expect(failures(playText(refused, CALLED({})))).toEqual([]);
  expect(() => playText(`${refused}  - { moves: talk }\n`, CALLED({}))).toThrow(
    "line 8: talk is on this floor already",
  );
  const asleep =
    'zones: [rear]\nsteps:\n  - { at: "08:00", schedules: talk, in: 1m }\n  - { moves: talk, zone: rear }\n';
  expect(() => playText(asleep, CALLED({}))).toThrow("line 4: talk waits for its time");
});

test("the log of a play on several floors has a line for each of them, which a replay reads", async () => {
  const text = `zones: [rear]\nsteps:\n  - { at: "08:00", asks: music_agent }\n  - { moves: music_agent, zone: rear }\n`;
  const path = await writeTemporary("moves.yaml", text, onTestFinished);
  const { printed, code } = await run(path, "json");
  const logs = printed
    .trim()
    .split("\n")
    .map((line) => readLogFile(line, logSchema()));
  expect([code, ...logs.map(({ floorId }) => floorId)]).toEqual([0, "u:driver", "u:driver/rear"]);
});

test("a series is told by its name in what is printed", async () => {
  const text =
    'steps:\n  - { at: "08:00", schedules: prompt_agent, as: brief, every: "*/5 * * * *" }\n  - { after: 6m }\n';
  const { printed } = await run(await writeTemporary("series.yaml", text, onTestFinished));
  expect(printed).toMatch(/08:05:00 {2}brief {2}▶ has the floor/);
});

test("a turn that a pause ends begins again with the resume", () => {
  const script = `
steps:
  - { at: "08:00", says: talk, for: 60s }
  - { after: 59s, asks: call, for: 30s }
  - { after: 89s, expect: { heard: [talk] } }
  - { after: 1s, expect: { ended: [talk] } }
`;
  const adapter = { kind: "scripted", yields: "abort" };
  expect(failures(playText(script, CALLED({ after_turn: "archive", adapter })))).toEqual([]);
});

test.each(["hold", "abort"])("a turn that interrupts another ends in its own time, also in a call (%s)", (yields) => {
  const script = `
steps:
  - { at: "08:00", says: talk, for: 10m }
  - { after: 1s, says: talk, for: 2s }
  - { after: 1s, expect: { heard: [talk] } }
  - { after: 1s, expect: { ended: [talk] } }
  - { says: talk, for: 10m }
  - { after: 1s, asks: call, for: 10s }
  - { after: 1s, says: talk, for: 2s, expect: { silent: [talk] } }
  - { after: 10s, expect: { heard: [talk] } }
  - { after: 1s, expect: { ended: [talk] } }
`;
  const keys = { when_busy: "interrupt", when_blocked: "queue", after_turn: "archive" };
  const catalog = CALLED({ ...keys, adapter: { kind: "scripted", yields } });
  expect(failures(playText(script, catalog))).toEqual([]);
});

test("the page opens the log of a turn that fails", async () => {
  const script = `
catalogue: ${FOLDER}../agents_config.yaml
steps:
  - { at: "08:00", says: chat_agent, fails: true }
  - { after: 1m, expect: { heard: [chat_agent] } }
`;
  const path = await writeTemporary("fails.yaml", script, onTestFinished);
  const { events } = readLogFile((await run(path, "json")).printed, logSchema());
  expect(events.map(({ type }) => type)).toContain("error");
});

test("a year of days is played on one floor, whose memory does not grow with the days", () => {
  const script = `
steps:
  - repeat: 365
    steps:
      - { at: "07:30", asks: music_agent }
      - { after: 5m, asks: prompt_agent, for: 4s }
      - { after: 5m, asks: phone_agent, for: 3m }
      - { after: 20m, ends: music_agent }
expect:
  - { agent: phone_agent, granted: 365, rejected: 0 }
  - { agent: music_agent, silent: 1095m }
`;
  const { checks, startedAt, endedAt } = playText(script, carCatalog());
  expect(checks.filter(({ fault }) => fault)).toEqual([]);
  expect(Math.round((endedAt - startedAt) / 86_400_000)).toBe(364);
});

describe("sentences", () => {
  const catalog = makeCatalog(
    [
      { name: "dialog", priority: 40, after_turn: "yield" },
      { name: "chat", priority: 10 },
      { name: "navigation", priority: 80, interruptible: false },
      { name: "router" },
    ],
    {
      default_agent: "dialog",
      routing: [
        { says: "mhm", ignore: true },
        { says: "joke", agent: "chat" },
        { continues: "30s" },
        { ask: "router", among: ["navigation"] },
      ],
    },
  );

  test("a script says sentences, and expects who hears them and what is decided", () => {
    const script = `steps:
  - { at: "08:00", hears: take me home, router: navigation, expect: { agent: navigation, outcome: granted } }
  - { after: 2s, hears: tell me a joke, expect: { agent: chat, outcome: rejected, heard: [navigation] } }
  - { after: 1s, hears: mhm, expect: { ignored: true, heard: [navigation] } }
  - { after: 60s, hears: take me there, router: navigation, expect: { agent: navigation, heard: [navigation] } }
  - { ends: navigation }
  - { after: 60s, hears: hello, expect: { agent: dialog, ignored: false, heard: [dialog] } }
  - { after: 20s, hears: and then, expect: { agent: dialog, heard: [dialog] } }
  - { after: 60s, hears: hello, as: other, expect: { agent: dialog, heard: [other] } }`;
    const played = playText(script, catalog);
    expect(failures(played)).toEqual([]);
    expect(played.checks).toHaveLength(16);
    const routed = played.events.filter(({ type }) => type === "routed");
    expect(routed.map(({ data }) => (data as { by: string }).by)).toEqual([
      ...["ask", "says", "says", "ask", "default", "continues", "default"],
    ]);
    // What an agent that is heard is told goes on in its session, which asks for nothing.
    const decisions = played.events.flatMap((event) => (event.type === "arbitration" ? [event.data] : []));
    expect(decisions.filter(({ outcome }) => outcome === "rejected")).toHaveLength(1);
  });

  test("a sentence, and what a decision says, may have a text for each language: the step's locale chooses", () => {
    const steps = (say: string) => `steps:
  - { at: "08:00", hears: take me home, router: navigation }
  - after: 2s
    locale: zh
    hears: { en: nothing that it knows, zh: tell me a joke }
    shows: { en: chat is refused, zh: 拒绝 }
    expect: { agent: chat, outcome: rejected, say: { en: no, zh: ${say} } }`;
    const { checks } = playText(steps("Navigation进行中；Chat需要等待。"), catalog);
    expect(checks.map(({ fault }) => fault)).toEqual([undefined, undefined, undefined]);
    expect(failures(playText(steps("other"), catalog))).toEqual([
      [3, "rejected, lower_priority: “Navigation进行中；Chat需要等待。”"],
    ]);
  });

  test("a script asks what a request would get, and nothing happens", () => {
    const { checks, events } = playText(
      `steps:
  - { at: "08:00", asks: navigation }
  - { what_if: chat, expect: { outcome: rejected, reason: lower_priority, heard: [navigation] } }
  - { ends: navigation }
  - { what_if: chat, expect: { outcome: granted, reason: floor_free, floor: free } }`,
      catalog,
    );
    expect(checks.filter(({ fault }) => fault !== undefined)).toEqual([]);
    expect(checks).toHaveLength(6);
    const decided = events.filter(({ type }) => type === "arbitration");
    expect(decided.map(({ sessionId }) => sessionId)).toEqual(["navigation"]);
  });

  test("the story tells once who hears a sentence, also where that is nobody or leaves no session", async () => {
    const agents = "agents: [{ name: phone, priority: 90, adapter: { kind: external } }, { name: chat }]";
    const routing = "routing: [{ says: mhm, ignore: true }, { says: joke, agent: chat }]";
    const catalogue = await writeTemporary("agents.yaml", `${agents}\n${routing}`, onTestFinished);
    const steps = ["asks: phone", "hears: mhm", "hears: a joke"].map((step) => `{ after: 2s, ${step} }`);
    const script = `{ catalogue: "${catalogue}", steps: [${steps}] }`;
    const { printed } = await run(await writeTemporary("script.yaml", script, onTestFinished));
    expect(printed.split("\n").filter((line) => line.includes("‹"))).toEqual([
      "00:00:04         ‹ nobody hears the sentence: row 1 of routing fits it",
      "00:00:06  chat   ‹ hears the sentence: row 2 of routing fits it",
    ]);
  });

  test("an expectation of another agent fails, and says which row decided", () => {
    const script = `steps: [{ at: "08:00", hears: a joke, expect: { agent: dialog } }]`;
    expect(failures(playText(script, catalog))).toEqual([[1, "chat hears it, by row 2"]]);
  });
});
