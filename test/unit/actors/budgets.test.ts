import { expect, test } from "vitest";
import { AppError } from "../../../src/protocol/errors.ts";
import type { SessionId } from "../../../src/protocol/ids.ts";
import { makeCatalog } from "../../support/catalogs/catalog.ts";
import { HostStage } from "../../support/floors/host-stage.ts";
import { Chance } from "../../support/runner/chance.ts";
import { openTemporaryStore } from "../../support/stores/temporary-store.ts";

const HOUR = 3_600_000;
const AGENTS = [
  { name: "call", priority: 90 },
  { name: "chat", priority: 50, when_busy: "enqueue", when_blocked: "queue" },
  { name: "news", priority: 50, when_busy: "enqueue", when_blocked: "queue", after_turn: "yield" },
  { name: "music", priority: 20 },
];
const runsOf = (runs: number) => ({ per: "owner", runs, within: "1h" });

async function open(...budgets: object[]): Promise<HostStage> {
  const stage = await HostStage.open({ maxFloors: 64 });
  stage.catalog = makeCatalog(AGENTS, { budgets });
  return stage;
}

interface Saying {
  sessionId?: string;
  agentId?: string;
  user?: string;
  locale?: string;
  commandId?: string;
  routed?: object;
}

/** A session's turn, the first of which creates it. */
function say(
  stage: HostStage,
  run: string,
  { sessionId = "a", agentId = "chat", user = "ann", locale = "en", routed, ...asking }: Saying = {},
) {
  const session = { sessionId, agentId, userId: user, ownerId: "ann", locale };
  const turn = { messageId: `m-${run}`, runId: run, content: "Hello" };
  const command = { type: "session.chat", sessionId, turn, session, ...(routed && { routed }) };
  return stage.ask(command as never, { floorId: `u:${user}`, ...asking });
}

/** The turn of another session of ann, on a floor of its own. */
const sayElsewhere = (stage: HostStage, run: string, asking = {}) =>
  say(stage, run, { user: `user-${run}`, sessionId: `session-${run}`, ...asking });

const claim = (stage: HostStage, runId: string, claimId = "worker", sessionId = "a", floorId = "u:ann") =>
  stage.ask({ type: "run.claim", sessionId, runId, claimId, hasNoDriver: true } as never, { caller: null, floorId });

/** A report of the first attempt, with these tokens. */
function report(
  stage: HostStage,
  runId: string,
  n: number,
  { tokens = 0, outcome = {}, attempt = 1, sessionId = "a" } = {},
) {
  const usage = { prompt_tokens: tokens - 1, completion_tokens: 1, total_tokens: tokens };
  const parts = tokens === 0 ? [] : [{ kind: "usage", usage }];
  const command = { type: "run.report", sessionId, runId, attempt, n, parts, ...outcome };
  return stage.ask(command as never, { caller: null });
}

const DONE = { outcome: { outcome: { kind: "done" } } };
const FAILED = { outcome: { outcome: { kind: "failed", code: "provider_unreachable", message: "away" } } };

const isRefused = (reply: object) => (reply as { code?: string }).code === "budget_exhausted";
const sessionOf = async (stage: HostStage, id: string) =>
  (await stage.store.store.loadSession(id as SessionId))?.session;
const eventsOf = async (stage: HostStage, type: string, floorId = "u:ann") => {
  const { entries } = await stage.store.store.readFloorLog(floorId as never, 0, 1_000);
  return entries.filter((entry) => entry.type === type).map(({ json }) => JSON.parse(json));
};

test("of 64 turns that begin at once on floors of two nodes, exactly as many begin as the budget has", async () => {
  const stage = await open(runsOf(20));
  const nodes = [stage, stage.neighbour()];
  const ask = (index: number) => say(nodes[index % 2]!, `r${index}`, { sessionId: `s${index}`, user: `user${index}` });
  const replies = await Promise.all(Array.from({ length: 64 }, (_, index) => ask(index)));
  expect(replies.filter(({ ok }) => ok)).toHaveLength(20);
  expect(replies.filter(isRefused)).toHaveLength(44);
  for (const [index, { ok }] of replies.entries()) expect((await sessionOf(stage, `s${index}`)) !== undefined).toBe(ok);
});

