import { once } from "node:events";
import { connect } from "node:net";
import { text as textOf } from "node:stream/consumers";
import { afterAll, expect, test } from "vitest";
import type { Message } from "../../../../src/protocol/message.ts";
import { accepted, E2eClient, refused } from "../../../support/clients/e2e-client.ts";
import { hold } from "../../../support/clients/e2e-states.ts";
import type { StreamEvent } from "../../../support/clients/frame-reader.ts";
import { NodeUnderTest } from "../../../support/nodes/node-under-test.ts";

const SECRET = "a-secret-of-the-provider";
const node = await NodeUnderTest.start({ env: { OPENAI_API_KEY: SECRET } });
afterAll(() => node.stop());

const IMAGE = { data: Buffer.from("not really a picture").toString("base64"), mimeType: "image/png" };
const LINES = { "Content-Type": "application/x-ndjson" };

type Line = Record<string, unknown>;
const linesOf = (text: string) =>
  text
    .trimEnd()
    .split("\n")
    .map((line): Line => JSON.parse(line));
const toText = (lines: readonly unknown[]) => lines.map((line) => JSON.stringify(line)).join("\n");

const importing = (raw: string, query = "", key?: string) =>
  node.post(`/session/import${query}`, undefined, { raw, headers: LINES, ...(key !== undefined && { key }) });

/** A message without its ids. */
const essence = ({ id: _, sessionId: __, runId: ___, ...rest }: Message) => rest;

/** A session with an image, a sub-agent and an interrupted reply. */
async function makeSession(client: E2eClient) {
  const { id } = await client.hold("general");
  const stream = await client.follow(id);
  await accepted(client.say(id, "hello", { images: [IMAGE] }));
  await stream.until("complete");
  await accepted(client.say(id, "browse"));
  await stream.until("complete");
  await accepted(client.say(id, "sing"));
  await stream.until(({ type }) => type === "delta");
  await accepted(client.send({ type: "abort", sessionId: id }));
  const events = await stream.until(({ type }) => type === "complete");
  // Unfinished text follows as a separate message.
  const isInterrupted = ({ type, data }: StreamEvent) => type === "message" && data["status"] === "interrupted";
  if (!events.some(isInterrupted)) await stream.find(isInterrupted);
  const { id: messageId } = (await client.messages(id)).at(-1)!;
  await accepted(client.send({ type: "played", sessionId: id, messageId, upTo: 2 }));
  return { id, messages: await client.messages(id) };
}

const FIRST = { type: "session", version: 1, title: "From elsewhere" };
const message = (id: string, over: Line = {}): Line => ({
  ...{ type: "message", id, role: "user", content: `what ${id} says`, status: "success", createdAt: 5 },
  ...over,
});
const END = (messages: number) => ({ type: "end", messages });

