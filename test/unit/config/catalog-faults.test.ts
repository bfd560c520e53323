import { expect, it } from "vitest";
import { faultsOf, lines } from "../../support/catalogs/catalog-faults.ts";

it.each([
  ["a tab", "agents:\n\t- name: a\n", "2:1 agents: the line begins with a tab"],
  [
    "a quote that is not closed",
    'agents:\n  - name: "a\n    priority: 5\n',
    "2:11 agents[0].name: the text that begins",
  ],
  [
    "a bracket that is not closed",
    "agents:\n  - { name: a\n  - name: b\n",
    "2:5 agents[0]: the bracket that opens here is not",
  ],
  [
    "a colon in plain text",
    "agents:\n  - name: a\n    label: b: c\n",
    "3:12 agents[0].label.b: a key is not allowed here",
  ],
  ["an unknown tag", "agents:\n  - name: !robot a\n", '2:11 agents[0].name: the tag "!robot" is not supported'],
  ["a second document", "agents: [{ name: a }]\n---\nagents: []\n", "2:1 : a second document begins here"],
  ["a key that is a list", "agents: [{ name: a }]\n? [b]\n: c\n", "2:3 : a key must be text"],
  [
    "a merge key",
    "agents:\n  - &a { name: a }\n  - { <<: *a, name: b }\n",
    '3:7 agents[1]["<<"]: is a merge key of YAML 1.1, which is not supported',
  ],
  ["an unknown escape", 'agents:\n  - name: "\\q"\n', "2:12 agents[0].name: invalid escape sequence"],
  ["an alias without its anchor", "agents:\n  - name: *a\n", '2:11 agents[0].name: the alias "a" has no target'],
  ["an alias within its own anchor", "agents: &a [*a]\n", '1:13 agents[0]: the alias "a" contains itself'],
  ["a character that no store keeps", 'agents:\n  - name: a\n    label: "\\0"\n', "3:12 agents[0].label: contains a"],
  ["half a surrogate pair", 'agents:\n  - name: a\n    label: "\\ud800"\n', "3:12 agents[0].label: contains a"],
  [
    "a reserved key",
    "agents: [{ name: a }]\nuser_preferences:\n  __proto__: {}\n",
    "3:3 user_preferences.__proto__: is a",
  ],
])("a syntax fault is reported with its position: %s", (_, text, fault) => {
  expect(faultsOf(text)).toEqual([expect.stringContaining(fault)]);
});

it("the text before a fault of syntax is checked, and nothing after it", () => {
  const text = lines(
    "agents:",
    "  - name: a",
    "    priority: 300",
    '  - name: "b',
    "    priority: 900",
    "default_agent: nobody",
  );
  expect(faultsOf(text)).toEqual([
    "3:15 agents[0].priority: must be at most 100, not 300",
    "4:11 agents[1].name: the text that begins here has no closing quote",
  ]);
});

it("a syntax fault is reported once where the parser loses track", () => {
  expect(faultsOf("agents:\n  - name: a\nb\n  c: [d]\n  e: f\n  g: h\n").length).toBeLessThan(4);
});

const expectOnly = (text: string, fault: string) => expect(faultsOf(text)).toEqual([expect.stringContaining(fault)]);
const oneAgent = (key: string) => lines("agents:", "  - name: a", `    ${key}`);
const MODEL = "kind: ai-sdk, provider: openai, model: m";