test("a refused turn says when to come again, in the session's language, and changes nothing else", async () => {
  const stage = await open(runsOf(1), { per: "agent", agent: "news", runs: 1, within: "2h" });
  await stage.create("music", "music");
  expect(await say(stage, "r1", { user: "bob", sessionId: "b", agentId: "news" })).toMatchObject({ ok: true });
  const before = await eventsOf(stage, "session_transition");
  await stage.clock.advance(60_000);
  expect(await say(stage, "r2", { locale: "zh-CN" })).toEqual({
    ok: false,
    code: "budget_exhausted",
    message: "你的额度已用完，59 分钟后恢复。",
    facts: {
      retryAfterMs: HOUR - 60_000,
      budget: { per: "owner", runs: 1, withinMs: HOUR, freeAt: stage.clock.now() + HOUR - 60_000 },
    },
  });
  // The latest of two.
  expect(await say(stage, "r3", { agentId: "news" })).toMatchObject({
    message: "The budget of News is used up. It is free again in 2 hours.",
    facts: { budget: { per: "agent", agentId: "news", runs: 1 } },
  });
  expect(await eventsOf(stage, "session_transition")).toEqual(before);
  expect([await sessionOf(stage, "a"), (await sessionOf(stage, "music"))?.state]).toEqual([undefined, "active"]);
  await stage.clock.advance(HOUR - 60_000);
  expect(await say(stage, "r4")).toMatchObject({ ok: true });
});

test("a refused turn whose sentence was routed says who was to hear it, and what its router used counts, once", async () => {
  const usage = { prompt_tokens: 30, completion_tokens: 2, total_tokens: 32 };
  const routed = { agent: "chat", by: "ask", row: 1, alternatives: [], asked: [{ agent: "news", usage }], took: 1 };
  for (const tokens of [64, 65]) {
    const stage = await open({ ...runsOf(1), agent: "chat" }, { per: "agent", agent: "news", tokens, within: "1h" });
    expect(await say(stage, "r1", { routed })).toMatchObject({ ok: true, routed });
    const refused = await sayElsewhere(stage, "r2", { routed, commandId: "second" });
    expect(refused).toMatchObject({ code: "budget_exhausted", facts: { budget: { per: "owner" }, routed } });
    expect(await sayElsewhere(stage, "r2", { routed, commandId: "second" })).toEqual(refused);
    // The router's answers have used 64.
    const { ok } = await sayElsewhere(stage, "r3", { agentId: "news" });
    expect(ok).toBe(tokens > 64);
  }
});

test("a repeat, a failed turn and a claim that is tried again count once", async () => {
  const stage = await open(runsOf(2));
  const first = await say(stage, "r1", { commandId: "one" });
  expect(await say(stage, "r1", { commandId: "one" })).toEqual(first);
  await claim(stage, "r1", "lost");
  await claim(stage, "r1", "again");
  await report(stage, "r1", 1, { ...FAILED, attempt: 2 });
  expect(await sayElsewhere(stage, "r2")).toMatchObject({ ok: true });
  const refused = await sayElsewhere(stage, "r3", { commandId: "three" });
  expect(isRefused(refused)).toBe(true);
  await stage.clock.advance(HOUR);
  // Its receipt.
  expect(await sayElsewhere(stage, "r3", { commandId: "three" })).toEqual(refused);
});

