import { afterAll, expect, test } from "vitest";
import { accepted, E2eClient, refused, transitionsOf, typesOf } from "../../../support/clients/e2e-client.ts";
import { connect, create, hold } from "../../../support/clients/e2e-states.ts";
import { NodeUnderTest } from "../../../support/nodes/node-under-test.ts";

const node = await NodeUnderTest.start();
afterAll(() => node.stop());

/** The texts of a session's messages from one role, oldest first. */
const said = async (ann: E2eClient, sessionId: string, by: "user" | "assistant") =>
  (await ann.messages(sessionId)).filter(({ role }) => role === by).map(({ content }) => content);

const HELLO = { type: "chat", content: "hello" };

test("a quick chat makes a session with the given fields, requests the floor, and is its first turn", async () => {
  const ann = new E2eClient(node);
  const about = { userId: ann.userId, zone: "rear", workspaceId: "w", agentId: "music" };
  const answer = await accepted(ann.send({ ...HELLO, ...about }));
  expect(answer).toEqual({
    success: true,
    sessionId: expect.any(String),
    messageId: expect.any(String),
    runId: expect.any(String),
    decision: expect.objectContaining({ outcome: "granted", reason: "floor_free" }),
    position: expect.any(String),
  });
  expect(await ann.see(answer.sessionId)).toMatchObject({ ...about, state: "active" });
  const stream = await ann.follow(answer.sessionId);
  await stream.find("complete");
  expect(await said(ann, answer.sessionId, "assistant")).toEqual(["Hello there."]);
  await ann.talk(answer.sessionId, "hello again");
  expect(await said(ann, answer.sessionId, "user")).toEqual(["hello", "hello again"]);
});

test("a quick chat without agent, user and type has the default agent and a floor of its own; one of an unknown type is refused", async () => {
  const { body } = await node.post("/message", { content: "hello" });
  expect(body.decision).toMatchObject({ outcome: "granted" });
  const { session } = await accepted(node.get(`/session/${body.sessionId}`));
  expect(session).toMatchObject({ agentId: "general", floorId: `s:${body.sessionId}` });
  const shout = { type: "shout", userId: node.newUser(), content: "nod" };
  expect((await refused(node.post("/message", shout))).errorCode).toBe("bad_request");
});

test("a quick chat that is rejected leaves no session and its connection unbound", async () => {
  const ann = new E2eClient(node);
  await ann.hold("phone");
  const { stream, connectionId } = await ann.connect();
  const chat = { ...HELLO, connectionId, agentId: "music", id: "lost" };
  const { errorCode, decision } = await refused(ann.send(chat));
  expect(errorCode).toBe("rejected");
  expect(decision).toMatchObject({ outcome: "rejected", reason: "lower_priority", challenger: { priority: 20 } });
  expect((await stream.find("error")).data).toMatchObject({ errorCode: "rejected" });
  expect((await refused(ann.send({ type: "abort", connectionId }))).errorCode).toBe("session_not_found");
  const { sessions } = await accepted(node.get(`/session/list?userId=${ann.userId}&includeArchived=true`));
  expect(sessions.map(({ agentId }) => agentId)).toEqual(["phone"]);
});

test("a quick chat is bound to the named connection, and its events are sent there from the first", async () => {
  const { ann, stream, connectionId } = await connect(node);
  const { sessionId } = await accepted(ann.send({ ...HELLO, connectionId, agentId: "music" }));
  const created = await stream.find("session_created");
  expect(created).toMatchObject({ sessionId, seq: 1, data: { userId: ann.userId } });
  await stream.find("complete");
  // The session is bound: the next message need not name it.
  expect((await accepted(ann.send({ ...HELLO, connectionId }))).sessionId).toBe(sessionId);
});

test("a chat is answered when it is committed, before its turn has ended", async () => {
  const { ann, id } = await hold(node);
  const { position } = await accepted(ann.say(id, "play"));
  const { session, position: next } = await accepted(node.get(`/session/${id}`));
  expect(session.activity).toBe("running");
  expect(next).toBe(position);
});

