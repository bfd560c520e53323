import { expect, it, onTestFinished, vi } from "vitest";
import { createClient } from "../../../src/client/client.ts";
import { ClientError } from "../../../src/client/client-error.ts";
import type { ClientOptions } from "../../../src/client/requester.ts";
import { type Answer, cut, json, problem, SmallServer } from "../../support/servers/small-server.ts";

/** A client of a server with these answers, and a clock that does not wait. */
async function stage(answers: Answer[], options: Partial<ClientOptions> = {}) {
  const server = await SmallServer.start(...answers);
  const waits: number[] = [];
  const client = createClient({
    baseUrl: server.url,
    random: () => 1,
    delay: async (ms) => void waits.push(ms),
    ...options,
  });
  return { server, client, waits, [Symbol.asyncDispose]: () => server[Symbol.asyncDispose]() };
}

async function failure(promise: Promise<unknown>): Promise<ClientError> {
  const [{ reason }] = (await Promise.allSettled([promise])) as [PromiseRejectedResult];
  expect(reason).toBeInstanceOf(ClientError);
  return reason;
}

const keysOf = ({ heard }: SmallServer) => heard.map(({ headers }) => headers["idempotency-key"]);

const OK = json({ success: true });
const KEY = /^[0-9a-f]{32}$/;

