import { afterAll, describe, expect, test } from "vitest";
import { accepted, E2eClient, refused, transitionsOf } from "../../../support/clients/e2e-client.ts";
import { leavesAsItWas, pauseByUser, preempt, queue } from "../../../support/clients/e2e-states.ts";
import { NodeUnderTest } from "../../../support/nodes/node-under-test.ts";

/** The contract's table of commands and states, cell by cell: the commands about the conversation. */

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

  test("chat with a created session that is rejected does not keep the message", async () => {
    const ann = new E2eClient(node);
    await ann.hold("phone");
    const { id } = await ann.create("music");
    const { errorCode, decision } = await refused(ann.say(id, "hello"));
    expect(errorCode).toBe("rejected");
    expect(decision.reason).toBe("lower_priority");
    expect(await ann.messages(id)).toEqual([]);
    expect(await ann.see(id)).toMatchObject({ state: "created", messageCount: 0 });
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

  test("chat that creates a queued session keeps the message, and runs when the floor is granted", async () => {
    const ann = new E2eClient(node);
    const holder = await ann.hold("phone");
    const message = { type: "chat", content: "hello", userId: ann.userId, agentId: "patient" };
    const { sessionId, decision, runId } = await accepted(ann.send(message));
    expect(decision.outcome).toBe("queued");
    const stream = await ann.follow(sessionId);
    await accepted(ann.on(holder.id, "archive"));
    await stream.find(({ type, data }) => type === "complete" && data["runId"] === runId);
  });

  test("chat with the active session is its turn", async () => {
    const ann = new E2eClient(node);
    const { id } = await ann.hold("general");
    const answer = await accepted(ann.say(id, "hello"));
    expect(answer).toMatchObject({ sessionId: id, messageId: expect.any(String), runId: expect.any(String) });
    expect(answer.decision).toBeUndefined();
  });

  test("chat with the active session while it is busy is refused, and the message is not kept", async () => {
    const ann = new E2eClient(node);
    const { id } = await ann.hold("general");
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
    const ann = new E2eClient(node);
    const { id } = await ann.hold("music");
    await accepted(ann.say(id, "play"));
    const phone = await ann.hold("phone");
    expect((await refused(ann.say(id, "hello"))).errorCode).toBe("agent_busy");
    await accepted(ann.on(id, "pause"));
    await accepted(ann.on(phone.id, "archive"));
    expect((await refused(ann.say(id, "hello"))).errorCode).toBe("agent_busy");
    expect((await ann.see(id)).state).toBe("paused");
  });
});

describe("abort", () => {
  test("abort of a created or a queued session has no effect", async () => {
    const ann = new E2eClient(node);
    const { id } = await ann.create("music");
    await leavesAsItWas(ann, id, () => accepted(ann.send({ type: "abort", sessionId: id })));
    const queued = await queue(node);
    await leavesAsItWas(queued.ann, queued.session.id, () =>
      accepted(queued.ann.send({ type: "abort", sessionId: queued.session.id })),
    );
  });

  test("abort of the active session ends its run; it keeps the floor", async () => {
    const ann = new E2eClient(node);
    const { id } = await ann.hold("music");
    const { runId } = await accepted(ann.say(id, "play"));
    await accepted(ann.send({ type: "abort", sessionId: id }));
    expect(await ann.see(id)).toMatchObject({ state: "active", activity: "idle" });
    // The attempt's last report may follow the end of its run, as a message.
    const [complete, last] = (await ann.log(id)).filter(({ type }) => type !== "message").slice(-2);
    expect(complete).toMatchObject({ type: "complete", data: { runId, cancelled: true } });
    expect(last!.data).toMatchObject({ from: "active.running", to: "active.idle", event: "abort" });
  });

  test("abort of a paused session ends its held run; it stays paused", async () => {
    const ann = new E2eClient(node);
    const { id } = await ann.hold("music");
    const { runId } = await accepted(ann.say(id, "play"));
    await ann.hold("phone");
    await accepted(ann.send({ type: "abort", sessionId: id }));
    expect(await ann.see(id)).toMatchObject({ state: "paused", activity: "idle", pausedBy: "preemption" });
    // The attempt's last report may follow the end of its run.
    const ended = (await ann.log(id)).filter(({ type }) => type === "complete");
    expect(ended).toMatchObject([{ data: { runId, cancelled: true } }]);
  });
});

describe("switch_agent", () => {
  const switchTo = (ann: E2eClient, sessionId: string, agentId: string) =>
    accepted(ann.send({ type: "switch_agent", sessionId, agentId }));

  test("switch_agent of a created session applies the new agent's priority", async () => {
    const ann = new E2eClient(node);
    const { id } = await ann.create("music");
    const { outcome } = await switchTo(ann, id, "planner");
    expect(outcome).toEqual({ previousAgentId: "music", currentAgentId: "planner", agentName: "Planner" });
    expect(await ann.see(id)).toMatchObject({ agentId: "planner", priority: 60, state: "created" });
  });

  test("switch_agent of a queued session keeps its place in time, and competes with the new priority", async () => {
    const { ann, holder, session } = await queue(node);
    const { session: second } = await accepted(ann.askToCreate({ agentId: "patient", activate: true }));
    await switchTo(ann, session.id, "chat");
    const { queued } = await ann.floor();
    expect(queued.map(({ id }) => id)).toEqual([session.id, second.id]);
    expect(queued[0]).toMatchObject({ agentId: "chat", queuedAt: session.queuedAt });
    await switchTo(ann, second.id, "weather");
    await accepted(ann.on(holder.id, "archive"));
    expect((await ann.floor()).holder).toMatchObject({ id: second.id, agentId: "weather" });
  });

  test("switch_agent of the active session preempts no session and leaves it active", async () => {
    const { ann, holder, session } = await preempt(node, "planner");
    await switchTo(ann, holder.id, "chat");
    expect((await ann.floor()).holder).toMatchObject({ id: holder.id, agentId: "chat", priority: 10 });
    expect((await ann.see(session.id)).state).toBe("paused");
    expect((await accepted(ann.on(session.id, "resume"))).decision.reason).toBe("preempted");
  });

  test("switch_agent of a paused session applies when it returns", async () => {
    const { ann, session } = await pauseByUser(node);
    await switchTo(ann, session.id, "planner");
    expect(await ann.see(session.id)).toMatchObject({ state: "paused", agentId: "planner" });
  });

  test("switch_agent of a session that is busy, active or paused, is refused until it is aborted", async () => {
    const ann = new E2eClient(node);
    const { id } = await ann.hold("music");
    await accepted(ann.say(id, "play"));
    expect((await switchTo(ann, id, "chat")).outcome.errorCode).toBe("agent_busy");
    await ann.hold("phone");
    expect((await switchTo(ann, id, "chat")).outcome.errorCode).toBe("agent_busy");
    expect((await ann.see(id)).agentId).toBe("music");
    await accepted(ann.send({ type: "abort", sessionId: id }));
    expect((await switchTo(ann, id, "chat")).outcome.currentAgentId).toBe("chat");
  });
});

describe("PATCH", () => {
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
});