test("a chat is accepted although its client disconnected, and is not aborted", async () => {
  const { ann, id } = await hold(node);
  const stream = await ann.follow(id);
  await node.sendAndLeave("/message", { type: "chat", sessionId: id, content: "hello", id: "left" });
  expect((await stream.find("complete")).data).not.toHaveProperty("cancelled");
  expect((await ann.messages(id)).map(({ content }) => content)).toEqual(["hello", "Hello there."]);
});

test("a chat keeps the user's text, with NUL and lone surrogates replaced", async () => {
  const { ann, id } = await hold(node);
  const raw = `{"type":"chat","sessionId":"${id}","content":"a\\u0000b\\ud800c 😀"}`;
  await accepted(node.post("/message", undefined, { raw }));
  expect(await said(ann, id, "user")).toEqual(["a\uFFFDb\uFFFDc 😀"]);
});

test.each(["", "   ", "\n"])("a chat of %j without an image is malformed", async (content) => {
  const { id } = await new E2eClient(node).create("general");
  const { errorCode, issues } = await refused(node.post("/message", { type: "chat", sessionId: id, content }));
  expect(errorCode).toBe("bad_request");
  expect(issues[0]!.path).toBe("body.content");
});

test("a chat may have at most 262144 units", async () => {
  const { ann, id } = await hold(node);
  await accepted(ann.say(id, `play ${"x".repeat(262_139)}`));
  await accepted(ann.send({ type: "abort", sessionId: id }));
  expect((await refused(ann.say(id, `play ${"x".repeat(262_140)}`))).errorCode).toBe("too_large");
  expect(await said(ann, id, "user")).toHaveLength(1);
});

test("a message's id is the client's, or the server makes one", async () => {
  const { ann, id } = await hold(node, "stacker");
  expect((await accepted(ann.say(id, "play", { id: "mine" }))).messageId).toBe("mine");
  expect((await accepted(ann.say(id, "hello"))).messageId).toMatch(/^[A-Za-z0-9_-]{1,64}$/);
});

test("a message id repeated with the same content changes nothing and gets the same answer; with other content or images it is a mismatch", async () => {
  const { ann, id } = await hold(node);
  const first = await accepted(ann.say(id, "hello", { id: "m1" }));
  await (await ann.follow(id)).find("complete");
  const before = await ann.log(id);
  const again = await accepted(ann.say(id, "hello", { id: "m1" }));
  expect(again).toMatchObject({ sessionId: id, messageId: "m1", runId: first.runId });
  const images = [{ data: "aGVsbG8=", mimeType: "image/png" }];
  for (const other of [{ content: "bye" }, { images }]) {
    const answer = await refused(ann.say(id, "hello", { id: "m1", ...other }));
    expect(answer.errorCode).toBe("idempotency_mismatch");
  }
  expect(await ann.log(id)).toEqual(before);
  expect(await said(ann, id, "user")).toEqual(["hello"]);
});

test("a message id repeated during its run has no further effect for every when_busy, and other content is a mismatch", async () => {
  for (const agent of ["general", "stacker", "hasty"]) {
    const { ann, id } = await hold(node, agent);
    const first = await accepted(ann.say(id, "play", { id: "m1" }));
    const again = await accepted(ann.say(id, "play", { id: "m1" }));
    expect(again, agent).toMatchObject({ messageId: "m1", runId: first.runId });
    expect((await refused(ann.say(id, "hello", { id: "m1" }))).errorCode, agent).toBe("idempotency_mismatch");
    expect(await ann.see(id), agent).toMatchObject({ activity: "running" });
    expect(typesOf(await ann.log(id)), agent).not.toContain("complete");
  }
});

test("a chat during a run interrupts it if its agent allows that, and its answer names the kept text", async () => {
  const { ann, id } = await hold(node, "hasty");
  const { runId } = await accepted(ann.say(id, "play"));
  // Streamed text is stored within a moment: from then on it survives.
  let spoken = (await ann.messages(id))[1];
  while (!spoken) spoken = (await ann.messages(id))[1];
  const { interrupted } = await accepted(ann.say(id, "hello"));
  expect(interrupted).toEqual({ runId, messageId: spoken.id });
});

