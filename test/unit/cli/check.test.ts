import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeEach, expect, it } from "vitest";
import { checkCatalog } from "../../../src/cli/check/check.ts";
import { routeSentence } from "../../../src/cli/route.ts";
import { readNodeCatalog } from "../../../src/node/node-catalog.ts";
import { makeFolder } from "../../support/stores/sqlite-place.ts";

let path: string;
beforeEach(async ({ onTestFinished }) => {
  path = join((await makeFolder(onTestFinished)).folder, "agents.yaml");
});

/** The printed lines and the exit code. */
async function check(text?: string, env: Record<string, string> = {}, strict = false) {
  if (text !== undefined) await writeFile(path, text);
  let printed = "";
  const code = await checkCatalog(path, { write: (piece) => (printed += piece) }, env, { strict });
  expect(printed.endsWith("\n")).toBe(true);
  return { code, lines: printed.slice(0, -1).replaceAll(path, "FILE").split("\n") };
}

/** The warnings about a file without faults. */
async function warningsOf(text: string, env: Record<string, string> = {}): Promise<string[]> {
  const { code, lines } = await check(text, env);
  expect([code, lines[0]]).toEqual([0, expect.stringContaining("no faults")]);
  return lines.slice(1).map((line) => line.replace(/^warning: /, ""));
}

const agentsOf = (...agents: string[]) => `agents:\n${agents.map((agent) => `  - { ${agent} }\n`).join("")}`;

it("a valid file is reported in one line, with exit code 0", async () => {
  expect(await check("agents: [{ name: a }, { name: b, priority: 40 }]\n")).toEqual({
    code: 0,
    lines: [expect.stringMatching(/^FILE: 2 agents, no faults, hash [0-9a-f]{12}$/)],
  });
});

const FAULTY = "agents:\n  - name: a\n    priority: 101\ndefault_agent: b\n";
const BROKEN_TEXT = Buffer.concat([
  Buffer.from("agents:\n  - name: a\n    label: \uFFFD音 caf"),
  Uint8Array.of(0xe9),
  Buffer.from("\n    priority: 5\n"),
]);
const TOO_LARGE = "FILE:1:1 the file is larger than 1 MiB";

it.each<[what: string, make: () => Promise<unknown>, code: number, ...lines: string[]]>([
  ["is missing", async () => {}, 2, "FILE: there is no such file"],
  ["is a folder", () => mkdir(path), 2, "FILE: the file cannot be read: it is not a regular file"],
  ["is not text", () => writeFile(path, Uint8Array.of(0x61, 0xff, 0xfe)), 1, "FILE:1:2 the file is not UTF-8 text"],
  ["is in part not UTF-8", () => writeFile(path, BROKEN_TEXT), 1, "FILE:3:18 the file is not UTF-8 text"],
  ["is too large", () => writeFile(path, "#".repeat(3_000_000)), 1, TOO_LARGE],
  ["is too large for whole characters", () => writeFile(path, "音".repeat(1_000_000)), 1, TOO_LARGE],
  ["is cut within a character", () => writeFile(path, `#${"音".repeat(1_000_000)}`), 1, TOO_LARGE],
  ["is empty", () => writeFile(path, ""), 1, "FILE:1:1 the file is empty: it needs at least a list of agents"],
  [
    "has faults",
    () => writeFile(path, FAULTY),
    1,
    "FILE:3:15 agents[0].priority: must be at most 100, not 101",
    "FILE:4:16 default_agent: there is no agent b",
  ],
])(
  "of a file that %s each fault is a line with its place, and a node that starts with it says the same",
  async (_, make, code, ...lines) => {
    await make();
    expect(await check()).toEqual({ code, lines });
    const said = ["the catalogue cannot be used", ...lines.map((line) => line.replace("FILE", path))];
    await expect(readNodeCatalog(path)).rejects.toThrow(said.join("\n"));
  },
);

it("an agent whose provider's key is missing is a warning, unless it is disabled", async () => {
  const adapter = "adapter: { kind: ai-sdk, provider: openai, model: m, api_key_env: MY_KEY }";
  const text = `agents: [{ name: a, ${adapter} }, { name: b, enabled: false, ${adapter} }]\n`;
  expect(await warningsOf(text)).toEqual(["a cannot answer: the environment variable MY_KEY is not set"]);
  expect(await warningsOf(text, { MY_KEY: "sk-1" })).toEqual([]);
});

