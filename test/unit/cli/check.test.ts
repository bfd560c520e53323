import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { checkCatalog } from "../../../src/cli/check/check.ts";
import { readNodeCatalog } from "../../../src/node/node-catalog.ts";

let folder: string;
let path: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "interlock-check-"));
  path = join(folder, "agents.yaml");
});
afterEach(() => rm(folder, { recursive: true }));

/** The printed lines and the exit code. */
async function check(
  text?: string,
  env: Record<string, string> = {},
  strict = false,
): Promise<{ code: number; lines: string[] }> {
  if (text !== undefined) await writeFile(path, text);
  let printed = "";
  const code = await checkCatalog(path, { write: (piece) => (printed += piece) }, env, { strict });
  expect(printed.endsWith("\n")).toBe(true);
  return { code, lines: printed.slice(0, -1).replaceAll(path, "FILE").split("\n") };
}

it("a valid file is reported in one line, with exit code 0", async () => {
  expect(await check("agents: [{ name: a }, { name: b, priority: 40 }]\n")).toEqual({
    code: 0,
    lines: [expect.stringMatching(/^FILE: 2 agents, no faults, hash [0-9a-f]{12}$/)],
  });
});

it("every fault is printed on a line with its place, with exit code 1", async () => {
  expect(await check("agents:\n  - name: a\n    priority: 101\ndefault_agent: b\n")).toEqual({
    code: 1,
    lines: [
      "FILE:3:15 agents[0].priority: must be at most 100, not 101",
      "FILE:4:16 default_agent: there is no agent b",
    ],
  });
  expect(await check("")).toEqual({
    code: 1,
    lines: ["FILE:1:1 the file is empty: it needs at least a list of agents"],
  });
});

it("a missing file is reported in a sentence, with exit code 2", async () => {
  expect(await check()).toEqual({ code: 2, lines: ["FILE: there is no such file"] });
});

it.each([
  ["is missing", () => Promise.resolve()],
  ["is a folder", () => mkdir(path)],
  ["is not UTF-8", () => writeFile(path, Uint8Array.of(0x61, 0xff))],
  ["has faults", () => writeFile(path, "agents:\n  - name: a\n    priority: 101\ndefault_agent: b\n")],
])("a node that starts with a file that %s names the same faults, in the same words", async (_, make) => {
  await make();
  const { lines } = await check();
  const refused = expect(readNodeCatalog(path)).rejects;
  await refused.toThrow(
    ["the catalogue cannot be used", ...lines.map((line) => line.replace("FILE", path))].join("\n"),
  );
});

it("an agent whose provider's key is missing is a warning, unless it is disabled", async () => {
  const adapter = "adapter: { kind: ai-sdk, provider: openai, model: m, api_key_env: MY_KEY }";
  const text = `agents: [{ name: a, ${adapter} }, { name: b, enabled: false, ${adapter} }]\n`;
  const first = expect.stringMatching(/no faults/);
  expect(await check(text)).toEqual({
    code: 0,
    lines: [first, "warning: a cannot answer: the environment variable MY_KEY is not set"],
  });
  expect(await check(text, { MY_KEY: "sk-1" })).toEqual({ code: 0, lines: [first] });
});

it("a pair in which the more important agent is refused is a warning", async () => {
  const { code, lines } = await check(`agents:
  - { name: phone, priority: 90, interruptible: false, max_hold: 1h }
  - { name: navigation, priority: 80, interruptible: false }
  - { name: music, priority: 20 }
`);
  expect(code).toBe(0);
  expect(lines.slice(1)).toEqual([
    "warning: phone (90) cannot interrupt navigation (80): navigation is not interruptible and has no preemption_threshold",
  ]);
});

