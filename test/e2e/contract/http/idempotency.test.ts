import { afterAll, describe, expect, test } from "vitest";
import { accepted, E2eClient, refused } from "../../../support/clients/e2e-client.ts";
import { hold } from "../../../support/clients/e2e-states.ts";
import { NodeUnderTest } from "../../../support/nodes/node-under-test.ts";

const node = await NodeUnderTest.start();
afterAll(() => node.stop());

let keys = 0;
const newKey = () => `key-${++keys}`;

describe("a repeat with the same key", () => {
  test("a repeat with the same key creates no second session, and gets the first answer", async () => {
    const ann = new E2eClient(node);
    const options = { key: newKey() };
    const first = await accepted(ann.askToCreate({ agentId: "music", activate: true }, options));
    await accepted(ann.on(first.session.id, "pause"));
    expect(await accepted(ann.askToCreate({ agentId: "music", activate: true }, options))).toEqual(first);
    expect((await accepted(node.get(`/session/list?userId=${ann.userId}`))).total).toBe(1);
  });

  test("the same key sent many times at once has one effect, and one answer for all", async () => {
    const ann = new E2eClient(node);
    const options = { key: newKey() };
    const message = { type: "chat", content: "play", userId: ann.userId };
    const answers = await Promise.all(Array.from({ length: 8 }, () => accepted(ann.send(message, options))));
    for (const answer of answers) expect(answer).toEqual(answers[0]);
    expect(await ann.messages(answers[0]!.sessionId)).toHaveLength(1);
  });

  test("requests with the same key cause one turn of a session", async () => {
    const { ann, id } = await hold(node);
    const options = { key: newKey() };
    const first = await accepted(ann.say(id, "hello", {}, options));
    await (await ann.follow(id)).find("complete");
    expect(await accepted(ann.say(id, "hello", {}, options))).toEqual(first);
    expect((await ann.messages(id)).filter(({ role }) => role === "user")).toHaveLength(1);
  });

  test("a pause repeated with the same key after the resume changes nothing", async () => {
    const { ann, id } = await hold(node, "music");
    const options = { key: newKey() };
    const first = await accepted(ann.on(id, "pause", options));
    await accepted(ann.on(id, "resume"));
    expect(await accepted(ann.on(id, "pause", options))).toEqual(first);
    expect((await ann.see(id)).state).toBe("active");
  });

  test("renaming, switching and answering with the same key take effect once", async () => {
    const { ann, id: sessionId } = await hold(node);
    const renaming = { key: newKey() };
    const renamed = await accepted(node.patch(`/session/${sessionId}`, { title: "One" }, renaming));
    await accepted(node.patch(`/session/${sessionId}`, { title: "Two" }));
    expect(await accepted(node.patch(`/session/${sessionId}`, { title: "One" }, renaming))).toEqual(renamed);
    expect((await ann.see(sessionId)).title).toBe("Two");

    const switching = { key: newKey() };
    const toMusic = { type: "switch_agent", sessionId, agentId: "music" };
    const switched = await accepted(ann.send(toMusic, switching));
    await accepted(ann.send({ ...toMusic, agentId: "chat" }));
    expect(await accepted(ann.send(toMusic, switching))).toEqual(switched);
    expect((await ann.see(sessionId)).agentId).toBe("chat");

    const stream = await ann.follow(sessionId);
    await accepted(ann.say(sessionId, "ask"));
    const { requestId } = await stream.find("user_question_request");
    const answering = { key: newKey() };
    const answer = { type: "user_question_response", sessionId, requestId, response: "a" };
    const answered = await accepted(ann.send(answer, answering));
    expect(await accepted(ann.send(answer, answering))).toEqual(answered);
    expect((await refused(ann.send(answer))).errorCode).toBe("interaction_not_found");
  });

  test("a delete repeated with the same key takes effect once, and gets the same answer each time", async () => {
    const ann = new E2eClient(node);
    const { id } = await ann.create("music");
    const options = { key: newKey() };
    for (let time = 0; time < 2; time += 1) {
      expect(await accepted(node.delete(`/session/${id}`, options))).toEqual({ success: true, deleted: true });
    }
    expect((await accepted(node.delete(`/session/${id}`, { key: newKey() }))).deleted).toBe(false);
  });

  test("a repeat with the same key gets the first answer although the session is gone", async () => {
    const ann = new E2eClient(node);
    const options = { key: newKey() };
    const first = await accepted(ann.askToCreate({ agentId: "music" }, options));
    await accepted(node.delete(`/session/${first.session.id}`));
    expect(await accepted(ann.askToCreate({ agentId: "music" }, options))).toEqual(first);
    expect((await refused(node.get(`/session/${first.session.id}`))).errorCode).toBe("session_not_found");
  });

  test("stopping a floor and setting its flags with the same key take effect once", async () => {
    const { ann, id } = await hold(node, "music");
    const stopping = { key: newKey() };
    const stopped = await accepted(node.post(`${ann.floorPath}/stop`, undefined, stopping));
    expect(stopped.archived).toEqual([id]);
    const next = await ann.hold("chat");
    expect(await accepted(node.post(`${ann.floorPath}/stop`, undefined, stopping))).toEqual(stopped);
    expect((await ann.floor()).holder!.id).toBe(next.id);

    const flagging = { key: newKey() };
    await accepted(node.put(`${ann.floorPath}/flags`, { night: true }, flagging));
    await accepted(node.put(`${ann.floorPath}/flags`, {}));
    await accepted(node.put(`${ann.floorPath}/flags`, { night: true }, flagging));
    expect((await ann.floor()).flags).toEqual({});
  });

  test("the same key means the same request regardless of field order, explicit defaults and unknown fields", async () => {
    const ann = new E2eClient(node);
    const options = { key: newKey() };
    const send = (raw: string) => accepted(node.post("/session/create", undefined, { ...options, raw }));
    const first = await send(`{"userId":"${ann.userId}","agentId":"music"}`);
    expect(await send(`{"agentId":"music","activate":false,"colour":1,"userId":"${ann.userId}"}`)).toEqual(first);
  });

  test("a repeat with the same key gets the first refusal, although it would not be refused any more", async () => {
    const ann = new E2eClient(node);
    const phone = await ann.hold("phone");
    const options = { key: newKey() };
    const music = { agentId: "music", activate: true };
    const first = await refused(ann.askToCreate(music, options));
    const { id } = await ann.create("music");
    const illegal = { key: newKey() };
    expect((await refused(ann.on(id, "resume", illegal))).errorCode).toBe("illegal_command");
    await accepted(ann.on(phone.id, "archive"));
    const again = await refused(ann.askToCreate(music, options));
    expect({ ...again, traceId: "" }).toEqual({ ...first, traceId: "" });
    await accepted(ann.on(id, "activate"));
    expect((await refused(ann.on(id, "resume", illegal))).errorCode).toBe("illegal_command");
    await accepted(ann.on(id, "archive"));
    const { session } = await accepted(ann.askToCreate(music, { key: newKey() }));
    expect(session.state).toBe("active");
  });
});

