import { expect, test } from "vitest";
import { effectivePriority } from "../../../src/actors/floor/contender.ts";
import { makeCatalog } from "../../support/catalogs/catalog.ts";

const noon = Date.UTC(2026, 5, 1, 12);
const catalog = makeCatalog(
  [
    { name: "music", priority: 20 },
    { name: "chat", priority: 5 },
    { name: "phone", priority: 90 },
    { name: "chime", priority: 95, critical: true },
  ],
  {
    priority_rules: [
      { name: "night", agents: ["music", "chat"], between: "22:00-07:00", timezone: "Asia/Shanghai", adjust: -10 },
      { name: "emergency", when: "emergency", adjust: 20 },
    ],
    user_preferences: { ann: { agent_priority_overrides: { music: 50 } } },
  },
);
const shanghai = (hour: number, minute = 0) => ({ now: Date.UTC(2026, 5, 1, hour - 8, minute) });
const emergency = { flags: { emergency: true } };

test.each<
  [
    what: string,
    agent: string,
    context: { now?: number; userId?: string; flags?: Record<string, boolean> },
    explained: string,
  ]
>([
  ["is the agent's own if no rule applies", "music", {}, "agent 20"],
  ["starts with the user's override", "music", { userId: "ann" }, "agent 20, override 50"],
  ["has no other user's override", "music", { userId: "bob" }, "agent 20"],
  ["follows no rule before its time of day in the rule's zone", "music", shanghai(21, 59), "agent 20"],
  ["follows a rule as its time of day begins", "music", shanghai(22), "agent 20, rule:night -10 10"],
  ["follows a rule to the end of its time of day", "music", shanghai(24 + 6, 59), "agent 20, rule:night -10 10"],
  ["follows no rule as its time of day ends", "music", shanghai(24 + 7), "agent 20"],
  ["follows no rule for other agents", "phone", shanghai(22), "agent 90"],
  [
    "adds the rules of the floor's flags in the order of the file",
    "music",
    { ...shanghai(23), ...emergency },
    "agent 20, rule:night -10 10, rule:emergency 20 30",
  ],
  ["follows no rule whose flag is off", "music", { flags: { emergency: false } }, "agent 20"],
  ["of a critical agent does not change with rules for all agents", "chime", emergency, "agent 95"],
  ["is clamped to 100 at the end", "phone", emergency, "agent 90, rule:emergency 20 110, clamp 100"],
  ["is clamped to 0 at the end", "chat", shanghai(23), "agent 5, rule:night -10 -5, clamp 0"],
])("the effective priority %s, and its explanation says so", (_, agent, context, wanted) => {
  const given = { now: noon, userId: undefined, flags: {}, ...context };
  const { value, explained } = effectivePriority(catalog.agents.get(agent)!, catalog, given);
  expect(explained.map((step) => Object.values(step).join(" ")).join(", ")).toBe(wanted);
  expect(value).toBe(explained.at(-1)!.value);
});
