import { connect } from "node:net";
import { text } from "node:stream/consumers";
import { afterAll, describe, expect, onTestFinished, test } from "vitest";
import { Caller, keyOf, startGuarded, writeTemporary } from "../../../support/clients/callers.ts";
import { accepted, refused } from "../../../support/clients/e2e-client.ts";
import { type Answer, NodeUnderTest } from "../../../support/nodes/node-under-test.ts";
import { signWithSecret } from "../../../support/servers/token-issuer.ts";

const DAY_S = 86_400;

function checkRefusal({ status, body, headers }: Answer): void {
  expect([status, body.errorCode, body.retryable]).toEqual([429, "too_many_requests", true]);
  const seconds = Number(headers["retry-after"]);
  expect(seconds).toBeGreaterThan(DAY_S - 3_600);
  expect(seconds).toBeLessThanOrEqual(DAY_S);
}

// The schemas of answers are read from the first node of a process, which is none that counts its requests.
const unlimited = await startGuarded();

// All windows are longer than any test, so that the tests do not depend on time.
const SECRET = "0123456789abcdef0123456789abcdef";
const secret = await writeTemporary("secret", SECRET, afterAll);
const counting = await NodeUnderTest.start({
  settings: { INTERLOCK_AUTH: `jwt:${secret}`, INTERLOCK_RATE_LIMITS: "owner=4/1d,address=off,refused=off" },
});
afterAll(() => counting.stop());
/** An owner who has made no request to the node that admits four of each owner. */
const newOwner = async () => new Caller(counting, await signWithSecret(SECRET, { sub: counting.newUser() }));

const startProxied = (limits: string) =>
  startGuarded({ settings: { INTERLOCK_RATE_LIMITS: limits, INTERLOCK_PROXIES: "127.0.0.0/8" } });
let addresses = 0;
const from = (address: string) => ({ "X-Forwarded-For": address });
/** What a proxy says of a client from which no request has come. */
const newAddress = () => from(`198.51.100.${++addresses}`);

test("a caller over the limit learns when to retry, and its request has no effect", async () => {
  const [ann, bob] = [await newOwner(), await newOwner()];
  const { session } = await accepted(ann.post("/session/create", { agentId: "chat" }));
  await accepted(ann.get(`/session/${session.id}`));
  for (let asked = 0; asked < 2; asked += 1) await accepted(ann.get("/agents"));
  checkRefusal(await ann.post("/session/create", { agentId: "chat" }));
  checkRefusal(await ann.ask("PATCH", `/session/${session.id}`, { title: "changed" }));
  checkRefusal(await ann.ask("DELETE", `/session/${session.id}`));
  checkRefusal(await ann.post("/message", { type: "chat", sessionId: session.id, content: "hello" }));
  checkRefusal(await ann.get("/agents"));
  // Another owner has a separate limit.
  expect((await accepted(bob.get("/session/list"))).total).toBe(0);
});

test("an owner has only the sessions whose requests were admitted", async () => {
  const ann = await newOwner();
  const made = await Promise.all(Array.from({ length: 12 }, () => ann.post("/session/create", { agentId: "chat" })));
  const statuses = made.map(({ status }) => status).toSorted();
  expect(statuses).toEqual([...Array(4).fill(200), ...Array(8).fill(429)]);
  expect((await counting.send("GET", "/health")).text).toContain('"status":"ok"');
});

test("an owner with too many streams gets 200 and a retry time, because a browser does not reconnect after 429", async () => {
  const ann = await newOwner();
  const { session } = await accepted(ann.post("/session/create", { agentId: "chat" }));
  for (let opened = 0; opened < 3; opened += 1) {
    expect((await (await ann.stream("/events")).next()).type).toBe("connected");
  }
  for (const path of ["/events", `/session/${session.id}/events`, "/floor/u%3Aann/events"]) {
    const stream = await ann.stream(path);
    expect(stream.status).toBe(200);
    const events = await stream.end();
    expect(events).toMatchObject([{ type: "bye", data: { reason: "overloaded" } }]);
    expect(Number(events[0]!.data["reconnectInMs"])).toBeGreaterThan((DAY_S - 3_600) * 1_000);
  }
});

test("an owner's requests are counted for every credential: a token, a cookie or a ticket", async () => {
  const ann = await newOwner();
  const { ticket } = await ann.ticket();
  expect((await (await counting.stream(`/events?ticket=${ticket}`)).next()).type).toBe("connected");
  const Cookie = `interlock_token=${ann.token}`;
  expect((await counting.send("GET", "/agents", { Cookie })).status).toBe(200);
  expect((await ann.get("/agents")).status).toBe(200);
  expect((await counting.send("GET", "/agents", { Cookie })).status).toBe(429);
  checkRefusal(await ann.get("/agents"));
});

test("an owner is not limited if the limit is off", async () => {
  const { node, ann } = unlimited;
  const answers = await Promise.all(Array.from({ length: 700 }, () => node.send("GET", "/agents", ann.headers)));
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
});