it("with --strict a warning makes the exit code 2, and a file without one has code 0", async () => {
  const player = "agents: [{ name: player, adapter: { kind: external }LEASE }, { name: a, priority: 40 }]\n";
  expect(await check(player.replace("LEASE", ""), {}, true)).toMatchObject({ code: 2, lines: { length: 2 } });
  expect((await check(player.replace("LEASE", ", lease: 5s"), {}, true)).code).toBe(0);
  expect((await check("agents: [{ name: a, priority: 101 }]\n", {}, true)).code).toBe(1);
});

it("no warning is printed where a threshold was set, both agents are equal, or one is disabled", async () => {
  const { lines } = await check(`agents:
  - { name: top, priority: 90 }
  - { name: same, priority: 90, interruptible: false, max_hold: 1m }
  - { name: thought_of, priority: 80, interruptible: false, preemption_threshold: 95, max_hold: 1m }
  - { name: off, priority: 10, interruptible: false, enabled: false }
policy: { ties: reject }
`);
  expect(lines).toHaveLength(1);
});

it("an uninterruptible agent that a critical one silences is a warning, unless it can be ducked", async () => {
  const car = (phone: string) => `agents:
  - { name: chime, priority: 95, critical: true, beneath: { all: 0 } }
  - { name: phone, priority: 90, interruptible: false${phone} }
`;
  const linesOf = async (text: string) => (await check(text)).lines.filter((line) => !line.includes("who asks first"));
  expect((await linesOf(car(""))).slice(1)).toEqual([
    "warning: chime is critical and silences phone, which is not interruptible: set when_preempted: duck for phone, and " +
      "name it in chime's beneath, so that both are heard; or set pause there",
  ]);
  expect(await linesOf(car(", when_preempted: duck"))).toHaveLength(1);
  for (const name of ["phone", "all"]) {
    const lines = await linesOf(car("").replace("all: 0", `${name}: pause`));
    expect(lines, `${name}: pause is meant`).toHaveLength(1);
  }
});

it("an external agent without a lease is a warning, because nothing notices that its program died", async () => {
  const player = (lease: string) => `agents: [{ name: player, adapter: { kind: external }${lease} }]\n`;
  expect((await check(player(""))).lines.slice(1)).toEqual([
    "warning: player is external and has no lease: if its program dies, its session keeps its place",
  ]);
  expect((await check(player(", lease: 5s"))).lines).toHaveLength(1);
});

it("an agent that may wait forever causes a warning that names the holder, unless one of the two has a limit", async () => {
  const pair = (news: string, call: string) => `agents:
  - { name: call, priority: 90${call} }
  - { name: news, priority: 20, when_blocked: queue${news} }
`;
  expect((await check(pair("", ""))).lines.slice(1)).toEqual([
    "warning: news may wait forever behind call: it has no queue_timeout, and call has neither max_hold nor idle_timeout",
  ]);
  expect((await check(pair(", queue_timeout: 1m", ""))).lines).toHaveLength(1);
  expect((await check(pair("", ", max_hold: 1m"))).lines).toHaveLength(1);
  expect((await check(pair("", ", idle_timeout: 1m"))).lines).toHaveLength(1);
});

it("an agent may wait forever behind its equals, unless ties is newest, and behind a threshold that it does not reach", async () => {
  const pair = (call: string, policy = "") => `agents:
  - { name: call, priority: ${call} }
  - { name: news, priority: 20, when_blocked: queue }
${policy}`;
  const warning = expect.stringMatching(/^warning: news may wait forever behind call/);
  expect((await check(pair("20", "policy: { ties: reject }\n"))).lines.slice(1)).toEqual([warning]);
  expect((await check(pair("20", "policy: { ties: newest }\n"))).lines).toHaveLength(1);
  const unreached = (await check(pair("10, interruptible: false, preemption_threshold: 30"))).lines;
  expect(unreached).toEqual([expect.any(String), expect.stringMatching(/^warning: nothing silences call/), warning]);
  expect((await check(pair("10, interruptible: false, preemption_threshold: 20"))).lines).toHaveLength(1);
});

