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

it.each([
  ["twice the same key", lines("agents:", "  - name: a", "    name: b"), "3:5 agents[0].name: is a duplicate key"],
  [
    "an unknown key",
    lines("agents:", "  - name: a", "    prio: 5"),
    "3:5 agents[0].prio: is not a known key; did you mean priority?",
  ],
  [
    "an unknown key at the top",
    lines("agents:", "  - name: a", "polcy: {}"),
    "3:1 polcy: is not a known key; did you mean policy?",
  ],
  [
    "an unknown key that is like no other",
    lines("agents:", "  - name: a", "colour: red"),
    "3:1 colour: is not a known key; known here: agents,",
  ],
  [
    "text for a number",
    lines("agents:", "  - name: a", "    priority: high"),
    '3:15 agents[0].priority: must be a number, not the text "high"',
  ],
  [
    "a way that is named twice",
    lines("agents:", "  - { name: a, when_blocked: [queue, reject, queue] }"),
    "2:30 agents[0].when_blocked: must not name queue twice",
  ],
  [
    "a time zone that does not exist",
    lines("agents: [{ name: a }]", "priority_rules:", "  - { name: night, adjust: 5, timezone: Asia/Shangai }"),
    '3:41 priority_rules[0].timezone: must be an IANA time zone, as in Asia/Shanghai, not "Asia/Shangai"; did you mean Asia/Shanghai?',
  ],
  [
    "an agent that does not exist",
    lines("agents: [{ name: music_agent }]", "default_agent: music_agnet"),
    "2:16 default_agent: there is no agent music_agnet; did you mean music_agent?",
  ],
  [
    "hours that are none",
    lines("agents: [{ name: a }]", "priority_rules:", '  - { name: night, adjust: 5, between: "22-7" }'),
    '3:40 priority_rules[0].between: must be HH:MM-HH:MM, as in 22:00-07:00, not the text "22-7"',
  ],
  [
    "a fraction",
    lines("agents:", "  - name: a", "    priority: 1.5"),
    "3:15 agents[0].priority: must be a whole number, not 1.5",
  ],
  [
    "nothing at all",
    lines("agents:", "  - name: a", "    priority:"),
    "3:14 agents[0].priority: must be a number, but there is no value",
  ],
  [
    "too small",
    lines("agents:", "  - name: a", "    priority: -1"),
    "3:15 agents[0].priority: must be at least 0, not -1",
  ],
  [
    "too large",
    lines("agents:", "  - name: a", "    priority: 101"),
    "3:15 agents[0].priority: must be at most 100, not 101",
  ],
  [
    "text for yes or no",
    lines("agents:", "  - name: a", "    enabled: yes"),
    '3:14 agents[0].enabled: must be true or false, not the text "yes"',
  ],
  [
    "a word that is not one of the choices",
    lines("agents:", "  - name: a", "    resume: never"),
    '3:13 agents[0].resume: must be auto or manual, not the text "never"',
  ],
  [
    "a name with a blank",
    lines("agents:", "  - name: Music Agent"),
    "2:11 agents[0].name: must be 1 to 64 of a-z 0-9 _ -",
  ],
  ["no name", lines("agents:", "  - priority: 5"), "2:5 agents[0].name: is missing; it must be text"],
  [
    "an empty text",
    lines("agents:", "  - name: a", "    messages: { rejected: '' }"),
    "3:27 agents[0].messages.rejected: must not be empty",
  ],
  [
    "a text that is too long",
    lines("agents:", "  - name: a", `    label: ${"x".repeat(129)}`),
    "3:12 agents[0].label: must have at most 128 characters, not 129",
  ],
  ["an empty list", "agents: []\n", "1:9 agents: must not be empty"],
  [
    "a duration without a unit",
    lines("agents:", "  - name: a", "    queue_timeout: 30"),
    "3:20 agents[0].queue_timeout: must be a duration",
  ],
  [
    "a duration that is too long",
    lines("agents:", "  - name: a", "    queue_timeout: 8d"),
    "3:20 agents[0].queue_timeout: must be at most 7d",
  ],
  [
    "an impossible time of day",
    lines("agents: [{ name: a }]", "priority_rules:", "  - { name: n, between: 22-7, adjust: 1 }"),
    "3:25 priority_rules[0].between: must be HH:MM-HH:MM",
  ],
  [
    "an unknown time zone",
    lines("agents: [{ name: a }]", "priority_rules:", "  - { name: n, timezone: Mars, adjust: 1 }"),
    "3:26 priority_rules[0].timezone: must be an IANA time zone",
  ],
  ...(
    [
      ["a summary after no turn", "{ after: 0 }", "5:25 agents[0].adapter.summary.after: must be at least 1"],
      ["a summary that keeps too much", "{ keep: 101 }", "5:24 agents[0].adapter.summary.keep: must be at most 100"],
      ["a key that summaries lack", "{ every: 3 }", "5:18 agents[0].adapter.summary.every: is not a known key"],
    ] as const
  ).map(([name, summary, fault]) => {
    const adapter = "    adapter: { kind: ai-sdk, provider: openai, model: m,";
    return [name, lines("agents:", "  - name: a", adapter, "      ", `      summary: ${summary} }`), fault];
  }),
  [
    "a summary of an agent that is no model",
    lines("agents:", "  - name: a", "    adapter: { kind: scripted, summary: {} }"),
    "3:32 agents[0].adapter.summary: is not a known key",
  ],
  [
    "an unknown adapter",
    lines("agents:", "  - name: a", "    adapter: { kind: magic }"),
    '3:22 agents[0].adapter.kind: must be scripted, ai-sdk, command, acp or external, not the text "magic"',
  ],
  [
    "an adapter without its kind",
    lines("agents:", "  - name: a", "    adapter: {}"),
    "3:14 agents[0].adapter.kind: is missing; it must be scripted, ai-sdk, command, acp or external",
  ],
  [
    "an invalid pattern",
    lines("agents:", "  - name: a", '    adapter: { kind: scripted, replies: [{ match: "(" }] }'),
    "3:51 agents[0].adapter.replies[0].match: is not a regular expression: Unterminated group",
  ],
  [
    "neither text nor list",
    lines("agents:", "  - name: a", "    adapter: { kind: scripted, replies: [{ say: 5 }] }"),
    "3:49 agents[0].adapter.replies[0].say: must be text or a list",
  ],
  [
    "a number among texts",
    lines("agents:", "  - name: a", "    adapter: { kind: scripted, replies: [{ say: [b, 5] }] }"),
    "3:53 agents[0].adapter.replies[0].say[1]: must be text, not 5",
  ],
  [
    "an invalid address",
    lines("agents:", "  - name: a", "    adapter: { kind: ai-sdk, provider: openai, model: m, base_url: 'ftp://x' }"),
    "3:68 agents[0].adapter.base_url: must be a URL with http or https",
  ],
  [
    "a provider without its address",
    lines("agents:", "  - name: a", "    adapter: { kind: ai-sdk, provider: openai-compatible, model: m }"),
    "3:14 agents[0].adapter.base_url: is required with provider openai-compatible",
  ],
  [
    "an override that is too large",
    lines("agents: [{ name: a }]", "user_preferences:", "  u 1:", "    agent_priority_overrides: { a: 101 }"),
    '4:36 user_preferences["u 1"].agent_priority_overrides.a: must be at most 100, not 101',
  ],
  [
    "an override of what is no name",
    lines("agents: [{ name: a }]", "user_preferences:", "  u:", "    agent_priority_overrides: { A B: 1 }"),
    '4:33 user_preferences.u.agent_priority_overrides["A B"]: must be 1 to 64 of a-z 0-9 _ -',
  ],
  [
    "twice the same agent",
    lines("agents:", "  - name: a", "  - name: a"),
    "3:11 agents[1].name: there is already an agent a",
  ],
  [
    "an unknown default agent",
    lines("agents: [{ name: a }]", "default_agent: b"),
    "2:16 default_agent: there is no agent b",
  ],
  [
    "a default agent that is off",
    lines("agents: [{ name: a, enabled: false }, { name: b }]", "default_agent: a"),
    "2:16 default_agent: the agent a is disabled",
  ],
  [
    "nobody enabled",
    lines("agents: [{ name: a, enabled: false }]"),
    "1:9 agents: must have at least one agent that is enabled",
  ],
  [
    "an unknown sub-agent",
    lines("agents:", "  - name: a", "    sub_agents: [b]"),
    "3:18 agents[0].sub_agents[0]: there is no agent b",
  ],
  [
    "a rule for an unknown agent",
    lines("agents: [{ name: a }]", "priority_rules:", "  - { name: n, agents: [a, b], adjust: 1 }"),
    "3:28 priority_rules[0].agents[1]: there is no agent b",
  ],
  [
    "an override for an unknown agent",
    lines("agents: [{ name: a }]", "user_preferences:", "  u:", "    agent_priority_overrides: { b: 1 }"),
    "4:33 user_preferences.u.agent_priority_overrides.b: there is no agent b",
  ],
  [
    "an unknown agent in `beneath`",
    lines("agents:", "  - { name: a, beneath: { all: 0, b: -14 } }"),
    "2:35 agents[0].beneath.b: there is no agent b",
  ],
  [
    "a level that makes louder",
    lines("agents:", "  - { name: a, beneath: { all: 3 } }"),
    "agents[0].beneath.all: must be",
  ],
  [
    "a replacement of an unknown agent",
    lines("agents:", "  - { name: a, replaces: [a, b] }"),
    "2:30 agents[0].replaces[1]: there is no agent b",
  ],
  [
    "a restriction that allows an unknown agent",
    lines("agents: [{ name: a }]", "restrictions:", "  - { name: r, when: f, allow: [b] }"),
    "3:33 restrictions[0].allow[0]: there is no agent b",
  ],
  [
    "twice the same restriction",
    lines("agents: [{ name: a }]", "restrictions:", "  - { name: r, when: f }", "  - { name: r, when: g }"),
    "4:13 restrictions[1].name: there is already a restriction r",
  ],
  [
    "twice the same rule",
    lines("agents: [{ name: a }]", "priority_rules:", "  - { name: r, adjust: 1 }", "  - { name: r, adjust: 2 }"),
    "4:13 priority_rules[1].name: there is already a rule r",
  ],
  [
    "starting beneath another without playing quieter",
    lines("agents:", "  - { name: a, when_blocked: duck }"),
    "2:30 agents[0].when_blocked: needs when_preempted: duck",
  ],
  [
    "a critical agent that is off",
    lines("agents:", "  - { name: b }", "  - { name: a, critical: true, enabled: false }"),
    "3:41 agents[1].enabled: must not be false: a critical agent is never refused",
  ],
  [
    "a critical agent that says what happens when it is blocked",
    lines("agents:", "  - { name: a, critical: true, when_blocked: queue }"),
    "2:46 agents[0].when_blocked: has no meaning with critical",
  ],
  [
    "a rule for a critical agent",
    lines("agents: [{ name: a, critical: true }]", "priority_rules:", "  - { name: n, agents: [a], adjust: 1 }"),
    "3:25 priority_rules[0].agents[0]: must not name a: the priority of a critical agent does not change",
  ],
  [
    "an override for a critical agent",
    lines(
      "agents: [{ name: a, critical: true }]",
      "user_preferences:",
      "  u:",
      "    agent_priority_overrides: { a: 1 }",
    ),
    "4:33 user_preferences.u.agent_priority_overrides.a: must not name a",
  ],
  [
    "a lease that is too short to be kept",
    lines("agents:", "  - { name: a, lease: 10ms }"),
    "2:23 agents[0].lease: must be at least 1s",
  ],
  [
    "a lease of no duration",
    lines("agents:", "  - { name: a, lease: soon }"),
    "2:23 agents[0].lease: must be a duration",
  ],
  [
    "an external agent with keys of an adapter that answers",
    lines("agents:", "  - { name: a, adapter: { kind: external, yields: hold } }"),
    "2:43 agents[0].adapter.yields",
  ],
  ...[
    ["instructions", "hello"],
    ["tools", "[clock]"],
    ["max_steps", "3"],
    ["max_depth", "3"],
    ["when_busy", "enqueue"],
    ["after_turn", "yield"],
  ].map(([key, value]): [string, string, string] => [
    `an external agent that says ${key}`,
    lines("agents:", `  - { name: a, ${key}: ${value}, adapter: { kind: external } }`),
    `2:${18 + key!.length} agents[0].${key}: has no meaning with adapter external: the agent takes no turns`,
  ]),
  [
    "an external agent that says idle_timeout",
    lines("agents:", "  - { name: a, idle_timeout: 1m, adapter: { kind: external } }"),
    "2:30 agents[0].idle_timeout: has no meaning with adapter external: the agent is never between two turns; max_hold",
  ],
  [
    "an external agent that is asked by another",
    lines("agents:", "  - { name: a, adapter: { kind: external } }", "  - { name: b, sub_agents: [a] }"),
    "3:29 agents[1].sub_agents[0]: must not name a: an external agent takes no turns",
  ],
])("a fault of content is reported at its place, and as the only one: %s", (_, text, fault) => {
  expect(faultsOf(text)).toEqual([expect.stringContaining(fault)]);
});

it("a fault of content behind an alias is reported at the value", () => {
  expect(faultsOf(lines("agents:", "  - &a { name: a, priority: 500 }", "  - *a"))).toEqual([
    "2:16 agents[1].name: there is already an agent a",
    "2:29 agents[0].priority: must be at most 100, not 500",
    "2:29 agents[1].priority: must be at most 100, not 500",
  ]);
});

it("a fault of content shows only the beginning of a long value", () => {
  const [fault] = faultsOf(lines("agents:", "  - name: a", `    priority: ${"9x".repeat(500)}`));
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
