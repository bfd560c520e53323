import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { decide } from "../../../src/actors/floor/arbitration.ts";
import { EMPTY_FLOOR, type Floor, rulesOf } from "../../../src/actors/floor/floor-state.ts";
import { isMatch } from "../../../src/config/catalog/pattern.ts";
import { loneContenderOf } from "../../../src/policy/lone-contenders.ts";
import { catalogOf } from "../../support/catalogs/catalog-faults.ts";

const text = readFileSync(new URL("../../../config/agents_config.yaml", import.meta.url), "utf8");

const shipped = catalogOf(text);

const agentOf = (id: string, catalog = shipped) => catalog.agents.get(id)!;

/** The decision when `challenger` asks while `holder` has the floor. */
function meet(holder: string, challenger: string) {
  const claimOf = (id: string) => loneContenderOf(agentOf(id), id);
  const floor: Floor = { ...EMPTY_FLOOR, holder: claimOf(holder) };
  const asks = { ...claimOf(challenger), agent: agentOf(challenger), waits: "queued" as const };
  return decide(floor, asks, rulesOf(shipped, {}));
}

/** An agent's scripted reply to a message: the first that matches. */
function replyTo(id: string, message: string) {
  const { adapter } = agentOf(id);
  if (adapter.kind !== "scripted") throw new Error(`${id} is not scripted`);
  return adapter.replies.find(({ match }) => !match || isMatch(match, message));
}

it("the shipped catalogue has the seven agents of the car, with their priorities and whether they are interruptible", () => {
  const numbers = ["phone", "navigation", "planner", "vehicle_control", "weather", "music", "chat"].map((name) => {
    const { priority, interruptible, preemptionThreshold } = agentOf(`${name}_agent`);
    return [name, priority, interruptible, preemptionThreshold];
  });
  expect(numbers).toEqual([
    ["phone", 90, false, undefined],
    ["navigation", 80, false, undefined],
    ["planner", 60, true, undefined],
    ["vehicle_control", 50, true, undefined],
    ["weather", 30, true, undefined],
    ["music", 20, true, undefined],
    ["chat", 10, true, undefined],
  ]);
});

it("the shipped catalogue has the three built-in agents, under their names, and general is the default", () => {
  expect(shipped.defaultAgentId).toBe("general");
  expect(agentOf("general")).toMatchObject({ label: "General", description: "通用主代理" });
  expect(agentOf("requirement_analyzer")).toMatchObject({
    label: "Requirement Analyzer",
    description: "需求分析代理",
  });
  expect(agentOf("debugger")).toMatchObject({ label: "Debugger", description: "调试代理" });
  expect(shipped.agents.size).toBe(10);
});

it("the shipped catalogue works without any key: every agent is scripted and answers every message", () => {
  for (const { id, adapter } of shipped.agents.values()) {
    expect(adapter.kind).toBe("scripted");
    expect(replyTo(id, "xyzzy")?.say?.length, id).toBeGreaterThan(0);
  }
});

it("the shipped catalogue answers in Chinese and in English", () => {
  const questions: [string, string, string][] = [
    ["phone_agent", "打电话给妈妈", "Call Anna"],
    ["navigation_agent", "导航到公司", "Take me home"],
    ["planner_agent", "帮我规划明天的行程", "Plan my day"],
    ["vehicle_control_agent", "快关上车窗，下雨了", "Close the windows"],
    ["weather_agent", "查一下天气", "What is the weather?"],
    ["music_agent", "放首歌", "Play something"],
    ["chat_agent", "给我讲个笑话", "Tell me a joke"],
    ["general", "你是谁？", "Who are you?"],
    ["requirement_analyzer", "我要一个登录页", "I need a login page"],
    ["debugger", "程序崩溃了", "It crashed with an error"],
  ];
  const isChinese = (words: readonly string[] = []) => /[\u4e00-\u9fff]/.test(words.join(""));
  for (const [id, chinese, english] of questions) {
    expect(isChinese(replyTo(id, chinese)?.say), `${id}: ${chinese}`).toBe(true);
    expect(isChinese(replyTo(id, english)?.say), `${id}: ${english}`).toBe(false);
  }
});

it("the shipped catalogue shows what agents can do: confirm, ask, fail, delegate, and continue until paused", () => {
  expect(replyTo("vehicle_control_agent", "打开后备箱")).toMatchObject({
    confirm: { tool: "open_trunk", sensitive: true },
  });
  expect(replyTo("vehicle_control_agent", "unlock the doors")).toMatchObject({ confirm: { tool: "unlock_doors" } });
  expect(replyTo("requirement_analyzer", "a shop")).toMatchObject({
    ask: { options: ["complete", "soon", "reliable"] },
  });
  expect(replyTo("debugger", "flaky")).toMatchObject({ fail: { code: "provider_rate_limited", times: 1 } });
  expect(replyTo("general", "要带伞吗")).toMatchObject({ delegate: { name: "weather_agent" } });
  expect(replyTo("music_agent", "play")?.repeat).toBeGreaterThan(100);
});

it("the agents that the shipped catalogue delegates to are enabled", () => {
  const { agents } = shipped;
  const delegations = [...agents.values()].flatMap(({ id, adapter, subAgents }) =>
    (adapter.kind === "scripted" ? adapter.replies : []).flatMap(({ delegate }) =>
      delegate ? { from: id, to: delegate.name, subAgents } : [],
    ),
  );
  expect(delegations.length).toBeGreaterThan(0);
  for (const { from, to, subAgents } of delegations) {
    expect(subAgents, from).toContain(to);
    expect(agents.get(to)?.enabled, `${from} to ${to}`).toBe(true);
  }
});

it.each([
  ["a call interrupts the music", "music", "phone", "granted", "preempted", "The music is paused."],
  ["the weather interrupts the music", "music", "weather", "granted", "preempted", "The music is paused."],
  [
    "small talk is refused during navigation, with a sentence for the driver",
    ...["navigation", "chat", "rejected", "lower_priority", "Navigation is under way; Chat has to wait."],
  ],
  ["a window is not closed while a plan is being made", "planner", "vehicle_control", "rejected", "lower_priority"],
  [
    "a call is refused during navigation too, without further settings",
    ...["navigation", "phone", "rejected", "not_interruptible"],
  ],
])("%s", (_, holder, challenger, outcome, reason, say) => {
  const decision = { outcome, reason, ...(say !== undefined && { say }) };
  expect(meet(`${holder}_agent`, `${challenger}_agent`)).toMatchObject(decision);
});

const uncomment = (source: string, from: RegExp): string =>
  source.replace(from, (block) => block.replaceAll(/^(\s*)# ?/gm, "$1"));

it("the catalogue's examples are valid once they are uncommented", () => {
  const rules = uncomment(text, /^# priority_rules:\n(#.+\n)+/m);
  const all = uncomment(rules, /^# user_preferences:\n(#.+\n)+/m);
  const catalog = catalogOf(all);
  expect(catalog.priorityRules.map(({ name }) => name)).toEqual(["night", "emergency"]);
  expect(catalog.overrides.get("user_id_123")).toEqual(
    new Map([
      ["music_agent", 50],
      ["chat_agent", 5],
    ]),
  );
});

it("the catalogue's example of a threshold lets a call interrupt the navigation", () => {
  const catalog = catalogOf(uncomment(text, /^ +# preemption_threshold: 90$/m));
  expect(agentOf("navigation_agent", catalog).preemptionThreshold).toBe(90);
});
