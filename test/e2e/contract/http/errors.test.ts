import { afterAll, expect, test } from "vitest";
import { accepted, refused } from "../../../support/clients/e2e-client.ts";
import { create } from "../../../support/clients/e2e-states.ts";
import { RawSocket } from "../../../support/networks/raw-socket.ts";
import { NodeUnderTest } from "../../../support/nodes/node-under-test.ts";

const LISTED = "https://app.example.com";

const node = await NodeUnderTest.start({
  settings: { INTERLOCK_ORIGINS: LISTED, INTERLOCK_HOSTS: "car.local", INTERLOCK_MAX_BODY: "4KiB" },
});
afterAll(() => node.stop());

const JSON_TYPE = { "Content-Type": "application/json" };
const raw = (path: string, text: string) => refused(node.post(path, undefined, { raw: text }));
const pathsOf = ({ issues }: { issues: { path: string }[] }) => issues.map(({ path }) => path);

/** All that the node answers to bytes, until it ends the connection. */
async function exchange(bytes: string): Promise<string> {
  const client = await RawSocket.open(node.url);
  await client.send(bytes);
  await client.closed;
  return client.text;
}

const NO_JSON = ["{", '{"id": }', "hello", "{'id': 1}", '{"id": "a"} x', "\u0000"];
test.each(NO_JSON)("a body that is not JSON, as %j, is 400", async (text) => {
  const error = "The body is not valid JSON, or it has a key like __proto__.";
  for (const path of ["/session/create", "/message"]) {
    expect(await raw(path, text)).toMatchObject({ errorCode: "bad_request", error });
  }
});

test.each(["/message", "/v1/chat/completions", "/api/chat"])(
  "a body that is not UTF-8 is 400, and not kept as other characters: %s",
  async (path) => {
    const latin = Buffer.from('{"type": "chat", "content": "caf\u00e9", "model": "general", "messages": []}', "latin1");
    const answer = await fetch(`${node.url}${path}`, { method: "POST", headers: JSON_TYPE, body: latin });
    expect([answer.status, await answer.text()]).toEqual([400, expect.stringContaining("The body is not UTF-8 text.")]);
  },
);

test.each(["[]", '"text"', "7", "null", "true"])("a body with %s instead of an object is 400", async (text) => {
  for (const path of ["/session/create", "/message", "/session/load"]) {
    expect(await raw(path, text)).toMatchObject({ errorCode: "bad_request", issues: [{ path: "body" }] });
  }
});

const POLLUTING = ['{"__proto__": {"activate": true}}', '{"constructor": {"prototype": {}}}'];
test.each(POLLUTING)("a body that would change objects' prototype is 400: %s", async (text) => {
  expect((await raw("/session/create", text)).errorCode).toBe("bad_request");
});

test("a body with wrong types is 400, and every wrong path is named", async () => {
  const body = { id: 7, agentId: "NO", userId: "", activate: "yes", title: [] };
  const paths = ["body.id", "body.agentId", "body.userId", "body.activate", "body.title"];
  expect(new Set(pathsOf(await refused(node.post("/session/create", body))))).toEqual(new Set(paths));
});

test.each([
  [{}, "body.type"],
  [{ type: "sing" }, "body.type"],
  [{ type: "chat" }, "body.content"],
  [{ type: "chat", content: 7 }, "body.content"],
  [{ type: "chat", content: "hi", id: "not an id" }, "body.id"],
  [{ type: "chat", content: "hi", images: "x" }, "body.images"],
  [{ type: "abort", sessionId: "" }, "body.sessionId"],
  [{ type: "abort", connectionId: "thirteen-long" }, "body.connectionId"],
  [{ type: "tool_confirmation_response", response: "approve" }, "body.requestId"],
  [{ type: "user_question_response", requestId: "r" }, "body.response"],
])("a message with the body %j is 400 at %s", async (message, path) => {
  const { errorCode, error, issues } = await refused(node.post("/message", message));
  expect([errorCode, issues[0]!.path]).toEqual(["bad_request", path]);
  // Many clients show the sentence alone.
  expect(error).toBe(`The request is malformed: ${path}: ${issues[0]!.message}`);
});

