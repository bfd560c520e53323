import { afterAll, expect, test } from "vitest";
import { accepted, E2eClient, refused } from "../../../support/clients/e2e-client.ts";
import { hold, importMessages } from "../../../support/clients/e2e-states.ts";
import { NodeUnderTest } from "../../../support/nodes/node-under-test.ts";

const node = await NodeUnderTest.start();
afterAll(() => node.stop());

/** A session with `turns` turns, one message each way. */
async function conversation(turns: number) {
  const { ann, id } = await hold(node);
  const stream = await ann.follow(id);
  for (let turn = 0; turn < turns; turn += 1) {
    await accepted(ann.say(id, `hello ${turn}`, { id: `m${turn}` }));
    await stream.find("complete");
  }
  await stream.close();
  return { ann, id };
}

test("loading a session returns its newest 500 messages, oldest first, and says that there are more", async () => {
  const said = Array.from({ length: 251 }, (_, turn) => [
    { role: "user", content: `hello ${turn}` },
    { role: "assistant", content: "Hello there." },
  ]).flat();
  const { id } = await importMessages(node, said);
  const { session, position } = await accepted(node.post("/session/load", { sessionId: id }));
  expect(session).toMatchObject({ messageCount: 502, hasMore: true });
  expect(session.messages).toHaveLength(500);
  expect(session.messages[0]).toMatchObject({ role: "user", content: "hello 1" });
  expect(session.messages.at(-1)).toMatchObject({ role: "assistant", content: "Hello there.", status: "success" });
  expect(position).toBe((await accepted(node.get(`/session/${id}`))).position);
});

test("loading a session returns its state, with a position from which its stream continues, also when it is archived", async () => {
  const { ann, id } = await conversation(1);
  const load = () => accepted(node.post("/session/load", { sessionId: id }));
  const { session, position } = await load();
  const messages = await ann.messages(id);
  expect(session).toEqual({ ...(await ann.see(id)), messages, hasMore: false });
  const stream = await node.stream(`/session/${id}/events`, { "Last-Event-ID": position });
  await accepted(ann.on(id, "archive"));
  expect(await stream.next()).toMatchObject({ type: "session_transition", data: { to: "archived" } });
  expect((await load()).session).toMatchObject({ state: "archived", archivedAt: expect.any(Number), messages });
});

test("messages are read in pages forwards and backwards, always oldest first, and each has a log, which is empty if the agent logged nothing", async () => {
  const { id } = await conversation(3);
  const page = async (query: string) => {
    const { messages, hasMore } = await accepted(node.get(`/session/${id}/messages${query}`));
    return { said: messages.filter(({ role }) => role === "user").map(({ content }) => content), hasMore };
  };
  expect(await page("")).toEqual({ said: ["hello 0", "hello 1", "hello 2"], hasMore: false });
  expect(await page("?limit=2")).toEqual({ said: ["hello 2"], hasMore: true });
  expect(await page("?after=m0&limit=2")).toEqual({ said: ["hello 1"], hasMore: true });
  expect(await page("?after=m1")).toEqual({ said: ["hello 2"], hasMore: false });
  expect(await page("?before=m2&limit=2")).toEqual({ said: ["hello 1"], hasMore: true });
  expect(await page("?before=m1")).toEqual({ said: ["hello 0"], hasMore: false });
  const { position } = await accepted(node.get(`/session/${id}/messages`));
  expect(position).toBe((await accepted(node.get(`/session/${id}`))).position);
  for (const after of ["%00", "a%20b", "%F0%9F%8E%B7"]) {
    const { status } = await node.send("GET", `/session/${id}/messages/m0/logs?after=${after}`);
    expect(status, after).toBe(400);
  }
  for (const { id: messageId } of (await accepted(node.get(`/session/${id}/messages`))).messages) {
    const logs = await accepted(node.get(`/session/${id}/messages/${messageId}/logs?limit=10`));
    expect(logs).toEqual({ success: true, logs: [], hasMore: false });
  }
});

const WRONG = ["limit=0", "limit=501", "limit=x", "after=a&before=b", "after=not%20an%20id"];
test.each(WRONG)("messages are refused with %s", async (query) => {
  const { id } = await new E2eClient(node).create("music");
  expect((await refused(node.get(`/session/${id}/messages?${query}`))).errorCode).toBe("bad_request");
});

test("an answer that contains a session or a floor has its log's position, from which the stream continues", async () => {
  const ann = new E2eClient(node);
  const { body: created } = await ann.askToCreate({ agentId: "general", activate: true });
  const { id } = created.session;
  const answers = [created];
  for (const verb of ["pause", "resume", "activate"] as const) answers.push(await accepted(ann.on(id, verb)));
  answers.push(await accepted(node.patch(`/session/${id}`, { title: "x" })));
  answers.push(await accepted(ann.say(id, "nod")));
  answers.push(await accepted(ann.on(id, "stop")));
  const log = await ann.log(id);
  const positions = answers.map(({ position }) => position);
  for (const [index, position] of positions.entries()) {
    const event = log.find((each) => each.id === position);
    expect(event, `answer ${index}`).toBeDefined();
    const { session } = answers[index]!;
    if (session) expect(session.updatedAt).toBeGreaterThanOrEqual(Date.parse(event!.timestamp));
  }
  expect(positions.at(-1)).toBe(log.at(-1)!.id);
  const { position } = await ann.floor();
  const stream = await node.stream(`${ann.floorPath}/events?lastEventId=${position}`);
  await accepted(node.put(`${ann.floorPath}/flags`, {}));
  expect((await stream.next()).type).toBe("floor_updated");
});