it("two agents that allow all others beneath them, but neither of which can be ducked, are a warning", async () => {
  const pair = (other: string) => `agents:
  - { name: radio, priority: 20, beneath: { all: -14 } }
  - { name: news, priority: 30, beneath: { all: -14 }${other} }
`;
  expect((await check(pair(""))).lines.slice(1)).toEqual([
    "warning: radio and news both let all agents be heard beneath them, but neither has when_preempted: duck, so one silences " +
      "the other",
  ]);
  expect((await check(pair(", when_preempted: duck"))).lines).toHaveLength(1);
});

it("no warning is printed for a challenger that is heard together with an uninterruptible holder", async () => {
  const { lines } = await check(`agents:
  - { name: listen, priority: 85, beneath: { prompt: -24 } }
  - { name: prompt, priority: 80, interruptible: false, when_preempted: duck, when_blocked: duck }
  - { name: ecall, priority: 100, critical: true, beneath: { all: 0 } }
`);
  expect(lines).toHaveLength(1);
});

it("agents of which it matters who asks first are a warning, with both orders", async () => {
  const car = (music: string) => `agents:
  - { name: prompt, priority: 80, beneath: { all: -14 } }
  - { name: music, priority: 20, when_preempted: duck${music} }
`;
  expect((await check(car(""))).lines.slice(1)).toEqual([
    "warning: it matters who asks first: prompt, then music: prompt heard (music refused); " +
      "music, then prompt: prompt and music heard",
  ]);
  expect((await check(car(", when_blocked: duck"))).lines).toHaveLength(1);
});

it("an external agent of which a second session is refused is a warning, unless the first gives way", async () => {
  const phone = (more: string) =>
    `agents: [{ name: phone, interruptible: false, lease: 5s, adapter: { kind: external }${more} }]\n`;
  expect((await check(phone(""))).lines.slice(1)).toEqual([
    "warning: a second session of phone is refused while one has the floor: yields_to: [phone] puts the first on hold, " +
      "replaces: [phone] ends it, when_blocked: queue lets the second wait",
  ]);
  for (const more of ["yields_to: [phone]", "replaces: [phone]"]) {
    expect((await check(phone(`, ${more}`))).lines).toHaveLength(1);
  }
});

describe("an agent that nothing can ever silence", () => {
  const pair = (call: string, news = "", rest = "") => `agents:
  - { name: call, priority: 90, interruptible: false${call} }
  - { name: news, priority: 20${news} }
${rest}`;
  const about = "nothing silences call: it is not interruptible";

  it("an agent that nothing can ever silence is a warning that says what to set", async () => {
    expect((await check(pair(""))).lines.slice(1)).toEqual([
      `warning: ${about}, and nothing limits how long it has the floor, so all others wait or are refused until its session ` +
        "is paused or ended: set max_hold or idle_timeout, or a preemption_threshold that others reach",
    ]);
    const unreached = (await check(pair(", preemption_threshold: 95"))).lines;
    expect(unreached[1]).toContain(`${about}, no agent reaches its preemption_threshold of 95, and`);
    expect((await check(pair(", lease: 5s, adapter: { kind: external }"))).lines[1]).toContain(": set max_hold, or");
  });

  it.each([
    ["a limit", ", max_hold: 1h"],
    ["a limit of its silence", ", idle_timeout: 10m"],
    ["a critical one", ", critical: true"],
    ["a turn that ends its hold", ", after_turn: yield"],
    ["an agent that it yields to", ", yields_to: [news]", ", priority: 95"],
    ["a critical agent that says so", "", ", critical: true, beneath: { call: pause }"],
    ["an agent that replaces it", "", ", priority: 95, replaces: [call]", ""],
    [
      "a rule that lifts another to its threshold",
      ", preemption_threshold: 95",
      "",
      "priority_rules: [{ name: night, agents: [news], adjust: 80 }]",
    ],
    [
      "a user who prefers another",
      ", preemption_threshold: 95",
      "",
      "user_preferences: { ann: { agent_priority_overrides: { news: 95 } } }",
    ],
    ["a restriction", "", "", "restrictions: [{ name: reverse, when: reverse }]"],
  ])("%s is no such agent", async (_, call, news = "", rest = "") => {
    const text = pair(call, news, rest)
      .replace("priority: 20, priority: 95", "priority: 95")
      .replace("priority: 20, critical", "critical");
    const { lines, code } = await check(text);
    expect([code, lines.filter((line) => line.includes(about))]).toEqual([0, []]);
  });
});

