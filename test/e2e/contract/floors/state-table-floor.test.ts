import { afterAll, describe, expect, test } from "vitest";
import { accepted, E2eClient, refused, transitionsOf, typesOf } from "../../../support/clients/e2e-client.ts";
import { archive, leavesAsItWas, pauseByUser, preempt, queue } from "../../../support/clients/e2e-states.ts";
import { NodeUnderTest } from "../../../support/nodes/node-under-test.ts";

/** The contract's table of commands and states, cell by cell: the commands about the floor. */

const node = await NodeUnderTest.start();
afterAll(() => node.stop());

const archivedCode = "session_archived";

describe("activate", () => {
  test("activate requests the floor for a created session: granted", async () => {
    const ann = new E2eClient(node);
    const { id } = await ann.create("music");
    const { session, decision } = await accepted(ann.on(id, "activate"));
    expect(session.state).toBe("active");
    expect(decision).toMatchObject({ outcome: "granted", reason: "floor_free" });
  });

  test("activate requests the floor for a created session: rejected, it stays created, and its log has only the decision", async () => {
    const ann = new E2eClient(node);
    await ann.hold("phone");
    const { id } = await ann.create("music");
    const { errorCode, decision } = await refused(ann.on(id, "activate"));
    expect(errorCode).toBe("rejected");
    expect((await ann.see(id)).state).toBe("created");
    const log = await ann.log(id);
    expect(typesOf(log)).toEqual(["session_created", "arbitration"]);
    expect(log[1]!.data).toEqual(decision);
  });

  test("activate requests the floor for a created session whose agent queues: queued", async () => {
    const ann = new E2eClient(node);
    await ann.hold("phone");
    const { id } = await ann.create("patient");
    const { session, decision } = await accepted(ann.on(id, "activate"));
    expect(decision.outcome).toBe("queued");
    expect(session).toMatchObject({ state: "created", queuedAt: expect.any(Number) });
  });

  test("activate of a queued session is accepted and keeps its place", async () => {
    const { ann, session } = await queue(node);
    const before = await ann.log(session.id);
    const { session: again } = await accepted(ann.on(session.id, "activate"));
    expect(again).toEqual({ ...session, updatedAt: again.updatedAt });
    expect(await ann.log(session.id)).toEqual(before);
  });

  test("activate of the active session is granted already, and logs nothing", async () => {
    const ann = new E2eClient(node);
    const { id } = await ann.hold("music");
    await leavesAsItWas(ann, id, async () => {
      const { decision } = await accepted(ann.on(id, "activate"));
      expect(decision).toMatchObject({ outcome: "granted", reason: "already_holder", rule: 3 });
    });
  });

  test("activate resumes a paused session: granted", async () => {
    const { ann, session } = await pauseByUser(node);
    const answer = await accepted(ann.on(session.id, "activate"));
    expect(answer.session.state).toBe("active");
    expect((await ann.log(session.id)).at(-1)).toMatchObject({ data: { from: "paused", event: "resume" } });
  });

  test("activate of a paused session that is blocked waits, if its agent says so", async () => {
    const { ann, session } = await preempt(node, "patient");
    const { decision } = await accepted(ann.on(session.id, "activate"));
    expect(decision).toMatchObject({ outcome: "queued", reason: "lower_priority" });
    expect(await ann.see(session.id)).toMatchObject({ state: "paused", pausedBy: "preemption" });
  });

  test("activate of an archived session is refused", async () => {
    const { ann, session } = await archive(node);
    await leavesAsItWas(ann, session.id, async () => {
      expect((await refused(ann.on(session.id, "activate"))).errorCode).toBe(archivedCode);
    });
  });
});

describe("resume", () => {
  test("resume of a created session is not an accepted command, and the answer names those that are", async () => {
    const ann = new E2eClient(node);
    const { id } = await ann.create("music");
    await leavesAsItWas(ann, id, async () => {
      const { errorCode, allowed } = await refused(ann.on(id, "resume"));
      expect(errorCode).toBe("illegal_command");
      expect(allowed).toEqual(expect.arrayContaining(["activate", "archive", "stop", "chat"]));
      expect(allowed).not.toContain("resume");
    });
  });

  test("resume of a queued session is not an accepted command", async () => {
    const { ann, session } = await queue(node);
    await leavesAsItWas(ann, session.id, async () => {
      expect((await refused(ann.on(session.id, "resume"))).errorCode).toBe("illegal_command");
    });
  });

  test("resume of the active session is granted already", async () => {
    const ann = new E2eClient(node);
    const { id } = await ann.hold("music");
    await leavesAsItWas(ann, id, async () => {
      expect((await accepted(ann.on(id, "resume"))).decision.reason).toBe("already_holder");
    });
  });

  test("resume requests the floor for a paused session: granted, or it stays paused and waits", async () => {
    const { ann, session } = await pauseByUser(node);
    expect((await accepted(ann.on(session.id, "resume"))).session).toMatchObject({ state: "active" });
    const blocked = await preempt(node, "patient");
    const { decision } = await accepted(blocked.ann.on(blocked.session.id, "resume"));
    expect(decision).toMatchObject({ outcome: "queued", reason: "lower_priority" });
    expect((await blocked.ann.see(blocked.session.id)).state).toBe("paused");
  });

  test("resume of an archived session is refused", async () => {
    const { ann, session } = await archive(node);
    expect((await refused(ann.on(session.id, "resume"))).errorCode).toBe(archivedCode);
  });
});

