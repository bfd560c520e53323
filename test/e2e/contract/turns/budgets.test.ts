import { afterAll, expect, test } from "vitest";
import { type Caller, startGuarded } from "../../../support/clients/callers.ts";
import { accepted, E2eClient, refused } from "../../../support/clients/e2e-client.ts";
import { NodeUnderTest } from "../../../support/nodes/node-under-test.ts";

const adapter = { kind: "scripted", replies: [{ say: ["Hello."], usage: { input: 30, output: 12 } }] };
const agents = [
  { name: "talk", adapter },
  { name: "brief", adapter },
  { name: "router", adapter: { ...adapter, replies: [{ ...adapter.replies[0], say: ["talk"] }] } },
];
const budgets = [
  { per: "owner", agent: "talk", runs: 2, within: "1d" },
  { per: "owner", agent: "brief", tokens: 42, within: "2h" },
];
/** Only a sentence that names no agent, and is not the one of the other tests, is asked about. */
const routing = [
  { says: "^Hi$", agent: "talk" },
  { ask: "router", among: ["talk"], within: "30s" },
];
const catalog = { default_agent: "talk", policy: { ties: "newest" }, budgets, routing };
const today = () => new Date().toISOString().slice(0, 10);

const node = await NodeUnderTest.start({ agents, catalog });
afterAll(() => node.stop());
const guarded = await startGuarded({ agents, catalog: { default_agent: "talk" } });
const { ann, bob, ops } = guarded;
const before = today();
for (const [caller, agentId] of [
  [ann, "talk"],
  [ann, "talk"],
  [ann, "brief"],
  [bob, "talk"],
] as const) {
  const { session } = await accepted(caller.post("/session/create", { agentId }));
  const stream = await caller.stream(`/session/${session.id}/events`);
  await accepted(caller.post("/message", { type: "chat", sessionId: session.id, content: "Hi" }));
  await stream.find("complete");
  await stream.close();
}
const days = [before, today()];

/** Use up the budget of a user who has not used any. */
async function spend(user: E2eClient, agentId: string, turns: number) {
  const session = await user.create(agentId);
  for (let each = 0; each < turns; each += 1) await user.talk(session.id, "Hi");
  return session;
}

const sayAnew = (user: E2eClient, agentId: string, headers: Record<string, string> = {}) =>
  user.send({ type: "chat", content: "Hi", agentId, userId: user.userId }, { headers });

test("a turn beyond a budget of runs is refused with what is used up and when it is free, and others' are not", async () => {
  const user = new E2eClient(node);
  await spend(user, "talk", 2);
  const countOf = async () =>
    Number(/^interlock_turns_refused_total\{per="owner"\} (\d+)$/m.exec((await node.get("/metrics")).text)![1]);
  const { text: metrics } = await node.get("/metrics");
  expect(metrics).toMatch(/^interlock_turns_total\{agent="talk"\} \d/m);
  expect(metrics).toMatch(/^interlock_tokens_total\{agent="talk",kind="output"\} \d/m);
  const before = await countOf();
  const answer = await sayAnew(user, "talk", { "Accept-Language": "zh-CN" });
  expect(answer.status).toBe(429);
  const { retryAfterMs, budget } = answer.body as unknown as { retryAfterMs: number; budget: { freeAt: number } };
  expect(answer.body).toMatchObject({
    errorCode: "budget_exhausted",
    error: "你的额度已用完，24 小时后恢复。",
    retryable: true,
    budget: { per: "owner", agentId: "talk", runs: 2, withinMs: 86_400_000 },
  });
  expect(answer.headers["retry-after"]).toBe(String(Math.ceil(retryAfterMs / 1_000)));
  expect(budget.freeAt).toBeGreaterThan(Date.now());
  expect((await accepted(node.get(`/session/list?userId=${user.userId}`))).total).toBe(1);
  expect(await countOf()).toBe(before + 1);
  await accepted(sayAnew(new E2eClient(node), "talk"));
});

test("a refused sentence says who was to hear it, and what its router used is its user's on this day", async () => {
  const user = new E2eClient(node);
  await spend(user, "talk", 2);
  const first = today();
  const sentence = { type: "chat", content: "Tell me a story", userId: user.userId, zone: "never-used" };
  expect(await refused(user.send(sentence))).toMatchObject({
    errorCode: "budget_exhausted",
    routed: { agent: "talk", by: "ask", asked: [{ agent: "router", usage: { total_tokens: 42 } }] },
  });
  const used = { runs: 0, input: 30, output: 12, tokens: 42 };
  const { body } = await node.get("/usage?agentId=router");
  expect(body).toMatchObject({ usage: [{ ownerId: user.userId, agentId: "router", ...used }] });
  expect([first, today()]).toContain((body as unknown as Page).usage[0]!["day"]);
});

