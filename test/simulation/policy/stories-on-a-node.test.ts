/** The shortest stories of `interlock prove` are told to a node by HTTP, which does the same at the same moments. */
import { readFile } from "node:fs/promises";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { parse } from "yaml";
import { decodeCatalog } from "../../../src/config/catalog/catalog-file.ts";
import { prove } from "../../../src/policy/proof.ts";
import { readScript } from "../../../src/policy/script.ts";
import { play } from "../../../src/policy/simulation.ts";
import { accepted } from "../../support/clients/e2e-client.ts";
import { NodeUnderTest } from "../../support/nodes/node-under-test.ts";
import type { JudgedCatalog } from "../../support/policy/judged-catalog.ts";
import { type JudgedEvent, LogJudge } from "../../support/policy/log-judge.ts";
import { repliesIn, StoryOnNode } from "../../support/policy/story-on-node.ts";
import { turn } from "../../support/runner/virtual-clock.ts";

const NOON = Date.UTC(2026, 0, 5, 12);

let nodes: NodeUnderTest[] = [];
beforeEach(() => {
  vi.useFakeTimers({ now: NOON });
});
afterEach(async () => {
  try {
    await Promise.all(nodes.map((node) => whileTimePasses(node.stop())));
  } finally {
    nodes = [];
    vi.useRealTimers();
  }
});

/** Let time pass while a node stops, because it may wait for a timer. */
async function whileTimePasses(work: Promise<void>): Promise<void> {
  let isDone = false;
  const end = () => {
    isDone = true;
  };
  work.then(end, end);
  while (!isDone) {
    await vi.advanceTimersByTimeAsync(100);
    await turn();
  }
  await work;
}

/** What readers see, with the ms since the story's beginning; sessions have the number in which they appear. */
function told(events: readonly JudgedEvent[], from: number): string[] {
  const ids: string[] = [];
  const numberOf = (id = "") => {
    if (!ids.includes(id)) ids.push(id);
    return ids.indexOf(id);
  };
  return events.flatMap(({ type, sessionId, at, data }) => {
    const { outcome, reason, rule, challenger, from: was, to, event, level } = data as Record<string, unknown>;
    const { agentId } = (challenger ?? {}) as { agentId?: string };
    if (type === "arbitration") return `${at - from} ${agentId} ${outcome} ${reason} ${rule}`;
    if (type === "session_transition")
      return `${at - from} #${numberOf(sessionId)} ${was} ${to} ${event} ${reason} ${level}`;
    return [];
  });
}

const never = (subject: "rejected" | "silenced", agent: string, other: "while_heard" | "by", others: string[]) => ({
  name: `${agent} is never ${subject}`,
  never: { [subject]: agent, [other]: others },
});
const back = (after: string, eventually: string) => ({
  name: `${eventually} comes back after ${after}`,
  always: { after: `${after} ends`, eventually: `${eventually} is heard` },
});

const CAR_CLAIMS = [
  never("silenced", "music_agent", "by", ["phone_agent"]),
  never("silenced", "podcast_agent", "by", ["prompt_agent"]),
  never("silenced", "listen_agent", "by", ["ecall_agent"]),
  never("rejected", "prompt_agent", "while_heard", ["ecall_agent"]),
  back("phone_agent", "listen_agent"),
  never("rejected", "dialog_agent", "while_heard", ["phone_agent"]),
];

/** A second interrupter that starts between two deadlines, and a lease that runs out. */
const TIMED = {
  agents: [
    { name: "music", priority: 20, max_pause: "5s" },
    { name: "phone", priority: 80, max_hold: "4s", resume: "manual", yields_to: ["phone"] },
    {
      name: "radio",
      priority: 20,
      when_blocked: "queue",
      queue_timeout: "6s",
      lease: "2s",
      adapter: { kind: "external" },
    },
  ],
  policy: { ties: "newest" },
  claims: [
    back("phone", "music"),
    never("rejected", "radio", "while_heard", ["phone"]),
    never("silenced", "radio", "by", ["music"]),
  ],
};