test("a missing body is 400 where one is needed", async () => {
  for (const path of ["/message", "/session/load", "/floor/u%3Aann/what-if"]) {
    expect((await refused(node.post(path))).errorCode).toBe("bad_request");
  }
});

test.each([
  ["/session/create", '{"x":NESTED}'],
  ["/v1/chat/completions", '{"messages":[{"role":"user","content":"hi","x":NESTED}]}'],
  ["/v1/responses", '{"input":[{"type":"function_call_output","call_id":"x","output":NESTED}]}'],
  ["/api/chat", '{"id":"deep","messages":[{"id":"m","role":"user","parts":[],"x":NESTED}]}'],
])("a body that is nested too deeply is 413 on %s: %s", async (path, body) => {
  for (const levels of [512, 900]) {
    const nested = "[".repeat(levels) + "]".repeat(levels);
    const { status, text } = await node.send("POST", path, JSON_TYPE, body.replace("NESTED", nested));
    expect([status, text.includes("nested more than 512 levels deep")]).toEqual([413, true]);
  }
});

test.each([
  ["GET", "/nothing"],
  ["POST", "/session"],
  ["GET", "/session/create/x/y"],
  ["GET", "/agents/"],
  ["PUT", "/session//messages"],
])("an unknown path, as %s %s, is 404", async (method, path) => {
  const { status, body } = await node.send(method, path, JSON_TYPE);
  expect([status, body]).toMatchObject([404, { success: false, errorCode: "not_found", retryable: false }]);
  expect(body.error).toBe("Nothing exists at this address. GET /openapi.json lists what does; a page is at /.");
});

test.each([
  ["PUT", "/message", "POST"],
  ["DELETE", "/agents", "GET"],
  ["PATCH", "/floor/u%3Aann", "GET"],
  ["PUT", "/session/x?y=1", "DELETE, GET, PATCH"],
  ["HEAD", "/agents", "GET"],
  ["PROPFIND", "/session/list", "DELETE, GET, PATCH"],
  ["QUERY", "/events", "GET"],
  ["TRACE", "/cookie", "DELETE, POST"],
])("an address with another method, as %s %s, is 405 and names the allowed methods", async (method, path, allow) => {
  const { status, headers, body } = await node.send(method, path, JSON_TYPE);
  expect([status, headers["allow"]]).toEqual([405, allow]);
  if (method === "HEAD") return;
  const allowed = allow.split(", ");
  expect(body).toMatchObject({ success: false, errorCode: "method_not_allowed", retryable: false, allowed });
});

test("an unknown method is 405 too, and bytes that are not HTTP are 400", async () => {
  const ask = (line: string) => exchange(`${line}\r\nHost: 127.0.0.1\r\n\r\n`);
  expect(await ask("BREW /agents HTTP/1.1")).toMatch(/^HTTP\/1\.1 405 .*\r\nAllow: GET\r\n/s);
  expect(await ask("BREW /nothing HTTP/1.1")).toMatch(/^HTTP\/1\.1 404 /);
  expect(await ask("BREW/agents")).toMatch(/^HTTP\/1\.1 400 /);
});

const CODINGS = [
  "xchunked",
  "gzip",
  "chunked;q=1",
  "identity",
  ",",
  "chunked, gzip",
  "gzip, chunked",
  "chunked, chunked",
];
test.each([
  ["a POST", "POST", "1.1", ""],
  ["a GET", "GET", "1.1", ""],
  ["a POST of HTTP/1.0", "POST", "1.0", ""],
  ["a POST that expects 100-continue", "POST", "1.1", "Expect: 100-continue\r\n"],
])("an unknown Transfer-Encoding is 400 and ends the connection of %s", async (_, method, version, more) => {
  const head = `${method} /session/create HTTP/${version}\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n${more}`;
  const next = "GET /agents HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
  for (const coding of CODINGS) {
    const text = await exchange(`${head}Transfer-Encoding: ${coding}\r\n\r\n2\r\n{}\r\n0\r\n\r\n${next}`);
    const [answer = "", ...others] = text.split(/(?=HTTP\/1\.1 )/);
    expect(others, coding).toEqual([]);
    expect(answer, coding).toMatch(/^HTTP\/1\.1 400 .*\r\nConnection: close\r\n/s);
    const failure = {
      success: false,
      errorCode: "bad_request",
      retryable: false,
      traceId: expect.stringMatching(/./),
    };
    expect(JSON.parse(answer.split("\r\n\r\n")[1]!), coding).toMatchObject(failure);
  }
});

