import { expect, it } from "vitest";
import { reportWhy } from "../../../src/cli/why.ts";
import type { Client } from "../../../src/client/client.ts";

const at = (seconds: number) => new Date(Date.UTC(2026, 0, 5, 8, 0, seconds)).toISOString();
const moved = (to: string, data: object) => ({
  type: "session_transition",
  sessionId: "song",
  timestamp: at(1),
  position: "e.2",
  data: { from: "active", to, ...data },
});
const rejected = (reason: string) => ({
  type: "arbitration",
  sessionId: "song",
  timestamp: at(1),
  position: "e.2",
  data: { outcome: "rejected", reason, challenger: { sessionId: "song", agentId: "music", priority: 20 }, say: "…" },
});

/** The report about a session of a floor, by default without a holder. */
async function reported(
  session: object,
  events: object[],
  language: "en" | "zh" = "en",
  held: object = {},
): Promise<string[]> {
  const floor = { id: "u:ann", holder: null, paused: [], queued: [], flags: {}, ...held };
  const client = {
    getSession: async () => ({
      session: { id: "song", agentId: "music", floorId: "u:ann", activity: "idle", ...session },
    }),
    getFloor: async () => floor,
    readFloorLog: async () => ({ events: events.toReversed(), hasMore: false }),
    listAgents: async () => ({
      agents: [
        { id: "dialog", idleYields: true },
        { id: "call", interruptible: false },
      ],
    }),
    whatIf: async () => ({ decision: { outcome: "granted", reason: "floor_free", say: "Music starts." } }),
  } as unknown as Client;
  const { lines } = await reportWhy(client, { what: "song", limit: 20, language }, Date.parse(at(2)));
  return lines;
}

/** Its first lines, joined. */
async function told(
  session: object,
  events: object[],
  language: "en" | "zh" = "en",
  held: object = {},
): Promise<string> {
  const lines = await reported(session, events, language, held);
  return lines.slice(0, lines.indexOf("")).join(language === "en" ? " " : "");
}

it("why tells that a session lapsed, and that its program must resume it", async () => {
  const lapsed = { state: "paused", pausedBy: "yield" };
  const events = [moved("paused", { event: "yield", reason: "lease_expired" })];
  expect(await told(lapsed, events)).toBe(
    "music lost its place: its program sent no heartbeat for longer than its lease. A heartbeat alone does not bring it " +
      "back: its program, once it runs again, must resume the session the floor is free",
  );
  expect(await told(lapsed, events, "zh")).toMatch(/^music失去了位置：它的程序超过租约时间没有心跳。.*须恢复这个会话/);
  // A session that gave the floor back after a lapse that is over.
  const later = [...events, moved("paused", { event: "yield", reason: "after_turn" })];
  expect(await told(lapsed, later)).toMatch(/^music gave the floor back: only a resume, or its next message/);
});

it("why tells that the holder gives way when nothing runs in it, to a session that waits or asked", async () => {
  const heldBy = (agentId: string) => ({
    holder: { id: "front", agentId, priority: 50, state: "active", activity: "idle" },
    queued: [{ id: "song", agentId: "music", priority: 20 }],
  });
  const waits = { state: "created", queuedAt: 1 };
  expect(await told(waits, [], "en", heldBy("dialog"))).toMatch(
    /^music waits for dialog, which gives way when it has nothing running dialog has the floor/,
  );
  expect(await told(waits, [], "zh", heldBy("dialog"))).toMatch(/^music在等dialog让位（它没有任务在运行时就让位）/);
  expect(await told(waits, [], "en", heldBy("call"))).toMatch(/^music waits for call to end/);
  const paused = { state: "paused", pausedBy: "preemption" };
  const preempted = moved("paused", { event: "preempt", by: { sessionId: "front", agentId: "dialog" } });
  const asked = { ...rejected("lower_priority"), data: { ...rejected("lower_priority").data, outcome: "queued" } };
  expect(await told(paused, [preempted, asked], "en", heldBy("dialog"))).toMatch(
    /^music is paused for dialog and waits for dialog, which gives way when it has nothing running: it comes back/,
  );
  // A session that was only preempted does not make it give way.
  expect(await told(paused, [preempted], "en", heldBy("dialog"))).toMatch(/and waits for dialog to end: it comes back/);
});

