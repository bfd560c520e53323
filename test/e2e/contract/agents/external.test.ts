import { afterAll, expect, test } from "vitest";
import { accepted, E2eClient, refused, typesOf } from "../../../support/clients/e2e-client.ts";
import { hold } from "../../../support/clients/e2e-states.ts";
import { NodeUnderTest } from "../../../support/nodes/node-under-test.ts";
import { PLAYERS } from "../../../support/nodes/players.ts";

const polite = { name: "polite", priority: 10, when_blocked: "queue" };
const node = await NodeUnderTest.start({ agents: [...PLAYERS, polite], catalog: { default_agent: "general" } });
afterAll(() => node.stop());

const beat = (sessionId: string, fields: object = {}) =>
  node.post("/message", { type: "heartbeat", sessionId, ...fields });

test("an external agent is shown as such, with its lease; the others are shown as before", async () => {
  const { agents } = JSON.parse((await node.get("/agents")).text);
  const shown = (id: string) => agents.find((agent: { id: string }) => agent.id === id);
  expect(shown("music")).toMatchObject({ external: true, leaseMs: 2_000, available: true });
  expect(shown("unleased")).toMatchObject({ external: true });
  expect(shown("unleased")).not.toHaveProperty("leaseMs");
  expect(Object.keys(shown("general"))).toEqual(
    ["id", "name", "description", "priority", "interruptible", "capabilities", "available"], //
  );
});

test("an external agent follows its sessions' events: play, play quieter, be silent, stop", async () => {
  const { ann, id } = await hold(node, "slow_music");
  const stream = await ann.follow(id);
  const prompt = await ann.hold("unleased");
  await accepted(ann.on(prompt.id, "archive"));
  await accepted(ann.on(id, "archive"));
  const moves = (await stream.end()).filter(({ type }) => type === "session_transition");
  expect(moves.map(({ data }) => data["to"])).toEqual(["active.idle", "paused", "active.idle", "archived"]);
});

test.each(["chat", "image"])("an external agent takes no turn: a %s is refused in every state", async (type) => {
  const ann = new E2eClient(node);
  const created = await ann.create("slow_music");
  const heard = await ann.create("slow_music", { activate: true });
  const paused = await ann.create("unleased", { activate: true });
  await accepted(ann.on(paused.id, "pause"));
  for (const { id } of [created, heard, paused]) {
    const before = await ann.log(id);
    const images = [{ data: "AAAA", mimeType: "image/png" }];
    const answer = await refused(ann.send({ type, sessionId: id, content: "hello", images }));
    expect(answer).toMatchObject({ errorCode: "illegal_command" });
    expect(answer.error).toMatch(/is external: it takes no turns\.$/);
    expect(answer.allowed).toContain("activate");
    expect(await ann.log(id)).toEqual(before);
  }
});

test("an external agent is not started by a message: no session is created", async () => {
  const ann = new E2eClient(node);
  const first = { type: "chat", content: "hello", userId: ann.userId, agentId: "music" };
  expect(await refused(ann.send(first))).toMatchObject({ errorCode: "illegal_command" });
  expect((await accepted(node.get(`/session/list?userId=${ann.userId}`))).total).toBe(0);
});

test("an external agent is not switched to while turns wait", async () => {
  const ann = new E2eClient(node);
  await ann.hold("slow_music");
  const chat = { type: "chat", content: "hello", userId: ann.userId, agentId: "polite" };
  const { sessionId } = await accepted(ann.send(chat));
  const { outcome } = await accepted(ann.send({ type: "switch_agent", sessionId, agentId: "music" }));
  expect(outcome).toMatchObject({ errorCode: "agent_busy" });
});

test("a heartbeat returns what the session should do and until when it keeps its place, and is not an event", async () => {
  const { ann, id, leaseMs, leaseUntil } = await hold(node, "slow_music");
  const before = await ann.log(id);
  const told = { success: true, sessionId: id, state: "active", leaseMs, leaseUntil };
  expect(await accepted(beat(id))).toEqual(told);
  expect(await ann.log(id)).toEqual(before);
  await ann.hold("prompt");
  expect(await accepted(beat(id))).toMatchObject({ state: "ducked", level: -14, leaseUntil });
  await accepted(ann.on(id, "pause"));
  expect(await accepted(beat(id))).toEqual({ success: true, sessionId: id, state: "paused" });
});

test("a heartbeat may be repeated with one key: each repeat renews the lease", async () => {
  const { ann, id } = await hold(node, "slow_music");
  const again = () => node.post("/message", { type: "heartbeat", sessionId: id }, { key: "the-same" });
  expect((await accepted(again())).success).toBe(true);
  await accepted(ann.on(id, "archive"));
  expect((await refused(again())).errorCode).toBe("session_archived");
});

test("a silent participant gives up the floor, with an event for it and one for the session that resumes, and is counted", async () => {
  const ann = new E2eClient(node);
  const music = await ann.hold("slow_music");
  const stream = await ann.follow(music.id);
  const { id } = await ann.hold("prompt");
  await stream.findState(music.id, "ducked.idle");
  await stream.findState(music.id, "active.idle");
  const log = await ann.log(id);
  expect(log.at(-1)).toMatchObject({
    type: "session_transition",
    data: { from: "active.idle", to: "paused", event: "yield", reason: "lease_expired" },
  });
  expect(typesOf(log)).toEqual(["session_created", "arbitration", "session_transition", "session_transition"]);
  expect(await ann.see(id)).toMatchObject({ state: "paused", pausedBy: "yield" });
  const { text } = await node.get("/metrics");
  expect(text).toMatch(/^interlock_leases_expired_total [1-9]/m);
  const { decision } = await accepted(ann.on(id, "resume"));
  expect(decision).toMatchObject({ outcome: "granted", rule: 7 });
});
