import { expect, onTestFinished, test } from "vitest";
import { keyOf, startGuarded } from "../../../support/clients/callers.ts";
import { accepted, refused } from "../../../support/clients/e2e-client.ts";
import { OpenApiDocument } from "../../../support/documents/openapi-document.ts";
import { type Answer, NodeUnderTest } from "../../../support/nodes/node-under-test.ts";

const [ANN, BOB] = [keyOf("ann"), keyOf("bob")];
const LISTED = "https://app.example.com";

const settings = { INTERLOCK_ORIGINS: LISTED, INTERLOCK_PROXIES: "127.0.0.1" };
const { node, ann } = await startGuarded({ settings });
const { session } = await accepted(ann.post("/session/create", { agentId: "chat", userId: "ann" }));

const JSON_TYPE = { "Content-Type": "application/json" };

// Every route: every-route.test.ts.
test.each([
  ["GET", "/agents"],
  ["POST", "/message"],
  ["GET", "/events"],
])("a caller without a credential is refused: %s %s", async (method, path) => {
  const { status, body, headers } = await node.send(method, path, JSON_TYPE);
  expect([status, body.errorCode, body.error]).toEqual([401, "unauthorized", "Authentication is required."]);
  expect(headers["www-authenticate"]).toBe('Bearer realm="interlock"');
});

test("a caller without a credential may read the probes and the description of the API", async () => {
  for (const path of ["/health", "/ready", "/openapi.json"]) {
    expect((await node.send("GET", path)).status, path).toBe(200);
  }
  expect((await node.get("/nothing")).status).toBe(404);
});

test("/openapi.json says how requests authenticate, and which need no credential", async () => {
  const { text } = await node.send("GET", "/openapi.json");
  const { components, security, paths } = OpenApiDocument.parse(JSON.parse(text));
  const proven = [{ token: [] }, { cookie: [] }];
  expect(Object.keys(components.securitySchemes!)).toEqual(["token", "cookie", "ticket"]);
  expect(security).toEqual(proven);
  const open: string[] = [];
  const streams: string[] = [];
  for (const [path, methods] of Object.entries(paths)) {
    for (const [method, operation] of Object.entries(methods)) {
      const name = `${method.toUpperCase()} ${path}`;
      if (operation.security?.length === 0) open.push(name);
      else if (operation.security) {
        expect(operation.security, name).toEqual([...proven, { ticket: [] }]);
        // A generated client sends a ticket as a parameter, or not at all.
        expect(operation.parameters, name).toContainEqual(expect.objectContaining({ name: "ticket", in: "query" }));
        streams.push(name);
      }
    }
  }
  expect(open.toSorted()).toEqual(["DELETE /cookie", "GET /health", "GET /ready"]);
  const ticketed = ["/events", "/floor/{id}/events", "/floors/events", "/session/{id}/events"];
  expect(streams.toSorted()).toEqual(ticketed.map((path) => `GET ${path}`));
});

const unknown = "This server does not know the key.";
const malformed = "The Authorization header is not a Bearer token. Send it as Bearer and the token.";
test.each([
  ["with a character too many", `Bearer ${ANN}x`, unknown],
  ["without its last character", `Bearer ${ANN.slice(0, -1)}`, unknown],
  ["in capital letters", `Bearer ${ANN.toUpperCase()}`, unknown],
  ["that is empty, after a space", "Bearer ", malformed],
  ["that is missing", "Bearer", malformed],
  ["that is given twice", `Bearer ${ANN} ${ANN}`, malformed],
  ["of Basic authentication", `Basic ${Buffer.from(`ann:${ANN}`).toString("base64")}`, malformed],
  ["without the word Bearer", ANN, malformed],
  ["in an empty header", "", malformed],
])("an invalid key is 401: a key %s", async (_, authorization, error) => {
  const { status, body, headers } = await node.send("GET", "/agents", { Authorization: authorization });
  expect([status, body.errorCode, body.error]).toEqual([401, "unauthorized", error]);
  expect(headers["www-authenticate"]).toBe(
    `Bearer realm="interlock", error="invalid_token", error_description="${error}"`,
  );
});

test("an invalid key is refused even with a valid cookie or ticket", async () => {
  const { ticket } = await ann.ticket();
  const headers = { ...own, Authorization: "Bearer nonsense", Cookie };
  expect((await node.send("GET", `/events?ticket=${ticket}`, headers)).status).toBe(401);
  expect((await node.stream(`/events?ticket=${ticket}`)).status).toBe(200);
});

test("a key admits its owner, with the scheme's name in any case", async () => {
  for (const scheme of ["Bearer", "bearer", "BEARER "]) {
    expect((await node.send("GET", "/agents", { Authorization: `${scheme} ${ANN}` })).status, scheme).toBe(200);
  }
});

const path = `/session/${session.id}/events`;