test("a what-if of a sentence is refused as the sentence is, and that of a session without a message is not", async () => {
  const user = new E2eClient(node);
  const whatIf = (about: object) => accepted(node.post(`${user.floorPath}/what-if`, about));
  const { id } = await spend(user, "talk", 1);
  expect((await whatIf({ content: "Hi" })).refused).toBeUndefined();
  await user.talk(id, "Hi");
  for (const content of ["Hi", "Tell me a story"]) {
    const { refused: previewed, decision } = await whatIf({ content });
    const { errorCode, error, retryable, retryAfterMs, budget } = await refused(
      user.send({ type: "chat", content, userId: user.userId }),
    );
    expect(decision).toBeUndefined();
    expect(previewed).toEqual({ errorCode, error, retryable, retryAfterMs: expect.any(Number), budget });
    expect(previewed?.retryAfterMs).toBeGreaterThanOrEqual(retryAfterMs);
    expect(errorCode).toBe("budget_exhausted");
  }
  // A session without a message needs no budget.
  expect(await whatIf({ agentId: "talk" })).toMatchObject({ decision: { outcome: "granted" } });
});

test("tokens count when the provider has reported them", async () => {
  const user = new E2eClient(node);
  await spend(user, "brief", 1);
  expect(await refused(sayAnew(user, "brief"))).toMatchObject({
    error: "Your budget is used up. It is free again in 2 hours.",
    budget: { tokens: 42 },
  });
});

test("a further turn, a repetition and an edit are refused, and leave the session as it is", async () => {
  const user = new E2eClient(node);
  const { id } = await spend(user, "talk", 2);
  const before = await user.see(id);
  const [first] = await user.messages(id);
  const path = `/session/${id}/messages/${first!.id}`;
  for (const answer of [
    user.say(id, "Hi"),
    node.post(`${path}/resend`, {}),
    node.post(`${path}/edit`, { content: "Hello again" }),
  ]) {
    expect((await refused(answer)).errorCode).toBe("budget_exhausted");
  }
  expect(await user.see(id)).toEqual(before);
  expect((await accepted(node.get(`/session/list?userId=${user.userId}`))).total).toBe(1);
});

test("clients of other protocols are refused without a reason to repeat, and get the sentence", async () => {
  const user = new E2eClient(node);
  await spend(user, "talk", 2);
  const said = "Your budget is used up. It is free again in 24 hours.";
  const messages = [{ role: "user", content: "Hi" }];
  const post = (path: string, body: object) =>
    node.send("POST", path, { "Content-Type": "application/json" }, JSON.stringify(body));
  const metadata = { user: user.userId };
  const completion = await post("/v1/chat/completions", { model: "talk", messages, metadata });
  expect(completion.status).toBe(403);
  expect(completion.headers["x-should-retry"]).toBe("false");
  expect(completion.body).toMatchObject({
    error: { message: said, type: "insufficient_quota", code: "budget_exhausted" },
  });
  const parts = [{ type: "text", text: "Hi" }];
  const chat = { id: "spent", messages: [{ id: "m", role: "user", parts }], trigger: "submit-message" };
  const reply = await post("/api/chat", { ...chat, agentId: "talk", userId: user.userId });
  expect(reply.status).toBe(200);
  expect(reply.text).toContain(said);
});

type Page = { usage: Record<string, unknown>[]; next?: string };
const usage = async (caller: Caller, query = "") => (await accepted(caller.get(`/usage${query}`))) as unknown as Page;

test("GET /usage lists to a caller its own usage, and to an operator all of it, in pages", async () => {
  const [{ day } = {}] = (await usage(ops)).usage;
  expect(days).toContain(day);
  const row = { day, runs: 1, input: 30, output: 12, tokens: 42 };
  const own = [
    { ...row, ownerId: "ann", agentId: "brief" },
    { ...row, ownerId: "ann", agentId: "talk", runs: 2, input: 60, output: 24, tokens: 84 },
  ];
  const all = [...own, { ...row, ownerId: "bob", agentId: "talk" }];
  expect((await usage(ann)).usage).toEqual(own);
  expect((await usage(ann, "?ownerId=ann&agentId=brief")).usage).toEqual(own.slice(0, 1));
  expect((await refused(ann.get("/usage?ownerId=bob"))).errorCode).toBe("forbidden");
  expect((await usage(ops)).usage).toEqual(all);
  expect((await usage(ops, "?ownerId=bob")).usage).toEqual(all.slice(2));
  expect((await usage(ops, `?from=${day}&to=${day}`)).usage).toEqual(all);
  expect((await usage(ops, "?to=2026-01-01")).usage).toEqual([]);
  const paged: unknown[] = [];
  for (let query: string | undefined = "?limit=1"; query !== undefined; ) {
    const page: Page = await usage(ops, query);
    paged.push(...page.usage);
    query = page.next === undefined ? undefined : `?limit=1&after=${page.next}`;
  }
  expect(paged).toEqual(all);
});

test("GET /usage refuses what it cannot read", async () => {
  const next = (value: unknown) => Buffer.from(JSON.stringify(value)).toString("base64url");
  for (const query of [
    ...["limit=0", "limit=1001", "from=yesterday", "to=2026-02-30", "agentId=a%20b", "owner=ann", "days=3"],
    ...["after=x", `after=${next(["a", 1, 2])}`, `after=${"x".repeat(5_000)}`],
  ]) {
    expect((await refused(ops.get(`/usage?${query}`))).errorCode, query).toBe("bad_request");
  }
  expect((await guarded.node.get("/usage")).status).toBe(401);
});