test("a commit whose outcome is unknown counts its turn once, and a conflict does not count it", async () => {
  for (const fate of ["conflict", { refuseWith: new Error("away") }, { loseAnswerWith: new Error("lost") }] as const) {
    const stage = await open(runsOf(2));
    stage.store.fates.push(fate);
    await say(stage, "r1", { commandId: "one" }).catch(() => undefined);
    expect(await say(stage.neighbour(), "r1", { commandId: "one" })).toMatchObject({ ok: true });
    expect(await sayElsewhere(stage, "r2")).toMatchObject({ ok: true });
    expect(isRefused(await sayElsewhere(stage, "r3"))).toBe(true);
  }
});

test.each([1, 2, 3, 4])(
  "whatever becomes of commits, each answer tells whether its turn counts: history %i",
  async (seed) => {
    const chance = new Chance(seed);
    const stage = await open(runsOf(12));
    const nodes = [stage, stage.neighbour()];
    const fates = () =>
      chance.pick(["commit", "commit", "conflict", { loseAnswerWith: new AppError("unavailable") }] as const);
    for (const { store } of nodes) for (let each = 0; each < 60; each += 1) store.fates.push(fates());
    const run = async (index: number) => {
      const asking = { sessionId: `s${index}`, user: `user${index % 8}`, agentId: "music", commandId: `c${index}` };
      for (;;) {
        const reply = await say(chance.pick(nodes), `r${index}`, asking).catch(() => undefined);
        if (reply) return reply;
      }
    };
    const replies = await Promise.all(Array.from({ length: 40 }, (_, index) => run(index)));
    const begun = replies.filter(({ ok }) => ok).length;
    for (const { store } of nodes) store.fates.length = 0;
    // Some are refused by their floor, and count nothing.
    const late = await Promise.all(Array.from({ length: 13 }, (_, index) => sayElsewhere(stage, `late${index}`)));
    expect(begun).toBeLessThanOrEqual(12);
    expect(replies.some(isRefused) ? begun : 12).toBe(12);
    expect(late.filter(({ ok }) => ok)).toHaveLength(12 - begun);
  },
);

test("of turns that share a commit, those begin for which there is room, and other commands are carried out", async () => {
  const stage = await open();
  stage.catalog = makeCatalog(AGENTS, { policy: { ties: "newest" }, budgets: [{ ...runsOf(1), agent: "music" }] });
  await Promise.all(["a", "b", "c"].map((id) => stage.create(id, "music", { ownerId: "ann", activate: false })));
  const [one, two, other, title] = await Promise.all([
    say(stage, "r1"),
    say(stage, "r2", { sessionId: "b" }),
    say(stage, "r3", { sessionId: "d", agentId: "news" }),
    stage.rename("c", "Later"),
  ]);
  expect([one.ok, isRefused(two), other.ok, title.ok]).toEqual([true, true, true, true]);
});

test("a waiting turn whose budget is used up when it would begin fails with an event, and the next thing happens", async () => {
  const stage = await open({ ...runsOf(2), agent: "chat" });
  await say(stage, "r1");
  await say(stage, "r2");
  await say(stage, "r3");
  await claim(stage, "r1");
  await report(stage, "r1", 1, DONE);
  await claim(stage, "r2");
  await stage.clock.advance(60_000);
  await report(stage, "r2", 1, DONE);
  const message = "Your budget is used up. It is free again in 59 minutes.";
  expect(await eventsOf(stage, "error")).toEqual([
    { errorCode: "budget_exhausted", message, retryAfterMs: HOUR - 60_000, runId: "r3" },
  ]);
  expect((await eventsOf(stage, "complete")).at(-1)).toMatchObject({ runId: "r3", cancelled: true });
  const session = (await sessionOf(stage, "a"))!;
  expect(session).toMatchObject({ state: "active", activity: "idle", failure: { errorCode: "budget_exhausted" } });
  expect(session.failure?.retryAt).toBe(stage.clock.now() + HOUR - 60_000);
  const asked = await stage.store.store.findMessage("a" as SessionId, "m-r3" as never);
  expect(asked?.status).toBe("error");
});