test("a request without a Host, and one by CONNECT, get an error in the common form", async () => {
  const ask = async (head: string) => {
    const [lines = "", body = ""] = (await exchange(`${head}\r\n\r\n`)).split("\r\n\r\n");
    return [Number(lines.slice(9, 12)), JSON.parse(body).errorCode];
  };
  expect(await ask("GET /agents HTTP/1.1")).toEqual([400, "bad_request"]);
  expect(await ask("CONNECT 127.0.0.1:80 HTTP/1.1\r\nHost: 127.0.0.1")).toEqual([404, "not_found"]);
});

const named = [{ path: "params.id" }];
test.each<[path: string, issues?: object[]]>([
  ["/session/%zz"],
  ["/floor/%zz"],
  ["/%zz"],
  ["/session/%E0%A4%A/messages"],
  ["/session/%00", named],
  ["/session/..%2f..%2fetc", named],
  [`/session/${"x".repeat(65)}`, named],
  ["/session/a.b/messages", named],
])("a malformed path, as %s, is 400, and a malformed id is named", async (path, issues) => {
  expect(await refused(node.get(path))).toMatchObject({ errorCode: "bad_request", ...(issues && { issues }) });
});

const WRONG = [
  "text/plain",
  "application/x-www-form-urlencoded",
  "multipart/form-data; boundary=x",
  "application/jsonp",
];
test.each([...WRONG, "text/json"])("a write with the content type %s is 400, with a body and without", async (type) => {
  for (const content of [undefined, "{}"]) {
    const { status, body } = await node.send("POST", "/session/create", { "Content-Type": type }, content);
    expect([status, body.errorCode]).toEqual([400, "bad_request"]);
  }
});

test("a write without a content type is 400 with a body, whether its length is known or not", async () => {
  for (const headers of [{ "Content-Length": 2 }, { "Transfer-Encoding": "chunked" }]) {
    const { status, body } = await node.send("POST", "/session/create", headers, "{}");
    expect([status, body.errorCode]).toEqual([400, "bad_request"]);
  }
});

test("a POST without a body needs no content type, and means the same as an empty object", async () => {
  for (const headers of [{}, { "Content-Length": 0 }]) {
    const made = await node.send("POST", "/session/create", headers);
    expect(made.status).toBe(200);
    const { id } = made.body.session;
    for (const verb of ["activate", "pause", "resume", "archive", "stop"]) {
      expect((await node.send("POST", `/session/${id}/${verb}`, headers)).status, verb).toBe(200);
    }
    for (const path of ["/floor/u%3Aann/stop", "/floor/u%3Aann/stop-all", "/ticket", "/cookie"]) {
      expect((await node.send("POST", path, headers)).status, path).toBe(200);
    }
  }
});

test("a write without a body and a content type is 403 if a browser says that another site made it", async () => {
  const asked = (headers: Record<string, string>) => node.send("POST", "/floor/u%3Aann/stop-all", headers);
  for (const [headers, status] of [
    [{ "Sec-Fetch-Site": "cross-site" }, 403],
    [{ "Sec-Fetch-Site": "same-site" }, 403],
    [{ "Sec-Fetch-Site": "same-origin" }, 200],
    [{ "Sec-Fetch-Site": "none" }, 200],
    [{ Origin: "null" }, 403],
    [{ Origin: "https://evil.example" }, 403],
    [{ Origin: LISTED, "Sec-Fetch-Site": "cross-site" }, 200],
  ] as const) {
    expect((await asked(headers)).status, JSON.stringify(headers)).toBe(status);
  }
});