it("with --strict a warning makes the exit code 2, and a file without one has code 0", async () => {
  const player = "agents: [{ name: player, adapter: { kind: external }LEASE }, { name: a, priority: 40 }]\n";
  expect(await check(player.replace("LEASE", ""), {}, true)).toMatchObject({ code: 2, lines: { length: 2 } });
  expect((await check(player.replace("LEASE", ", lease: 5s"), {}, true)).code).toBe(0);
  expect((await check("agents: [{ name: a, priority: 101 }]\n", {}, true)).code).toBe(1);
});

/** Agents of which a warning tells, and what may stand in place of `MORE` so that there is none. */
interface Warned {
  what: string;
  agents: string[];
  warning: string;
  unless: string[];
}

it.each<Warned>([
  {
    what: "a pair in which the more important agent is refused",
    agents: [
      "name: phone, priority: 90, interruptible: false, max_hold: 1h",
      "name: navigation, priority: 80, interruptible: falseMORE",
      "name: music, priority: 20",
    ],
    warning:
      "phone (90) cannot interrupt navigation (80): navigation is not interruptible and has no preemption_threshold",
    unless: [", preemption_threshold: 95, max_hold: 1m", ", yields_to: [phone]"],
  },
  {
    what: "a pair in which the more important agent waits",
    agents: [
      "name: phone, priority: 90, when_blocked: queue, queue_timeout: 1mMORE",
      "name: navigation, priority: 80, interruptible: false, max_hold: 1h",
    ],
    warning:
      "phone (90) cannot interrupt navigation (80): navigation is not interruptible and has no preemption_threshold",
    unless: [", replaces: [navigation]"],
  },
  {
    what: "an external agent without a lease, because nothing notices that its program died",
    agents: ["name: player, adapter: { kind: external }MORE"],
    warning: "player is external and has no lease: if its program dies, its session keeps its place",
    unless: [", lease: 5s"],
  },
  {
    what: "an agent that may wait forever",
    agents: ["name: call, priority: 90", "name: news, priority: 20, when_blocked: queueMORE"],
    warning:
      "news may wait forever behind call: it has no queue_timeout, and call has neither max_hold nor idle_timeout",
    unless: [", queue_timeout: 1m"],
  },
  {
    what: "an agent that may wait forever behind a holder without a limit",
    agents: ["name: call, priority: 90MORE", "name: news, priority: 20, when_blocked: queue"],
    warning:
      "news may wait forever behind call: it has no queue_timeout, and call has neither max_hold nor idle_timeout",
    unless: [", max_hold: 1m", ", idle_timeout: 1m"],
  },
  {
    what: "a pair that allows all others beneath it, but of which neither can be ducked,",
    agents: ["name: radio, priority: 20, beneath: { all: -14 }", "name: news, priority: 30, beneath: { all: -14 }MORE"],
    warning:
      "radio and news both let all agents be heard beneath them, but neither has when_preempted: duck, so one silences " +
      "the other",
    unless: [", when_preempted: duck"],
  },
  {
    what: "a pair of which it matters who asks first",
    agents: [
      "name: prompt, priority: 80, beneath: { all: -14 }",
      "name: music, priority: 20, when_preempted: duckMORE",
    ],
    warning:
      "it matters who asks first: prompt, then music: prompt heard (music refused); " +
      "music, then prompt: prompt and music heard; if that is not meant, say it for both orders: when_blocked: " +
      "[duck, queue] of music, or beneath and when_preempted: duck of each that may be heard with another",
    unless: [", when_blocked: duck"],
  },
  {
    what: "an external agent of which a second session is refused",
    agents: ["name: phone, interruptible: false, lease: 5s, adapter: { kind: external }MORE"],
    warning:
      "a second session of phone is refused while one has the floor: yields_to: [phone] puts the first on hold, " +
      "replaces: [phone] ends it, when_blocked: queue lets the second wait",
    unless: [", yields_to: [phone]", ", replaces: [phone]"],
  },
  {
    what: "an agent that stays paused because nothing brings it back",
    agents: ["name: call, priority: 90", "name: chat, priority: 10, resume: manualMORE"],
    warning:
      "nothing brings chat back that was paused, as by call, unless its user resumes it or writes to it: set resume: " +
      "auto, or max_pause to end it some time",
    unless: [", max_pause: 1h"],
  },
])("$what is a warning, unless the catalogue says more", async ({ agents, warning, unless }) => {
  const text = agentsOf(...agents);
  expect(await warningsOf(text.replace("MORE", ""))).toEqual([warning]);
  for (const more of unless) expect(await warningsOf(text.replace("MORE", more)), more).toEqual([]);
});

