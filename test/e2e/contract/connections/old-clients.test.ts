/** Clients written for other servers: fields they leave out, and their formats. */

import { afterAll, expect, onTestFinished, test } from "vitest";
import { accepted, E2eClient, refused } from "../../../support/clients/e2e-client.ts";
import { hold } from "../../../support/clients/e2e-states.ts";
import { NodeUnderTest } from "../../../support/nodes/node-under-test.ts";

const node = await NodeUnderTest.start({ settings: { INTERLOCK_ORIGINS: "null,https://app.example" } });
afterAll(() => node.stop());

const PICTURE = Buffer.from("not really a picture").toString("base64");

/** A node without connections of other tests. */
async function startAlone(): Promise<NodeUnderTest> {
  const alone = await NodeUnderTest.start();
  onTestFinished(() => alone.stop());
  return alone;
}

test("a session created without naming a connection sends its events on the client's only connection, once for a repeated key", async () => {
  const alone = await startAlone();
  const stream = await alone.stream("/events");
  const fields = { agentId: "music", activate: true };
  const first = await accepted(alone.post("/session/create", fields, { key: "once" }));
  expect(await accepted(alone.post("/session/create", fields, { key: "once" }))).toEqual(first);
  expect(await stream.find("session_created")).toMatchObject({ sessionId: first.session.id, seq: 1 });
  const quick = await accepted(alone.post("/message", { type: "chat", content: "hello" }));
  expect((await stream.find("session_created")).sessionId).toBe(quick.sessionId);
  await stream.until(({ sessionId, type }) => sessionId === quick.sessionId && type === "complete");
});

test("a session created without naming a connection sends its events on the connection that has just come, of several", async () => {
  const alone = await startAlone();
  // A phone that changed networks is back before the node knows that its first stream is lost.
  const lost = await alone.stream("/events");
  const stream = await alone.stream("/events");
  const { session } = await accepted(alone.post("/session/create", { agentId: "music" }));
  expect((await stream.find("session_created")).sessionId).toBe(session.id);
  const { connectionId } = (await lost.next()).data as { connectionId: string };
  const named = await accepted(alone.post("/session/create", { agentId: "chat", connectionId }));
  // The other one receives the session that names it first.
  expect((await lost.find("session_created")).sessionId).toBe(named.session.id);
});

test("an image may be given as a data: URI, whose type then applies", async () => {
  const { ann, id } = await hold(node);
  const images = [
    { data: `data:image/png;base64,${PICTURE}`, mimeType: "image/jpeg" },
    { data: `data:image/svg+xml;charset=utf-8;base64,${PICTURE}` },
    { data: `DATA:Image/GIF;BASE64,${PICTURE}` },
    { data: PICTURE, mimeType: "image/webp" },
  ];
  const { messageId } = await accepted(ann.say(id, "look", { images }));
  const message = (await ann.messages(id)).find((each) => each.id === messageId)!;
  const types = ["image/png", "image/svg+xml", "image/gif", "image/webp"];
  expect(message.images!.map(({ mimeType }) => mimeType)).toEqual(types);
  const answer = await node.get(`/session/${id}/images/${message.images![0]!.hash}`);
  expect(answer.text).toBe("not really a picture");
});

test.each([
  ["a data: URI of a web page", { data: `data:text/html;base64,${PICTURE}` }],
  ["a data: URI that is not declared as base64", { data: `data:image/png,${PICTURE}` }],
  ["an empty data: URI", { data: "data:image/png;base64,", mimeType: "image/png" }],
  ["a data: URI with other characters than base64", { data: "data:image/png;base64,***", mimeType: "image/png" }],
  ["base64 without a type", { data: PICTURE }],
  ["base64 of a web page", { data: PICTURE, mimeType: "text/html" }],
])("an image is refused if it is %s", async (_, image) => {
  const { ann, id } = await hold(node);
  const { errorCode, issues } = await refused(ann.say(id, "look", { images: [image] }));
  expect([errorCode, issues[0]!.path]).toEqual(["bad_request", expect.stringMatching(/^body\.images/)]);
});

