import { afterAll, expect, test } from "vitest";
import type { Message } from "../../../../src/protocol/message.ts";
import { accepted, E2eClient, refused, transitionsOf, typesOf } from "../../../support/clients/e2e-client.ts";
import { hold, importMessages } from "../../../support/clients/e2e-states.ts";
import { NodeUnderTest } from "../../../support/nodes/node-under-test.ts";

const node = await NodeUnderTest.start();
afterAll(() => node.stop());

const IMAGE = { data: Buffer.from("not really a picture").toString("base64"), mimeType: "image/png" };

const said = (messages: readonly Message[]) => messages.map(({ role, content }) => `${role}: ${content}`);

/** A session with `times` turns: a greeting and its reply. */
async function greeted(times: number, agentId = "general", ann = new E2eClient(node)) {
  const { id } = await ann.hold(agentId);
  for (let n = 1; n <= times; n++) await ann.talk(id, `hello ${n}`);
  return { ann, id, messages: await ann.messages(id) };
}

/** The two kinds of floors that a replaced session may have. */
const WHERE = ["on its user's floor", "on a floor of its own"];
const ONE = ["user: hello 1", "assistant: Hello there."];
const TWO = [...ONE, "user: hello 2", "assistant: Hello there."];

test("a fork has the whole history under new ids, names its source, and leaves the source unchanged; one that ends with a message continues independently", async () => {
  const { ann, id, messages } = await greeted(2);
  const before = await ann.see(id);
  const { session, position } = await accepted(node.post(`/session/${id}/fork`));
  const copied = await ann.messages(session.id);
  expect(said(copied)).toEqual(TWO);
  expect(session).toMatchObject({
    title: before.title,
    agentId: "general",
    userId: ann.userId,
    floorId: before.floorId,
    state: "created",
    messageCount: 4,
    tokenUsage: { used: 0 },
    origin: { by: "fork", sessionId: id, messageId: messages[3]!.id },
  });
  const ids = new Set([...messages, ...copied].flatMap((message) => [message.id, message.runId]));
  expect(ids.size).toBe(12);
  expect(copied.map(({ createdAt }) => createdAt)).toEqual(messages.map(({ createdAt }) => createdAt));
  expect(new Set(copied.map(({ sessionId }) => sessionId))).toEqual(new Set([session.id]));
  expect(await ann.see(id)).toEqual(before);
  expect(position).toMatch(/\.1\.\w+$/);
  expect(typesOf(await ann.log(session.id))).toEqual(["session_created"]);
  const fields = { messageId: messages[1]!.id, agentId: "phone", activate: true };
  const { session: begun } = await accepted(node.post(`/session/${id}/fork`, fields));
  expect(begun).toMatchObject({ state: "active", agentId: "phone", messageCount: 2 });
  await ann.talk(begun.id, "nod");
  expect(said(await ann.messages(begun.id))).toEqual([...ONE, "user: nod", "assistant: Yes."]);
  expect(said(await ann.messages(id))).toEqual(TWO);
});

test("a fork is found by its words and shows the images of its source, even when that is gone", async () => {
  const { ann, id } = await hold(node);
  await accepted(ann.say(id, "hello zanzibar", { images: [IMAGE] }));
  const { session } = await accepted(node.post(`/session/${id}/fork`));
  await accepted(node.delete(`/session/${id}`));
  const { sessions } = await accepted(node.get(`/session/list?q=zanzibar&userId=${ann.userId}`));
  expect(sessions.map((each) => each.id)).toEqual([session.id]);
  const [message] = await ann.messages(session.id);
  const { bytes } = await node.get(`/session/${session.id}/images/${message!.images![0]!.hash}`);
  expect(bytes.toString()).toBe("not really a picture");
});