test("a ticket opens a stream, once", async () => {
  const before = Date.now();
  const { ticket, expiresAt } = await ann.ticket();
  expect(ticket).toMatch(/^[A-Za-z0-9_-]{32}$/);
  // The server's clock runs independently, and may differ from this process's by milliseconds.
  expect(expiresAt).toBeGreaterThan(before + 20_000);
  const stream = await node.stream(`${path}?ticket=${ticket}`);
  expect((await stream.next()).type).toBe("session_created");
  const again = await refused(node.get(`${path}?ticket=${ticket}`));
  expect(again).toMatchObject({ errorCode: "unauthorized", error: "The ticket is unknown, used or expired." });
  expect(JSON.stringify(again)).not.toContain(ticket);
});

test("a ticket opens streams only: no other route accepts one, and a ticket cannot request another", async () => {
  const { ticket } = await ann.ticket();
  for (const other of ["GET /agents", "POST /ticket", "POST /session/create"]) {
    const [method = "", path] = other.split(" ");
    expect((await node.send(method, `${path}?ticket=${ticket}`, JSON_TYPE)).status, other).toBe(401);
  }
  expect((await node.stream(`/events?ticket=${ticket}`)).status).toBe(200);
});

test.each(["nonsense", "", "a".repeat(65), "a&ticket=b", "%00"])("a malformed ticket is 401: %j", async (ticket) => {
  const { status, body } = await node.get(`/events?ticket=${ticket}`);
  expect([status, body.errorCode]).toEqual([401, "unauthorized"]);
});

test("a ticket is not cached, and each one is different", async () => {
  const first = await ann.post("/ticket");
  expect(first.headers["cache-control"]).toBe("no-store");
  const key = { key: "same" };
  const tickets = [await ann.post("/ticket", {}, key), await ann.post("/ticket", {}, key)];
  expect(tickets[0]!.text).not.toBe(tickets[1]!.text);
});

const Cookie = `theme=dark; interlock_token=${ANN}; x=1`;
const own = { "Sec-Fetch-Site": "same-origin" };
const ask = (headers: Record<string, string>, path = "/agents") => node.send("GET", path, { Cookie, ...headers });
const write = (headers: Record<string, string>) =>
  node.send("POST", "/session/create", { Cookie, ...JSON_TYPE, ...headers }, "{}");

test.each([
  ["http", "interlock_token", ""],
  ["https", "__Host-interlock_token", "; Secure"],
])("a cookie is set over %s for the node's own pages, not for their scripts", async (scheme, name, more) => {
  const { status, headers, body } = await ann.post("/cookie", {}, { headers: { "X-Forwarded-Proto": scheme } });
  expect([status, body]).toEqual([200, { success: true, ownerId: "ann" }]);
  expect(headers["set-cookie"]).toEqual([`${name}=${ANN}; Path=/; HttpOnly; SameSite=Strict${more}`]);
  expect(headers["cache-control"]).toBe("no-store");
});

test("over TLS a cookie has a name that only the node's own host can set", async () => {
  const tls = { ...own, "X-Forwarded-Proto": "https" };
  const over = (cookie: string, headers = {}) => node.send("GET", "/agents", { Cookie: cookie, ...own, ...headers });
  expect((await over(`__Host-interlock_token=${ANN}`, tls)).status).toBe(200);
  expect((await over(`interlock_token=${ANN}`, tls)).status).toBe(401);
  expect((await over(`__Host-interlock_token=${ANN}`)).status).toBe(401);
  // A cookie that another host of the same domain has set changes nothing.
  expect((await over(`interlock_token=x; __Host-interlock_token=${ANN}`, tls)).status).toBe(200);
});

test.each([ANN, BOB, "x y"])("a cookie that is sent twice is ignored: Ann's and %s", async (other) => {
  for (const Cookie of [
    `interlock_token=${ANN}; interlock_token=${other}`,
    `interlock_token=${other}; interlock_token=${ANN}`,
  ]) {
    const { status, body } = await ask({ Cookie, ...own });
    expect([status, body.error]).toEqual([401, "The request has more than one interlock_token cookie."]);
  }
});

test("a cookie is removed without a key, which may have expired", async () => {
  const { status, headers } = await node.send("DELETE", "/cookie");
  expect(status).toBe(200);
  expect(headers["set-cookie"]).toEqual(["interlock_token=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0"]);
});

test("a cookie is not set for a page of another origin", async () => {
  for (const [method, caller] of [
    ["POST", ann.headers],
    ["DELETE", {}],
  ] as const) {
    const { status, headers } = await node.send(method, "/cookie", { ...caller, ...JSON_TYPE, Origin: LISTED });
    expect([status, headers["set-cookie"]]).toEqual([403, undefined]);
  }
});

test("a cookie authenticates the node's own pages: reads, writes and streams", async () => {
  expect((await ask(own)).status).toBe(200);
  expect((await write({ Origin: node.url, ...own })).body.session.ownerId).toBe("ann");
  const stream = await node.stream(path, { Cookie, ...own });
  expect((await stream.next()).type).toBe("session_created");
  const ticket = await node.send("POST", "/ticket", { Cookie, ...JSON_TYPE, Origin: node.url, ...own });
  expect(ticket.status).toBe(200);
});

