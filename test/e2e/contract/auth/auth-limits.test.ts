import { connect } from "node:net";
import { text } from "node:stream/consumers";
import { afterAll, describe, expect, onTestFinished, test } from "vitest";
import { Caller, keysFile, writeTemporary } from "../../../support/clients/callers.ts";
import { accepted, refused } from "../../../support/clients/e2e-client.ts";
import { type Answer, NodeUnderTest } from "../../../support/nodes/node-under-test.ts";

const ANN = "ann-key-0123456789abcdef0123456789";
const BOB = "bob-key-0123456789abcdef0123456789";
const OPS = "ops-key-0123456789abcdef0123456789";

const keys = await writeTemporary(
  "keys.yaml",
  keysFile([
    { owner: "ann", key: ANN },
    { owner: "bob", key: BOB },
    { owner: "ops", key: OPS, operator: true },
  ]),
  afterAll,
);

// The schemas of answers are read from the first node of a process, which is none that counts its requests.
await (await NodeUnderTest.start()).stop();

/** A window longer than any test, so that the tests do not depend on time. */
const LONG = "1d";
const DAY_S = 86_400;

async function start(limits: string, settings: Record<string, string> = {}) {
  const node = await NodeUnderTest.start({
    settings: { INTERLOCK_AUTH: `keys:${keys}`, INTERLOCK_RATE_LIMITS: limits, ...settings },
  });
  onTestFinished(() => node.stop());
  return { node, ann: new Caller(node, ANN), bob: new Caller(node, BOB) };
}

function checkRefusal({ status, body, headers }: Answer): void {
  expect([status, body.errorCode, body.retryable]).toEqual([429, "too_many_requests", true]);
  const seconds = Number(headers["retry-after"]);
  expect(seconds).toBeGreaterThan(DAY_S - 3_600);
  expect(seconds).toBeLessThanOrEqual(DAY_S);
}

describe("an owner", () => {
  test("a caller over the limit learns when to retry, and its request has no effect", async () => {
    const { ann, bob } = await start(`owner=3/${LONG},address=off,refused=off`);
    const { session } = await accepted(ann.post("/session/create", { agentId: "chat" }));
    await accepted(ann.get(`/session/${session.id}`));
    await accepted(ann.get("/agents"));
    checkRefusal(await ann.post("/session/create", { agentId: "chat" }));
    checkRefusal(await ann.ask("PATCH", `/session/${session.id}`, { title: "changed" }));
    checkRefusal(await ann.ask("DELETE", `/session/${session.id}`));
    checkRefusal(await ann.post("/message", { type: "chat", sessionId: session.id, content: "hello" }));
    checkRefusal(await ann.get("/agents"));
    // Another owner has a separate limit.
    expect((await accepted(bob.get("/session/list"))).total).toBe(0);
  });

  test("an owner has only the sessions whose requests were admitted", async () => {
    const { node, ann } = await start(`owner=5/${LONG},address=off,refused=off`);
    const made = await Promise.all(Array.from({ length: 12 }, () => ann.post("/session/create", { agentId: "chat" })));
    const statuses = made.map(({ status }) => status).toSorted();
    expect(statuses).toEqual([...Array(5).fill(200), ...Array(7).fill(429)]);
    const { text: metrics } = await node.send("GET", "/health");
    expect(metrics).toContain('"status":"ok"');
  });

  test("an owner with too many streams gets 200 and a retry time, because a browser does not reconnect after 429", async () => {
    const { ann } = await start(`owner=2/${LONG},address=off,refused=off`);
    const { session } = await accepted(ann.post("/session/create", { agentId: "chat" }));
    expect((await (await ann.stream("/events")).next()).type).toBe("connected");
    for (const path of ["/events", `/session/${session.id}/events`, "/floor/u%3Aann/events"]) {
      const stream = await ann.stream(path);
      expect(stream.status).toBe(200);
      const events = await stream.end();
      expect(events).toHaveLength(1);
      expect(events[0]).toMatchObject({ type: "bye", data: { reason: "overloaded" } });
      expect(Number(events[0]!.data["reconnectInMs"])).toBeGreaterThan((DAY_S - 3_600) * 1_000);
    }
  });

  test("an owner's requests are counted for every credential: a key, a cookie or a ticket", async () => {
    const { node, ann } = await start(`owner=4/${LONG},address=off,refused=off`);
    const { ticket } = (await accepted(ann.post("/ticket"))) as unknown as { ticket: string };
    expect((await (await node.stream(`/events?ticket=${ticket}`)).next()).type).toBe("connected");
    const Cookie = `interlock_token=${ANN}`;
    expect((await node.send("GET", "/agents", { Cookie })).status).toBe(200);
    expect((await ann.get("/agents")).status).toBe(200);
    expect((await node.send("GET", "/agents", { Cookie })).status).toBe(429);
    checkRefusal(await ann.get("/agents"));
  });

  test("an owner is not limited if the limit is off", async () => {
    const { ann } = await start("off");
    const answers = await Promise.all(Array.from({ length: 700 }, () => ann.get("/agents")));
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
  });
});