test("a fork leaves out waiting turns and an unfinished message; a waiting one ends no fork and, as the agent's, cannot be sent again", async () => {
  const { ann, id, messages } = await greeted(1, "stacker");
  const stream = await ann.follow(id);
  await accepted(ann.say(id, "play", { id: "playing" }));
  await stream.until(({ type }) => type === "delta");
  await accepted(ann.say(id, "hello 2", { id: "waiting" }));
  const { session } = await accepted(node.post(`/session/${id}/fork`));
  expect(said(await ann.messages(session.id))).toEqual([...ONE, "user: play"]);
  const resend = (messageId: string) => node.post(`/session/${id}/messages/${messageId}/resend`);
  for (const answer of [
    node.post(`/session/${id}/fork`, { messageId: "waiting" }),
    resend("waiting"),
    resend(messages[1]!.id),
  ]) {
    expect((await refused(answer)).errorCode).toBe("illegal_command");
  }
  expect((await refused(resend("nothing"))).errorCode).toBe("not_found");
});

test("copies keep the replies of each turn that they keep, also of turns that waited for others", async () => {
  // Three messages at once; the turn under way is aborted, and the others follow.
  const { ann, id } = await hold(node, "stacker");
  const stream = await ann.follow(id);
  await accepted(ann.say(id, "play", { id: "u0" }));
  await stream.until(({ type }) => type === "delta");
  await accepted(ann.say(id, "hello 1", { id: "u1" }));
  const { runId } = await accepted(ann.say(id, "hello 2", { id: "u2" }));
  await accepted(node.post("/message", { type: "abort", sessionId: id }));
  await stream.until(({ type, data }) => type === "complete" && data["runId"] === runId);
  const messages = await ann.messages(id);
  expect(messages.map(({ role }) => role).join(" ")).toBe("user user user assistant assistant assistant");
  const played = ["user: play", `assistant: ${messages[3]!.content}`];
  const copyUpTo = async (messageId?: string) => {
    const { session } = await accepted(node.post(`/session/${id}/fork`, { messageId }));
    return said(await ann.messages(session.id));
  };
  expect(await copyUpTo()).toEqual([...played, ...ONE, "user: hello 2", "assistant: Hello there."]);
  expect(await copyUpTo("u1")).toEqual([...played, "user: hello 1"]);
  expect(await copyUpTo(messages[4]!.id)).toEqual([...played, ...ONE]);
  const { bytes } = await node.get(`/session/${id}/export?format=md`);
  const lines = bytes.toString().split("\n");
  expect(lines.filter((line) => /^(play|hello|Hello)/.test(line))).toEqual([
    ...["play", "hello 1", "Hello there.", "hello 2", "Hello there."],
  ]);
  await accepted(ann.on(id, "pause"));
  const edit = await accepted(node.post(`/session/${id}/messages/u2/edit`, { content: "nod" }));
  expect(said(await ann.messages(edit.sessionId)).slice(0, 5)).toEqual([...played, ...ONE, "user: nod"]);
  const { body } = await node.get(`/session/rollback-points?sessionId=${id}`);
  expect(body).toMatchObject({ points: [{ messageIndex: 0 }, { messageIndex: 2 }, { messageIndex: 4 }] });
  const { session } = await accepted(node.post(`/session/${id}/rollback`, { turns: 1 }));
  expect(said(await ann.messages(session.id))).toEqual([...played, ...ONE]);
});

test("a fork of an unknown message or session is not found, and leaves nothing", async () => {
  const { ann, id } = await greeted(1);
  expect((await refused(node.post(`/session/${id}/fork`, { messageId: "nothing" }))).errorCode).toBe("not_found");
  expect((await refused(node.post("/session/nothing/fork"))).errorCode).toBe("session_not_found");
  expect((await accepted(node.get(`/session/list?userId=${ann.userId}`))).total).toBe(1);
});

test("a fork repeated with its key is the same, during the copy, after it, and after its source is gone", async () => {
  const { ann, id } = await greeted(1);
  const ask = () => node.post(`/session/${id}/fork`, {}, { key: `fork-${id}` });
  const made = (await Promise.all([ask(), ask(), ask()])).map(({ body }) => body.session.id);
  await accepted(node.delete(`/session/${id}`));
  made.push((await accepted(ask())).session.id);
  expect(new Set(made).size).toBe(1);
  expect(await ann.messages(made[0]!)).toHaveLength(2);
  const other = await refused(node.post(`/session/${id}/fork`, { activate: true }, { key: `fork-${id}` }));
  expect(other.errorCode).toBe("idempotency_mismatch");
});