const SITE = "Sec-Fetch-Site";
test.each<[from: string, headers: Record<string, string>, toRead: number, toWrite: number]>([
  ["the node's own page", { Origin: node.url, ...own }, 200, 200],
  ["a browser that tells no site", { Origin: node.url }, 200, 200],
  ["a program without an origin", {}, 200, 401],
  ["a page of the same site", { [SITE]: "same-site" }, 401, 401],
  ["a page of the same site with the node's origin", { [SITE]: "same-site", Origin: node.url }, 401, 401],
  ["a page of another site", { [SITE]: "cross-site" }, 401, 401],
  ["a page of another site with the node's origin", { [SITE]: "cross-site", Origin: node.url }, 401, 401],
  ["an address that the user typed", { [SITE]: "none" }, 401, 401],
  ["an address that the user typed with the node's origin", { [SITE]: "none", Origin: node.url }, 401, 401],
  ["a listed page of another origin", { Origin: LISTED }, 401, 401],
])("a cookie of %s %j is answered with %d for a read and %d for a write", async (_, headers, toRead, toWrite) => {
  const { status, headers: answered } = await ask(headers);
  expect([status, (await write(headers)).status]).toEqual([toRead, toWrite]);
  if (toRead === 401) expect((await ask(headers, "/events")).status).toBe(401);
  expect(answered["access-control-allow-credentials"]).toBeUndefined();
});

test.each([
  "interlock_token=",
  "xinterlock_token=KEY",
  "interlock_token=KEYx",
  'interlock_token="KEY"',
  "x=interlock_token=KEY",
])("another cookie, such as %s, is ignored", async (cookie) => {
  expect((await node.send("GET", "/agents", { Cookie: cookie.replace("KEY", ANN), ...own })).status).toBe(401);
});

test.each(["GET /events", "POST /message"])("a page of a listed origin may ask %s with a token", async (request) => {
  const [method, path = ""] = request.split(" ");
  const wanted = ["authorization", "content-type", "idempotency-key", "last-event-id"];
  const { status, headers, text } = await node.send("OPTIONS", path, {
    Origin: LISTED,
    "Access-Control-Request-Method": method,
    "Access-Control-Request-Headers": wanted.join(","),
  });
  expect([status, text, headers["access-control-allow-origin"]]).toEqual([204, "", LISTED]);
  const listed = (name: string) => String(headers[`access-control-allow-${name}`]).split(/, ?/);
  expect(listed("headers")).toEqual(expect.arrayContaining(wanted));
  expect(listed("methods")).toEqual(expect.arrayContaining(["GET", "POST", "PUT", "PATCH", "DELETE"]));
});

test("a page of a listed origin follows a stream with a token or a ticket, and can read why it is refused", async () => {
  const stream = await ann.stream(`/session/${session.id}/events`, { Origin: LISTED });
  expect(stream.headers["access-control-allow-origin"]).toBe(LISTED);
  const { ticket } = await ann.ticket();
  const other = await node.stream(`/events?ticket=${ticket}`, { Origin: LISTED });
  expect(other.headers["access-control-allow-origin"]).toBe(LISTED);
  const { status, headers } = await node.send("GET", "/events", { Origin: LISTED });
  expect([status, headers["access-control-allow-origin"], headers.vary]).toEqual([401, LISTED, "Origin"]);
  expect(headers["access-control-expose-headers"]).toContain("retry-after, www-authenticate");
});

const answers: [string, () => Promise<Pick<Answer, "headers">>][] = [
  ["a stream", () => ann.stream("/events")],
  ["a success", () => ann.get("/agents")],
  ["a failure", () => ann.get("/session/nowhere")],
  ["a refusal", () => node.get("/agents")],
  ["nothing", () => node.get("/nothing")],
];
test.each(answers)("every answer has headers that keep a browser from executing it: %s", async (_, ask) => {
  const { headers } = await ask();
  expect(headers).toMatchObject({
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "strict-transport-security": "max-age=31536000",
    "cross-origin-resource-policy": "same-origin",
  });
  expect(headers["x-powered-by"]).toBeUndefined();
});

test("without authentication every caller is the operator; the routes for tickets and cookies answer, and have no effect", async () => {
  const open = await NodeUnderTest.start();
  onTestFinished(() => open.stop());
  const { ticket } = (await accepted(open.post("/ticket"))) as unknown as { ticket: string };
  for (const each of [ticket, "made%20up"]) expect((await open.stream(`/events?ticket=${each}`)).status).toBe(200);
  const cookie = await open.post("/cookie", {}, { headers: { Authorization: "Bearer x" } });
  expect([cookie.status, cookie.headers["set-cookie"]]).toEqual([200, undefined]);
  expect(cookie.headers["content-security-policy"]).toBeUndefined();
  expect((await open.get("/metrics")).status).toBe(200);
  const made = await accepted(open.post("/session/create", { userId: "anybody" }));
  expect(made.session.ownerId).toBeUndefined();
});
