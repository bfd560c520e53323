import { afterAll, expect, test } from "vitest";
import { accepted, E2eClient, refused } from "../../../support/clients/e2e-client.ts";
import { connect, create, hold } from "../../../support/clients/e2e-states.ts";
import { NodeUnderTest } from "../../../support/nodes/node-under-test.ts";

const node = await NodeUnderTest.start();
afterAll(() => node.stop());

let keys = 0;
const newKey = () => `key-${++keys}`;
const newOptions = () => ({ key: newKey() });

test("a repeat with the same key creates no second session, and gets the first answer", async () => {
  const ann = new E2eClient(node);
  const options = newOptions();
  const first = await accepted(ann.askToCreate({ agentId: "music", activate: true }, options));
  await accepted(ann.on(first.session.id, "pause"));
  expect(await accepted(ann.askToCreate({ agentId: "music", activate: true }, options))).toEqual(first);
  expect((await accepted(node.get(`/session/list?userId=${ann.userId}`))).total).toBe(1);
});

test("the same key means the same request regardless of field order and explicit defaults", async () => {
  const ann = new E2eClient(node);
  const options = newOptions();
  const send = (raw: string) => accepted(node.post("/session/create", undefined, { ...options, raw }));
  const first = await send(`{"userId":"${ann.userId}","agentId":"music"}`);
  expect(await send(`{"agentId":"music","activate":false,"userId":"${ann.userId}"}`)).toEqual(first);
});

test("a repeat without a session means the original session, although the connection is bound to another since", async () => {
  const { ann, connectionId } = await connect(node);
  const one = await ann.create("general", { connectionId });
  const options = newOptions();
  const first = await accepted(ann.send({ type: "chat", content: "play", connectionId }, options));
  expect(first.sessionId).toBe(one.id);
  // On another floor, which does not know the key.
  const other = await ann.create("general", { connectionId, zone: "rear" });
  expect(await accepted(ann.send({ type: "chat", content: "play", connectionId }, options))).toEqual(first);
  expect(await ann.messages(other.id)).toEqual([]);
  const mismatch = await refused(ann.send({ type: "chat", content: "nod", connectionId }, options));
  expect(mismatch.errorCode).toBe("idempotency_mismatch");
});

test("a repeat of a quick chat creates no second session, and binds it to each connection that repeats it", async () => {
  const ann = new E2eClient(node);
  const options = newOptions();
  const chat = { type: "chat", content: "play", userId: ann.userId };
  const first = await accepted(ann.send({ ...chat, connectionId: (await ann.connect()).connectionId }, options));
  const second = await ann.connect();
  const again = await accepted(ann.send({ ...chat, connectionId: second.connectionId }, options));
  expect(again).toEqual(first);
  expect(await second.stream.find("session_created")).toMatchObject({ sessionId: first.sessionId, seq: 1 });
  expect((await accepted(node.get(`/session/list?userId=${ann.userId}`))).total).toBe(1);
});

test("a repeated create binds its session to each connection that repeats it", async () => {
  const ann = new E2eClient(node);
  const options = newOptions();
  const askOver = (connectionId: string) => accepted(ann.askToCreate({ agentId: "music", connectionId }, options));
  const first = await askOver((await ann.connect()).connectionId);
  const second = await ann.connect();
  expect(await askOver(second.connectionId)).toEqual(first);
  expect(await second.stream.find("session_created")).toMatchObject({ sessionId: first.session.id, seq: 1 });
});

test("a key used for another request is a mismatch: another body, another path, another floor", async () => {
  const [ann, bob] = [new E2eClient(node), new E2eClient(node)];
  const options = newOptions();
  const { session } = await accepted(ann.askToCreate({ agentId: "music" }, options));
  const { id } = await bob.hold("music");
  const others = [
    ann.askToCreate({ agentId: "chat" }, options),
    ann.askToCreate({ agentId: "music", title: "Other" }, options),
    bob.askToCreate({ agentId: "music" }, options),
    ann.on(session.id, "activate", options),
    bob.on(id, "pause", options),
    bob.say(id, "hello", {}, options),
    node.post(`${bob.floorPath}/stop-all`, undefined, options),
  ];
  for (const other of others) expect((await refused(other)).errorCode).toBe("idempotency_mismatch");
  expect((await bob.floor()).holder!.id).toBe(id);
  expect((await ann.see(session.id)).state).toBe("created");
});

test("a key may be in the body or in the header", async () => {
  const ann = new E2eClient(node);
  const key = newKey();
  const first = await accepted(ann.askToCreate({ agentId: "music", commandId: key }));
  expect(await accepted(ann.askToCreate({ agentId: "music" }, { key }))).toEqual(first);
});

test("a key may be in the body of every write", async () => {
  const { ann, id } = await hold(node, "stacker");
  await accepted(ann.say(id, "play"));
  await accepted(ann.say(id, "hello", { id: "late" }));
  const repeated = async (method: string, path: string, body: object) => {
    const raw = JSON.stringify({ ...body, commandId: newKey() });
    const headers = { "Content-Type": "application/json", "Content-Length": Buffer.byteLength(raw) };
    const [one, two] = [await node.send(method, path, headers, raw), await node.send(method, path, headers, raw)];
    expect(one.status, one.text).toBe(200);
    expect(two.body).toEqual(one.body);
  };
  await repeated("DELETE", `/session/${id}/messages/late`, {});
  await repeated("PUT", `${ann.floorPath}/flags`, { night: true });
  expect((await ann.floor()).flags).toEqual({ night: true });
  await repeated("POST", `${ann.floorPath}/stop`, {});
  await repeated("PATCH", `/session/${(await ann.create("music")).id}`, { title: "New" });
  await repeated("DELETE", `/session/${id}`, {});
});