test("a fork is bound to the named connection, from its first event, and by a repeat to the one that repeats it", async () => {
  const { ann, id } = await greeted(1);
  const key = `bound-${id}`;
  for (const { stream, connectionId } of [await ann.connect(), await ann.connect()]) {
    const { session } = await accepted(node.post(`/session/${id}/fork`, { connectionId }, { key }));
    const created = await stream.find("session_created");
    expect(created).toMatchObject({ sessionId: session.id, data: { origin: { by: "fork", sessionId: id } } });
  }
});

test("a fork copies a session of a thousand messages while the node answers others", async () => {
  const ann = new E2eClient(node);
  const contents = Array.from({ length: 1_000 }, (_, n) => `${n} ${"x".repeat(2_000)}`);
  const session = await importMessages(
    node,
    contents.map((content) => ({ role: "user", content })),
    ann.userId,
  );
  const fork = node.post(`/session/${session.id}/fork`);
  await accepted(node.get(`/session/${session.id}`));
  const { session: copy } = await accepted(fork);
  expect(copy.messageCount).toBe(1_000);
  const { messages } = await accepted(node.get(`/session/${copy.id}/messages?limit=1`));
  expect(messages[0]!.content).toMatch(/^999 /);
});

test("a message can be sent again as a new turn of the same session, with its images", async () => {
  const { ann, id } = await hold(node);
  await accepted(ann.say(id, "hello", { id: "first", images: [IMAGE] }));
  const stream = await ann.follow(id);
  await stream.until(({ type }) => type === "complete");
  const answer = await accepted(node.post(`/session/${id}/messages/first/resend`, {}, { key: `again-${id}` }));
  await stream.until(({ type, data }) => type === "complete" && data["runId"] === answer.runId);
  await accepted(node.post(`/session/${id}/messages/first/resend`, {}, { key: `again-${id}` }));
  const messages = await ann.messages(id);
  expect(said(messages)).toEqual(Array(2).fill(["user: hello", "assistant: Hello there."]).flat());
  expect(messages[2]!.id).toBe(answer.messageId);
  expect(messages[2]!.images).toEqual(messages[0]!.images);
});

test("a message can be sent with other text in a copy that ends before it, and the session stays unchanged", async () => {
  const { ann, id, messages } = await greeted(2);
  await accepted(ann.on(id, "pause"));
  const path = `/session/${id}/messages/${messages[2]!.id}/edit`;
  const { sessionId, messageId, runId } = await accepted(node.post(path, { content: "nod" }));
  expect(sessionId).not.toBe(id);
  const stream = await ann.follow(sessionId);
  await stream.until(({ type, data }) => type === "complete" && data["runId"] === runId);
  const edited = await ann.messages(sessionId);
  expect(said(edited)).toEqual([...ONE, "user: nod", "assistant: Yes."]);
  expect(edited[2]!.id).toBe(messageId);
  expect((await ann.see(sessionId)).origin).toEqual({ by: "edit", sessionId: id, messageId: messages[1]!.id });
  expect((await ann.see(id)).state).toBe("paused");
  expect(said(await ann.messages(id))).toEqual(TWO);
});

test("a message keeps its images when it is sent with other text, unless others are given", async () => {
  const { ann, id } = await hold(node);
  await accepted(ann.say(id, "hello", { id: "first", images: [IMAGE] }));
  await accepted(ann.on(id, "stop"));
  const path = `/session/${id}/messages/first/edit`;
  const kept = await accepted(node.post(path, { content: "nod" }));
  const [first] = await ann.messages(kept.sessionId);
  expect(first!.images).toHaveLength(1);
  expect((await node.get(`/session/${kept.sessionId}/images/${first!.images![0]!.hash}`)).status).toBe(200);
  await accepted(ann.on(kept.sessionId, "stop"));
  const none = await accepted(node.post(path, { content: "nod", images: [] }));
  expect((await ann.messages(none.sessionId))[0]!.images).toBeUndefined();
});