describe("a repeat without a session in the request", () => {
  test("a repeat without a session means the original session, although the connection is bound to another since", async () => {
    const ann = new E2eClient(node);
    const { connectionId } = await ann.connect();
    const one = await ann.create("general", { connectionId });
    const options = { key: newKey() };
    const first = await accepted(ann.send({ type: "chat", content: "play", connectionId }, options));
    expect(first.sessionId).toBe(one.id);
    // On another floor, which does not know the key.
    const other = await ann.create("general", { connectionId, zone: "rear" });
    expect(await accepted(ann.send({ type: "chat", content: "play", connectionId }, options))).toEqual(first);
    expect(await ann.messages(other.id)).toEqual([]);
    expect((await refused(ann.send({ type: "chat", content: "nod", connectionId }, options))).errorCode).toBe(
      "idempotency_mismatch",
    );
  });

  test("a repeat of a quick chat creates no second session, and binds it to each connection that repeats it", async () => {
    const ann = new E2eClient(node);
    const options = { key: newKey() };
    const chat = { type: "chat", content: "play", userId: ann.userId };
    const first = await accepted(ann.send({ ...chat, connectionId: (await ann.connect()).connectionId }, options));
    const second = await ann.connect();
    const again = await accepted(ann.send({ ...chat, connectionId: second.connectionId }, options));
    expect(again).toEqual(first);
    expect(await second.stream.find("session_created")).toMatchObject({ sessionId: first.sessionId, seq: 1 });
    expect((await accepted(node.get(`/session/list?userId=${ann.userId}`))).total).toBe(1);
  });

  test("a repeat of a create binds the session to each connection that repeats it: once, even if it has ended there", async () => {
    const ann = new E2eClient(node);
    const options = { key: newKey() };
    const [one, other] = [await ann.connect(), await ann.connect()];
    const create = async ({ connectionId }: { connectionId: string }) =>
      (await accepted(ann.askToCreate({ agentId: "music", connectionId }, options))).session.id;
    const id = await create(one);
    expect(await create(other)).toBe(id);
    for (const { stream } of [one, other]) expect((await stream.find("session_created")).sessionId).toBe(id);
    await accepted(ann.on(id, "archive"));
    await one.stream.findState(id, "archived");
    expect(await create(one)).toBe(id);
    const last = await ann.create("chat", { connectionId: one.connectionId });
    const since = await one.stream.until(({ sessionId }) => sessionId === last.id);
    expect(since.filter(({ sessionId }) => sessionId === id)).toEqual([]);
  });
});