const LONG = "please find me the quickest way home that does not lead";
test.each([
  ["find some whale songs", "find some whale songs"],
  ["  many \n\n spaces\t between  ", "many spaces between"],
  [`${LONG} over the bridge today`, `${LONG}…`],
  ["导航回家".repeat(30), `${"导航回家".repeat(30).slice(0, 59)}…`],
  [`${"😀".repeat(100)}`, `${"😀".repeat(29)}…`],
])("a session's title is its first message, cut between words: %j", async (content, title) => {
  const { ann, id } = await hold(node);
  const events = await ann.talk(id, content);
  const named = events.find(({ type, data }) => type === "session_updated" && "title" in data);
  expect(named!.data).toEqual({ title });
  expect((await ann.see(id)).title).toBe(title);
  await ann.talk(id, "and now something else");
  expect((await ann.see(id)).title).toBe(title);
});

test("a session has the title that a client set, at its creation or later", async () => {
  const ann = new E2eClient(node);
  const given = await ann.hold("general", { title: "New Session" });
  await ann.talk(given.id, "hello");
  expect((await ann.see(given.id)).title).toBe("New Session");
  const { ann: bob, id } = await hold(node, "chat");
  await accepted(node.patch(`/session/${id}`, { title: "mine" }));
  await accepted(bob.say(id, "hello"));
  expect((await bob.see(id)).title).toBe("mine");
});

test("a session gets its title from the first message that contains words", async () => {
  const { ann, id } = await hold(node);
  const images = [{ data: PICTURE, mimeType: "image/png" }];
  const stream = await ann.follow(id);
  await accepted(ann.say(id, "", { images }));
  await stream.find("complete");
  expect((await ann.see(id)).title).toBe("New Session");
  await accepted(ann.say(id, "what is this?"));
  expect((await ann.see(id)).title).toBe("what is this?");
});

// A page that is not listed is refused: errors.test.ts.
test("a page opened from a file may call a node that lists its origin, and its browser may read the answer", async () => {
  const answer = await node.post("/session/create", { agentId: "music" }, { headers: { Origin: "null" } });
  expect([answer.status, answer.headers["access-control-allow-origin"]]).toEqual([200, "null"]);
});

const NAMES = ["constructor", "__proto__", "toString", "hasOwnProperty", "valueOf", "__defineGetter__"];

test.each(NAMES)("a session id that is a built-in property's name is refused in a sentence: %s", async (id) => {
  const answers = [
    node.post("/session/create", { id, agentId: "music", activate: true }),
    node.get(`/session/${id}`),
    node.post("/message", { type: "chat", sessionId: id, content: "hello" }),
  ];
  for (const answer of answers) {
    expect(await refused(answer)).toMatchObject({ errorCode: "bad_request", issues: [{ message: "reserved" }] });
  }
});

test("the id of a user, zone, workspace or message may be a built-in property's name", async () => {
  const alone = await startAlone();
  for (const name of NAMES) {
    const ann = new E2eClient(alone, name);
    const { id } = await ann.hold("general", { zone: name, workspaceId: name });
    const { messageId } = await accepted(ann.say(id, "hello", { id: name }, { key: name }));
    expect(messageId).toBe(name);
    await (await ann.follow(id)).find("complete");
    expect((await ann.messages(id))[0]).toMatchObject({ id: name, content: "hello" });
    expect((await alone.get(`/session/${id}/messages/${name}/logs`)).status).toBe(200);
    const floor = `/floor/${encodeURIComponent(`u:${name}/${name}`)}`;
    expect((await accepted(alone.get(floor))).holder?.id).toBe(id);
    const open = await alone.stream(`/events?userId=${name}&zone=${name}`);
    expect((await open.next()).type).toBe("connected");
    expect((await accepted(alone.get(`/session/list?userId=${name}`))).total).toBe(1);
  }
});

test("a flag may be a built-in property's name, if it has a flag's format", async () => {
  const ann = new E2eClient(node);
  const flags = { constructor: true };
  const answer = await node.put(`${ann.floorPath}/flags`, flags);
  if (answer.status === 200) expect((await ann.floor()).flags).toEqual(flags);
  else expect(answer.body.errorCode).toBe("bad_request");
  const raw = '{"__proto__": true}';
  expect((await refused(node.put(`${ann.floorPath}/flags`, undefined, { raw }))).errorCode).toBe("bad_request");
});

