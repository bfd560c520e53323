import { afterAll, expect, onTestFinished, test } from "vitest";
import { createClient } from "../../../../src/client/client.ts";
import type { Routed } from "../../../../src/protocol/routed.ts";
import { scripted } from "../../../support/catalogs/e2e-catalog.ts";
import { accepted, E2eClient, refused } from "../../../support/clients/e2e-client.ts";
import { NodeUnderTest } from "../../../support/nodes/node-under-test.ts";
import { startProviderServer } from "../../../support/servers/provider-server.ts";

const QUESTION = {
  replies: [
    { match: "hotel", ask: { question: "Which one?", options: ["a", "b"] }, say: ["Booked."] },
    { match: "trip", say: ["Where do you want to go?"] },
    { say: ["All right."] },
  ],
};
const node = await NodeUnderTest.start({
  agents: [
    scripted("general", { priority: 40, after_turn: "yield" }),
    scripted("music", { priority: 20 }),
    scripted("trips", { priority: 30, after_turn: "yield" }, QUESTION),
    scripted("chat", { priority: 10 }),
    { name: "router", adapter: { kind: "scripted", replies: [{ match: "holiday", say: ["“tri", "ps”."] }] } },
    { name: "listener", priority: 90, adapter: { kind: "external" } },
  ],
  catalog: {
    default_agent: "general",
    routing: [
      { says: ["mhm", "嗯"], ignore: true },
      { says: ["(讲|说)个笑话", "tell me a joke"], agent: "chat" },
      { says: "play (?<what>.+)", agent: "music" },
      { says: "^trip", agent: "trips" },
      { continues: "1h" },
      { ask: "router", among: ["chat", "trips"], within: "10s" },
    ],
  },
});
afterAll(() => node.stop());

interface LoggedEvent {
  type: string;
  sessionId?: string;
  data: Routed;
}
const routedIn = (body: object) => (body as { routed?: Routed }).routed;
const sayTo = (ann: E2eClient, content: string, fields: object = {}, options = {}) =>
  ann.send({ type: "chat", userId: ann.userId, content, ...fields }, options);
async function floorLog(ann: E2eClient): Promise<LoggedEvent[]> {
  const body = await accepted(node.get(`${ann.floorPath}/log`));
  return (body as unknown as { events: LoggedEvent[] }).events.reverse();
}

test("a sentence without an agent goes to the agent that routing names: in the answer, on both logs and in its turn", async () => {
  const ann = new E2eClient(node);
  const body = await accepted(sayTo(ann, "please play the blues"));
  const routed = { agent: "music", by: "says", row: 3, alternatives: [], groups: { what: "the blues" } };
  expect(routedIn(body)).toEqual({ ...routed, took: expect.any(Number) });
  const { sessionId } = body;
  expect(await ann.see(sessionId)).toMatchObject({ agentId: "music", state: "active" });
  expect((await ann.log(sessionId)).map(({ type }) => type).slice(0, 3)).toEqual([
    "session_created",
    "routed",
    "arbitration",
  ]);
  expect((await floorLog(ann)).find(({ type }) => type === "routed")).toMatchObject({ sessionId, data: routed });
  const [message] = await ann.messages(sessionId);
  expect(message).toMatchObject({
    content: "please play the blues",
    parts: [{ type: "heard", groups: { what: "the blues" } }],
  });
});

test("a refused sentence is told who was to hear it, in the refusal and on the floor", async () => {
  const ann = new E2eClient(node);
  await ann.hold("music");
  const body = await refused(sayTo(ann, "讲个笑话"));
  expect(body).toMatchObject({ errorCode: "rejected", decision: { reason: "lower_priority" } });
  expect(routedIn(body)).toMatchObject({ agent: "chat", row: 2 });
  const [routed, decision] = (await floorLog(ann)).slice(-2);
  expect(routed).toMatchObject({ type: "routed", data: { agent: "chat" } });
  expect(routed!.sessionId).toBeUndefined();
  expect(decision).toMatchObject({ type: "arbitration" });
});