test("a session is read by its id, and an unknown or malformed id is refused", async () => {
  const session = await new E2eClient(node).create("music");
  expect((await accepted(node.get(`/session/${session.id}`))).session).toEqual(session);
  for (const path of ["", "/messages", "/messages/m/logs"]) {
    expect((await refused(node.get(`/session/nowhere${path}`))).errorCode).toBe("session_not_found");
  }
  expect((await refused(node.post("/session/load", { sessionId: "nowhere" }))).errorCode).toBe("session_not_found");
  expect((await refused(node.get("/session/not%20an%20id"))).errorCode).toBe("bad_request");
});

test("a renamed session logs the change, and no other field changes", async () => {
  const ann = new E2eClient(node);
  const before = await ann.hold("music");
  const { session } = await accepted(node.patch(`/session/${before.id}`, { title: " 上班 路上 " }));
  expect(session).toEqual({ ...before, title: "上班 路上", updatedAt: session.updatedAt });
  expect((await ann.log(before.id)).at(-1)).toMatchObject({ type: "session_updated", data: { title: "上班 路上" } });
});

test.each([
  ["body", {}],
  ["body.title", { title: "" }],
  ["body.title", { title: 7 }],
  ["body.title", { title: null }],
])("a fault in %s is named where a session cannot be changed to %j", async (path, body) => {
  const { id } = await new E2eClient(node).create("music");
  const { issues } = await refused(node.patch(`/session/${id}`, body));
  expect(issues[0]!.path).toBe(path);
});

test("a session is deleted with its messages, its log and its images; deleting it again deletes nothing", async () => {
  const { ann, id } = await hold(node);
  const images = [{ data: "aGVsbG8=", mimeType: "image/png" }];
  await accepted(ann.say(id, "play", { id: "m0", images }));
  const hash = (await ann.messages(id))[0]!.images![0]!.hash;
  expect(await accepted(node.delete(`/session/${id}`))).toEqual({ success: true, deleted: true });
  const paths = ["", "/messages", "/messages/m0/logs", `/images/${hash}`].map((path) => `/session/${id}${path}`);
  for (const path of paths) expect((await refused(node.get(path))).errorCode).toBe("session_not_found");
  expect((await accepted(node.get(`/session/list?userId=${ann.userId}&includeArchived=true`))).total).toBe(0);
  expect((await refused(ann.on(id, "archive"))).errorCode).toBe("session_not_found");
  expect((await refused(ann.say(id, "hello"))).errorCode).toBe("session_not_found");
  expect(await accepted(node.delete(`/session/${id}`))).toEqual({ success: true, deleted: false });
  expect((await ann.floor()).holder).toBeNull();
});

const png = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0, 255, 10, 13]);
const image = { data: png.toString("base64"), mimeType: "image/png" };

test("images are stored with their message and read back byte for byte, and no other session shows them", async () => {
  const { ann, id } = await hold(node);
  const other = await ann.create("general");
  await accepted(ann.say(id, "hello", { id: "m", type: "image", images: [image] }));
  const [message] = await ann.messages(id);
  expect(message!.images).toEqual([{ hash: expect.any(String), mimeType: "image/png", bytes: png.length }]);
  const { hash } = message!.images![0]!;
  const { status, headers, bytes } = await node.get(`/session/${id}/images/${hash}`);
  expect([status, headers]).toMatchObject([200, { "content-type": "image/png", "x-content-type-options": "nosniff" }]);
  expect(bytes).toEqual(png);
  expect((await refused(node.get(`/session/${other.id}/images/${hash}`))).errorCode).toBe("not_found");
  expect((await refused(node.get(`/session/${id}/images/${"0".repeat(64)}`))).errorCode).toBe("not_found");
});

test("images of more than 1 MiB encoded are too large, and the message is not kept", async () => {
  const { ann, id } = await hold(node);
  const images = [{ data: "A".repeat(1_048_580), mimeType: "image/png" }];
  expect((await refused(ann.say(id, "hello", { images }))).errorCode).toBe("too_large");
  expect(await ann.messages(id)).toEqual([]);
});

test.each([
  ["a request whose image is not base64", [{ data: "a b", mimeType: "image/png" }], "body.images.0.data"],
  ["a request whose image is empty", [{ data: "", mimeType: "image/png" }], "body.images.0.data"],
  ["a request whose image is a web page", [{ data: "aGk=", mimeType: "text/html" }], "body.images.0.mimeType"],
  ["a request with nine images", Array.from({ length: 9 }, () => image), "body.images"],
])("%s is refused", async (_, images, path) => {
  const { id } = await new E2eClient(node).create("general");
  const answer = await refused(node.post("/message", { type: "chat", sessionId: id, content: "hello", images }));
  expect(answer.errorCode).toBe("bad_request");
  expect(answer.issues.map((issue) => issue.path)).toContain(path);
});

