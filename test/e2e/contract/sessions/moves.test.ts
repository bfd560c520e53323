import { afterAll, expect, test } from "vitest";
import { createClient } from "../../../../src/client/client.ts";
import { E2E_AGENTS, scripted } from "../../../support/catalogs/e2e-catalog.ts";
import { accepted, E2eClient, refused } from "../../../support/clients/e2e-client.ts";
import { hold } from "../../../support/clients/e2e-states.ts";
import type { StreamEvent } from "../../../support/clients/frame-reader.ts";
import { NodeUnderTest } from "../../../support/nodes/node-under-test.ts";

const node = await NodeUnderTest.start({ agents: [...E2E_AGENTS, scripted("careful", {}, { restartable: false })] });
afterAll(() => node.stop());
const client = createClient({ baseUrl: node.url });

test("a session goes on on the other floor, with its conversation, the ids of its messages and its connection", async () => {
  const ann = new E2eClient(node);
  const { connectionId, stream: bound } = await ann.connect();
  // Requests that name no connection mean the one that has just come, not this one.
  await new E2eClient(node).connect();
  const { id } = await ann.hold("general", { connectionId });
  const stream = await ann.follow(id);
  await accepted(ann.say(id, "nod"));
  await stream.find("complete");
  const before = await ann.messages(id);
  const { session, decision } = await client.moveSession(id, "rear");
  expect(session).toMatchObject({ zone: "rear", state: "active", origin: { by: "move", sessionId: id } });
  expect(decision).toMatchObject({ outcome: "granted" });
  const about = ({ id: messageId, role, content, status }: (typeof before)[number]) => ({
    messageId,
    role,
    content,
    status,
  });
  expect((await ann.messages(session.id)).map(about)).toEqual(before.map(about));
  const isCreated = (event: StreamEvent) => event.type === "session_created" && event.sessionId === session.id;
  expect((await bound.find(isCreated)).seq).toBe(1);
  expect(await ann.see(id)).toMatchObject({ state: "archived", replacedBy: session.id });
  const gone = await client.pauseSession(id).catch((error) => error);
  expect([gone.code, gone.facts.replacedBy]).toEqual(["session_archived", session.id]);
  expect((await ann.floor()).holder).toBeNull();
  expect((await stream.findState(id, "archived")).data).toMatchObject({
    reason: "moved",
    by: { sessionId: session.id },
    movedTo: `u:${ann.userId}/rear`,
  });
  await accepted(ann.say(session.id, "nod"));
  // And back, to the floor without a zone.
  const back = await client.moveSession(session.id, null).catch((error) => error.code);
  expect(back).toMatchObject({ session: { state: "active" } });
  expect(back.session.zone).toBeUndefined();
});

test("a turn under way begins again there after the replies that were given, and those that wait follow it", async () => {
  const { ann, id } = await hold(node, "stacker");
  const stream = await ann.follow(id);
  const { runId } = await accepted(ann.say(id, "play"));
  await stream.find("delta");
  await accepted(ann.say(id, "play"));
  await accepted(ann.say(id, "nod"));
  await accepted(node.post(`/runs/${runId}/cancel`));
  await stream.until(({ type, data }) => type === "delta" && data["runId"] !== runId);
  const { session } = await accepted(node.post(`/session/${id}/move`, { zone: "rear" }));
  const there = await ann.messages(session.id);
  expect(there.map(({ role }) => role).slice(0, 4)).toEqual(["user", "assistant", "user", "user"]);
  const asked = there.filter(({ role }) => role === "user").map(({ content }) => content);
  expect(asked).toEqual(["play", "play", "nod"]);
  expect(await ann.see(session.id)).toMatchObject({ state: "active", activity: "running" });
  expect(await ann.see(id)).toMatchObject({ state: "archived", activity: "idle" });
  // Its budget counts each turn that has begun once.
  const { body } = await node.get(`/usage?agentId=stacker&ownerId=${ann.userId}`);
  // By day, of which there may be two.
  const { usage } = body as unknown as { usage: { runs: number }[] };
  expect(usage.reduce((sum, { runs }) => sum + runs, 0)).toBe(2);
});

test("a question of an agent that may begin again is asked again there", async () => {
  const { ann, id } = await hold(node);
  const stream = await ann.follow(id);
  await accepted(ann.say(id, "ask"));
  await stream.find("user_question_request");
  const { session } = await client.moveSession(id, "rear");
  const there = await ann.follow(session.id);
  const { requestId } = await there.find("user_question_request");
  await accepted(ann.send({ type: "user_question_response", sessionId: session.id, requestId, response: "a" }));
  await there.find("complete");
  expect((await ann.messages(session.id)).map(({ content }) => content)).toEqual(["ask", "You chose a."]);
});

test("a turn that has done what may not be done again keeps its session where it is until it has ended", async () => {
  const { ann, id } = await hold(node, "careful");
  const stream = await ann.follow(id);
  await accepted(ann.say(id, "ask"));
  await stream.find("user_question_request");
  const refusal = await refused(node.post(`/session/${id}/move`, { zone: "rear" }));
  expect(refusal).toMatchObject({ errorCode: "agent_busy", retryable: true });
  await accepted(ann.send({ type: "abort", sessionId: id }));
  expect((await client.moveSession(id, "rear")).session.state).toBe("active");
});

test("what is refused changes nothing: no other floor, no such session, no zone, an ended session", async () => {
  const { ann, id } = await hold(node, "music");
  const before = await accepted(node.get(`/session/${id}`));
  const move = (zone: unknown, of: string = id) => node.post(`/session/${of}/move`, { zone });
  expect((await refused(move(null))).errorCode).toBe("illegal_command");
  expect((await refused(move(undefined))).errorCode).toBe("bad_request");
  expect((await refused(move("a\u0000b"))).errorCode).toBe("bad_request");
  expect((await refused(move("rear", "nobody"))).errorCode).toBe("session_not_found");
  expect((await refused(node.post(`/session/${id}/move`, { zone: "rear", ifSeq: 1 }))).errorCode).toBe("stale");
  expect(await accepted(node.get(`/session/${id}`))).toEqual(before);
  const alone = await accepted(node.post("/session/create", {}));
  expect((await refused(move("rear", alone.session.id))).errorCode).toBe("illegal_command");
  await accepted(ann.on(id, "archive"));
  expect((await refused(move("rear"))).errorCode).toBe("session_archived");
});