test.each([
  ["PUT", "/floor/u%3Aann/flags", "{}"],
  ["PATCH", "/session/x", '{"title":"x"}'],
  ["DELETE", "/session/x", "{}"],
])("a write by %s with a body needs the content type too", async (method, path, content) => {
  const headers = { "Content-Type": "text/plain", "Content-Length": content.length };
  expect((await node.send(method, path, headers, content)).body.errorCode).toBe("bad_request");
});

test("a content type may contain a charset, in any case", async () => {
  for (const type of ["application/json; charset=utf-8", "application/json;charset=UTF-8", "Application/JSON"]) {
    expect((await node.send("POST", "/session/create", { "Content-Type": type }, "{}")).status, type).toBe(200);
  }
});

const asked = (host: string, path = "/agents") => node.send("GET", path, { Host: host });

const OWN = ["localhost", "127.0.0.1", "127.0.0.1:80", "LOCALHOST:1234", "[::1]:3000", "car.local", "CAR.local:99"];
test.each(OWN)("a request may name the Host %s", async (host) => {
  expect((await asked(host)).status).toBe(200);
});

test.each([
  ["127.0.0.1", "evil.example"],
  ["evil.example", "127.0.0.1"],
  ["127.0.0.1", "127.0.0.1"],
])("a request with two Host headers is 400, as %s and %s", async (first, second) => {
  const text = await exchange(`GET /agents HTTP/1.1\r\nHost: ${first}\r\nhOST: ${second}\r\nConnection: close\r\n\r\n`);
  expect(text).toMatch(/^HTTP\/1\.1 400 .*"errorCode":"bad_request"/s);
});

const EVIL = ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "10.0.0.1", "car.local@evil", "a b"];
test.each(EVIL)("a request may not name the Host %j: 403, for a read, a write and a stream", async (host) => {
  for (const path of ["/agents", "/events", "/nothing"]) {
    const { status, body } = await asked(host, path);
    expect([status, body.errorCode]).toEqual([403, "forbidden"]);
    expect(body.error).toContain("INTERLOCK_HOSTS");
  }
  expect((await node.send("POST", "/session/create", { Host: host, ...JSON_TYPE }, "{}")).status).toBe(403);
});

test.each([
  ["none, as HAProxy sends", "1.0", ""],
  ["an empty one", "1.1", "Host:\r\n"],
  ["the node's address, as kubelets send", "1.1", "Host: 10.1.2.3:3000\r\n"],
  ["a name that the node does not know", "1.1", "Host: evil.example\r\n"],
])("a check is answered whatever its Host is: %s", async (_, version, host) => {
  for (const path of ["/health", "/ready", "/metrics"]) {
    for (const method of path === "/metrics" ? ["GET"] : ["GET", "HEAD"]) {
      const text = await exchange(`${method} ${path} HTTP/${version}\r\n${host}Connection: close\r\n\r\n`);
      expect(text, `${method} ${path}`).toMatch(/^HTTP\/1\.1 200 /);
    }
  }
});

test("a page of another origin may not check a node", async () => {
  const headers = { Host: "evil.example", Origin: "http://evil.example" };
  for (const path of ["/health", "/ready", "/metrics"]) {
    expect((await node.send("GET", path, headers)).status).toBe(403);
  }
});

test.each([
  "https://evil.example",
  "null",
  "http://localhost",
  "https://app.example.com.evil",
  "http://app.example.com",
])("a page of another origin that is %s is refused", async (Origin) => {
  const headers = { Origin, ...JSON_TYPE };
  for (const [method, path, content] of [
    ["GET", "/agents", undefined],
    ["GET", "/events", undefined],
    ["POST", "/session/create", "{}"],
    ["OPTIONS", "/session/create", undefined],
  ] as const) {
    const { status, body, headers: answered } = await node.send(method, path, headers, content);
    expect([status, body.errorCode]).toEqual([403, "forbidden"]);
    expect(body.error).toContain("INTERLOCK_ORIGINS");
    expect(answered["access-control-allow-origin"]).toBeUndefined();
  }
});

