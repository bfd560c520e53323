import { gzipSync } from "node:zlib";
import { afterAll, expect, onTestFinished, test } from "vitest";
import { keyOf, startGuarded } from "../../../support/clients/callers.ts";
import { accepted, E2eClient, refused } from "../../../support/clients/e2e-client.ts";
import { headOf, RawSocket } from "../../../support/networks/raw-socket.ts";
import { NodeUnderTest } from "../../../support/nodes/node-under-test.ts";

const node = await NodeUnderTest.start({ settings: { INTERLOCK_HOSTS: "car.local" } });
afterAll(() => node.stop());

async function open(url = node.url): Promise<RawSocket> {
  const socket = await RawSocket.open(url);
  onTestFinished(() => socket.destroy());
  return socket;
}

/** All answers to these bytes, once the node has ended the connection. */
async function say(bytes: string | Buffer, url = node.url): Promise<RawAnswer[]> {
  const client = await open(url);
  await client.send(bytes);
  await client.closed;
  return answersOf(client.text);
}

interface RawAnswer {
  status: number;
  head: string;
  body: string;
}

/** Answers with a `Content-Length`, each of which has to be whole. */
function answersOf(text: string): RawAnswer[] {
  const answers: RawAnswer[] = [];
  for (let rest = text; rest !== ""; ) {
    const [head = "", ...others] = rest.split("\r\n\r\n");
    const length = Number(/content-length: (\d+)/i.exec(head)?.[1]);
    const body = others.join("\r\n\r\n").slice(0, length);
    expect(body).toHaveLength(length);
    answers.push({ status: Number(/^HTTP\/1\.1 (\d+) /.exec(head)?.[1]), head, body });
    rest = rest.slice(head.length + 4 + length);
  }
  return answers;
}

const statusesOf = (answers: RawAnswer[]) => answers.map(({ status }) => status);

/** The connection ended with one answer, which is an error in the common form. */
function expectRefusal(answers: RawAnswer[]): void {
  expect(statusesOf(answers)).toEqual([400]);
  const [{ head, body }] = answers as [RawAnswer];
  expect(head.toLowerCase()).toContain("connection: close");
  expect(JSON.parse(body)).toMatchObject({ success: false, errorCode: "bad_request", retryable: false });
}

const JSON_TYPE = { "Content-Type": "application/json" };
const CHUNKED = { ...JSON_TYPE, "Transfer-Encoding": "chunked" };
const post = (path: string, headers: Record<string, string | number>, body = "") =>
  `${headOf("POST", path, { ...JSON_TYPE, ...headers })}${body}`;
const postJson = (path: string, value: object) => {
  const body = JSON.stringify(value);
  return post(path, { "Content-Length": Buffer.byteLength(body) }, body);
};
const createAs = (id: string) => postJson("/session/create", { id });

const FAULTS = [
  ["a size that is no number", "zz\r\n{}\r\n"],
  ["a negative size", "-1\r\n{}\r\n"],
  ["a size beyond all numbers", "ffffffffffffffffffff\r\n"],
  ["more bytes than its size", "2\r\n{}x\r\n0\r\n\r\n"],
  ["a trailer that says how long it is", "2\r\n{}\r\n0\r\nContent-Length: 9\r\n\r\n"],
  ["a trailer that is no header", "2\r\n{}\r\n0\r\nno header\r\n\r\n"],
] as const;

test.each(FAULTS)("a body in chunks with %s is 400, and ends the connection", async (_, chunks) => {
  const lines = { ...CHUNKED, "Content-Type": "application/x-ndjson" };
  const heads = [
    headOf("POST", "/session/create", CHUNKED),
    headOf("POST", "/mcp", CHUNKED),
    headOf("POST", "/session/import", lines),
  ];
  for (const head of heads) expectRefusal(await say(head + chunks));
});

test("a read, which does not need its malformed body, gets one answer, and the connection ends", async () => {
  const head = headOf("GET", "/agents", { "Transfer-Encoding": "chunked" });
  for (const body of ["zz\r\n", "2\r\n{}\r\nzz\r\n"]) {
    const answers = await say(head + body);
    expect([[200], [400]]).toContainEqual(statusesOf(answers));
    expect(answers[0]!.head.toLowerCase()).toContain("connection: close");
  }
});

test("a body whose chunks become malformed later is 400 too, and creates nothing", async () => {
  const id = node.newId("half");
  const client = await open();
  const first = `{"id":"${id}",`;
  await client.send(`${headOf("POST", "/session/create", CHUNKED)}${first.length.toString(16)}\r\n${first}\r\n`);
  await client.send("zz\r\n}\r\n");
  await client.closed;
  expectRefusal(answersOf(client.text));
  expect((await refused(node.get(`/session/${id}`))).errorCode).toBe("session_not_found");
});