it.each([
  [
    "where both agents are equal, or one is disabled",
    agentsOf(
      "name: top, priority: 90",
      "name: same, priority: 90, interruptible: false, max_hold: 1m",
      "name: off, priority: 10, interruptible: false, enabled: false",
    ).concat("policy: { ties: reject }\n"),
  ],
  [
    "for a challenger that is heard together with an uninterruptible holder",
    agentsOf(
      "name: listen, priority: 85, beneath: { prompt: -24 }",
      "name: prompt, priority: 80, interruptible: false, when_preempted: duck, when_blocked: duck",
      "name: ecall, priority: 100, critical: true, beneath: { all: 0 }",
    ),
  ],
  [
    "for an agent that comes back by itself",
    agentsOf("name: call, priority: 90", "name: chat, priority: 10, resume: auto"),
  ],
  [
    "for an agent that is never paused",
    agentsOf("name: call, priority: 90", "name: chat, priority: 95, resume: manual"),
  ],
  [
    // Another session of its own is what its user asked for.
    "for an agent that only its own sessions pause",
    "agents: [{ name: chat, resume: manual }]\npolicy: { ties: newest }\n",
  ],
])("no warning is printed %s", async (_, text) => {
  expect(await warningsOf(text)).toEqual([]);
});

it("an uninterruptible agent that a critical one silences is a warning, unless it can be ducked", async () => {
  const aboutSilence = async (level: string, phone = "") =>
    (
      await warningsOf(
        agentsOf(
          `name: chime, priority: 95, critical: true, beneath: { ${level} }`,
          `name: phone, priority: 90, interruptible: false${phone}`,
        ),
      )
    ).filter((line) => !line.includes("who asks first"));
  expect(await aboutSilence("all: 0")).toEqual([
    "chime is critical and silences phone, which is not interruptible: set when_preempted: duck for phone, and " +
      "name it in chime's beneath, so that both are heard; or set pause there",
  ]);
  expect(await aboutSilence("all: 0", ", when_preempted: duck")).toEqual([]);
  for (const level of ["phone: pause", "all: pause"]) expect(await aboutSilence(level), level).toEqual([]);
});

it("an agent may wait forever behind its equals, unless ties is newest, and behind a threshold that it does not reach", async () => {
  const about = (call: string, policy = "") =>
    warningsOf(agentsOf(`name: call, priority: ${call}`, "name: news, priority: 20, when_blocked: queue") + policy);
  const warning = expect.stringMatching(/^news may wait forever behind call/);
  expect(await about("20", "policy: { ties: reject }\n")).toEqual([warning]);
  expect(await about("20", "policy: { ties: newest }\n")).toEqual([]);
  const unreached = await about("10, interruptible: false, preemption_threshold: 30");
  expect(unreached).toEqual([expect.stringMatching(/^nothing silences call/), warning]);
  expect(await about("10, interruptible: false, preemption_threshold: 20")).toEqual([]);
});

const NEVER = "nothing silences call: it is not interruptible";
const CALL = "name: call, priority: 90, interruptible: false";
const NEWS = "name: news, priority: 20";

it("an agent that nothing can ever silence is a warning that says what to set", async () => {
  expect(await warningsOf(agentsOf(CALL, NEWS))).toEqual([
    `${NEVER}, and nothing limits how long it has the floor, so all others wait or are refused until its session ` +
      "is paused or ended: set max_hold or idle_timeout, or a preemption_threshold that others reach",
  ]);
  const [unreached] = await warningsOf(agentsOf(`${CALL}, preemption_threshold: 95`, NEWS));
  expect(unreached).toContain(`${NEVER}, no agent reaches its preemption_threshold of 95, and`);
  const [external] = await warningsOf(agentsOf(`${CALL}, lease: 5s, adapter: { kind: external }`, NEWS));
  expect(external).toContain(": set max_hold, or");
});