test("a built-in property's name is no agent's id", async () => {
  const ann = new E2eClient(node);
  for (const agentId of NAMES) {
    const { status } = await ann.askToCreate({ agentId });
    expect([400, 404]).toContain(status);
    const { id } = await ann.create("music");
    const { outcome } = await accepted(ann.send({ type: "switch_agent", sessionId: id, agentId }));
    expect(outcome.errorCode).toMatch(/^(agent_not_found|invalid_agent_id_format)$/);
  }
});

const ask = (sessionId: string, messageIndex: number) => ({
  type: "rollback",
  sessionId,
  rollback: { messageIndex, rollbackFiles: true, selectedFiles: ["a.ts"] },
});

test("a rollback to a point of the list is told by an event on the connection to which the session was loaded", async () => {
  const alone = await startAlone();
  const { ann, id } = await hold(alone);
  await ann.talk(id, "hello 1");
  await ann.talk(id, "hello 2");
  const { stream, connectionId } = await ann.connect();
  await accepted(alone.post("/session/load", { sessionId: id, connectionId }));
  const { body } = await alone.get(`/session/rollback-points?sessionId=${id}`);
  const point = { role: "user", hasSnapshot: false, filesToRollbackCount: 0, timestamp: expect.any(Number) };
  expect(body).toEqual({
    success: true,
    sessionId: id,
    points: [
      { ...point, messageIndex: 0, summary: "hello 1" },
      { ...point, messageIndex: 2, summary: "hello 2" },
    ],
  });
  const refusal = await refused(ann.send(ask(id, 1)));
  expect(refusal.errorCode).toBe("illegal_command");
  const { data: failed } = await stream.find("rollback_result");
  expect(failed).toEqual({ success: false, sessionId: id, error: expect.stringContaining("index 1") });

  const options = { key: "back" };
  const { sessionId } = await accepted(ann.send(ask(id, 2), options));
  expect(sessionId).not.toBe(id);
  expect((await stream.find("rollback_result")).data).toEqual({ success: true, sessionId });
  expect((await accepted(ann.send(ask(id, 2), options))).sessionId).toBe(sessionId);
  expect((await ann.messages(sessionId)).map(({ content }) => content)).toEqual(["hello 1", "Hello there."]);
  expect((await ann.see(id)).replacedBy).toBe(sessionId);
  expect((await ann.see(sessionId)).state).toBe("active");
});

test("a rollback is told to the named connection, and not to readers of the session's own stream", async () => {
  const { ann, id } = await hold(node);
  await ann.talk(id, "hello");
  const { stream, connectionId } = await ann.connect();
  expect((await refused(ann.send({ ...ask(id, 7), connectionId }))).errorCode).toBe("illegal_command");
  expect((await stream.find("rollback_result")).data).toMatchObject({ success: false, sessionId: id });
  const own = await ann.follow(id);
  await own.find("complete");
  expect((await refused(ann.send({ ...ask(id, 8), connectionId }))).errorCode).toBe("illegal_command");
  expect((await stream.find("rollback_result")).data["error"]).toContain("index 8");
  await accepted(node.patch(`/session/${id}`, { title: "after" }));
  expect((await own.until("session_updated")).map(({ type }) => type)).not.toContain("rollback_result");
  expect((await refused(ann.send(ask("no-such", 0)))).errorCode).toBe("session_not_found");
});

test("an answer that names its question alone finds it among the caller's sessions", async () => {
  const { ann, id: first } = await hold(node);
  const { ann: bob, id: second } = await hold(node, "chat");
  const asked: string[] = [];
  for (const [client, id] of [
    [ann, first],
    [bob, second],
  ] as const) {
    const stream = await client.follow(id);
    await accepted(client.say(id, "ask"));
    asked.push((await stream.find("user_question_request")).requestId!);
  }
  const { connectionId } = await ann.connect(`&sessionId=${second}`);
  const respond = (requestId: string, more: object = {}) =>
    node.post("/message", { type: "user_question_response", requestId, response: "a", ...more });
  // The connection's own session asks something else.
  expect((await accepted(respond(asked[0]!, { connectionId }))).sessionId).toBe(first);
  expect((await accepted(respond(asked[1]!))).sessionId).toBe(second);
  expect((await refused(respond("no-such-question", { connectionId }))).errorCode).toBe("interaction_not_found");
  expect((await refused(respond("no-such-question"))).errorCode).toBe("session_not_found");
});

