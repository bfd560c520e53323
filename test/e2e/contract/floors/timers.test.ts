/** The timers of a catalogue. Times are short and real; every test awaits the event, not the time. */

import { afterAll, expect, test } from "vitest";
import { E2E_AGENTS, scripted } from "../../../support/catalogs/e2e-catalog.ts";
import { accepted, E2eClient, typesOf } from "../../../support/clients/e2e-client.ts";
import { hold } from "../../../support/clients/e2e-states.ts";
import { NodeUnderTest } from "../../../support/nodes/node-under-test.ts";

const agents = [
  ...E2E_AGENTS,
  scripted("guest", { priority: 50, after_turn: "yield" }),
  scripted("once", { priority: 50, after_turn: "archive" }),
  scripted("sleepy", { priority: 50, idle_timeout: "30ms" }),
  scripted("fleeting", { priority: 20, max_pause: "30ms" }),
  scripted("hurried", { priority: 10, when_blocked: "queue", queue_timeout: "30ms" }),
];
const catalog = { default_agent: "general", policy: { resume_delay: "30ms" } };
const node = await NodeUnderTest.start({ agents, catalog });
afterAll(() => node.stop());
test("after_turn yield releases the floor when the answer is complete; a new turn requests it again", async () => {
  const ann = new E2eClient(node);
  const music = await ann.hold("music");
  const { id } = await ann.hold("guest");
  const [stream, ofMusic] = [await ann.follow(id), await ann.follow(music.id)];
  await ofMusic.findState(music.id, "paused");
  await accepted(ann.say(id, "hello"));
  const yielded = await stream.findState(id, "paused");
  expect(yielded.data).toMatchObject({ from: "active.idle", event: "yield", reason: "after_turn" });
  expect(await ann.see(id)).toMatchObject({ state: "paused", pausedBy: "yield", activity: "idle" });
  await ofMusic.findState(music.id, "active.idle");
  expect((await accepted(ann.say(id, "hello"))).decision.reason).toBe("preempted");
});

test("after_turn archive ends the session when the answer is complete", async () => {
  const { ann, id } = await hold(node, "once");
  const stream = await ann.follow(id);
  await accepted(ann.say(id, "hello"));
  const events = await stream.end();
  expect(typesOf(events).slice(-3)).toEqual(["session_transition", "session_transition", "bye"]);
  expect(events.at(-2)!.data).toMatchObject({ from: "active.idle", to: "archived", reason: "after_turn" });
  expect(await ann.messages(id)).toHaveLength(2);
});

test("idle_timeout releases the floor when nothing happens, and the next session gets it", async () => {
  const ann = new E2eClient(node);
  const music = await ann.hold("music");
  const stream = await ann.follow(music.id);
  const { id } = await ann.hold("sleepy");
  await stream.findState(music.id, "paused");
  await stream.findState(music.id, "active.idle");
  expect(await ann.see(id)).toMatchObject({ state: "paused", pausedBy: "yield" });
  expect((await ann.log(id)).at(-1)!.data).toMatchObject({ event: "yield", reason: "idle_timeout" });
});

test("max_pause archives a session that was paused for longer, by its user or by preemption", async () => {
  const ann = new E2eClient(node);
  for (const pausedBy of ["preemption", "user"]) {
    const { id } = await ann.hold("fleeting");
    const stream = await ann.follow(id);
    const phone = pausedBy === "user" ? undefined : await ann.hold("phone");
    if (!phone) await accepted(ann.on(id, "pause"));
    const expired = await stream.findState(id, "archived");
    expect(expired.data).toMatchObject({ from: "paused", event: "expire", reason: "max_pause" });
    expect((await stream.end()).at(-1)!.type).toBe("bye");
    if (phone) await accepted(ann.on(phone.id, "archive"));
    expect((await ann.floor()).holder).toBeNull();
  }
});

test("queue_timeout removes a session from the queue: it stays created, and its waiting turn ends", async () => {
  const ann = new E2eClient(node);
  const phone = await ann.hold("phone");
  const chat = { type: "chat", content: "hello", userId: ann.userId, agentId: "hurried" };
  const { sessionId, runId, decision } = await accepted(ann.send(chat));
  expect(decision.outcome).toBe("queued");
  const stream = await ann.follow(sessionId);
  const events = await stream.until("complete");
  expect(events.findLast(({ type }) => type === "arbitration")!.data).toMatchObject({
    outcome: "rejected",
    reason: "queue_timeout",
    holder: { sessionId: phone.id },
  });
  expect(events.at(-2)).toMatchObject({ type: "error", data: { errorCode: "rejected", runId } });
  expect(events.at(-1)!.data).toMatchObject({ runId, cancelled: true });
  const session = await ann.see(sessionId);
  expect(session.state).toBe("created");
  expect(session).not.toHaveProperty("queuedAt");
  expect(await ann.messages(sessionId)).toMatchObject([{ content: "hello", status: "error" }]);
  await accepted(ann.on(phone.id, "archive"));
  expect(await ann.floor()).toMatchObject({ holder: null, queued: [] });
  expect((await accepted(ann.on(sessionId, "activate"))).session.state).toBe("active");
});

test("resume_delay waits before the interrupted session resumes", async () => {
  const ann = new E2eClient(node);
  const music = await ann.hold("music");
  const stream = await ann.follow(music.id);
  const phone = await ann.hold("phone");
  await stream.findState(music.id, "paused");
  const floor = await node.stream(`${ann.floorPath}/events`);
  await accepted(ann.on(phone.id, "archive"));
  expect((await floor.find("floor_updated")).data).toMatchObject({ reserved: { sessionId: music.id } });
  const resumed = await stream.findState(music.id, "active.idle");
  expect(resumed.data).toMatchObject({ from: "paused", event: "resume", reason: "resumed" });
});