it.each([
  ["a limit", `${CALL}, max_hold: 1h`, NEWS],
  ["a limit of its silence", `${CALL}, idle_timeout: 10m`, NEWS],
  ["a critical one", `${CALL}, critical: true`, NEWS],
  ["a turn that ends its hold", `${CALL}, after_turn: yield`, NEWS],
  ["an agent that it yields to", `${CALL}, yields_to: [news]`, "name: news, priority: 95"],
  ["a critical agent that says so", CALL, "name: news, critical: true, beneath: { call: pause }"],
  ["an agent that replaces it", CALL, "name: news, priority: 95, replaces: [call]"],
  [
    "a rule that lifts another to its threshold",
    `${CALL}, preemption_threshold: 95`,
    NEWS,
    "priority_rules: [{ name: night, agents: [news], adjust: 80 }]",
  ],
  [
    "a user who prefers another",
    `${CALL}, preemption_threshold: 95`,
    NEWS,
    "user_preferences: { ann: { agent_priority_overrides: { news: 95 } } }",
  ],
  ["a restriction", CALL, NEWS, "restrictions: [{ name: reverse, when: reverse }]"],
])("an agent that %s silences is not one that nothing silences", async (_, call, news, rest = "") => {
  const warnings = await warningsOf(agentsOf(call, news) + rest);
  expect(warnings.filter((line) => line.includes(NEVER))).toEqual([]);
});

const trio = (rest = "", music = "", news = "") =>
  agentsOf(`name: music, priority: 20${music}`, `name: news, priority: 20${news}`, "name: chat, priority: 10") + rest;

it("equal priorities are a warning unless the catalogue says which of the two wins", async () => {
  expect(await warningsOf(trio())).toEqual([
    "music and news have the same priority 20, so whichever speaks first keeps the floor: set policy.ties if that is " +
      "meant, or other priorities",
  ]);
  // Also if only one of them can lose the floor to the other.
  const [oneWay] = await warningsOf(trio("", ", interruptible: false, max_hold: 1h"));
  expect(oneWay).toContain("music and news have the");
  expect(await warningsOf(trio("policy: { ties: newest }"))).toEqual([]);
  expect(await warningsOf(trio("", ", replaces: [news]", ", replaces: [music]"))).toEqual([]);
});

it("priorities that a rule or a user's preference makes equal are a warning", async () => {
  const rules = 'priority_rules: [{ name: night, agents: [chat], between: "22:00-07:00", adjust: 10 }]';
  expect(await warningsOf(trio(`policy: { ties: reject }\n${rules}`))).toEqual([
    'music, news and chat have the same priority 20 with the rule "night", so whichever speaks first keeps the floor: ' +
      "set other priorities",
  ]);
  // Those that are equal without it are not its doing.
  expect(await warningsOf(trio(`policy: { ties: reject }\n${rules.replace("10", "5")}`))).toEqual([]);
  const users = "user_preferences: { ann: { agent_priority_overrides: { chat: 20 } } }";
  expect(await warningsOf(trio(`policy: { ties: newest }\n${users}`))).toEqual([
    'music, news and chat have the same priority 20 for "ann", so whichever asks last gets the floor: set other ' +
      "priorities",
  ]);
});