test("the list of origins does not apply to the node's own pages, or to requests without an origin", async () => {
  const own = await node.send("GET", "/agents", { Origin: node.url });
  expect(own.status).toBe(200);
  expect((await node.get("/agents")).headers["access-control-allow-origin"]).toBeUndefined();
});

test("every failure has its own traceId, and no cause", async () => {
  const { ann, id } = await create(node, "music");
  const failures = await Promise.all([
    refused(node.get("/session/nowhere")),
    refused(node.get("/nothing")),
    refused(node.get("/%zz")),
    raw("/message", "{"),
    refused(node.post("/message", { type: "sing" })),
    refused(ann.on(id, "resume")),
    refused(node.get("/agents", { headers: { Origin: "https://evil.example" } })),
  ]);
  expect(new Set(failures.map(({ traceId }) => traceId)).size).toBe(failures.length);
  for (const failure of failures) {
    expect(failure.traceId).toMatch(/^[A-Za-z0-9_-]{8,}$/);
    expect(JSON.stringify(failure)).not.toMatch(/stack|cause|node_modules|Error:/);
  }
});

/** A call of a tool of the MCP door, and its result. */
async function callTool(name: string, args: object) {
  const headers = { Accept: "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18" };
  const params = { name, arguments: args };
  const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params });
  const answer = await node.send("POST", "/mcp", { ...headers, "Content-Type": "application/json" }, body);
  const text = answer.text.includes("data: ") ? /data: (.*)/.exec(answer.text)![1]! : answer.text;
  return (JSON.parse(text) as { result: { structuredContent: Record<string, unknown> } }).result.structuredContent;
}

const CHAT = { type: "chat", content: "hello" };
const COMPLETION = { model: "general", messages: [{ role: "user", content: "hello" }] };
const UI = { id: "kitchen", messages: [{ id: "m", role: "user", parts: [{ type: "text", text: "hello" }] }] };

test.each<[string, object, string, string]>([
  ["/session/create", {}, "user_id", "userId"],
  ["/session/create", {}, "userID", "userId"],
  ["/session/create", {}, "user", "userId"],
  ["/session/create", {}, "agent", "agentId"],
  ["/session/create", {}, "workspace_id", "workspaceId"],
  ["/session/load", {}, "session_id", "sessionId"],
  ["/message", CHAT, "session_id", "sessionId"],
  ["/message", CHAT, "userid", "userId"],
  ["/message", { type: "abort" }, "session", "sessionId"],
  ["/api/chat", UI, "user_id", "userId"],
  ["/v1/chat/completions", COMPLETION, "meta_data", "metadata"],
  ["/floor/u%3Aann/what-if", {}, "agent", "agentId"],
])(
  "a body of %s with a key that is nearly a known one is 400: %j and %s, meant is %s",
  async (path, body, key, meant) => {
    // Some doors have errors of another form, which `post` does not expect.
    const sent = JSON.stringify({ ...body, [key]: "ann" });
    const { status, text } = await node.send("POST", path, { "Content-Type": "application/json" }, sent);
    expect(status).toBe(400);
    expect(text).toContain(`did you mean ${meant}?`);
  },
);

test.each([
  ["user_question_response", { customInputs: "no" }, "customInput"],
  ["user_question_response", { selected: "a", custom_input: "no" }, "customInput"],
  ["tool_confirmation_response", { rejectWithreply: "no" }, "rejectWithReply"],
  ["rollback", { messageIndex: 0, rollback_files: true }, "rollbackFiles"],
])("a key within a message that is nearly a known one is 400 too: %s %j", async (type, inner, meant) => {
  const field = type === "rollback" ? { rollback: inner } : { requestId: "r", response: inner };
  expect((await refused(node.post("/message", { type, sessionId: "s", ...field }))).error).toContain(
    `did you mean ${meant}?`,
  );
});