describe("a key used for another request", () => {
  test("a key used for another request is a mismatch: another body, another path, another floor", async () => {
    const [ann, bob] = [new E2eClient(node), new E2eClient(node)];
    const options = { key: newKey() };
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
});

describe("a key used for two requests at once", () => {
  test("a key used for two requests at once has one effect: the other is a mismatch", async () => {
    const users = [new E2eClient(node), new E2eClient(node)];
    for (let round = 0; round < 5; round += 1) {
      const options = { key: newKey() };
      const answers = await Promise.all(users.map((user) => user.askToCreate({ agentId: "music" }, options)));
      expect(answers.map(({ status }) => status).toSorted()).toEqual([200, 409]);
      expect(answers.find(({ status }) => status === 409)!.body.errorCode).toBe("idempotency_mismatch");
    }
    const totals = users.map(async (user) => (await accepted(node.get(`/session/list?userId=${user.userId}`))).total);
    expect((await Promise.all(totals)).reduce((sum, total) => sum + total)).toBe(5);
  });
});

describe("a key", () => {
  test("a key may be in the body or in the header", async () => {
    const ann = new E2eClient(node);
    const key = newKey();
    const first = await accepted(ann.askToCreate({ agentId: "music", commandId: key }));
    expect(await accepted(ann.askToCreate({ agentId: "music" }, { key }))).toEqual(first);
    const { id } = first.session;
    const pausing = newKey();
    await accepted(ann.on(id, "activate"));
    await accepted(node.post(`/session/${id}/pause`, { commandId: pausing }));
    await accepted(ann.on(id, "resume"));
    await accepted(node.post(`/session/${id}/pause`, { commandId: pausing }));
    expect((await ann.see(id)).state).toBe("active");
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
    const [one, two] = [newKey(), newKey()];
    const first = await accepted(node.post("/session/create", {}, { key: one }));
    const second = await accepted(node.post("/session/create", {}, { key: two }));
    expect(first.session.id).toMatch(/^[A-Za-z0-9_-]{22}$/);
    expect(second.session.id).not.toBe(first.session.id);
  });
});