it.each([
  ["name: b", "3:5 agents[0].name: is a duplicate key"],
  ["prio: 5", "3:5 agents[0].prio: is not a known key; did you mean priority?"],
  ["priority: high", '3:15 agents[0].priority: must be a number, not the text "high"'],
  ["priority: 1.5", "3:15 agents[0].priority: must be a whole number, not 1.5"],
  ["priority:", "3:14 agents[0].priority: must be a number, but there is no value"],
  ["priority: -1", "3:15 agents[0].priority: must be at least 0, not -1"],
  ["priority: 101", "3:15 agents[0].priority: must be at most 100, not 101"],
  ["enabled: yes", '3:14 agents[0].enabled: must be true or false, not the text "yes"'],
  ["resume: never", '3:13 agents[0].resume: must be auto or manual, not the text "never"'],
  ["messages: { rejected: '' }", "3:27 agents[0].messages.rejected: must not be empty"],
  ["queue_timeout: 30", "3:20 agents[0].queue_timeout: must be a duration"],
  ["lease: 99999999999999d", '3:12 agents[0].lease: must be at most 1d, not the text "99999999999999d"'],
  ["priority: 1e20", "3:15 agents[0].priority: must be at most 100, not 100000000000000000000"],
  ["priority: -1e20", "3:15 agents[0].priority: must be at least 0, not -100000000000000000000"],
  ["queue_timeout: 8d", "3:20 agents[0].queue_timeout: must be at most 7d"],
  ["lease: 10ms", "3:12 agents[0].lease: must be at least 1s"],
  ["sub_agents: [b]", "3:18 agents[0].sub_agents[0]: there is no agent b"],
  ["replaces: [a, b]", "3:19 agents[0].replaces[1]: there is no agent b"],
  ["beneath: { all: 0, b: -14 }", "3:24 agents[0].beneath.b: there is no agent b"],
  ["beneath: { all: 3 }", "3:21 agents[0].beneath.all: must be"],
  ["when_blocked: [queue, reject, queue]", "3:19 agents[0].when_blocked: must not name queue twice"],
  ["when_blocked: duck", "3:19 agents[0].when_blocked: needs when_preempted: duck"],
  ["adapter: {}", "3:14 agents[0].adapter.kind: is missing; it must be scripted, ai-sdk, command, acp or external"],
  [
    "adapter: { kind: magic }",
    '3:22 agents[0].adapter.kind: must be scripted, ai-sdk, command, acp or external, not the text "magic"',
  ],
  ["adapter: { kind: scripted, summary: {} }", "3:32 agents[0].adapter.summary: is not a known key"],
  [
    'adapter: { kind: scripted, replies: [{ match: "(" }] }',
    "3:51 agents[0].adapter.replies[0].match: is not a regular expression: Unterminated group",
  ],
  [
    "adapter: { kind: scripted, replies: [{ say: 5 }] }",
    "3:49 agents[0].adapter.replies[0].say: must be text or a list",
  ],
  [
    "adapter: { kind: scripted, replies: [{ say: [b, 5] }] }",
    "3:53 agents[0].adapter.replies[0].say[1]: must be text, not 5",
  ],
  [`adapter: { ${MODEL}, base_url: 'ftp://x' }`, "3:68 agents[0].adapter.base_url: must be a URL with http or https"],
  [
    "adapter: { kind: ai-sdk, provider: openai-compatible, model: m }",
    "3:14 agents[0].adapter.base_url: is required with provider openai-compatible",
  ],
  [`adapter: { ${MODEL}, summary: { after: 0 } }`, "3:76 agents[0].adapter.summary.after: must be at least 1"],
  [`adapter: { ${MODEL}, summary: { keep: 101 } }`, "3:75 agents[0].adapter.summary.keep: must be at most 100"],
  [`adapter: { ${MODEL}, summary: { every: 3 } }`, "3:69 agents[0].adapter.summary.every: is not a known key"],
  ["adapter: { kind: external, yields: hold }", "3:32 agents[0].adapter.yields"],
])("an agent with %s has one fault, at its place: %s", (key, fault) => expectOnly(oneAgent(key), fault));

it("an agent with a text that is too long has one fault, at its place", () => {
  expectOnly(oneAgent(`label: ${"x".repeat(129)}`), "3:12 agents[0].label: must have at most 128 characters, not 129");
});