test("a body that ends before its length is 400 for a client that still reads", async () => {
  const client = await open();
  await client.send(post("/session/create", { "Content-Length": 10 }, "{}"));
  client.socket.end();
  await client.closed;
  expectRefusal(answersOf(client.text));
});

test("a body that goes on behind its length is answered, and its rest is 400", async () => {
  const id = node.newId("longer");
  const answers = await say(`${createAs(id)}{"id":"x"}`);
  expect(statusesOf(answers)).toEqual([200, 400]);
  expect(JSON.parse(answers[0]!.body).session.id).toBe(id);
});

test("a request that was refused for its head gets no second answer for its body", async () => {
  const client = await open();
  await client.send(`${headOf("POST", "/nothing", CHUNKED)}1\r\n{\r\n`);
  await client.until(/not_found.*}$/s);
  await client.send("zz\r\n");
  await client.closed;
  expect(statusesOf(answersOf(client.text))).toEqual([404]);
});

test("a body may be followed by trailers, which change nothing", async () => {
  const client = await open();
  const trailers = "Authorization: Bearer x\r\nIdempotency-Key: y\r\n";
  await client.send(`${headOf("POST", "/session/create", { ...CHUNKED, Trailer: "Idempotency-Key" })}2\r\n{}\r\n`);
  await client.send(`0\r\n${trailers}\r\n${headOf("GET", "/agents", { Connection: "close" })}`);
  await client.closed;
  expect(statusesOf(answersOf(client.text))).toEqual([200, 200]);
});

test.each(["gzip", "br", "x-unknown"])("a body with the Content-Encoding %s is 400, and says why", async (coding) => {
  const bytes = coding === "gzip" ? gzipSync("{}") : Buffer.from("{}");
  const headers = { "Content-Encoding": coding, "Content-Length": bytes.length, Connection: "close" };
  const [answer] = await say(Buffer.concat([Buffer.from(post("/session/create", headers)), bytes]));
  expect(answer?.status).toBe(400);
  expect(JSON.parse(answer!.body).error).toMatch(/Content-Encoding/);
  const lines = { ...headers, "Content-Type": "application/x-ndjson" };
  const [imported] = await say(Buffer.concat([Buffer.from(headOf("POST", "/session/import", lines)), bytes]));
  expect(JSON.parse(imported!.body).error).toMatch(/Content-Encoding/);
});

test("a body that is as it is may say so", async () => {
  const headers = { "Content-Encoding": "identity", "Content-Length": 2, Connection: "close" };
  expect(statusesOf(await say(post("/session/create", headers, "{}")))).toEqual([200]);
});

const MALFORMED = ["HELLO\r\n\r\n", "GET /x HTTP/9.9\r\n\r\n", "\u0000\u0001\r\n\r\n"];
test.each(MALFORMED)(
  "malformed bytes behind requests are 400 after their answers, whole and in order: %j",
  async (bytes) => {
    const ids = [node.newId("a"), node.newId("b")];
    const answers = await say(`${headOf("GET", "/openapi.json")}${ids.map(createAs).join("")}${bytes}`);
    expect(statusesOf(answers)).toEqual([200, 200, 200, 400]);
    expect(JSON.parse(answers[0]!.body).openapi).toMatch(/^3\./);
    expect(answers.slice(1, 3).map(({ body }) => JSON.parse(body).session.id)).toEqual(ids);
    expectRefusal(answers.slice(3));
  },
);

test("malformed bytes behind an export leave it whole", async () => {
  const { session } = await accepted(node.post("/session/create", {}));
  const client = await open();
  await client.send(`${headOf("GET", `/session/${session.id}/export?format=jsonl`)}HELLO\r\n\r\n`);
  await client.closed;
  expect(client.text).toMatch(/"type":"end","messages":0}\n\r\n0\r\n\r\nHTTP\/1\.1 400 /);
});

test("malformed bytes behind an event stream end it, whether it had begun or not, and no answer is written into it", async () => {
  for (const isLate of [true, false]) {
    const client = await open();
    await client.send(headOf("GET", "/events") + (isLate ? "" : "HELLO\r\n\r\n"));
    await client.until(/"agent_list"/);
    await client.send("HELLO\r\n\r\n");
    await client.closed;
    expect(client.text).not.toContain("400 Bad Request");
  }
});

test.each(["tea", "100-continue, tea", "200-ok"])(
  "a request that expects %s is 400, also behind another",
  async (Expect) => {
    expectRefusal(await say(headOf("GET", "/health", { Expect })));
    expectRefusal(await say(post("/session/create", { Expect, "Content-Length": 2 }, "{}")));
    expect(statusesOf(await say(headOf("GET", "/agents") + headOf("GET", "/health", { Expect })))).toEqual([200, 400]);
  },
);

test("a client of HTTP/1.0 gets no 100 Continue, which it would take for its answer", async () => {
  const head = post("/session/create", { Expect: "100-continue", "Content-Length": 2 }).replace("HTTP/1.1", "HTTP/1.0");
  expect(statusesOf(await say(`${head}{}`))).toEqual([200]);
});