describe("the streams of an owner", () => {
  const open = async (caller: Caller) => {
    const stream = await caller.stream("/events");
    return { stream, first: await stream.next() };
  };

  test("the streams of an owner are limited below the node's limit", async () => {
    const { node, ann, bob } = await start("off");
    const opened = await Promise.all(Array.from({ length: 128 }, () => open(ann)));
    expect(new Set(opened.map(({ first }) => first.type))).toEqual(new Set(["connected"]));
    // The stream that has been silent longest gives way: of those that are not silent, the oldest.
    expect((await open(ann)).first.type).toBe("connected");
    expect((await opened[0]!.stream.end()).at(-1)).toMatchObject({ type: "bye", data: { reason: "overloaded" } });
    await ann.stream("/floor/u%3Aann/events");
    expect((await opened[1]!.stream.end()).at(-1)).toMatchObject({ type: "bye", data: { reason: "overloaded" } });
    expect((await open(bob)).first.type).toBe("connected");
    const ops = new Caller(node, OPS);
    const many = await Promise.all(Array.from({ length: 130 }, () => open(ops)));
    expect(new Set(many.map(({ first }) => first.type))).toEqual(new Set(["connected"]));
    for (const { stream } of opened.slice(2)) expect(stream.events.map(({ type }) => type)).not.toContain("bye");
  });
});

describe("an address", () => {
  test("requests of one address are counted for all callers, authenticated or not", async () => {
    const { node, ann, bob } = await start(`owner=off,address=4/${LONG},refused=off`);
    await accepted(ann.get("/agents"));
    await accepted(bob.get("/agents"));
    expect((await node.get("/agents")).status).toBe(401);
    expect((await node.get("/agents")).status).toBe(401);
    for (const caller of [ann, bob, node]) checkRefusal(await caller.get("/agents"));
    // Probes of operations are not limited.
    for (const path of ["/health", "/ready"]) expect((await node.get(path)).status).toBe(200);
  });

  test.each([
    ["GET", "/openapi.json", 200],
    ["DELETE", "/cookie", 200],
    ["GET", "/nothing", 404],
    ["PUT", "/agents", 405],
    ["GET", "/%zz", 400],
    ["GET", "/health", 200],
  ])("requests of one address are counted also for public and unknown paths: %s %s", async (method, path, status) => {
    const { node } = await start(`owner=off,address=1/${LONG},refused=off`);
    expect((await node.send(method, path)).status).toBe(status);
    checkRefusal(await node.send("GET", "/openapi.json"));
    checkRefusal(await node.send("GET", "/nothing"));
    checkRefusal(await node.send("GET", "/%zz"));
    expect((await node.send("GET", "/health")).status).toBe(200);
  });

  test("the address is taken from a trusted proxy's header, and from no other client's", async () => {
    const from = (address: string) => ({ headers: { "X-Forwarded-For": address } });
    const proxied = await start(`owner=off,address=1/${LONG},refused=off`, { INTERLOCK_PROXIES: "127.0.0.0/8" });
    await accepted(proxied.ann.get("/agents", from("198.51.100.1")));
    await accepted(proxied.ann.get("/agents", from("198.51.100.2")));
    checkRefusal(await proxied.ann.get("/agents", from("198.51.100.1")));
    // An address that the client adds stands before the one that the proxy adds.
    checkRefusal(await proxied.ann.get("/agents", from("203.0.113.9, 198.51.100.2")));
    // A household has one network of IPv6.
    await accepted(proxied.ann.get("/agents", from("2001:db8:1:2::1")));
    checkRefusal(await proxied.ann.get("/agents", from("2001:db8:1:2:ffff::9")));
    await accepted(proxied.ann.get("/agents", from("2001:db8:1:3::1")));

    const direct = await start(`owner=off,address=1/${LONG},refused=off`);
    await accepted(direct.ann.get("/agents", from("198.51.100.1")));
    checkRefusal(await direct.ann.get("/agents", from("198.51.100.2")));
  });
});

