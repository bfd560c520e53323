/** The commands about the floor by the state of the session that they are for. */

import { afterAll, expect, test } from "vitest";
import type { Session } from "../../../../src/protocol/session.ts";
import { accepted, E2eClient, refused } from "../../../support/clients/e2e-client.ts";
import { archive, hold, leavesAsItWas, pauseByUser, preempt, queue } from "../../../support/clients/e2e-states.ts";
import { NodeUnderTest } from "../../../support/nodes/node-under-test.ts";

const node = await NodeUnderTest.start();
afterAll(() => node.stop());

async function createInCall(agentId: string) {
  const { ann } = await hold(node, "phone");
  return { ann, session: await ann.create(agentId) };
}

/** A user's session in a state, and how it got there. */
const STATES = {
  created: async () => {
    const ann = new E2eClient(node);
    return { ann, session: await ann.create("music") };
  },
  "created, in a call": () => createInCall("music"),
  "created, in a call, of an agent that waits": () => createInCall("patient"),
  queued: () => queue(node),
  active: async () => {
    const ann = new E2eClient(node);
    return { ann, session: await ann.hold("music") };
  },
  "paused by its user": () => pauseByUser(node),
  preempted: () => preempt(node),
  "preempted, of an agent that waits": () => preempt(node, "patient"),
  archived: () => archive(node),
};

/** What the answer says, the session afterwards, and the new events of its log. */
type Verb = Parameters<E2eClient["on"]>[1];
type Cell = readonly [verb: Verb, from: keyof typeof STATES, answer: string, after: string, logged: string];

const CELLS: readonly Cell[] = [
  ["activate", "created", "granted floor_free", "active", "arbitration, created→active.idle activate"],
  ["activate", "created, in a call", "rejected rejected lower_priority", "created", "arbitration"],
  ["activate", "created, in a call, of an agent that waits", "queued lower_priority", "created queued", "arbitration"],
  ["activate", "queued", "queued lower_priority", "created queued", ""],
  ["activate", "active", "granted already_holder", "active", ""],
  ["activate", "paused by its user", "granted floor_free", "active", "arbitration, paused→active.idle resume"],
  ["activate", "preempted, of an agent that waits", "queued lower_priority", "paused by preemption", "arbitration"],
  ["activate", "archived", "session_archived", "archived", ""],
  ["resume", "created", "illegal_command", "created", ""],
  ["resume", "queued", "illegal_command", "created queued", ""],
  ["resume", "active", "granted already_holder", "active", ""],
  ["resume", "paused by its user", "granted floor_free", "active", "arbitration, paused→active.idle resume"],
  ["resume", "preempted", "rejected rejected lower_priority", "paused by preemption", "arbitration"],
  ["resume", "preempted, of an agent that waits", "queued lower_priority", "paused by preemption", "arbitration"],
  ["resume", "archived", "session_archived", "archived", ""],
  ["pause", "created", "illegal_command", "created", ""],
  ["pause", "queued", "illegal_command", "created queued", ""],
  ["pause", "active", "", "paused by user", "active.idle→paused pause"],
  ["pause", "paused by its user", "", "paused by user", ""],
  ["pause", "preempted", "", "paused by user", "paused→paused pause"],
  ["pause", "archived", "session_archived", "archived", ""],
  ...(["archive", "stop"] as const).flatMap((verb): Cell[] => [
    [verb, "created", "", "archived", "created→archived archive"],
    [verb, "queued", "", "archived", "created→archived archive"],
    [verb, "active", "", "archived", "active.idle→archived archive"],
    [verb, "preempted", "", "archived", "paused→archived archive"],
  ]),
  ["archive", "archived", "session_archived", "archived", ""],
  ["stop", "archived", "", "archived", ""],
];

const standing = ({ state, pausedBy, queuedAt }: Session) =>
  [state, pausedBy && `by ${pausedBy}`, queuedAt && "queued"].filter(Boolean).join(" ");

test.each(CELLS)("%s of a session that is %s is answered with %j: it is then %j, and %j is logged", async (...cell) => {
  const [verb, from, answer, after, logged] = cell;
  const { ann, session } = await STATES[from]();
  const before = { session: await ann.see(session.id), log: await ann.log(session.id), floor: await ann.floor() };
  const { status, body } = await ann.on(session.id, verb);
  const { decision, errorCode } = body;
  const said = [status === 200 ? undefined : errorCode, decision?.outcome, decision?.reason];
  const now = { session: await ann.see(session.id), log: await ann.log(session.id), floor: await ann.floor() };
  const events = now.log.slice(before.log.length).map(({ type, data }) => {
    if (type === "arbitration") expect(data).toEqual(decision);
    return type === "session_transition" ? `${data["from"]}→${data["to"]} ${data["event"]}` : type;
  });
  expect([verb, from, said.filter(Boolean).join(" "), standing(now.session), events.join(", ")]).toEqual([
    verb,
    from,
    answer,
    after,
    logged,
  ]);
  if (status === 200) expect(body.session).toEqual(now.session);
  else if (decision === undefined) expect(now).toEqual(before);
  if (errorCode === "illegal_command") {
    expect(body.allowed).toEqual(expect.arrayContaining(["activate", "archive", "stop", "chat"]));
    expect(body.allowed).not.toContain(verb);
  }
});

test("a session that its user paused while it was preempted is not woken by a release", async () => {
  const { ann, holder, session } = await preempt(node);
  await accepted(ann.on(session.id, "pause"));
  await accepted(ann.on(holder.id, "archive"));
  expect((await ann.floor()).holder).toBeNull();
});

test("archive withdraws a queued session, which is never granted the floor", async () => {
  const { ann, holder, session } = await queue(node);
  expect((await accepted(ann.on(session.id, "archive"))).session.archivedAt).toEqual(expect.any(Number));
  await accepted(ann.on(holder.id, "archive"));
  expect(await ann.floor()).toMatchObject({ holder: null, queued: [] });
});

test("archive ends the active session's run: its message, complete, and the transition as the log's last event", async () => {
  const { ann, id } = await hold(node, "music");
  const stream = await ann.follow(id);
  const { runId } = await accepted(ann.say(id, "play"));
  await stream.find("delta");
  const { session } = await accepted(ann.on(id, "archive"));
  expect(session).toMatchObject({ state: "archived", activity: "idle" });
  const [complete, last] = (await ann.log(id)).slice(-2);
  expect(complete).toMatchObject({ type: "complete", data: { runId, cancelled: true } });
  expect(last).toMatchObject({ data: { from: "active.running", to: "archived", event: "archive" } });
});

test("an archived session accepts no message, agent or title; an abort has no effect", async () => {
  const { ann, session } = await archive(node);
  const { id } = session;
  await leavesAsItWas(ann, id, async () => {
    expect((await refused(ann.say(id, "hello"))).errorCode).toBe("session_archived");
    expect((await refused(node.patch(`/session/${id}`, { title: "x" }))).errorCode).toBe("session_archived");
    const { outcome } = await accepted(ann.send({ type: "switch_agent", sessionId: id, agentId: "chat" }));
    expect(outcome.errorCode).toBe("session_archived");
    await accepted(ann.send({ type: "abort", sessionId: id }));
  });
});