it("every route has a method that sends the request of the protocol", async () => {
  await using place = await stage([OK]);
  const { client, server } = place;
  const made = { name: "a", workspaceId: "w", basedOn: "b" };
  const calls: [() => Promise<unknown>, string, string?][] = [
    [() => client.createSession({ activate: true }), "POST /session/create", '{"activate":true}'],
    [() => client.loadSession({ sessionId: "s" }), "POST /session/load", '{"sessionId":"s"}'],
    [
      () => client.listSessions({ q: "a b", page: 0, includeArchived: true }),
      "GET /session/list?q=a+b&page=0&includeArchived=true",
    ],
    [() => client.getSession("s"), "GET /session/s"],
    [() => client.renameSession("s", "标题"), "PATCH /session/s", '{"title":"标题"}'],
    [() => client.switchMode("s", "work"), "PATCH /session/s", '{"mode":"work"}'],
    [() => client.deleteSession("s"), "DELETE /session/s", ""],
    [() => client.deleteSession("s", { ifSeq: 3 }), "DELETE /session/s", '{"ifSeq":3}'],
    [() => client.listMessages("s", { before: "m", limit: 2 }), "GET /session/s/messages?before=m&limit=2"],
    [() => client.withdrawMessage("s", "m"), "DELETE /session/s/messages/m", ""],
    [() => client.withdrawMessage("s", "m", { ifSeq: 0 }), "DELETE /session/s/messages/m", '{"ifSeq":0}'],
    [() => client.listAgents({ workspaceId: "w" }), "GET /agents?workspaceId=w"],
    [() => client.createDefinition(made), "POST /agents/definitions", JSON.stringify(made)],
    [() => client.listDefinitions({ workspaceId: "w", limit: 2 }), "GET /agents/definitions?workspaceId=w&limit=2"],
    [() => client.getDefinition("a-1"), "GET /agents/definitions/a-1"],
    [() => client.changeDefinition("a-1", { label: null }), "PATCH /agents/definitions/a-1", '{"label":null}'],
    [() => client.deleteDefinition("a-1"), "DELETE /agents/definitions/a-1", ""],
    [() => client.forkSession("s", { messageId: "m" }), "POST /session/s/fork", '{"messageId":"m"}'],
    [() => client.rollBackSession("s", { turns: 2 }), "POST /session/s/rollback", '{"turns":2}'],
    [() => client.resendMessage("s", "m"), "POST /session/s/messages/m/resend", "{}"],
    [() => client.editMessage("s", "m", { content: "b" }), "POST /session/s/messages/m/edit", '{"content":"b"}'],
    [() => client.exportSession("s", "jsonl"), "GET /session/s/export?format=jsonl"],
    [() => client.importSession("{}\n{}", { userId: "ann" }), "POST /session/import?userId=ann", "{}\n{}"],
    [() => client.listQueue("s", { after: "m" }), "GET /session/s/queue?after=m"],
    [() => client.listLogs("s", "m", { after: "3" }), "GET /session/s/messages/m/logs?after=3"],
    [() => client.activateSession("s"), "POST /session/s/activate", "{}"],
    [() => client.pauseSession("s"), "POST /session/s/pause", "{}"],
    [() => client.resumeSession("s"), "POST /session/s/resume", "{}"],
    [() => client.archiveSession("s"), "POST /session/s/archive", "{}"],
    [() => client.stopSession("s"), "POST /session/s/stop", "{}"],
    [() => client.getFloor("u:ann/rear%20left"), "GET /floor/u%3Aann%2Frear%2520left"],
    [() => client.stopFloor("u:ann"), "POST /floor/u%3Aann/stop", "{}"],
    [() => client.stopAll("u:ann"), "POST /floor/u%3Aann/stop-all", "{}"],
    [() => client.setFlags("u:ann", { emergency: true }), "PUT /floor/u%3Aann/flags", '{"emergency":true}'],
    [() => client.whatIf("u:ann", "a"), "POST /floor/u%3Aann/what-if", '{"agentId":"a"}'],
    [
      () => client.whatIf("u:ann", "a", { workspaceId: "w" }),
      "POST /floor/u%3Aann/what-if",
      '{"agentId":"a","workspaceId":"w"}',
    ],
    [() => client.listAgents(), "GET /agents"],
    [() => client.send({ type: "chat", content: "hi" }), "POST /message", '{"type":"chat","content":"hi"}'],
    [() => client.getHealth(), "GET /health"],
    [() => client.getReadiness(), "GET /ready"],
    [() => client.getMetrics(), "GET /metrics"],
    [() => client.listNodes(), "GET /nodes"],
    [() => client.listRuns({ state: "held", minAgeMs: 1 }), "GET /runs?state=held&minAgeMs=1"],
    [() => client.cancelRun("r1"), "POST /runs/r1/cancel", "{}"],
    [() => client.listWebhooks(), "GET /webhooks"],
    [() => client.testWebhook("billing"), "POST /webhooks/billing/test", "{}"],
    [() => client.getMatrix({ at: "23:30", flag: ["a", "b"] }), "GET /catalogue/matrix?at=23%3A30&flag=a&flag=b"],
    [
      () => client.replayFloor("u:ann", "agents: []", { lastMs: 5 }),
      "POST /floor/u%3Aann/replay?lastMs=5",
      "agents: []",
    ],
    [() => client.compareCatalogue("agents: []", { userId: "ann" }), "POST /catalogue/diff?userId=ann", "agents: []"],
    [() => client.getOpenApi(), "GET /openapi.json"],
  ];
  for (const [call, expected, body = ""] of calls) {
    await call();
    const { method, url, headers, body: sent } = server.heard.at(-1)!;
    expect(`${method} ${url}`).toBe(expected);
    expect(sent).toBe(body);
    const others = { import: "application/x-ndjson", diff: "application/yaml", replay: "application/yaml" };
    const type = Object.entries(others).find(([part]) => expected.includes(part))?.[1] ?? "application/json";
    expect(headers["content-type"], expected).toBe(body === "" ? undefined : type);
    expect(headers["idempotency-key"] ?? "", expected).toMatch(method === "GET" ? /^$/ : KEY);
  }
  const keys = keysOf(server).filter((key) => key !== undefined);
  expect(new Set(keys).size).toBe(keys.length);
});

it("an answer is returned unchanged", async () => {
  await using place = await stage([json({ success: true, session: { id: "s" }, position: "e.3" })]);
  expect(await place.client.createSession()).toEqual({ success: true, session: { id: "s" }, position: "e.3" });
});