describe("pause", () => {
  test("pause of a session that never had the floor is not an accepted command", async () => {
    const ann = new E2eClient(node);
    const { id } = await ann.create("music");
    expect((await refused(ann.on(id, "pause"))).errorCode).toBe("illegal_command");
    const queued = await queue(node);
    expect((await refused(queued.ann.on(queued.session.id, "pause"))).errorCode).toBe("illegal_command");
    expect((await queued.ann.floor()).queued).toHaveLength(1);
  });

  test("pause of the active session pauses it for the user, and the floor is released", async () => {
    const { ann, holder, session } = await preempt(node);
    expect((await accepted(ann.on(holder.id, "pause"))).session).toMatchObject({ state: "paused", pausedBy: "user" });
    expect((await ann.see(session.id)).state).toBe("active");
  });

  test("pause of a paused session makes it paused by the user, without a transition, so that no release wakes it", async () => {
    const { ann, holder, session } = await preempt(node);
    const before = await ann.log(session.id);
    const { session: after } = await accepted(ann.on(session.id, "pause"));
    expect(after).toMatchObject({ state: "paused", pausedBy: "user" });
    expect(await ann.log(session.id)).toEqual(before);
    await accepted(ann.on(holder.id, "archive"));
    expect((await ann.floor()).holder).toBeNull();
    expect((await accepted(ann.on(session.id, "pause"))).session.pausedBy).toBe("user");
  });

  test("pause of an archived session is refused", async () => {
    const { ann, session } = await archive(node);
    expect((await refused(ann.on(session.id, "pause"))).errorCode).toBe(archivedCode);
  });
});

describe.each(["archive", "stop"] as const)("%s", (verb) => {
  test("a created session is archived", async () => {
    const ann = new E2eClient(node);
    const { id } = await ann.create("music");
    const { session } = await accepted(ann.on(id, verb));
    expect(session).toMatchObject({ state: "archived", archivedAt: expect.any(Number) });
    expect(transitionsOf(await ann.log(id))).toEqual(["created→archived"]);
  });

  test("a queued session is withdrawn and archived: it is never granted the floor", async () => {
    const { ann, holder, session } = await queue(node);
    const answer = await accepted(ann.on(session.id, verb));
    expect(answer.session.state).toBe("archived");
    expect(Object.keys(answer.session)).not.toContain("queuedAt");
    await accepted(ann.on(holder.id, "archive"));
    expect(await ann.floor()).toMatchObject({ holder: null, queued: [] });
    expect(transitionsOf(await ann.log(session.id))).toEqual(["created→archived"]);
  });

  test("the active session's run ends: its message, complete, and the transition as the log's last event", async () => {
    const ann = new E2eClient(node);
    const { id } = await ann.hold("music");
    const stream = await ann.follow(id);
    const { runId } = await accepted(ann.say(id, "play"));
    await stream.find("delta");
    const { session } = await accepted(ann.on(id, verb));
    expect(session).toMatchObject({ state: "archived", activity: "idle" });
    const [complete, last] = (await ann.log(id)).slice(-2);
    expect(complete).toMatchObject({ type: "complete", data: { runId, cancelled: true } });
    expect(last).toMatchObject({ data: { from: "active.running", to: "archived", event: "archive" } });
  });

  test("a paused session is archived, and its held run ends", async () => {
    const ann = new E2eClient(node);
    const { id } = await ann.hold("music");
    await accepted(ann.say(id, "play"));
    await ann.hold("phone");
    expect(await ann.see(id)).toMatchObject({ state: "paused", activity: "running" });
    await accepted(ann.on(id, verb));
    const log = await ann.log(id);
    expect(typesOf(log).slice(-2)).toEqual(["complete", "session_transition"]);
    expect(transitionsOf(log).at(-1)).toBe("paused→archived");
  });
});

describe("an archived session", () => {
  test("an archived session is not archived again, but may be stopped again", async () => {
    const { ann, session } = await archive(node);
    await leavesAsItWas(ann, session.id, async () => {
      expect((await refused(ann.on(session.id, "archive"))).errorCode).toBe(archivedCode);
      expect((await accepted(ann.on(session.id, "stop"))).session).toEqual(session);
    });
  });

  test("an archived session accepts no message, agent or title; an abort has no effect", async () => {
    const { ann, session } = await archive(node);
    const { id } = session;
    await leavesAsItWas(ann, id, async () => {
      expect((await refused(ann.say(id, "hello"))).errorCode).toBe(archivedCode);
      expect((await refused(node.patch(`/session/${id}`, { title: "x" }))).errorCode).toBe(archivedCode);
      const { outcome } = await accepted(ann.send({ type: "switch_agent", sessionId: id, agentId: "chat" }));
      expect(outcome.errorCode).toBe(archivedCode);
      await accepted(ann.send({ type: "abort", sessionId: id }));
    });
  });
});