test("a sentence of a connection that has a session is routed if its session is null, and is bound to the connection", async () => {
  const ann = new E2eClient(node);
  const { stream, connectionId } = await ann.connect();
  const { id } = await ann.create("trips", { connectionId });
  const sentence = { content: "play the blues", connectionId, userId: ann.userId };
  const { sessionId } = await accepted(ann.send({ type: "chat", sessionId: null, ...sentence }));
  expect(await ann.see(sessionId)).toMatchObject({ agentId: "music" });
  await stream.find((event) => event.type === "routed" && event.sessionId === sessionId);
  await accepted(ann.on(sessionId, "archive"));
  // A connection no longer counts a session whose end it has shown.
  await stream.findState(sessionId, "archived");
  const body = await accepted(ann.send({ type: "chat", ...sentence }));
  expect([body.sessionId, routedIn(body)]).toEqual([id, undefined]);
  await refused(ann.send({ type: "abort", sessionId: null, connectionId }));
});

test("the list of agents says whether sentences are routed", async () => {
  expect(await accepted(node.get("/agents"))).toMatchObject({ routing: true });
  const models = (await accepted(node.get("/v1/models"))) as unknown as { data: { id: string }[] };
  expect(models.data[0]).toMatchObject({ id: "auto", object: "model" });
  expect(await accepted(node.get("/v1/models/auto"))).toEqual(models.data[0]);
});

test("a message that names its agent or its session is not routed", async () => {
  const ann = new E2eClient(node);
  const { id } = await ann.hold("trips");
  expect(routedIn(await accepted(ann.say(id, "tell me a joke")))).toBeUndefined();
  const other = new E2eClient(node);
  expect(routedIn(await accepted(sayTo(other, "tell me a joke", { agentId: "trips" })))).toBeUndefined();
});

test("an ignored sentence makes no session, leaves the holder as it is, and is on the floor's log", async () => {
  const ann = new E2eClient(node);
  const { id } = await ann.hold("trips");
  const before = await accepted(node.get(`/session/${id}`));
  const body = await accepted(sayTo(ann, "Mhm."));
  expect(body.sessionId).toBeUndefined();
  expect(routedIn(body)).toMatchObject({ ignored: true, by: "says", row: 1 });
  expect((await floorLog(ann)).at(-1)).toMatchObject({ type: "routed", data: { ignored: true } });
  expect((await accepted(node.get(`/session/${id}`))).position).toBe(before.position);
});

test("what was paused for the listening goes on from where it was heard when the sentence is ignored", async () => {
  const ann = new E2eClient(node);
  const { id } = await ann.hold("music");
  await ann.talk(id, "hello");
  const messages = await ann.messages(id);
  const reply = messages.at(-1)!.id;
  const stream = await ann.follow(id);
  const listening = await ann.hold("listener");
  await stream.findState(id, "paused");
  await accepted(ann.send({ type: "played", sessionId: id, messageId: reply, upTo: 2 }));
  await accepted(sayTo(ann, "嗯"));
  await accepted(ann.on(listening.id, "archive"));
  const back = await stream.find(({ data }) => data["event"] === "resume");
  expect(back.data).toMatchObject({ played: { messageId: reply, upTo: 2 } });
  expect(await ann.messages(id)).toHaveLength(messages.length);
});

test("a sentence goes on in the session that was spoken to last, and not on another floor or in another workspace", async () => {
  const ann = new E2eClient(node);
  const first = await accepted(sayTo(ann, "trip"));
  const stream = await ann.follow(first.sessionId);
  await stream.find("complete");
  const body = await accepted(sayTo(ann, "hello"));
  expect(routedIn(body)).toMatchObject({ agent: "trips", by: "continues", row: 5 });
  expect(body.sessionId).toBe(first.sessionId);
  for (const elsewhere of [{ zone: "kitchen" }, { workspaceId: "w" }]) {
    expect(routedIn(await accepted(sayTo(ann, "hello", elsewhere)))).toMatchObject({ by: "default" });
  }
});