it("a path in the base address stays in front of every route", async () => {
  await using server = await SmallServer.start(OK);
  await createClient({ baseUrl: `${server.url}/car/` }).listAgents();
  expect(server.heard[0]!.url).toBe("/car/agents");
});

it("an invalid address is refused at once", () => {
  for (const baseUrl of ["", "localhost:3000", "/api", "ftp://host", "http://host/?a=b"]) {
    expect(() => createClient({ baseUrl }), baseUrl).toThrow(TypeError);
  }
});

it("an id that would escape from its path is never sent", async () => {
  await using place = await stage([OK]);
  for (const id of ["", ".", ".."]) {
    expect(await failure(place.client.getSession(id))).toMatchObject({ code: "bad_request", status: 0 });
  }
  await place.client.getSession("../agents");
  expect(place.server.heard.map(({ url }) => url)).toEqual(["/session/..%2Fagents"]);
});

it("a write that got busy, unavailable, a broken connection or a proxy's page is repeated with its key until it is answered", async () => {
  const page: Answer = (response) => response.writeHead(502).end("<h1>Bad gateway</h1>");
  await using place = await stage([problem("busy", 503), problem("unavailable", 503), cut, page, OK]);
  await place.client.send({ type: "chat", content: "once" });
  const { heard } = place.server;
  expect(heard).toHaveLength(5);
  expect(new Set(heard.map(({ headers, body }) => `${headers["idempotency-key"]} ${body}`)).size).toBe(1);
  expect(place.waits).toEqual([200, 400, 800, 1_600]);
});

it("a broken answer counts as no answer", async () => {
  const half: Answer = (response) => {
    response.writeHead(200, { "content-type": "application/json", "content-length": 100 });
    response.write('{"success":true,', () => response.destroy());
  };
  await using place = await stage([half, OK]);
  await place.client.pauseSession("s");
  const [first, second] = keysOf(place.server);
  expect(second).toBe(first);
});

it("delays are random within their upper half", async () => {
  await using place = await stage([problem("busy", 503), OK], { random: () => 0 });
  await place.client.pauseSession("s");
  expect(place.waits).toEqual([100]);
});

it("the last failure is thrown after five attempts, with the key for a repeat", async () => {
  await using place = await stage([problem("busy", 503, { commandId: "theirs" })]);
  const error = await failure(place.client.send({ type: "abort", sessionId: "s" }, { idempotencyKey: "mine" }));
  const facts = { commandId: "mine", traceId: "t" };
  expect(error).toMatchObject({ code: "busy", status: 503, retryable: true, facts });
  expect(keysOf(place.server)).toEqual(Array(5).fill("mine"));
});

it("a patient client repeats a write beyond five attempts, with its key, but a read no more often than others", async () => {
  await using place = await stage([...Array(8).fill(cut), OK], { patienceMs: 60_000 });
  await place.client.pauseSession("s");
  expect(keysOf(place.server)).toEqual(Array(9).fill(keysOf(place.server)[0]));
  // The clock is set meanwhile.
  let now = 0;
  vi.spyOn(Date, "now").mockImplementation(() => (now += 3_600_000));
  onTestFinished(() => void vi.restoreAllMocks());
  await using jumping = await stage([...Array(8).fill(cut), OK], { patienceMs: 60_000 });
  await jumping.client.pauseSession("s");
  await using silent = await stage([cut], { patienceMs: 60_000 });
  await failure(silent.client.getSession("s"));
  expect(silent.server.heard.length).toBe(5);
});

it("the failure says that no server listens at the address", async () => {
  const server = await SmallServer.start(OK);
  const { url } = server;
  await server[Symbol.asyncDispose]();
  const client = createClient({ baseUrl: url, delay: async () => {} });
  const error = await failure(client.createSession());
  expect(error).toMatchObject({ code: "unreachable", status: 0, retryable: true, message: `${url} does not answer.` });
  expect(error.facts.commandId).toMatch(KEY);
});