test("a session that waited behind a call for a turn without a budget gives the floor back", async () => {
  const stage = await open({ ...runsOf(1), agent: "news" });
  await stage.create("music", "music");
  await stage.create("call", "call");
  expect(await say(stage, "r1", { agentId: "news" })).toMatchObject({ ok: true, decision: { outcome: "queued" } });
  // Waiting counts nothing.
  expect(await say(stage, "r2", { agentId: "news", sessionId: "b", user: "bob" })).toMatchObject({ ok: true });
  await stage.on("call", "archive");
  expect(await eventsOf(stage, "error")).toMatchObject([{ errorCode: "budget_exhausted", runId: "r1" }]);
  expect([(await sessionOf(stage, "a"))?.state, (await sessionOf(stage, "music"))?.state]).toEqual([
    "paused",
    "active",
  ]);
});

test("a turn begins while a token is left, and tokens of failed and of stopped runs count", async () => {
  const stage = await open({ per: "owner", tokens: 100, within: "1d" });
  await say(stage, "r1");
  await claim(stage, "r1");
  await report(stage, "r1", 1, { tokens: 60 });
  // A second delivery.
  await report(stage, "r1", 1, { tokens: 60 });
  await report(stage, "r1", 2, FAILED);
  expect(await say(stage, "r2")).toMatchObject({ ok: true });
  await claim(stage, "r2");
  await stage.ask({ type: "session.abort", sessionId: "a", runId: "r2" } as never);
  await report(stage, "r2", 1, { tokens: 39, outcome: { outcome: { kind: "lost", yielded: true } } });
  expect((await sessionOf(stage, "a"))?.tokenUsage.used).toBe(99);
  expect(await say(stage, "r3")).toMatchObject({ ok: true });
  await claim(stage, "r3");
  await say(stage, "r4");
  // What the report brings counts before the turn that it lets begin.
  await report(stage, "r3", 1, { tokens: 1, ...DONE });
  expect(await eventsOf(stage, "error")).toMatchObject([{}, { errorCode: "budget_exhausted", runId: "r4" }]);
  expect(await sayElsewhere(stage, "r5")).toMatchObject({
    facts: { budget: { tokens: 100, per: "owner" } },
  });
});

test("tokens beyond a budget of which much was left leave no room for the turn that follows them", async () => {
  const stage = await open({ per: "owner", tokens: 100, within: "1d" });
  await say(stage, "r1");
  await say(stage, "r2");
  await claim(stage, "r1");
  await report(stage, "r1", 1, { tokens: 250, ...DONE });
  expect(await eventsOf(stage, "error")).toMatchObject([{ errorCode: "budget_exhausted", runId: "r2" }]);
  expect((await sessionOf(stage, "a"))?.tokenUsage.used).toBe(250);
  expect(isRefused(await sayElsewhere(stage, "r3"))).toBe(true);
});

test("a turn that moves to another floor has begun, and counts once", async () => {
  const stage = await open(runsOf(2));
  await say(stage, "r1");
  await claim(stage, "r1");
  const { seq } = (await stage.on("a", "activate")) as { seq: number };
  const session = { sessionId: "new", agentId: "chat", userId: "ann", zone: "rear", ownerId: "ann" };
  const turns = ["r1", "r9"].map((run) => ({ messageId: `m-${run}`, runId: `${run} there`, content: "Hello" }));
  const history = { messageCount: 0, origin: { by: "move", sessionId: "a" } };
  const from = { sessionId: "a", floorId: "u:ann", seq };
  const moved = { type: "session.move", sessionId: "new", session, history, from, turns };
  expect(await stage.ask(moved as never, { floorId: "u:ann/rear" })).toMatchObject({ ok: true });
  expect(await sayElsewhere(stage, "r2")).toMatchObject({ ok: true });
  expect(isRefused(await sayElsewhere(stage, "r3"))).toBe(true);
});