test("an export as lines of JSON has the session, each image before its message, the messages and an end; one as Markdown names authors, and what was cut", async () => {
  const ann = new E2eClient(node);
  const { id, messages } = await makeSession(ann);
  const { headers, text } = await node.send("GET", `/session/${id}/export?format=jsonl`);
  expect(headers["content-type"]).toBe("application/x-ndjson; charset=utf-8");
  expect(headers["content-disposition"]).toBe(`attachment; filename="${id}.jsonl"`);
  const [session, image, ...rest] = linesOf(text);
  expect(session).toMatchObject({ type: "session", version: 1, agentId: "general", title: "hello" });
  expect(image).toMatchObject({ type: "image", mimeType: "image/png", data: IMAGE.data });
  expect(rest.at(-1)).toEqual({ type: "end", messages: messages.length });
  const exported = rest.slice(0, -1).map(({ type: _, ...line }) => ({ ...line, sessionId: id }));
  expect(exported).toEqual(messages);
  const markdown = await node.send("GET", `/session/${id}/export`);
  expect(markdown.headers["content-type"]).toBe("text/markdown; charset=utf-8");
  expect(markdown.text).toMatch(/^# hello\n/);
  expect(markdown.text).toMatch(/\n## User, 20\d\d-.*\n\nhello\n\n!\[image\]\(\/session\/.*\/images\/[a-f0-9]{64}\)\n/);
  expect(markdown.text).toMatch(/\n## general › weather, .*\n\nHello there\.\n/);
  expect(markdown.text).toMatch(/la la[^#]*\n_interrupted; heard until: …la_\n/);
});

test("an export contains no waiting turn, no runtime state, and no secret", async () => {
  const { ann, id } = await hold(node, "stacker");
  const stream = await ann.follow(id);
  await accepted(ann.say(id, "play"));
  await stream.until(({ type }) => type === "delta");
  await accepted(ann.say(id, "hello later"));
  const { text } = await node.send("GET", `/session/${id}/export?format=jsonl`);
  expect(linesOf(text).map(({ type, content }) => [type, content])).toEqual([
    ["session", undefined],
    ["message", "play"],
    ["end", undefined],
  ]);
  expect(text).not.toMatch(new RegExp(`agentSessions|approvedTools|ownerId|floorId|${SECRET}`));
});

test("an export of an unknown session, or in an unknown format, is refused", async () => {
  const { id } = await new E2eClient(node).create("general");
  expect((await refused(node.get("/session/nothing/export"))).errorCode).toBe("session_not_found");
  expect((await refused(node.get(`/session/${id}/export?format=pdf`))).errorCode).toBe("bad_request");
});

test("an export waits for a slow reader, and is complete", async () => {
  const ann = new E2eClient(node);
  const count = 400;
  const content = "x".repeat(100_000);
  const lines = [FIRST, ...Array.from({ length: count }, (_, n) => message(`m${n}`, { content })), END(count)];
  const { session } = await accepted(importing(toText(lines), `?userId=${ann.userId}`));
  const { hostname, port } = new URL(node.url);
  const socket = connect(Number(port), hostname);
  socket.pause();
  socket.write(
    `GET /session/${session.id}/export?format=jsonl HTTP/1.1\r\nHost: ${hostname}\r\nConnection: close\r\n\r\n`,
  );
  await once(socket, "readable");
  // The node works on other requests meanwhile; lines that it has not sent it has not read either.
  await ann.talk((await ann.hold("general")).id, "hello");
  const text = await textOf(socket);
  expect(text.match(/"type":"message"/g)).toHaveLength(count);
  expect(text).toContain(`{"type":"end","messages":${count}}`);
});

test("an imported export is the same conversation, under new ids, and continues", async () => {
  const [ann, bob] = [new E2eClient(node), new E2eClient(node)];
  const { id, messages } = await makeSession(ann);
  const { text } = await node.send("GET", `/session/${id}/export?format=jsonl`);
  await accepted(node.delete(`/session/${id}`));
  const { session, position } = await accepted(importing(text, `?userId=${bob.userId}&workspaceId=w`));
  expect(session).toMatchObject({
    ...{ title: "hello", agentId: "general", userId: bob.userId, workspaceId: "w", state: "created" },
    ...{ messageCount: messages.length, origin: { by: "import" }, tokenUsage: { used: 0 }, agentSessions: {} },
  });
  expect(position).toMatch(/\.1\.\w+$/);
  const imported = await bob.messages(session.id);
  expect(imported.map(essence)).toEqual(messages.map(essence));
  expect(imported.at(-1)).toMatchObject({ playedUpTo: 2 });
  const old = new Set(messages.flatMap((each) => [each.id, each.runId]));
  expect(imported.filter((each) => old.has(each.id) || old.has(each.runId))).toEqual([]);
  expect((await node.get(`/session/${session.id}/images/${imported[0]!.images![0]!.hash}`)).status).toBe(200);
  await bob.talk(session.id, "nod");
  expect((await bob.messages(session.id)).at(-1)!.content).toBe("Yes.");
});

test("an import ignores the file's owners, floors, states and agents' sessions", async () => {
  const ann = new E2eClient(node);
  const about = { ownerId: "root", userId: "root", floorId: "u:root" };
  const claims = { ...about, state: "active", id: "mine", agentSessions: { a: "b" } };
  const file = toText([{ ...FIRST, ...claims }, message("m", { sessionId: "other", ...claims, id: "m" }), END(1)]);
  const { session } = await accepted(importing(file, `?userId=${ann.userId}`));
  const own = { userId: ann.userId, floorId: `u:${ann.userId}` };
  expect(session).toMatchObject({ ...own, state: "created", agentSessions: {} });
  expect(JSON.stringify([session, await ann.messages(session.id)])).not.toContain("root");
});

test("an import takes the requested agent, else the file's if it exists, else the default agent", async () => {
  const file = (agentId: string) => toText([{ ...FIRST, agentId }, END(0)]);
  expect((await accepted(importing(file("music")))).session.agentId).toBe("music");
  expect((await accepted(importing(file("nobody")))).session.agentId).toBe("general");
  expect((await accepted(importing(file("music"), "?agentId=phone"))).session.agentId).toBe("phone");
  expect((await refused(importing(file("music"), "?agentId=nobody"))).errorCode).toBe("agent_not_found");
});

test.each<[what: string, lines: unknown[], line: number]>([
  ["is empty", [], 1],
  ["has no session's line", [message("m"), END(1)], 1],
  ["has two sessions' lines", [FIRST, FIRST, END(0)], 2],
  ["is of another version", [{ ...FIRST, version: 2 }, END(0)], 1],
  ["has no end", [FIRST, message("m")], 3],
  ["counts wrongly", [FIRST, message("m"), END(2)], 3],
  ["goes on after its end", [FIRST, END(0), message("m")], 3],
  ["has a message of no known role", [FIRST, message("m", { role: "root" }), END(1)], 2],
  ["has a message that is being written", [FIRST, message("m", { status: "running" }), END(1)], 2],
  ["has one message twice", [FIRST, message("m"), message("m"), END(2)], 3],
  ["has a message that is too long", [FIRST, message("m", { content: "x".repeat(262_145) }), END(1)], 2],
  ["has an invalid id", [FIRST, message("../m"), END(1)], 2],
  ["has an impossible instant", [FIRST, message("m", { createdAt: 1e99 }), END(1)], 2],
  ["shows an image that it lacks", [FIRST, message("m", { images: [{ hash: "0".repeat(64) }] }), END(1)], 2],
  ["has an image under another's hash", [FIRST, { type: "image", hash: "0".repeat(64), ...IMAGE }, END(0)], 2],
  ["has a line of another type", [FIRST, { type: "command", run: "rm" }, END(0)], 2],
])("an import of a file that %s names the line, and leaves no session", async (_, lines, line) => {
  const ann = new E2eClient(node);
  const problem = await refused(importing(toText(lines) || "\n", `?userId=${ann.userId}`));
  expect(problem).toMatchObject({ errorCode: "bad_request", issues: [{ path: `line ${line}` }] });
  expect((await accepted(node.get(`/session/list?userId=${ann.userId}&includeArchived=true`))).total).toBe(0);
});

test("an import of a file that is not JSON, has too long a line, or another type, is refused", async () => {
  expect((await refused(importing(`${toText([FIRST])}\n{"type":`))).error).toBe("Line 2 of the import: is not JSON.");
  const body = Buffer.from(`${toText([FIRST])}\n{"type":"caf\u00e9"}`, "latin1");
  const latin = await fetch(`${node.url}/session/import`, { method: "POST", headers: LINES, body });
  expect(await latin.json()).toMatchObject({ error: "Line 2 of the import: is not UTF-8 text." });
  const long = await refused(importing(`${toText([FIRST])}\n${"x".repeat(2_100_000)}`));
  expect(long.errorCode).toBe("too_large");
  expect((await refused(node.post("/session/import", FIRST))).errorCode).toBe("bad_request");
  expect((await refused(importing("", "?zone=rear"))).errorCode).toBe("bad_request");
  const empty = "The import has no body. Send the lines of an export as application/x-ndjson.";
  expect(await refused(importing(""))).toMatchObject({ errorCode: "bad_request", error: empty });
  const other = node.post("/session/create", undefined, { raw: "{}", headers: LINES });
  expect((await refused(other)).errorCode).toBe("bad_request");
});

test("an import with the same key and file is the same session, and another file is a mismatch", async () => {
  const ann = new E2eClient(node);
  const file = toText([FIRST, message("m"), END(1)]);
  const query = `?userId=${ann.userId}`;
  const key = node.newId("key");
  const made = await Promise.all([1, 2].map(() => accepted(importing(file, query, key))));
  made.push(await accepted(importing(file, query, key)));
  expect(new Set(made.map(({ session }) => session.id)).size).toBe(1);
  expect(await ann.messages(made[0]!.session.id)).toHaveLength(1);
  const other = await refused(importing(toText([FIRST, END(0)]), query, key));
  expect(other.errorCode).toBe("idempotency_mismatch");
});

test("an import whose client disconnects leaves no session", async () => {
  const ann = new E2eClient(node);
  const { hostname, port } = new URL(node.url);
  const socket = connect(Number(port), hostname);
  const lines = `${toText([FIRST, ...Array.from({ length: 200 }, (_, n) => message(`m${n}`))])}\n`;
  const head = [
    `POST /session/import?userId=${ann.userId} HTTP/1.1`,
    `Host: ${hostname}`,
    "Content-Type: application/x-ndjson",
    `Content-Length: ${lines.length + 100}`,
  ];
  socket.write(`${head.join("\r\n")}\r\n\r\n${lines}`);
  // Another import at this node takes longer than the lines of this one.
  await accepted(importing(toText([FIRST, END(0)])));
  socket.destroy();
  await once(socket, "close");
  await accepted(importing(toText([FIRST, END(0)])));
  expect((await accepted(node.get(`/session/list?userId=${ann.userId}`))).total).toBe(0);
});
