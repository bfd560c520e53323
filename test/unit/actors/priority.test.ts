import { expect, test } from "vitest";
import { effectivePriority } from "../../../src/actors/floor/priority.ts";
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
const of = (agent: string, context: { now?: number; userId?: string; flags?: Record<string, boolean> } = {}) =>
  effectivePriority(catalog.agents.get(agent)!, catalog, { now: noon, userId: undefined, flags: {}, ...context });

test("the effective priority is the agent's own if no rule applies", () => {
  expect(of("music")).toEqual({ value: 20, explained: [{ step: "agent", value: 20 }] });
});

test("the effective priority starts with the user's override, and its explanation lists it", () => {
  expect(of("music", { userId: "ann" }).explained).toEqual([
    { step: "agent", value: 20 },
    { step: "override", value: 50 },
  ]);
  expect(of("music", { userId: "bob" }).value).toBe(20);
});

test("the effective priority follows the time of day in the rule's zone, including its start and excluding its end", () => {
  const shanghai = (hour: number, minute = 0) => Date.UTC(2026, 5, 1, hour - 8, minute);
  expect(of("music", { now: shanghai(21, 59) }).value).toBe(20);
  expect(of("music", { now: shanghai(22) }).value).toBe(10);
  expect(of("music", { now: shanghai(24 + 6, 59) }).value).toBe(10);
  expect(of("music", { now: shanghai(24 + 7) }).value).toBe(20);
  expect(of("phone", { now: shanghai(22) }).value).toBe(90);
});

test("the effective priority adds the rules of the floor's flags in the order of the file", () => {
  const night = Date.UTC(2026, 5, 1, 15);
  expect(of("music", { now: night, flags: { emergency: true } }).explained).toEqual([
    { step: "agent", value: 20 },
    { step: "rule:night", adjust: -10, value: 10 },
    { step: "rule:emergency", adjust: 20, value: 30 },
  ]);
  expect(of("music", { flags: { emergency: false } }).value).toBe(20);
});

test("the effective priority of a critical agent does not change with rules for all agents", () => {
  const unchanged = { value: 95, explained: [{ step: "agent", value: 95 }] };
  expect(of("chime", { flags: { emergency: true } })).toEqual(unchanged);
});

test("the effective priority is clamped to 0..100 at the end, and its explanation lists that", () => {
  const night = Date.UTC(2026, 5, 1, 15);
  expect(of("phone", { flags: { emergency: true } }).explained.at(-1)).toEqual({ step: "clamp", value: 100 });
  expect(of("chat", { now: night }).value).toBe(0);
});