test("a budget that is made larger has room for the difference, and without one nothing is counted", async () => {
  const stage = await open(runsOf(1));
  await sayElsewhere(stage, "r1");
  expect(isRefused(await say(stage, "r2"))).toBe(true);
  stage.catalog = makeCatalog(AGENTS, { budgets: [runsOf(2)] });
  expect(await say(stage, "r3")).toMatchObject({ ok: true });
  expect(isRefused(await sayElsewhere(stage, "r4"))).toBe(true);
  stage.catalog = makeCatalog(AGENTS);
  expect(await say(stage, "r5")).toMatchObject({ ok: true });
  expect(stage.store.changes.at(-1)).not.toHaveProperty("budgets");
});

test("a budget per agent is each agent's own, and one per owner may count one agent", async () => {
  const stage = await open(
    { per: "agent", runs: 2, within: "1h" },
    { per: "owner", agent: "chat", runs: 1, within: "1h" },
  );
  const outcomes = [];
  for (const [run, agentId, sessionId] of [
    ["r1", "chat", "a"],
    ["r2", "chat", "b"],
    ["r3", "music", "c"],
    ["r4", "music", "d"],
    ["r5", "music", "e"],
    ["r6", "news", "f"],
  ] as const) {
    const reply = await say(stage, run, { agentId, sessionId, user: sessionId });
    outcomes.push(reply.ok || (reply.facts!["budget"] as { per: string }).per);
  }
  expect(outcomes).toEqual([true, "owner", true, true, "agent", true]);
});

test.each([{ inMs: 60_000 }, { every: "* * * * *", timezone: "UTC" }])(
  "a scheduled turn whose budget is used up at its time does not ask, and says why: %j",
  async (when) => {
    const stage = await open(runsOf(1));
    await say(stage, "r1");
    const session = { sessionId: "s", agentId: "chat", userId: "bea", ownerId: "ann", locale: "en" };
    const create = { type: "session.create", sessionId: "s", session, activate: false };
    await stage.ask({ ...create, schedule: { ...when, content: "Up!" } } as never, { floorId: "u:bea" });
    await stage.clock.advance(60_000);
    expect(await stage.ask({ type: "alarm" }, { caller: null, floorId: "u:bea" })).toMatchObject({ ok: true });
    const created = await eventsOf(stage, "session_created", "u:bea");
    const { id } = created.at(-1);
    expect(await sessionOf(stage, id)).toMatchObject({
      // What a series did not get to say is over; a session of its own may still be asked for.
      state: "every" in when ? "archived" : "created",
      messageCount: 1,
      failure: { errorCode: "budget_exhausted" },
    });
    expect(await eventsOf(stage, "arbitration", "u:bea")).toEqual([]);
    // The next one asks, once the budget is free again.
    await stage.clock.advance(HOUR);
    await stage.ask({ type: "alarm" }, { caller: null, floorId: "u:bea" });
    const begun = await eventsOf(stage, "arbitration", "u:bea");
    expect(begun).toHaveLength("every" in when ? 1 : 0);
  },
);

test("what-ifs that share a batch read the windows of all their budgets once, and each is refused by its own", async () => {
  const stage = await HostStage.open({ openStore: openTemporaryStore });
  stage.catalog = makeCatalog(AGENTS, {
    budgets: [
      { ...runsOf(1), agent: "call" },
      { ...runsOf(2), agent: "news" },
    ],
  });
  await sayElsewhere(stage, "r1", { agentId: "call" });
  await sayElsewhere(stage, "r2", { agentId: "news" });
  const whatIf = (agentId: string) =>
    stage.ask({ type: "floor.what_if", agentId, ownerId: "ann", isTurn: true } as never, { caller: null });
  const replies = await Promise.all(["call", "news", "music", "call"].map(whatIf));
  const refusals = replies.map((reply) => (reply.ok ? reply.refused?.code : reply.code));
  expect(refusals).toEqual(["budget_exhausted", undefined, undefined, "budget_exhausted"]);
  expect(stage.store.callsOf("findWindows")).toBe(1);
});