it.each([
  ['between: "22:00-07:00"', 'between: "06:00-09:00"', "overlap in their hours"],
  ['between: "08:00-10:00", timezone: Asia/Shanghai', 'between: "01:00-03:00"', "overlap in their hours"],
  ['between: "22:00-07:00", when: rain', 'between: "06:00-09:00", when: rain', "overlap in their hours"],
  ["when: rain", "when: rain", "always apply together"],
  ['between: "22:00-07:00"', 'between: "07:00-09:00"', undefined],
  ['between: "08:00-10:00", timezone: Asia/Shanghai', 'between: "08:00-10:00"', undefined],
  ['between: "22:00-07:00", when: rain', 'between: "06:00-09:00"', undefined],
  ['between: "22:00-07:00"', "when: rain", undefined],
])("a warning tells that the rules %s and %s overlap: %s", async (one, other, overlap) => {
  const rules = `agents: [{ name: a }, { name: b, priority: 30 }]
priority_rules:
  - { name: one, agents: [a], adjust: 10, ${one} }
  - { name: other, agents: [a, b], adjust: 5, ${other} }
`;
  const warning =
    `the rules "one" and "other" ${overlap}: a changes by 15 then; if that is not meant, let the hours end where the ` +
    "others begin, or name other agents";
  expect(await warningsOf(rules)).toEqual(overlap === undefined ? [] : [warning]);
});

const rule = (fields: string) => `priority_rules: [{ name: night, ${fields} }]`;
it.each([
  ["a rule without an effect", "", rule("adjust: 0"), ['the rule "night" changes nothing: its adjust is 0']],
  [
    "a rule of disabled agents",
    "",
    rule("agents: [off], adjust: 5"),
    ['the rule "night" never matches: off cannot be used'],
  ],
  [
    "a rule whose hours are no range",
    "",
    rule('between: "07:00-07:00", adjust: 5'),
    ['the rule "night" applies all day: its hours begin and end at the same time'],
  ],
  [
    "a rule that leaves the range",
    "",
    rule("agents: [a], adjust: 60"),
    ['the rule "night" takes a (50) to 110, which counts as 100'],
  ],
  ["a rule within the range, and one of all agents", "", rule("agents: [a, off], adjust: 50"), []],
  ["a rule of all agents", "", rule("adjust: 60"), []],
  [
    "a restriction that silences no agent",
    "",
    "restrictions: [{ name: reverse, when: reverse, allow: [a] }]",
    ['the restriction "reverse" silences no agent: it allows all that may be used'],
  ],
  ["a restriction that silences one", "", "restrictions: [{ name: reverse, when: reverse, allow: [off] }]", []],
  [
    "a restriction whose hours are no range",
    "",
    'restrictions: [{ name: quiet, between: "07:00-07:00", days: [sat, sun], allow: [off] }]',
    ['the restriction "quiet" applies all day on sat, sun'],
  ],
  [
    "a restriction of every day",
    "",
    "restrictions: [{ name: quiet, days: [mon, tue, wed, thu, fri, sat, sun], allow: [off] }]",
    ['the restriction "quiet" applies all day on mon, tue, wed, thu, fri, sat, sun'],
  ],
  ["a restriction of some days", "", "restrictions: [{ name: quiet, days: [sat, sun], allow: [off] }]", []],
  [
    "an agent that gives way, although none waits",
    "idle_yields: true",
    "",
    ["a has idle_yields, which changes nothing: no agent says when_blocked: queue"],
  ],
  ["an agent that gives way to itself", "idle_yields: true, when_blocked: queue, queue_timeout: 1m", "", []],
  [
    "a placeholder that does not exist, in any language",
    'messages: { rejected: { en: "{holder} is on", zh: "{chalenger}!" }, queued: "{ holder }" }',
    "",
    [
      `a's message rejected says "{chalenger}" as it is: it is not a placeholder; did you mean challenger?`,
      `a's message queued says "{ holder }" as it is: it is not a placeholder; did you mean holder?`,
    ],
  ],
  [
    "a text in a language that does not exist",
    "messages: { rejected: { en: no, english: No }, queued: { deutsch: warten, de: warte, zh-CN: 等 } }",
    "",
    [
      `a's message rejected has a text for "english", which is no language and is never chosen: name it en, zh-CN, …`,
      `a's message queued has a text for "deutsch", which is no language and only counts as the default: name it en, zh-CN, …`,
    ],
  ],
  [
    "a holder where there is none",
    'messages: { resumed: "{challenger} after {holder}", preempted: "{challenger} before {holder.description}" }',
    "",
    ["a's message resumed names the holder, but there is none"],
  ],
])("%s is a warning where it does not do what it seems to", async (_, fields, keys, warnings) => {
  const agents = `agents: [{ name: a${fields && `, ${fields}`} }, { name: off, enabled: false }]\n${keys}\n`;
  expect(await warningsOf(agents)).toEqual(warnings);
});