test("a message is not copied when the floor is refused, or the new text is empty", async () => {
  const { ann, id, messages } = await greeted(1, "music");
  await accepted(ann.on(id, "pause"));
  await ann.hold("phone");
  const path = `/session/${id}/messages/${messages[0]!.id}/edit`;
  expect((await refused(node.post(path, { content: "nod" }))).errorCode).toBe("rejected");
  expect((await refused(node.post(path, { content: " " }))).errorCode).toBe("bad_request");
  expect((await accepted(node.get(`/session/list?userId=${ann.userId}`))).total).toBe(2);
});

test("a rollback takes back the last turns in a copy that replaces the session, gets its floor and wakes no other session", async () => {
  const ann = new E2eClient(node);
  const music = await ann.hold("music");
  const { id, messages } = await greeted(3, "general", ann);
  const { position } = await ann.floor();
  const floor = await node.stream(`${ann.floorPath}/events?lastEventId=${position}`);
  const { session } = await accepted(node.post(`/session/${id}/rollback`, { turns: 2 }));
  expect(session).toMatchObject({ state: "active", messageCount: 2, agentId: "general" });
  expect(session.origin).toEqual({ by: "rollback", sessionId: id, messageId: messages[1]!.id });
  expect(said(await ann.messages(session.id))).toEqual(ONE);
  expect((await ann.see(id)).state).toBe("archived");
  const activated = await floor.until((event) => event.sessionId === session.id && event.data["event"] === "activate");
  expect(activated.filter(({ sessionId }) => sessionId === music.id)).toEqual([]);
  expect(transitionsOf(activated.slice(-3))).toEqual(["active.idle→archived", "created→active.idle"]);
  const end = activated.find(({ sessionId, type }) => sessionId === id && type === "session_transition")!;
  expect(end.data).toMatchObject({ reason: "superseded", by: { sessionId: session.id, agentId: "general" } });
  await ann.talk(session.id, "nod");
  await accepted(ann.on(session.id, "stop"));
  expect((await ann.see(music.id)).state).toBe("active");
});

test("a rollback ends the run and drops its output, and a repeat has the same result", async () => {
  const { ann, id } = await greeted(1);
  const stream = await ann.follow(id);
  await accepted(ann.say(id, "play"));
  await stream.until(({ type }) => type === "delta");
  const ask = () => accepted(node.post(`/session/${id}/rollback`, {}, { key: `back-${id}` }));
  const { session } = await ask();
  expect(said(await ann.messages(session.id))).toEqual(ONE);
  expect((await ask()).session.id).toBe(session.id);
  const events = await stream.end();
  expect(events.at(-1)).toMatchObject({ type: "bye", data: { reason: "ended" } });
  expect(events.some(({ type, data }) => type === "complete" && data["cancelled"] === true)).toBe(true);
});

test("a rollback of a paused session leaves the floor to its holder", async () => {
  const { ann, id } = await greeted(1, "music");
  const phone = await ann.hold("phone");
  const { session } = await accepted(node.post(`/session/${id}/rollback`));
  expect(session).toMatchObject({ state: "created", messageCount: 0, origin: { by: "rollback", sessionId: id } });
  expect((await ann.see(id)).state).toBe("archived");
  const { holder, paused } = await ann.floor();
  expect([holder?.id, paused]).toEqual([phone.id, []]);
});

test.each(WHERE)("a rollback replaces a session %s once: of several one takes effect", async (where) => {
  const { ann, id } = await hold(node, "general", where.endsWith("own") ? { userId: undefined } : {});
  await ann.talk(id, "hello 1");
  const back = () => node.post(`/session/${id}/rollback`);
  const { session } = await accepted(back());
  const floorId = where.endsWith("own") ? `s:${session.id}` : `u:${ann.userId}`;
  expect(session).toMatchObject({ state: "active", floorId, messageCount: 0 });
  expect((await refused(back())).errorCode).toBe("session_archived");
  expect((await ann.see(id)).replacedBy).toBe(session.id);
  await ann.talk(session.id, "hello 2");
  const several = await Promise.all([1, 2].map(() => node.post(`/session/${session.id}/rollback`)));
  expect(several.map(({ status }) => status).toSorted()).toEqual([200, 409]);
  const taken = several.find(({ status }) => status === 200)!.body.session.id;
  expect((await ann.see(session.id)).replacedBy).toBe(taken);
  const { sessions } = await accepted(node.get("/session/list?pageSize=100"));
  const copies = sessions.filter(({ origin }) => origin?.sessionId === session.id);
  expect(copies.map((copy) => copy.id)).toEqual([taken]);
});