test("a client that names no connection hears of its refusal on its only one, if that is bound to the session", async () => {
  const alone = await startAlone();
  const stream = await alone.stream("/events");
  const { session } = await accepted(alone.post("/session/create", { agentId: "music" }));
  const resume = { type: "resume", sessionId: session.id };
  expect((await refused(alone.post("/message", resume))).errorCode).toBe("illegal_command");
  expect(await stream.find("error")).toMatchObject({ sessionId: session.id, data: { errorCode: "illegal_command" } });
  const { connectionId } = await new E2eClient(alone).connect();
  const other = await accepted(alone.post("/session/create", { agentId: "chat", connectionId }));
  expect((await refused(alone.post("/message", { ...resume, sessionId: other.session.id }))).errorCode).toBe(
    "illegal_command",
  );
  await accepted(
    alone.post("/session/load", { sessionId: other.session.id, connectionId: stream.events[0]!.data["connectionId"] }),
  );
  await accepted(alone.patch(`/session/${other.session.id}`, { title: "after" }));
  const heard = await stream.until(({ type }) => type === "session_updated");
  expect(heard.map(({ type }) => type)).not.toContain("error");
});

test("a reader hears of no refusal in a session that its connection does not show", async () => {
  const alone = await startAlone();
  const { session: others } = await accepted(alone.post("/session/create", { agentId: "chat" }));
  const stream = await alone.stream("/events");
  const { session } = await accepted(alone.post("/session/create", { agentId: "music" }));
  const resume = { type: "resume", sessionId: others.id };
  expect((await refused(alone.post("/message", resume))).errorCode).toBe("illegal_command");
  await accepted(alone.patch(`/session/${session.id}`, { title: "after" }));
  const heard = await stream.until(({ type }) => type === "session_updated");
  expect(heard.map(({ type }) => type)).not.toContain("error");
});

test("a switch of the agent of an unknown or ended session fails on the connection of a client that names none", async () => {
  const alone = await startAlone();
  const stream = await alone.stream("/events");
  const { session } = await accepted(alone.post("/session/create", { agentId: "music", id: "ended" }));
  await accepted(alone.post(`/session/${session.id}/archive`));
  for (const [sessionId, errorCode] of [
    ["no-such", "session_not_found"],
    ["ended", "session_archived"],
  ]) {
    const answer = await accepted(alone.post("/message", { type: "switch_agent", sessionId, agentId: "chat" }));
    expect(answer.outcome.errorCode).toBe(errorCode);
    expect((await stream.find("error")).data).toMatchObject({ errorCode });
  }
});

test.each(["with a user", "without one"])(
  "after a rollback its page and its program are bound to the new session, %s",
  async (whose) => {
    const alone = await startAlone();
    const user = whose === "with a user" ? { userId: "ann" } : {};
    const page = await alone.stream("/events");
    const { connectionId } = (await page.next()).data;
    const { session } = await accepted(alone.post("/session/create", { agentId: "general", ...user }));
    const program = await alone.stream("/events");
    await program.next();
    await accepted(alone.post("/session/load", { sessionId: session.id, connectionId }));
    const { connectionId: other } = program.events[0]!.data;
    await accepted(alone.post("/session/load", { sessionId: session.id, connectionId: other }));
    for (const content of ["hello", "nod"]) {
      await accepted(alone.post("/message", { type: "chat", sessionId: session.id, content }));
      for (const stream of [page, program]) await stream.find("complete");
    }
    const { sessionId } = await accepted(alone.post("/message", ask(session.id, 2)));
    await accepted(alone.post("/message", { type: "chat", sessionId, content: "hello" }));
    for (const stream of [page, program]) {
      await stream.find(({ type, sessionId: of }) => type === "complete" && of === sessionId);
    }
  },
);

test("a session loaded without naming a connection sends its further events on the client's only connection", async () => {
  const alone = await startAlone();
  const { session } = await accepted(alone.post("/session/create", { agentId: "general", userId: "ann" }));
  const stream = await alone.stream("/events");
  await accepted(alone.post("/session/load", { sessionId: session.id }));
  await accepted(alone.post("/session/load", { sessionId: session.id }));
  await accepted(alone.post("/message", { type: "chat", sessionId: session.id, content: "hello" }));
  const events = await stream.until("complete");
  expect(events.filter(({ type, sessionId }) => type === "session_created" && sessionId === session.id)).toEqual([]);
  expect(events.filter(({ type }) => type === "complete")).toHaveLength(1);
});