it("an agent that stays paused because nothing brings it back is a warning, unless it ends some time", async () => {
  const pair = (chat: string) => `agents:
  - { name: call, priority: 90 }
  - { name: chat, priority: 10, resume: manual${chat} }
`;
  expect((await check(pair(""))).lines.slice(1)).toEqual([
    "warning: nothing brings chat back that was paused, as by call, unless its user resumes it or writes to it: set resume: " +
      "auto, or max_pause to end it some time",
  ]);
  expect((await check(pair(", max_pause: 1h"))).lines).toHaveLength(1);
  expect((await check(pair("").replace("manual", "auto"))).lines).toHaveLength(1);
  // An agent that is never paused.
  expect((await check(pair("").replace("priority: 10", "priority: 95"))).lines).toHaveLength(1);
  // Another session of its own is what its user asked for.
  const alone = "agents: [{ name: chat, resume: manual }]\npolicy: { ties: newest }\n";
  expect((await check(alone)).lines).toHaveLength(1);
});

describe("a tie that decides by accident", () => {
  const trio = (rest = "", music = "") => `agents:
  - { name: music, priority: 20${music} }
  - { name: news, priority: 20 }
  - { name: chat, priority: 10 }
${rest}`;

  it("equal priorities are a warning unless the catalogue says which of the two wins", async () => {
    expect((await check(trio())).lines.slice(1)).toEqual([
      "warning: music and news have the same priority 20, so whichever speaks first keeps the floor: set policy.ties if that is " +
        "meant, or other priorities",
    ]);
    // Also if only one of them can lose the floor to the other.
    expect((await check(trio("", ", interruptible: false, max_hold: 1h"))).lines[1]).toContain(
      "music and news have the",
    );
    expect((await check(trio("policy: { ties: newest }"))).lines).toHaveLength(1);
    expect(
      (
        await check(
          trio("", ", replaces: [news]").replace("news, priority: 20", "news, priority: 20, replaces: [music]"),
        )
      ).lines,
    ).toHaveLength(1);
  });

  it("priorities that a rule or a user's preference makes equal are a warning", async () => {
    const rules = 'priority_rules: [{ name: night, agents: [chat], between: "22:00-07:00", adjust: 10 }]';
    expect((await check(trio(`policy: { ties: reject }\n${rules}`))).lines.slice(1)).toEqual([
      'warning: music, news and chat have the same priority 20 with the rule "night", so whichever speaks first keeps the floor: ' +
        "set other priorities",
    ]);
    // Those that are equal without it are not its doing.
    expect((await check(trio(`policy: { ties: reject }\n${rules.replace("10", "5")}`))).lines).toHaveLength(1);
    const users = "user_preferences: { ann: { agent_priority_overrides: { chat: 20 } } }";
    expect((await check(trio(`policy: { ties: newest }\n${users}`))).lines.slice(1)).toEqual([
      'warning: music, news and chat have the same priority 20 for "ann", so whichever asks last gets the floor: set other ' +
        "priorities",
    ]);
  });
});