test("a query parameter that a route does not have is 400, unless it avoids caches, or the route is a stream", async () => {
  const { error } = await refused(node.get("/catalogue/matrix?time=22:00"));
  expect(error).toBe("This route has no time; it has at, userId, flag.");
  expect((await node.get("/catalogue/matrix?_=1")).status).toBe(200);
});

test("a query with a key that is nearly a known one is 400 too", async () => {
  const { error, issues } = await refused(node.get("/session/list?user_id=ann"));
  expect({ error, issues }).toEqual({
    error: "There is no user_id; did you mean userId?",
    issues: [{ path: "querystring.user_id", message: "did you mean userId?" }],
  });
});

test("a tool of the MCP door refuses an argument that is nearly a known one", async () => {
  const { error } = await callTool("ask_for_floor", { agentId: "general", user_id: "ann" });
  expect(error).toMatchObject({ code: "bad_request", message: "There is no user_id; did you mean userId?" });
});

test.each<[string, string, object]>([
  ["a key that is like no other", "/api/chat", { ...UI, priority: 100, colour: "red", _: 1 }],
  [
    "a misspelt key beside the right one",
    "/v1/chat/completions",
    { ...COMPLETION, metadata: {}, meta_data: { name: "Ann" }, user: "ann" },
  ],
  ["a key that only earlier clients send", "/session/create", { yoloMode: true }],
])("%s is ignored: %s", async (_, path, body) => {
  const { status } = await node.send("POST", path, JSON_TYPE, JSON.stringify(body));
  expect(status).toBe(200);
});

test.each([
  [{ contnet: "hi" }, "contnet", "content"],
  [{ tpye: "abort" }, "tpye", "type"],
  [{ upto: 3 }, "upto", "upTo"],
])("a message without a type is first told of its misspelt key: %j", async (body, key, meant) => {
  const { error } = await refused(node.post("/message", { sessionId: "s", ...body }));
  expect(error).toBe(`There is no ${key}; did you mean ${meant}?`);
});

test("all unknown fields of a body are named, the guess or the known fields with each", async () => {
  const { error, issues } = await refused(
    node.post("/message", { content: "hi", userid: "ann", [`x${"y".repeat(99)}`]: 1 }),
  );
  expect(error).toBe("There is no userid; did you mean userId?");
  expect(issues).toEqual([
    { path: "body.userid", message: "did you mean userId?" },
    {
      path: `body.x${"y".repeat(63)}…`,
      message: expect.stringMatching(/^known here: type, sessionId, connectionId, /),
    },
  ]);
});

const NOTICE = /a floor of its own: it competes with no other session/;

test("the answer of a create without a userId says that the session competes with no other", async () => {
  const alone = await accepted(node.post("/session/create", {}));
  expect(alone).toMatchObject({ notice: expect.stringMatching(NOTICE) });
  expect(await accepted(node.post("/session/create", { userId: node.newUser() }))).not.toHaveProperty("notice");
  const key = node.newId("alone");
  const message = { type: "chat", content: "hello" };
  const said = await accepted(node.post("/message", message, { key }));
  expect(said).toMatchObject({ notice: expect.stringMatching(NOTICE) });
  expect(await accepted(node.post("/message", message, { key }))).toEqual(said);
  const others = [
    { ...message, userId: node.newUser() },
    { type: "pause", sessionId: said.sessionId },
  ];
  for (const other of others) expect(await accepted(node.post("/message", other))).not.toHaveProperty("notice");
  expect(await callTool("ask_for_floor", { agentId: "general" })).toMatchObject({
    notice: expect.stringMatching(NOTICE),
  });
});

test.each(["/v1/chat/completions", "/v1/responses"])("the user of %s is the user of the session", async (path) => {
  const user = node.newUser();
  const content = path.endsWith("responses") ? { input: "hello" } : { messages: COMPLETION.messages };
  const answer = await node.post(path, { model: "general", ...content, user });
  const { metadata } = answer.body as unknown as { metadata: { session: string } };
  const { session } = await accepted(node.get(`/session/${metadata.session}`));
  expect(session).toMatchObject({ userId: user, floorId: `u:${user}` });
});