/** Rules of two zones that meet in summer only, and a flag. */
const BY_HOURS = {
  agents: [
    { name: "call", priority: 95 },
    { name: "prompt", priority: 50, interruptible: false, when_blocked: "queue" },
  ],
  priority_rules: [
    { name: "one", agents: ["call"], between: "12:00-12:30", timezone: "UTC", adjust: -35 },
    { name: "two", agents: ["prompt"], between: "14:00-14:30", timezone: "Europe/Berlin", adjust: 30 },
  ],
  restrictions: [{ name: "reverse", when: "reverse", allow: ["call"], others: "stop" }],
  claims: [
    { name: "call comes through", never: { rejected: "call", while_heard: "prompt" } },
    { name: "prompt is never rejected", never: { rejected: "prompt" } },
  ],
};

/** Agents to which it matters that a turn runs. */
const TALKING = {
  agents: [
    { name: "chat", priority: 50, idle_timeout: "0ms", adapter: { kind: "scripted" } },
    { name: "radio", priority: 20, idle_yields: true, adapter: { kind: "scripted" } },
    { name: "reader", priority: 40, when_preempted: "duck", after_turn: "yield", adapter: { kind: "scripted" } },
    { name: "guide", priority: 30, after_turn: "yield", adapter: { kind: "scripted" } },
    { name: "song", priority: 10, when_blocked: "queue", queue_timeout: "5s" },
    { name: "phone", priority: 90, beneath: { reader: -10 } },
  ],
  claims: [
    never("silenced", "chat", "by", ["phone"]),
    never("rejected", "song", "while_heard", ["radio"]),
    back("phone", "reader"),
    back("phone", "guide"),
  ],
};

const carYaml = async () => ({
  ...parse(await readFile(new URL("../../../config/car.yaml", import.meta.url), "utf8")),
  claims: CAR_CLAIMS,
});

test.each<[name: string, least: number, file: () => Promise<object>]>([
  ["config/car.yaml with claims that do not hold", CAR_CLAIMS.length, carYaml],
  ["a catalogue with many deadlines", 2, async () => TIMED],
  ["a catalogue in which turns matter", 4, async () => TALKING],
  ["a catalogue with hours and a flag", 2, async () => BY_HOURS],
  [
    "config/examples/claims.yaml",
    1,
    async () => parse(await readFile(new URL("../../../config/examples/claims.yaml", import.meta.url), "utf8")),
  ],
])("the stories of %s happen on a node", async (_, least, load) => {
  const file = (await load()) as JudgedCatalog & { agents: Record<string, unknown>[] };
  const reading = decodeCatalog(Buffer.from(JSON.stringify(file)));
  if (!reading.ok) throw new Error(JSON.stringify(reading.faults));
  const { catalog } = reading;
  const { broken, outcome } = prove({ catalog, work: { needed: 4_000, further: 0 } });
  expect(outcome).toBe("broken");
  expect(broken.length, broken.map(({ what }) => what).join()).toBeGreaterThanOrEqual(least);
  const { agents, ...rest } = file;
  const replies = repliesIn(broken.map(({ script }) => script));
  const answering = agents.map((agent) => ({
    ...agent,
    ...(agent.adapter?.kind === "scripted" && replies.length > 0 && { adapter: { kind: "scripted", replies } }),
  }));
  const node = await NodeUnderTest.start({ agents: answering, catalog: rest as Record<string, unknown> });
  nodes.push(node);
  for (const { script, what, claim } of broken) {
    const read = readScript(script);
    if (!read.ok) throw new Error(script);
    const { events, startedAt } = play(read, { catalog });
    const played = events.map(({ timestamp, ...event }) => ({ ...event, at: Date.parse(timestamp) }));
    const judge = new LogJudge(file);
    const story = new StoryOnNode(node, file, judge);
    await story.play(script);
    expect(told(story.events, story.startedAt), what).toEqual(told(played, startedAt));
    expect([...judge.broken.keys()], script).toContain(claim!.name);
  }
  await accepted(node.get("/ready"));
});
