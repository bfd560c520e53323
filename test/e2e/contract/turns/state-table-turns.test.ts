import { afterAll, describe, expect, test } from "vitest";
import { accepted, E2eClient, refused, transitionsOf } from "../../../support/clients/e2e-client.ts";
import { hold, pauseByUser, preempt, queue } from "../../../support/clients/e2e-states.ts";
import { NodeUnderTest } from "../../../support/nodes/node-under-test.ts";

/** The commands about a conversation by the state of its session. All cases of the rules: `test/unit/actors`. */

const node = await NodeUnderTest.start();
afterAll(() => node.stop());

describe("chat", () => {
  test("chat with a created session requests the floor, and is then its turn", async () => {
    const ann = new E2eClient(node);
    const { id } = await ann.create("music");
    const { decision, runId } = await accepted(ann.say(id, "play"));
    expect(decision.outcome).toBe("granted");
    const log = await ann.log(id);
    expect(transitionsOf(log)).toEqual(["created→active.idle", "active.idle→active.running"]);
    expect(log.at(-1)!.data).toMatchObject({ event: "turn", runId });
  });

  test("chat with a queued session is kept, and runs when the floor is granted", async () => {
    const { ann, holder, session } = await queue(node);
    const { id } = session;
    const { runId, messageId } = await accepted(ann.say(id, "hello"));
    expect(await ann.messages(id)).toMatchObject([{ id: messageId, status: "queued", content: "hello" }]);
    const stream = await ann.follow(id);
    await accepted(ann.on(holder.id, "archive"));
    await stream.find(({ type, data }) => type === "complete" && data["runId"] === runId);
    expect(await ann.messages(id)).toMatchObject([{ status: "success" }, { content: "Hello there." }]);
  });

  test("chat with the active session while it is busy is refused, and the message is not kept", async () => {
    const { ann, id } = await hold(node);
    await accepted(ann.say(id, "play"));
    expect((await refused(ann.say(id, "hello"))).errorCode).toBe("agent_busy");
    expect((await ann.messages(id)).filter(({ role }) => role === "user")).toHaveLength(1);
  });

  test("chat with a paused session requests the floor, and is then its turn", async () => {
    const { ann, session } = await pauseByUser(node);
    const { decision } = await accepted(ann.say(session.id, "play"));
    expect(decision).toMatchObject({ outcome: "granted", reason: "floor_free" });
    expect(transitionsOf(await ann.log(session.id)).slice(-2)).toEqual([
      "paused→active.idle",
      "active.idle→active.running",
    ]);
  });

  test("chat with a paused session that is blocked waits with its message, if the agent says so", async () => {
    const { ann, session } = await preempt(node, "patient");
    expect((await accepted(ann.say(session.id, "hello"))).decision.outcome).toBe("queued");
    expect(await ann.messages(session.id)).toMatchObject([{ content: "hello", status: "queued" }]);
    expect((await ann.see(session.id)).state).toBe("paused");
  });

  test("chat with a paused session that holds a run is refused as busy before the floor is requested", async () => {
    const { ann, id } = await hold(node, "music");
    await accepted(ann.say(id, "play"));
    const phone = await ann.hold("phone");
    expect((await refused(ann.say(id, "hello"))).errorCode).toBe("agent_busy");
    await accepted(ann.on(id, "pause"));
    await accepted(ann.on(phone.id, "archive"));
    expect((await refused(ann.say(id, "hello"))).errorCode).toBe("agent_busy");
    expect((await ann.see(id)).state).toBe("paused");
  });
});

test("switch_agent of a queued session keeps its place in time, and competes with the new priority", async () => {
  const { ann, holder, session } = await queue(node);
  const { session: second } = await accepted(ann.askToCreate({ agentId: "patient", activate: true }));
  await accepted(ann.send({ type: "switch_agent", sessionId: session.id, agentId: "chat" }));
  const { queued } = await ann.floor();
  expect(queued.map(({ id }) => id)).toEqual([session.id, second.id]);
  expect(queued[0]).toMatchObject({ agentId: "chat", queuedAt: session.queuedAt });
  await accepted(ann.send({ type: "switch_agent", sessionId: second.id, agentId: "weather" }));
  await accepted(ann.on(holder.id, "archive"));
  expect((await ann.floor()).holder).toMatchObject({ id: second.id, agentId: "weather" });
});

test("PATCH renames a session in every state but archived", async () => {
  const rename = async (id: string) => (await accepted(node.patch(`/session/${id}`, { title: "Renamed" }))).session;
  const ann = new E2eClient(node);
  expect((await rename((await ann.create("music")).id)).title).toBe("Renamed");
  const { id } = await ann.hold("music");
  await accepted(ann.say(id, "play"));
  expect(await rename(id)).toMatchObject({ title: "Renamed", state: "active", activity: "running" });
  const queued = await queue(node);
  expect(await rename(queued.session.id)).toMatchObject({ queuedAt: queued.session.queuedAt });
  const paused = await preempt(node);
  expect(await rename(paused.session.id)).toMatchObject({ state: "paused" });
});