test.each([
  ["http://evil.example/agents", "127.0.0.1"],
  ["http://127.0.0.1:81/agents", "127.0.0.1:80"],
  ["http://127.0.0.1/agents", "car.local"],
])("a request for %s that names the Host %s is 400", async (url, Host) => {
  const [answer] = await say(headOf("GET", url, { Host, Connection: "close" }));
  expect(answer?.status).toBe(400);
  expect(answer?.body).toContain("more than one Host");
});

test("a request may have its address in absolute form", async () => {
  const ask = (url: string, Host: string) => say(headOf("GET", url, { Host, Connection: "close" }));
  expect(statusesOf(await ask("http://127.0.0.1/agents", "127.0.0.1"))).toEqual([200]);
  expect(statusesOf(await ask("http://CAR.local:80/agents?_=http://evil.example", "car.LOCAL"))).toEqual([200]);
  expect(statusesOf(await ask("http://evil.example/agents", "evil.example"))).toEqual([403]);
  expect(statusesOf(await say(headOf("OPTIONS", "*", { Connection: "close" })))).toEqual([404]);
});

test("a request with two Authorization headers is 401, whichever is valid", async () => {
  const KEY = keyOf("ann");
  const { node: guarded, ann } = await startGuarded({}, onTestFinished);
  await accepted(ann.get("/agents"));
  for (const [one, other] of [
    [KEY, "other"],
    ["other", KEY],
    [KEY, KEY],
  ]) {
    const twice = { Authorization: `Bearer ${one}`, aUTHORIZATION: `Bearer ${other}` };
    expect(statusesOf(await say(headOf("GET", "/agents", { ...twice, Connection: "close" }), guarded.url))).toEqual([
      401,
    ]);
  }
});

/** As `nc -N` and some health checks do. */
const sayAndClose = async (bytes: string) => {
  const client = await open();
  await client.send(bytes);
  return client.halfClose();
};

test("a probe whose client closes its side is answered", async () => {
  for (const probe of [headOf("GET", "/ready"), "GET /health HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n"]) {
    expect(await sayAndClose(probe)).toMatch(/^HTTP\/1\.1 200 OK\r\n.*"status":"ok"/s);
  }
});

test("a command whose client closes its side is carried out and answered, also one with a chunked body", async () => {
  const { id } = await new E2eClient(node).create("general");
  const title = JSON.stringify({ title: "renamed" });
  const head = headOf("PATCH", `/session/${id}`, CHUNKED);
  const chunked = `${head}${title.length.toString(16)}\r\n${title}\r\n0\r\n\r\n`;
  const now = async () => (await accepted(node.get(`/session/${id}`))).session;
  for (const bytes of [chunked, postJson(`/session/${id}/archive`, {})]) {
    const before = await now();
    let answer = await sayAndClose(bytes);
    // A node that got no processor for two seconds takes the client for one that gave up, and then does nothing.
    for (; answer === ""; answer = await sayAndClose(bytes)) expect(await now()).toEqual(before);
    expect(answer).toMatch(/^HTTP\/1\.1 200 /);
  }
  expect(await now()).toMatchObject({ title: "renamed", state: "archived" });
});

test("an event stream ends when its client closes its side, before or after it began", async () => {
  const early = await sayAndClose(headOf("GET", "/events"));
  expect(early).toMatch(/^(HTTP\/1\.1 200 OK\r\n.*text\/event-stream.*)?$/is);
  const reader = await open();
  await reader.send(headOf("GET", "/events"));
  await reader.until(/"agent_list"/);
  const count = async () => Number(/^interlock_connections\S* (\d+)/m.exec((await node.get("/metrics")).text)![1]);
  await expect.poll(count).toBe(1);
  await reader.halfClose();
  await expect.poll(count).toBe(0);
});

test.each([
  ["is aborted when OpenAI's client closes its side of a stream", true],
  ["goes on for a while when OpenAI's client closes its side before it has a whole answer", false],
])("a run %s", async (_, stream) => {
  const { id } = await new E2eClient(node).create("general");
  const log = await node.stream(`/session/${id}/events`);
  const asked = {
    model: "general",
    messages: [{ role: "user", content: "play" }],
    stream,
    metadata: { session: id },
  };
  const client = await open();
  await client.send(postJson("/v1/chat/completions", asked));
  await log.findState(id, "active.running");
  if (stream) await client.until(/"content":"[^"]/);
  expect(await client.halfClose()).not.toContain("[DONE]");
  if (!stream) {
    expect((await accepted(node.get(`/session/${id}`))).session.activity).toBe("running");
    await accepted(node.post("/message", { type: "abort", sessionId: id }));
  }
  expect((await log.find("complete")).data).toMatchObject({ cancelled: true });
});