it("a server that does not answer is asked again", async () => {
  await using place = await stage([() => {}, OK], { timeoutMs: 50 });
  await place.client.createSession();
  const [first, second] = keysOf(place.server);
  expect(second).toBe(first);
});

it("a refusal is thrown at once, with the server's details", async () => {
  const decision = { outcome: "rejected", reason: "lower_priority", say: "导航中" };
  await using place = await stage([problem("rejected", 409, { decision })]);
  const error = await failure(place.client.createSession({ activate: true }));
  expect(error).toMatchObject({ code: "rejected", status: 409, retryable: true, message: "no: rejected" });
  expect(error.facts).toEqual({ traceId: "t", decision });
  expect(place.server.heard).toHaveLength(1);
});

it("an error code of a newer server is thrown unchanged, and the request is not repeated", async () => {
  await using place = await stage([problem("not_on_sundays", 503)]);
  expect(await failure(place.client.getSession("s"))).toMatchObject({ code: "not_on_sundays", status: 503 });
  expect(place.server.heard).toHaveLength(1);
});

it("a rate-limited request waits as long as the server asks, unless that is too long", async () => {
  const wait = (seconds: number) => problem("too_many_requests", 429, {}, { "retry-after": String(seconds) });
  await using place = await stage([wait(3), wait(11)]);
  expect(await failure(place.client.listAgents())).toMatchObject({ code: "too_many_requests", retryAfterMs: 11_000 });
  expect(place.waits).toEqual([3_000]);
});

it("an answer that is not Interlock's is recognised", async () => {
  const page: Answer = (response) => response.writeHead(200, { "content-type": "text/html" }).end("<h1>Hello</h1>");
  const missing: Answer = (response) => response.writeHead(404).end("no such page");
  await using place = await stage([page, missing]);
  expect(await failure(place.client.listAgents())).toMatchObject({ code: "unexpected_answer", status: 200 });
  expect(await failure(place.client.listAgents())).toMatchObject({ code: "unexpected_answer", status: 404 });
  expect(place.server.heard).toHaveLength(2);
});

it("a node that is not ready reports what is missing", async () => {
  await using place = await stage([json({ status: "not_ready", missing: ["store"] }, 503)]);
  expect(await place.client.getReadiness()).toEqual({ status: "not_ready", missing: ["store"] });
  expect(place.server.heard).toHaveLength(1);
});

it("headers are computed at each attempt", async () => {
  let asked = 0;
  await using place = await stage([problem("busy", 503), OK], {
    headers: async () => ({ authorization: `Bearer ${++asked}` }),
  });
  await place.client.listAgents();
  expect(place.server.heard.map(({ headers }) => headers.authorization)).toEqual(["Bearer 1", "Bearer 2"]);
});

it("headers that take too long are a failed attempt, and an abort ends the wait for them", async () => {
  const never = () => new Promise<never>(() => {});
  let asked = 0;
  await using place = await stage([OK], { headers: () => (asked++ === 0 ? never() : {}), timeoutMs: 500 });
  await place.client.listAgents();
  expect([asked, place.server.heard.length]).toEqual([2, 1]);

  const asking = new AbortController();
  await using other = await stage([], { headers: never });
  const request = other.client.listAgents({ signal: asking.signal });
  asking.abort(new Error("enough"));
  await expect(request).rejects.toThrow("enough");
});

it("an abort ends a running request, and a request that waits for its next attempt", async () => {
  const asking = new AbortController();
  await using place = await stage([() => asking.abort(new Error("enough"))]);
  await expect(place.client.createSession({}, { signal: asking.signal })).rejects.toThrow("enough");
  expect(place.waits).toEqual([]);

  const waiting = new AbortController();
  await using other = await stage([problem("busy", 503)], {
    delay: async () => waiting.abort(new Error("not again")),
  });
  await expect(other.client.createSession({}, { signal: waiting.signal })).rejects.toThrow("not again");
  expect(other.server.heard).toHaveLength(1);
});