it.each([
  ["instructions", "hello"],
  ["tools", "[clock]"],
  ["max_steps", "3"],
  ["max_depth", "3"],
  ["when_busy", "enqueue"],
  ["after_turn", "yield"],
  ["idle_yields", "true"],
  ["idle_timeout", "1m", "the agent is never between two turns; max_hold"],
])("an external agent with %s: %s has one fault, at its place", (key, value, why = "the agent takes no turns") => {
  const text = lines("agents:", `  - { name: a, ${key}: ${value}, adapter: { kind: external } }`);
  expectOnly(text, `2:${18 + key.length} agents[0].${key}: has no meaning with adapter external: ${why}`);
});

it.each([
  ["[]", "1:9 agents: must not be empty"],
  ["[{ name: Music Agent }]", "1:18 agents[0].name: must be 1 to 64 of a-z 0-9 _ -"],
  ["[{ priority: 5 }]", "1:10 agents[0].name: is missing; it must be text"],
  ["[{ name: a }, { name: a }]", "1:31 agents[1].name: there is already an agent a"],
  ["[{ name: a, enabled: false }]", "1:9 agents: must have at least one agent that is enabled"],
  [
    "[{ name: b }, { name: a, critical: true, enabled: false }]",
    "1:59 agents[1].enabled: must not be false: a critical agent is never refused",
  ],
  [
    "[{ name: b, replaces: [a] }, { name: a, critical: true }]",
    "1:32 agents[0].replaces[0]: must not name a: only a critical session ends a critical one",
  ],
  ["[{ name: a, critical: true, when_blocked: queue }]", "1:51 agents[0].when_blocked: has no meaning with critical"],
  ["[{ name: a, critical: true, idle_yields: true }]", "1:50 agents[0].idle_yields: has no meaning with critical"],
  [
    "[{ name: a, adapter: { kind: external } }, { name: b, sub_agents: [a] }]",
    "1:76 agents[1].sub_agents[0]: must not name a: an external agent takes no turns",
  ],
])("the agents %s have one fault, at its place: %s", (agents, fault) => {
  expectOnly(lines(`agents: ${agents}`), fault);
});

it.each([
  ["polcy: {}", "2:1 polcy: is not a known key; did you mean policy?"],
  ["colour: red", "2:1 colour: is not a known key; known here: agents,"],
  ["default_agent: aa", "2:16 default_agent: there is no agent aa; did you mean a?"],
  [
    "priority_rules: [{ name: n, adjust: 5, timezone: Asia/Shangai }]",
    '2:50 priority_rules[0].timezone: must be an IANA time zone, as in Asia/Shanghai, not "Asia/Shangai"; did you mean Asia/Shanghai?',
  ],
  [
    "priority_rules: [{ name: n, adjust: 5, between: 22-7 }]",
    '2:49 priority_rules[0].between: must be HH:MM-HH:MM, as in 22:00-07:00, not the text "22-7"',
  ],
  ["priority_rules: [{ name: n, agents: [a, b], adjust: 1 }]", "2:41 priority_rules[0].agents[1]: there is no agent b"],
  [
    "priority_rules: [{ name: r, adjust: 1 }, { name: r, adjust: 2 }]",
    "2:50 priority_rules[1].name: there is already a rule r",
  ],
  ["budgets: [{ per: owner, agent: b, runs: 1, within: 1h }]", "2:32 budgets[0].agent: there is no agent b"],
  ["budgets: [{ per: owner, within: 1h }]", "2:11 budgets[0]: needs runs or tokens, or both"],
  ["budgets: [{ per: user, runs: 1, within: 1h }]", "budgets[0].per: must be"],
  ["budgets: [{ per: owner, runs: 0, within: 1h }]", "budgets[0].runs: must be at least 1"],
  ["budgets: [{ per: owner, tokens: 20_00, within: 1h }]", "budgets[0].tokens: must be a whole number, as in 200_000"],
  ["budgets: [{ per: owner, runs: 1, within: 3600 }]", "budgets[0].within: must be a duration"],
  ["budgets: [{ per: owner, runs: 1, within: 1ms }]", "budgets[0].within: must be at least 1s"],
  [
    "budgets: [{ per: owner, runs: 1, within: 1h }, { per: owner, runs: 2, tokens: 3, within: 1h }]",
    "budgets[1].runs: another budget limits the same within the same time",
  ],
  ["restrictions: [{ name: r, when: f, allow: [b] }]", "2:44 restrictions[0].allow[0]: there is no agent b"],
  [
    "restrictions: [{ name: r, when: f }, { name: r, when: g }]",
    "2:46 restrictions[1].name: there is already a restriction r",
  ],
  [
    "user_preferences: { u 1: { agent_priority_overrides: { a: 101 } } }",
    '2:59 user_preferences["u 1"].agent_priority_overrides.a: must be at most 100, not 101',
  ],
  [
    "user_preferences: { u: { agent_priority_overrides: { A B: 1 } } }",
    '2:54 user_preferences.u.agent_priority_overrides["A B"]: must be 1 to 64 of a-z 0-9 _ -',
  ],
  [
    "user_preferences: { u: { agent_priority_overrides: { b: 1 } } }",
    "2:54 user_preferences.u.agent_priority_overrides.b: there is no agent b",
  ],
])("a file with the key %s has one fault, at its place: %s", (key, fault) => {
  expectOnly(lines("agents: [{ name: a }]", key), fault);
});