it.each([
  ["lease_expired", "its program sent no heartbeat for longer than its lease"],
  ["queue_timeout", "it waited for as long as it may (queue_timeout)"],
])("why tells why a session has left the queue: %s", async (reason, cause) => {
  expect(await told({ state: "created" }, [rejected(reason)])).toBe(
    `music no longer waits for the floor: ${cause}. It asks again when it is activated, or with its next message the floor is free`,
  );
});

it("why tells why the last turn failed, and what helps", async () => {
  const failure = { errorCode: "provider_refused", message: "The model's provider refused the request.", runId: "r" };
  const failed = { state: "created", activity: "failed", failure };
  expect(await told(failed, [])).toBe(
    "music does not wait for the floor: it asks when it is activated the last turn of music failed: The model's provider " +
      "refused the request (provider_refused). Its next message begins a new turn interlock status shows operators what the " +
      "provider itself said the floor is free",
  );
  expect(await told(failed, [], "zh")).toContain("music的上一轮失败：");
  const lost = {
    state: "archived",
    activity: "failed",
    failure: { errorCode: "run_lost", message: "Lost.", runId: "r" },
  };
  expect(await told(lost, [])).toBe(
    "music has ended: it asks no more the last turn of music failed: Lost (run_lost) the floor is free",
  );
});

it("why tells that a waiting turn was refused by a budget, and from when on there is one", async () => {
  const message = "Your budget is used up. It is free again in 2 hours.";
  const failure = { errorCode: "budget_exhausted", message, runId: "r", retryAt: Date.parse(at(0)) };
  const spent = { state: "active", activity: "idle", failure };
  expect(await told(spent, [])).toMatch(
    /the last turn of music failed: Your budget is used up\. It is free again in 2 hours \(budget_exhausted\)\. Its next message begins a new turn, for which there is a budget from \d\d:\d\d:00 on/,
  );
  expect(await told(spent, [], "zh")).toMatch(/\d\d:\d\d:00 起恢复额度/);
});

it("why tells for which time a session waits, and for which one a series makes the next", async () => {
  const schedule = { at: Date.parse(at(0)) };
  expect(await told({ state: "created", schedule }, [])).toMatch(
    /^music waits for its time: it asks for the floor on .*\d\d:\d\d:00 the floor is free$/,
  );
  const series = { state: "created", schedule: { ...schedule, every: "0 7 * * mon-fri", timezone: "Europe/Berlin" } };
  expect(await told(series, [])).toMatch(
    /^music is a series \(0 7 \* \* mon-fri\): its next session asks for the floor on .*\d\d:\d\d:00 the floor is free$/,
  );
  expect(await told(series, [], "zh")).toMatch(/^music是一个系列（0 7 \* \* mon-fri）：/);
});

it("why tells in which session one goes on that moved or was edited", async () => {
  const events = [moved("archived", { event: "archive", reason: "moved", movedTo: "u:ann/rear" })];
  expect(await told({ state: "archived", replacedBy: "next" }, events)).toMatch(
    /^music has ended here: it goes on in the session next the floor/,
  );
  expect(await told({ state: "archived", replacedBy: "next" }, events, "zh")).toContain("它在会话 next 中继续");
});

it("why tells that a session of a series was refused at its time, and ended unheard", async () => {
  const events = [
    rejected("lower_priority"),
    moved("archived", { from: "created", event: "archive", reason: "missed" }),
  ];
  expect((await reported({ state: "archived" }, events)).join("\n")).toMatch(
    /\(lower_priority\).*ends: it was not heard at its time/s,
  );
});

it("why tells by which row a session came to hear its sentence", async () => {
  const data = { agent: "music", by: "says", row: 3, alternatives: [], took: 1 };
  const routed = { type: "routed", sessionId: "song", timestamp: at(1), position: "e.2", data };
  const lines = await reported({ state: "active" }, [routed]);
  expect(lines.at(-1)).toBe("08:00:01  music  ‹ hears the sentence: row 3 of routing fits it");
});