describe("guessing a key", () => {
  const guess = (node: NodeUnderTest, key: string) => new Caller(node, key).get("/agents");

  test("guesses of a key are limited per address, except for callers that authenticated there before", async () => {
    const { node, ann, bob } = await start(`owner=off,address=off,refused=3/${LONG}`);
    await accepted(ann.get("/agents"));
    expect((await node.get("/agents")).status).toBe(401);
    expect((await guess(node, "guess-1")).status).toBe(401);
    expect((await node.get("/events?ticket=guess-2")).status).toBe(401);
    checkRefusal(await guess(node, "guess-3"));
    checkRefusal(await node.get("/agents"));
    const stream = await node.stream("/events?ticket=guess-4");
    expect((await stream.end())[0]).toMatchObject({ type: "bye", data: { reason: "overloaded" } });
    await accepted(ann.get("/agents"));
    // A right key is not checked either: otherwise the answer would tell a right guess from a wrong one.
    checkRefusal(await bob.get("/agents"));
  });

  test("guesses of a key are counted separately from requests that are refused for other reasons", async () => {
    const { ann } = await start(`owner=off,address=off,refused=1/${LONG}`);
    for (let index = 0; index < 4; index++) {
      expect((await refused(ann.get("/session/nowhere"))).errorCode).toBe("session_not_found");
      expect((await refused(ann.get("/metrics"))).errorCode).toBe("forbidden");
      expect((await refused(ann.post("/message", { type: "sing" }))).errorCode).toBe("bad_request");
    }
  });
});

describe("a malformed request", () => {
  /** The raw answer to bytes that are sent unchanged, until the server closes the connection. */
  const say = async (node: NodeUnderTest, bytes: string) => {
    const { hostname, port } = new URL(node.url);
    const socket = connect(Number(port), hostname);
    socket.write(bytes);
    const answer = await text(socket);
    const [head = "", body = ""] = answer.split("\r\n\r\n");
    return { head, body: JSON.parse(body) };
  };

  test("a request whose head is too large is refused like any other", async () => {
    const { node } = await start("off");
    const { head, body } = await say(
      node,
      `GET /agents HTTP/1.1\r\nHost: localhost\r\nX: ${"x".repeat(17_000)}\r\n\r\n`,
    );
    expect(head).toMatch(/^HTTP\/1\.1 413 Payload Too Large\r\n/);
    expect(head).toContain("Connection: close");
    expect(body).toEqual({
      success: false,
      errorCode: "too_large",
      error: "The headers are too large.",
      retryable: false,
      traceId: expect.any(String),
    });
  });

  test("a request that is malformed gets the same error", async () => {
    const { node } = await start("off");
    const { head, body } = await say(node, "HELLO\r\n\r\n");
    expect(head).toMatch(/^HTTP\/1\.1 400 Bad Request\r\n/);
    expect(body).toMatchObject({ success: false, errorCode: "bad_request" });
  });
});