it.each([
  ["[{ name: a, enabled: false }, { name: b }]", "default_agent: a", "2:16 default_agent: the agent a is disabled"],
  [
    "[{ name: a, critical: true }]",
    "priority_rules: [{ name: n, agents: [a], adjust: 1 }]",
    "2:38 priority_rules[0].agents[0]: must not name a: the priority of a critical agent does not change",
  ],
  [
    "[{ name: a, critical: true }]",
    "user_preferences: { u: { agent_priority_overrides: { a: 1 } } }",
    "2:54 user_preferences.u.agent_priority_overrides.a: must not name a",
  ],
])("of the agents %s the key %s is a fault, at its place: %s", (agents, key, fault) => {
  expectOnly(lines(`agents: ${agents}`, key), fault);
});

it("a fault of content behind an alias is reported at the value", () => {
  expect(faultsOf(lines("agents:", "  - &a { name: a, priority: 500 }", "  - *a"))).toEqual([
    "2:16 agents[1].name: there is already an agent a",
    "2:29 agents[0].priority: must be at most 100, not 500",
    "2:29 agents[1].priority: must be at most 100, not 500",
  ]);
});

it("a fault of content shows only the beginning of a long value", () => {
  const [fault] = faultsOf(oneAgent(`priority: ${"9x".repeat(500)}`));
  expect(fault).toBe(`3:15 agents[0].priority: must be a number, not the text "${"9x".repeat(20)}…"`);
});

it("all faults of a file are reported at once, from the top: of keys, values and names", () => {
  const text = lines(
    "agents:",
    "  - name: a",
    "    interuptible: false",
    "    priority: 1.5",
    "    sub_agents: [c]",
    "  - name: a",
    "    name: a",
    "  - 5",
    "priority_rules:",
    "  - { name: n, agents: [d], adjust: lots }",
    "default_agent: e",
    "policy: { ties: newst }",
  );
  expect(faultsOf(text).map((fault) => fault.split(": ", 1)[0])).toEqual([
    "3:5 agents[0].interuptible",
    "4:15 agents[0].priority",
    "5:18 agents[0].sub_agents[0]",
    "7:5 agents[1].name",
    "7:11 agents[1].name",
    "8:5 agents[2]",
    "10:25 priority_rules[0].agents[0]",
    "10:37 priority_rules[0].adjust",
    "11:16 default_agent",
    "12:17 policy.ties",
  ]);
});

it("at most a hundred faults of a file are reported, and the last says that there are more", () => {
  const faults = faultsOf(`agents:\n${"  - 5\n".repeat(300)}`);
  expect(faults).toHaveLength(101);
  expect(faults.at(-1)).toBe("102:5 : there are more faults from here on");
});