test("a rollback of more turns than the session has is refused, and changes nothing", async () => {
  const { ann, id } = await greeted(2);
  const { errorCode, error } = await refused(node.post(`/session/${id}/rollback`, { turns: 3 }));
  expect([errorCode, error]).toEqual(["illegal_command", "The session has only 2 turns that can be taken back."]);
  expect((await ann.see(id)).state).toBe("active");
});

test.each(WHERE)("a rollback moves the connections of a session %s, also of a disconnected client", async (where) => {
  const ann = new E2eClient(node);
  const own = where.endsWith("own") ? { userId: undefined } : {};
  const { id } = await ann.hold("general", own);
  await ann.talk(id, "hello 1");
  const here = await ann.connect(`&sessionId=${id}`);
  const gone = await ann.connect(`&sessionId=${id}`);
  const position = gone.stream.lastEventId;
  await gone.stream.close();
  const { session } = await accepted(node.post(`/session/${id}/rollback`));
  const back = await node.stream(`/events?lastEventId=${position}`);
  for (const stream of [here.stream, back]) {
    const created = await stream.find("session_created");
    expect([created.sessionId, created.data["origin"]]).toEqual([session.id, { by: "rollback", sessionId: id }]);
  }
  const { connectionId } = here;
  const { runId } = await accepted(node.post("/message", { type: "chat", content: "nod", connectionId }));
  for (const stream of [here.stream, back]) {
    const events = await stream.until(({ type, data }) => type === "complete" && data["runId"] === runId);
    expect(events.at(-1)!.sessionId).toBe(session.id);
  }
});

test("a rollback with an edit archives the session in favour of the copy, which has the floor", async () => {
  const { ann, id, messages } = await greeted(1, "phone");
  const path = `/session/${id}/messages/${messages[0]!.id}/edit`;
  const { sessionId } = await accepted(node.post(path, { content: "nod", replace: true }));
  expect((await ann.see(id)).state).toBe("archived");
  expect((await ann.see(sessionId)).state).toBe("active");
});

test("the waiting turns are listed in order, without a withdrawn one", async () => {
  const { ann, id } = await hold(node, "stacker");
  await accepted(ann.say(id, "play"));
  for (const n of [1, 2, 3]) await accepted(ann.say(id, `hello ${n}`, { id: `w${n}` }));
  const queue = async (query = "") => {
    const { messages, hasMore } = await accepted(node.get(`/session/${id}/queue${query}`));
    expect(hasMore).toBe(false);
    return messages.map((message) => [message.id, message.status]);
  };
  expect(await queue()).toEqual([1, 2, 3].map((n) => [`w${n}`, "queued"]));
  expect(await queue("?after=w1")).toEqual([2, 3].map((n) => [`w${n}`, "queued"]));
  await accepted(node.delete(`/session/${id}/messages/w2`));
  expect(await queue()).toEqual([1, 3].map((n) => [`w${n}`, "queued"]));
  await accepted(ann.on(id, "stop"));
  expect(await queue()).toEqual([]);
});

test("the waiting turns are listed in pages that end at a megabyte", async () => {
  const { ann, id } = await hold(node, "stacker");
  await accepted(ann.say(id, "play"));
  for (const n of [1, 2, 3, 4, 5, 6]) await accepted(ann.say(id, "x".repeat(262_144), { id: `w${n}` }));
  const first = await accepted(node.get(`/session/${id}/queue`));
  expect([first.messages.length, first.hasMore]).toEqual([4, true]);
  const rest = await accepted(node.get(`/session/${id}/queue?after=w4`));
  expect([rest.messages.map((message) => message.id), rest.hasMore]).toEqual([["w5", "w6"], false]);
});