test("a sentence goes on in its agent's session if that is heard on this floor, and begins another one elsewhere", async () => {
  const ann = new E2eClient(node);
  const first = await accepted(sayTo(ann, "tell me a joke"));
  await (await ann.follow(first.sessionId)).find("complete");
  const whatIf = () => node.post(`${ann.floorPath}/what-if`, { content: "tell me a joke" });
  expect(await accepted(whatIf())).toEqual({
    success: true,
    routed: expect.objectContaining({ agent: "chat", by: "says" }),
    sessionId: first.sessionId,
  });
  const next = await accepted(sayTo(ann, "tell me a joke"));
  expect([next.sessionId, routedIn(next)]).toEqual([first.sessionId, expect.objectContaining({ by: "says" })]);
  for (const elsewhere of [{ zone: "kitchen" }, { zone: "attic", workspaceId: "w" }]) {
    expect((await accepted(sayTo(ann, "tell me a joke", elsewhere))).sessionId).not.toBe(first.sessionId);
  }
  await accepted(ann.on(first.sessionId, "archive"));
  expect((await accepted(sayTo(ann, "tell me a joke"))).sessionId).not.toBe(first.sessionId);
});

test("a sentence that no row takes goes to the default agent, and its repeat too, although it would go elsewhere by then", async () => {
  const ann = new E2eClient(node);
  const first = await accepted(sayTo(ann, "hello", {}, { key: "k1" }));
  expect(routedIn(first)).toMatchObject({ agent: "general", by: "default" });
  expect((await ann.see(first.sessionId)).agentId).toBe("general");
  await (await ann.follow(first.sessionId)).find("complete");
  expect(routedIn(await accepted(sayTo(ann, "hello")))).toMatchObject({ by: "continues" });
  expect(await accepted(sayTo(ann, "hello", {}, { key: "k1" }))).toEqual(first);
  const ignored = await accepted(sayTo(ann, "mhm", {}, { key: "k2" }));
  expect(await accepted(sayTo(ann, "mhm", {}, { key: "k2" }))).toEqual(ignored);
  expect((await refused(sayTo(ann, "trip", {}, { key: "k2" }))).errorCode).toBe("idempotency_mismatch");
});

test("a router agent names who hears a sentence, and an answer that is no name of its row is passed over", async () => {
  const ann = new E2eClient(node);
  const body = await accepted(sayTo(ann, "I need a holiday"));
  expect(routedIn(body)).toMatchObject({ agent: "trips", by: "ask", row: 6 });
  expect((await ann.see(body.sessionId)).agentId).toBe("trips");
  const other = await accepted(sayTo(new E2eClient(node), "hello"));
  expect(routedIn(other)).toMatchObject({ by: "default", passed: [{ row: 6, why: "unknown" }] });
});

test("a what-if with a sentence says who would hear it and what would be decided, and changes nothing", async () => {
  const ann = new E2eClient(node);
  await ann.hold("music");
  const { position } = await ann.floor();
  const whatIf = (body: object) => node.post(`${ann.floorPath}/what-if`, body);
  const body = await accepted(whatIf({ content: "tell me a joke" }));
  expect(body).toMatchObject({ decision: { outcome: "rejected" }, routed: { agent: "chat", row: 2 } });
  expect(await accepted(whatIf({ content: "mhm" }))).toMatchObject({ routed: { ignored: true } });
  const client = createClient({ baseUrl: node.url });
  const said = await client.whatIf(`u:${ann.userId}`, { content: "tell me a joke" });
  expect(said).toMatchObject({ decision: { outcome: "rejected" }, routed: { agent: "chat" } });
  for (const wrong of [{}, { content: "mhm", agentId: "chat" }])
    expect((await refused(whatIf(wrong))).errorCode).toBe("bad_request");
  expect((await ann.floor()).position).toBe(position);
});

test("a what-if with a sentence says what the session would get in which the sentence goes on", async () => {
  const ann = new E2eClient(node);
  const { sessionId } = await accepted(sayTo(ann, "hello"));
  await (await ann.follow(sessionId)).find("complete");
  await expect.poll(async () => (await ann.see(sessionId)).state).toBe("paused");
  const whatIf = () => node.post(`${ann.floorPath}/what-if`, { content: "and then" });
  const free = { outcome: "granted", reason: "floor_free", challenger: { sessionId } };
  expect(await accepted(whatIf())).toMatchObject({ sessionId, decision: free });
  expect(await accepted(sayTo(ann, "and then"))).toMatchObject({ sessionId, decision: free });
});