describe("rules that overlap", () => {
  const two = (one: string, other: string) => `agents: [{ name: a }, { name: b, priority: 30 }]
priority_rules:
  - { name: one, agents: [a], adjust: 10, ${one} }
  - { name: other, agents: [a, b], adjust: 5, ${other} }
`;
  const warning = (when: string) =>
    `warning: the rules "one" and "other" ${when}: a changes by 15 then; if that is not meant, let the hours end where the ` +
    "others begin, or name other agents";

  it.each([
    ['between: "22:00-07:00"', 'between: "06:00-09:00"', "overlap in their hours"],
    ['between: "08:00-10:00", timezone: Asia/Shanghai', 'between: "01:00-03:00"', "overlap in their hours"],
    ['between: "22:00-07:00", when: rain', 'between: "06:00-09:00", when: rain', "overlap in their hours"],
    ["when: rain", "when: rain", "always apply together"],
  ])("%s and %s are a warning", async (one, other, when) => {
    expect((await check(two(one, other))).lines.slice(1)).toEqual([warning(when)]);
  });

  it.each([
    ['between: "22:00-07:00"', 'between: "07:00-09:00"'],
    ['between: "08:00-10:00", timezone: Asia/Shanghai', 'between: "08:00-10:00"'],
    ['between: "22:00-07:00", when: rain', 'between: "06:00-09:00"'],
    ['between: "22:00-07:00"', "when: rain"],
  ])("%s and %s are none", async (one, other) => {
    expect((await check(two(one, other))).lines).toHaveLength(1);
  });
});

it("a restriction that silences no agent is a warning", async () => {
  const text = (allow: string) => `agents: [{ name: a }, { name: b, priority: 30 }]
restrictions: [{ name: reverse, when: reverse, allow: [${allow}] }]
`;
  expect((await check(text("a, b"))).lines.slice(1)).toEqual([
    'warning: the restriction "reverse" silences no agent: it allows all that may be used',
  ]);
  expect((await check(text("a"))).lines).toHaveLength(1);
});

const rule = (fields: string) => `priority_rules: [{ name: night, ${fields} }]`;
const says = (messages: string) => `messages: ${messages}`;
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
    "a placeholder that does not exist, in any language",
    says('{ rejected: { en: "{holder} is on", zh: "{chalenger}!" }, queued: "{ holder }" }'),
    "",
    [
      `a's message rejected says "{chalenger}" as it is: it is not a placeholder; did you mean challenger?`,
      `a's message queued says "{ holder }" as it is: it is not a placeholder; did you mean holder?`,
    ],
  ],
  [
    "a holder where there is none",
    says('{ resumed: "{challenger} after {holder}", preempted: "{challenger} before {holder.description}" }'),
    "",
    ["a's message resumed names the holder, but there is none"],
  ],
])("%s is a warning where it does not do what it seems to", async (_, fields, keys, warnings) => {
  const agents = `agents: [{ name: a${fields && `, ${fields}`} }, { name: off, enabled: false }]\n${keys}\n`;
  expect((await check(agents)).lines.slice(1)).toEqual(warnings.map((warning) => `warning: ${warning}`));
});

it("on a terminal no line is wider than 80 columns, and in a pipe each warning is one line", async () => {
  const agents = Array.from(
    { length: 4 },
    (_, index) => `{ name: ${"long_".repeat(6)}${index}, interruptible: false }`,
  );
  await writeFile(path, `agents: [${agents.join(", ")}]\n`);
  const printed = { pipe: "", terminal: "" };
  await checkCatalog(path, { write: (piece) => (printed.pipe += piece) }, {});
  await checkCatalog(path, { isTTY: true, write: (piece) => (printed.terminal += piece) }, {});
  const lines = printed.terminal.split("\n");
  expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(80);
  expect(lines.join(" ").replaceAll(/ +/g, " ").trim()).toBe(printed.pipe.split("\n").join(" ").trim());
  expect(
    printed.pipe
      .trimEnd()
      .split("\n")
      .slice(1)
      .every((line) => line.startsWith("warning: ")),
  ).toBe(true);
});

it("a long list of warnings is cut off with their number", async () => {
  const agents = Array.from(
    { length: 12 },
    (_, index) => `{ name: a${index}, priority: ${index}, interruptible: false }`,
  );
  const { lines } = await check(`agents: [${agents.join(", ")}]\n`);
  expect(lines).toHaveLength(52);
  expect(lines.at(-1)).toBe("warning: and 17 more");
});