it("on a terminal no line is wider than 80 columns, and in a pipe each warning is one line", async () => {
  const agents = [0, 1, 2, 3].map((index) => `{ name: ${"long_".repeat(6)}${index}, interruptible: false }`);
  await writeFile(path, `agents: [${agents.join(", ")}]\n`);
  const printed = { pipe: "", terminal: "" };
  await checkCatalog(path, { write: (piece) => (printed.pipe += piece) }, {});
  await checkCatalog(path, { isTTY: true, write: (piece) => (printed.terminal += piece) }, {});
  const lines = printed.terminal.split("\n");
  expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(80);
  const piped = printed.pipe.trimEnd().split("\n");
  expect(lines.join(" ").replaceAll(/ +/g, " ").trim()).toBe(piped.join(" "));
  expect(piped.slice(1).filter((line) => !line.startsWith("warning: "))).toEqual([]);
});

it("a long list of warnings is cut off with their number", async () => {
  const agents = Array.from({ length: 12 }, (_, index) => `name: a${index}, priority: ${index}, interruptible: false`);
  const { lines } = await check(agentsOf(...agents));
  expect(lines).toHaveLength(52);
  expect(lines.at(-1)).toBe("warning: and 17 more");
});

it("what is not looked at is said, and is no warning", async () => {
  const users = Array.from({ length: 502 }, (_, index) => `u${index}: { agent_priority_overrides: { a: 1 } }`);
  const file = `${agentsOf("name: a", "name: b, priority: 40")}user_preferences: { ${users.join(", ")} }\n`;
  const { code, lines } = await check(file, {}, true);
  expect([code, lines.slice(1)]).toEqual([
    0,
    ["not checked: whether the last 2 rules and users make agents equal: that is checked of the first 500"],
  ]);
});

it("rows of routing that never decide, shared patterns and agents that no row reaches are warned of", async () => {
  const agents = agentsOf(
    "name: a",
    "name: b, priority: 40",
    "name: c, priority: 30, enabled: false",
    "name: d, priority: 20",
  );
  const rows = [
    "{ says: [Joke, fun], agent: b }",
    "{ says: joke, agent: a }",
    "{ says: x, agent: c }",
    "{ agent: a }",
    "{ continues: 30s }",
  ];
  const routing = `routing:\n${rows.map((row) => `  - ${row}\n`).join("")}`;
  expect((await warningsOf(agents + routing)).filter((line) => line.startsWith("routing"))).toEqual([
    "routing: row 3 never decides: c is disabled",
    "routing: row 5 never comes: row 4 takes every sentence",
    "routing: rows 1 and 2 share the pattern joke: row 1 decides",
    "routing: no row reaches d: only a message that names the agent does",
  ]);
  expect((await warningsOf(agents)).filter((line) => line.startsWith("routing"))).toEqual([]);
});

it("route says who hears a sentence, and which rows the catalogue alone does not decide", async () => {
  const rows = ["{ continues: 30s }", "{ says: 'play (?<what>.+)', agent: b }", "{ ask: a, among: [b] }"];
  await writeFile(path, `${agentsOf("name: a", "name: b")}routing:\n${rows.map((row) => `  - ${row}\n`).join("")}`);
  const say = async (sentence: string, asJson = false) => {
    let printed = "";
    expect(await routeSentence(sentence, path, { write: (piece) => (printed += piece) }, asJson)).toBe(0);
    return printed;
  };
  expect(await say("play jazz")).toBe(
    "b hears it: row 2 of routing (says)\n  what: jazz\nbefore it, row 1: a session that was spoken to, or asked, within 30 s goes on\n",
  );
  expect(await say("hello")).toContain("a hears it: no row of routing fits, and it is the default agent\n");
  expect(await say("hello")).toContain("before it, row 3: a is asked, and may name b\n");
  expect(JSON.parse(await say("play jazz", true))).toMatchObject({ agent: "b", row: 2, before: [1] });
  await writeFile(path, "agents: 1");
  expect(await routeSentence("x", path, { write: () => {} }, false)).toBe(1);
});