test("a what-if with a sentence for a session that waits for an answer is refused as the sentence is", async () => {
  const ann = new E2eClient(node);
  const { sessionId } = await accepted(sayTo(ann, "trip with a hotel"));
  await (await ann.follow(sessionId)).find("user_question_request");
  const { refused: previewed, ...about } = await accepted(
    node.post(`${ann.floorPath}/what-if`, { content: "trip by train" }),
  );
  const { errorCode, error, retryable } = await refused(sayTo(ann, "trip by train"));
  expect(previewed).toEqual({ errorCode: "agent_busy", error, retryable });
  expect(errorCode).toBe("agent_busy");
  expect(about).toEqual({ success: true, sessionId, routed: expect.objectContaining({ agent: "trips" }) });
});

test("the model auto, and a chat without an agent, are heard by the agent that routing names", async () => {
  const ann = new E2eClient(node);
  const complete = (content: string, fields: object = {}) =>
    node.post("/v1/chat/completions", {
      model: "auto",
      user: ann.userId,
      messages: [{ role: "user", content }],
      ...fields,
    });
  expect(await accepted(complete("trip"))).toMatchObject({
    model: "trips",
    choices: [{ message: { content: "Where do you want to go?" } }],
  });
  const earlier = [
    { role: "user", content: "tell me a joke" },
    { role: "user", content: "trip" },
  ];
  expect(await accepted(complete("", { messages: earlier }))).toMatchObject({ model: "trips" });
  const named = { metadata: { session: `s-${ann.userId}` } };
  expect(await accepted(complete("tell me a joke", named))).toMatchObject({ model: "chat" });
  expect((await ann.see(`s-${ann.userId}`)).agentId).toBe("chat");
  expect(await accepted(complete("trip", named))).toMatchObject({ model: "auto" });
  expect((await ann.see(`s-${ann.userId}`)).agentId).toBe("chat");
  const mhm = JSON.stringify({ model: "auto", user: ann.userId, messages: [{ role: "user", content: "mhm" }] });
  const ignored = await node.send("POST", "/v1/chat/completions", { "Content-Type": "application/json" }, mhm);
  expect(ignored.status).toBe(403);
  expect(ignored.body).toMatchObject({ error: { code: "rejected", routed: { ignored: true } } });
  const page = { id: `c-${ann.userId}`, userId: ann.userId };
  const message = { id: "m1", role: "user", parts: [{ type: "text", text: "trip" }] };
  const { text } = await node.post("/api/chat", { ...page, messages: [message] });
  expect(text).toContain("Where do you want to go?");
});

test("a router that is a model is told the names and what each is for, may name no other, and its tokens count", async () => {
  const provider = await startProviderServer();
  onTestFinished(() => provider.close());
  const adapter = { kind: "ai-sdk", provider: "openai-compatible", model: "m", base_url: provider.baseUrl };
  const asking = await NodeUnderTest.start({
    agents: [scripted("chat"), scripted("trips", { description: "plans journeys" }), { name: "model", adapter }],
    catalog: { default_agent: "chat", routing: [{ ask: "model", among: ["trips"], within: "10s" }] },
  });
  onTestFinished(() => asking.stop());
  provider.willReply({ kind: "stream", text: ["“tri", "ps”."] });
  const [ann, bob] = [new E2eClient(asking), new E2eClient(asking)];
  const routed = routedIn(await accepted(sayTo(ann, "hello")));
  expect(routed).toMatchObject({ agent: "trips", by: "ask", row: 1 });
  const { messages } = JSON.parse(provider.requests.at(-1)!.body) as { messages: { content: string }[] };
  expect(messages.at(-1)!.content).toMatch(/- trips: plans journeys\n\nThe sentence: hello$/);
  provider.willReply({ kind: "stream", text: ["chat"], usage: { input: 40, output: 2 } });
  const other = routedIn(await accepted(sayTo(bob, "hello")));
  expect(other).toMatchObject({ agent: "chat", by: "default", passed: [{ row: 1, why: "unknown" }] });
  const { usage } = (await accepted(asking.get("/usage?agentId=model"))) as unknown as { usage: object[] };
  expect(usage).toHaveLength(2);
  expect(usage).toContainEqual(expect.objectContaining({ ownerId: ann.userId, runs: 0, tokens: 2 }));
  expect(usage).toContainEqual(expect.objectContaining({ ownerId: bob.userId, runs: 0, tokens: 42 }));
});