/** The list of a user's sessions. */
async function list(ann: E2eClient, query = "") {
  const answer = await accepted(node.get(`/session/list?userId=${ann.userId}${query}`));
  return { ...answer, ids: answer.sessions.map(({ id }) => id) };
}

test("sessions are listed in pages, the newest activity first", async () => {
  const ann = new E2eClient(node);
  const [one, two, three] = [await ann.create("music"), await ann.create("chat"), await ann.create("weather")];
  const all = await list(ann);
  expect(all).toMatchObject({ page: 0, pageSize: 20, total: 3, hasMore: false });
  expect(new Set(all.ids)).toEqual(new Set([one.id, two.id, three.id]));
  await ann.talk(one.id, "hello");
  expect((await list(ann)).ids[0]).toBe(one.id);
  const pages = [await list(ann, "&pageSize=2"), await list(ann, "&pageSize=2&page=1"), await list(ann, "&page=9")];
  expect(pages.map(({ hasMore, total }) => [hasMore, total])).toEqual([true, false, false].map((more) => [more, 3]));
  expect([...pages[0]!.ids, ...pages[1]!.ids]).toEqual((await list(ann)).ids);
  expect(pages[2]!.ids).toEqual([]);
  expect((await list(ann, "&pageSize=3")).hasMore).toBe(false);
});

test("the list is filtered by state, agent, workspace and user, and shows each session with all its fields", async () => {
  const ann = new E2eClient(node);
  const music = await ann.hold("music", { workspaceId: "car" });
  const phone = await ann.hold("phone", { workspaceId: "car", title: "Call" });
  const chat = await ann.create("chat");
  expect((await list(ann, "&state=active")).sessions).toEqual([phone]);
  expect((await list(ann, "&state=paused")).ids).toEqual([music.id]);
  expect((await list(ann, "&state=created")).ids).toEqual([chat.id]);
  expect((await list(ann, "&agentId=chat")).ids).toEqual([chat.id]);
  expect((await list(ann, "&workspaceId=car&agentId=phone")).ids).toEqual([phone.id]);
  expect((await list(ann, "&workspaceId=home")).ids).toEqual([]);
  expect((await list(new E2eClient(node))).ids).toEqual([]);
});

test("the list leaves out archived sessions unless they are requested", async () => {
  const ann = new E2eClient(node);
  const old = await ann.create("music");
  const young = await ann.create("music");
  await accepted(ann.on(old.id, "archive"));
  expect((await list(ann)).ids).toEqual([young.id]);
  expect((await list(ann, "&includeArchived=false")).ids).toEqual([young.id]);
  expect(new Set((await list(ann, "&includeArchived=true")).ids)).toEqual(new Set([old.id, young.id]));
  expect((await list(ann, "&state=archived")).ids).toEqual([old.id]);
});

const UNLISTED = ["page=-1", "pageSize=0", "pageSize=201", "state=gone", "includeArchived=perhaps", "page=1.5"];
test.each(UNLISTED)("the list refuses %s", async (query) => {
  const issues = [{ path: `querystring.${query.split("=")[0]}` }];
  expect(await refused(node.get(`/session/list?${query}`))).toMatchObject({ errorCode: "bad_request", issues });
});

test("no list has a filter that it does not know, and each ignores a key against caches", async () => {
  const { paths } = (await (await fetch(`${node.url}/openapi.json`)).json()) as {
    paths: Record<string, { get?: { operationId: string; tags: string[] } }>;
  };
  const lists = Object.entries(paths).filter(
    ([, { get }]) => get?.operationId.startsWith("list") && !get.tags.includes("doors"),
  );
  expect(lists.length).toBeGreaterThan(8);
  for (const [template] of lists) {
    const path = template.replaceAll(/\{\w+\}/g, "a");
    for (const query of ["bar=1", "owner=ann"]) {
      const [key] = query.split("=");
      const refusal = await refused(node.get(`${path}?${query}`));
      expect(refusal, path).toMatchObject({ errorCode: "bad_request", issues: [{ path: `querystring.${key}` }] });
    }
    const { errorCode, issues = [] } = (await node.get(`${path}?_=${Date.now()}`)).body;
    expect(JSON.stringify([errorCode, issues]), path).not.toContain("querystring._");
  }
});

test("a search finds a session by its id too, and an empty text is no search", async () => {
  const ann = new E2eClient(node);
  const [one, two] = [await ann.create("music"), await ann.create("music")];
  const found = async (q: string) => (await list(ann, `&q=${encodeURIComponent(q)}`)).ids;
  expect(await found(one.id)).toEqual([one.id]);
  for (const q of ["", "   "]) expect(await found(q)).toEqual([two.id, one.id]);
});