test("the streams of an owner are limited below the node's limit", async () => {
  const { ann, bob, ops } = unlimited;
  const open = async (caller: Caller) => {
    const stream = await caller.stream("/events");
    expect((await stream.next()).type).toBe("connected");
    return stream;
  };
  const opened = await Promise.all(Array.from({ length: 128 }, () => open(ann)));
  // The stream that has been silent longest gives way: of those that are not silent, the oldest.
  await open(ann);
  expect((await opened[0]!.end()).at(-1)).toMatchObject({ type: "bye", data: { reason: "overloaded" } });
  await ann.stream("/floor/u%3Aann/events");
  expect((await opened[1]!.end()).at(-1)).toMatchObject({ type: "bye", data: { reason: "overloaded" } });
  await open(bob);
  const many = await Promise.all(Array.from({ length: 130 }, () => open(ops)));
  for (const { events } of opened.slice(2)) expect(events.map(({ type }) => type)).not.toContain("bye");
  // For a second try of the test.
  await Promise.all([...opened, ...many].map((stream) => stream.close()));
});

describe("an address", async () => {
  const { node, ann, bob } = await startProxied("owner=off,address=1/1d,refused=off");

  test.each([
    ["GET", "/agents", 401],
    ["GET", "/openapi.json", 200],
    ["DELETE", "/cookie", 200],
    ["GET", "/nothing", 404],
    ["PUT", "/agents", 405],
    ["GET", "/health", 200],
  ])("requests of one address are counted for all callers and paths, after %s %s", async (method, path, status) => {
    const headers = newAddress();
    expect((await node.send(method, path, headers)).status).toBe(status);
    for (const caller of [ann, bob, node]) checkRefusal(await caller.get("/agents", { headers }));
    for (const other of ["/openapi.json", "/nothing"]) checkRefusal(await node.send("GET", other, headers));
    // Probes of operations are not limited.
    for (const probe of ["/health", "/ready"]) expect((await node.send("GET", probe, headers)).status).toBe(200);
  });

  test("the address is taken from a trusted proxy's header, and from no other client's", async () => {
    const get = (address: string, by = ann) => by.get("/agents", { headers: from(address) });
    const one = newAddress()["X-Forwarded-For"];
    await accepted(get(one));
    checkRefusal(await get(one));
    // An address that the client adds stands before the one that the proxy adds.
    checkRefusal(await get(`203.0.113.9, ${one}`));
    // A household has one network of IPv6.
    const household = `2001:db8:1:${++addresses}`;
    await accepted(get(`${household}::1`));
    checkRefusal(await get(`${household}:ffff::9`));
    await accepted(get(`2001:db8:2:${++addresses}::1`));
  });

  test("requests with malformed paths are counted, and a client's own header changes nothing without a proxy", async () => {
    const settings = { INTERLOCK_RATE_LIMITS: "owner=off,address=1/1d,refused=off" };
    const direct = await startGuarded({ settings }, onTestFinished);
    expect((await direct.node.send("GET", "/%zz", from("198.51.100.1"))).status).toBe(400);
    checkRefusal(await direct.ann.get("/agents", { headers: from("198.51.100.2") }));
    checkRefusal(await direct.node.send("GET", "/%zz"));
  });
});

describe("guessing a key", async () => {
  const { node, ann, bob } = await startProxied("owner=off,address=off,refused=3/1d");

  test("guesses of a key are limited per address, except for callers that authenticated there before", async () => {
    const headers = newAddress();
    const guess = (key: string) => new Caller(node, key).get("/agents", { headers });
    await accepted(ann.get("/agents", { headers }));
    expect((await node.get("/agents", { headers })).status).toBe(401);
    expect((await guess("guess-1")).status).toBe(401);
    expect((await node.get("/events?ticket=guess-2", { headers })).status).toBe(401);
    checkRefusal(await guess("guess-3"));
    checkRefusal(await node.get("/agents", { headers }));
    const stream = await node.stream("/events?ticket=guess-4", headers);
    expect((await stream.end())[0]).toMatchObject({ type: "bye", data: { reason: "overloaded" } });
    await accepted(ann.get("/agents", { headers }));
    // A right key is not checked either: otherwise the answer would tell a right guess from a wrong one.
    checkRefusal(await bob.get("/agents", { headers }));
  });

  test("guesses of a key are counted separately from requests that are refused for other reasons", async () => {
    const headers = newAddress();
    for (let index = 0; index < 4; index++) {
      expect((await refused(ann.get("/session/nowhere", { headers }))).errorCode).toBe("session_not_found");
      expect((await refused(ann.get("/metrics", { headers }))).errorCode).toBe("forbidden");
      expect((await refused(ann.post("/message", { type: "sing" }, { headers }))).errorCode).toBe("bad_request");
    }
    expect((await new Caller(node, keyOf("guess")).get("/agents", { headers })).status).toBe(401);
  });
});

test("a request whose head is too large is refused like any other", async () => {
  const { hostname, port } = new URL(unlimited.node.url);
  const socket = connect(Number(port), hostname);
  socket.write(`GET /agents HTTP/1.1\r\nHost: localhost\r\nX: ${"x".repeat(17_000)}\r\n\r\n`);
  const [head = "", body = ""] = (await text(socket)).split("\r\n\r\n");
  expect(head).toMatch(/^HTTP\/1\.1 413 Payload Too Large\r\n.*Connection: close/s);
  expect(JSON.parse(body)).toEqual({
    success: false,
    errorCode: "too_large",
    error: "The headers are too large.",
    retryable: false,
    traceId: expect.any(String),
  });
});