test("pause, resume and archive as messages do what the routes do", async () => {
  const { ann, id } = await hold(node, "music");
  for (const type of ["pause", "resume", "archive"]) {
    expect(await accepted(ann.send({ type, sessionId: id }))).toMatchObject({ success: true, sessionId: id });
  }
  expect((await refused(ann.send({ type: "resume", sessionId: id }))).errorCode).toBe("session_archived");
  expect(transitionsOf(await ann.log(id))).toEqual([
    "created→active.idle",
    "active.idle→paused",
    "paused→active.idle",
    "active.idle→archived",
  ]);
});

test.each(["ping", "heartbeat"])("a message that is a %s is welcome at any time, and has no effect", async (type) => {
  expect(await accepted(node.post("/message", { type }))).toEqual({ success: true });
  expect(await accepted(node.post("/message", { type, sessionId: "nowhere" }))).toEqual({ success: true });
});

test.each(["abort", "pause", "resume", "archive"])("a message of type %s needs a session", async (type) => {
  expect((await refused(node.post("/message", { type }))).errorCode).toBe("session_not_found");
});

test("played is answered with the position that counts: a repeated, smaller or late one changes nothing, and one beyond the end is refused", async () => {
  const { ann, id } = await hold(node);
  await ann.talk(id, "hello");
  const [, reply] = await ann.messages(id);
  const play = (upTo: number, messageId: string = reply!.id) =>
    ann.send({ type: "played", sessionId: id, messageId, upTo });
  const counts = async (upTo: number) => ((await accepted(play(upTo))) as { playedUpTo?: number }).playedUpTo;
  const fails = async (upTo: number, messageId?: string) => (await refused(play(upTo, messageId))).errorCode;
  const counted = [];
  for (const upTo of [5, 5, 3, 8]) counted.push(await counts(upTo));
  expect(counted).toEqual([5, 5, 5, 8]);
  const failures = [await fails(13), await fails(-1), await fails(1, "nowhere")];
  expect(failures).toEqual(["bad_request", "bad_request", "not_found"]);
  await ann.talk(id, "nod");
  expect(await counts(12)).toBe(8);
  const messages = await ann.messages(id);
  expect(messages.map(({ playedUpTo }) => playedUpTo)).toEqual([undefined, 8, undefined, undefined]);
  await accepted(ann.send({ type: "archive", sessionId: id }));
  expect(await fails(2, messages[3]!.id)).toBe("session_archived");
});

test("a message without a session is for the session bound last to its connection", async () => {
  const { ann, connectionId } = await connect(node);
  await ann.create("music", { connectionId });
  const last = await ann.create("chat", { connectionId });
  expect((await accepted(ann.send({ type: "archive", connectionId }))).sessionId).toBe(last.id);
});

test("a message that fails is reported to the connection that it names, and to no reader that did not ask", async () => {
  const { ann, id } = await create(node, "music");
  const reader = await ann.follow(id);
  await reader.find("session_created");
  expect((await refused(ann.send({ type: "resume", sessionId: id }))).allowed).toContain("activate");
  const { stream: mine, connectionId } = await ann.connect(`&sessionId=${id}`);
  await mine.until((event) => event.type === "agent_list" && event.data["currentAgentId"] === "music");
  await refused(ann.send({ type: "resume", sessionId: id, connectionId }));
  const error = await mine.find("error");
  expect(error).toMatchObject({ sessionId: id, data: { errorCode: "illegal_command", message: expect.any(String) } });
  expect(error.seq).toBeUndefined();
  await accepted(node.patch(`/session/${id}`, { title: "after" }));
  expect(typesOf(await reader.until("session_updated"))).toEqual(["session_updated"]);
  expect(typesOf(await mine.until("session_updated"))).toEqual(["session_updated"]);
});