test.each([
  ["129 characters", "x".repeat(129)],
  ["no characters", ""],
  ["a space", "a b"],
  ["a tab", "a\tb"],
])("a key of %s is malformed", async (_, key) => {
  expect((await refused(node.post("/session/create", {}, { key }))).errorCode).toBe("bad_request");
  expect((await refused(node.post("/session/create", { commandId: key }))).errorCode).toBe("bad_request");
});

test("a key may have 128 visible characters of any kind", async () => {
  const key = `!"#$%&'()*+,-./:;<=>?@[\\]^_\`{|}~${"x".repeat(128)}`.slice(0, 128);
  const first = await accepted(node.post("/session/create", {}, { key }));
  expect(await accepted(node.post("/session/create", {}, { key }))).toEqual(first);
});

test("ids that are derived from a key cannot be guessed", async () => {
  const made = [];
  for (const key of [newKey(), newKey()])
    made.push((await accepted(node.post("/session/create", {}, { key }))).session.id);
  expect(made).toEqual(Array(2).fill(expect.stringMatching(/^[A-Za-z0-9_-]{22}$/)));
  expect(made[0]).not.toBe(made[1]);
});

test("a refused write repeated with its key gets the same answer after its session was deleted", async () => {
  const { ann, id } = await create(node, "music");
  const options = newOptions();
  const first = await refused(ann.on(id, "pause", options));
  await node.delete(`/session/${id}`);
  const again = await refused(ann.on(id, "pause", options));
  expect([first.errorCode, again.errorCode]).toEqual(["illegal_command", "illegal_command"]);
});

test("a write that was refused before it reached the floor is decided again when repeated, until it succeeds", async () => {
  const ann = new E2eClient(node);
  const options = newOptions();
  const id = `late-${options.key}`;
  expect((await refused(ann.on(id, "pause", options))).errorCode).toBe("session_not_found");
  await ann.hold("music", { id });
  const paused = await accepted(ann.on(id, "pause", options));
  expect(paused.session.state).toBe("paused");
  await accepted(ann.on(id, "resume"));
  expect(await accepted(ann.on(id, "pause", options))).toEqual(paused);
  expect((await ann.see(id)).state).toBe("active");
});

test("a write that was refused before it reached the floor leaves its key unused for a corrected request", async () => {
  const ann = new E2eClient(node);
  const options = newOptions();
  const malformed = await refused(ann.askToCreate({ agentId: "music", title: 1 }, options));
  expect(malformed.errorCode).toBe("bad_request");
  const unbound = await refused(ann.askToCreate({ agentId: "music", connectionId: "gone" }, options));
  expect(unbound.errorCode).toBe("connection_not_found");
  const { session } = await accepted(ann.askToCreate({ agentId: "music", title: "One" }, options));
  expect(session.title).toBe("One");
});

async function almostFull() {
  const opened = await connect(node);
  const { ann, connectionId } = opened;
  for (let bound = 0; bound < 7; bound += 1) await ann.create("music", { connectionId });
  return opened;
}

test("a connection with room for one session gets one of several concurrent ones; the others are refused, and not created", async () => {
  const { ann, stream, connectionId } = await almostFull();
  // A refused create leaves the room unused.
  const unknown = await refused(ann.askToCreate({ agentId: "nobody", connectionId }));
  expect(unknown.errorCode).toBe("agent_not_found");
  const fields = { agentId: "chat", connectionId, activate: true };
  const answers = await Promise.all(["a", "b", "c"].map((title) => ann.askToCreate({ ...fields, title })));
  expect(answers.map(({ status }) => status).toSorted()).toEqual([200, 409, 409]);
  const refusals = answers.filter(({ status }) => status === 409);
  expect(refusals.map(({ body }) => body.errorCode)).toEqual(["too_many_bindings", "too_many_bindings"]);
  const { sessions, total } = await accepted(node.get(`/session/list?userId=${ann.userId}&agentId=chat`));
  expect([total, sessions[0]!.id]).toEqual([1, answers.find(({ status }) => status === 200)!.body.session.id]);
  expect((await ann.floor()).queued).toEqual([]);
  await stream.findState(sessions[0]!.id, "active.idle");
  // A session that is bound already may be loaded.
  await accepted(node.post("/session/load", { sessionId: sessions[0]!.id, connectionId }));
});

test("a repeated create is answered as before although the connection is full by then", async () => {
  const { ann, stream, connectionId } = await almostFull();
  const options = newOptions();
  const first = await accepted(ann.askToCreate({ agentId: "chat", connectionId }, options));
  await accepted(ann.on(first.session.id, "archive"));
  await stream.findState(first.session.id, "archived");
  await ann.create("music", { connectionId });
  expect(await accepted(ann.askToCreate({ agentId: "chat", connectionId }, options))).toEqual(first);
  // Also over another connection, and over one that no longer exists.
  expect(await accepted(ann.askToCreate({ agentId: "chat", connectionId: "gone" }, options))).toEqual(first);
});
