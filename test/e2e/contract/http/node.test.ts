import { afterAll, describe, expect, onTestFinished, test } from "vitest";
import { LIVE_EVENTS, LOGGED_EVENTS, type LoggedType } from "../../../../src/protocol/event.ts";
import { EVENT_LOGS, isFloorEvent } from "../../../../src/protocol/event-logs.ts";
import { E2E_AGENTS, scripted } from "../../../support/catalogs/e2e-catalog.ts";
import { Caller, startGuarded } from "../../../support/clients/callers.ts";
import { accepted, E2eClient, refused } from "../../../support/clients/e2e-client.ts";
import { OpenApiDocument, type Operation, referencesIn } from "../../../support/documents/openapi-document.ts";
import { NodeUnderTest } from "../../../support/nodes/node-under-test.ts";

interface Discriminator {
  propertyName: string;
  mapping: Record<string, string>;
}

const node = await NodeUnderTest.start();
afterAll(() => node.stop());

test("/health says that the node is alive, its version, and the number of open streams", async () => {
  const { status, body } = await node.get("/health");
  expect(status).toBe(200);
  expect(body).toEqual({ status: "ok", connections: 0, version: expect.stringMatching(/^\d+\.\d+\.\d+$/) });
  const streams = [await node.stream("/events"), await node.stream("/floor/u%3Aann/events")];
  await streams[0]!.next();
  const connections = async () => (await node.send("GET", "/health")).text.match(/"connections":(\d+)/)![1];
  while ((await connections()) !== "2");
  for (const stream of streams) await stream.close();
  while ((await connections()) !== "0");
});

/** Monitors, `wget --spider` and `curl -I` ask with HEAD. */
test.each(["/health", "/ready", "/"])("HEAD %s is answered like GET, without a body", async (path) => {
  const got = await fetch(node.url + path);
  const asked = await fetch(node.url + path, { method: "HEAD" });
  expect(asked.status).toBe(got.status);
  for (const name of ["content-type", "content-length"]) expect(asked.headers.get(name)).toBe(got.headers.get(name));
  await got.text();
  expect(await asked.text()).toBe("");
});

test("/ready says that nothing is missing, and which catalogue is in use since when", async () => {
  expect(await accepted(node.get("/ready"))).toEqual({
    status: "ok",
    missing: [],
    catalog: { hash: expect.stringMatching(/^[0-9a-f]{12}$/), loadedAt: expect.any(Number) },
  });
});

test("/ready is 200 with the faults while the file is broken, if it is asked by the node's name, and the old catalogue remains in use", async () => {
  const reloaded = await NodeUnderTest.start({ mayFail: true });
  const ready = () => accepted(reloaded.get("/ready"));
  const { catalog: before } = await ready();
  await reloaded.writeCatalog("agents:\n  - name: general\n    priority: 101\n  - name: general\n");
  let { catalog } = await ready();
  while (!catalog.faults) ({ catalog } = await ready());
  expect(catalog).toMatchObject({ hash: before.hash, loadedAt: before.loadedAt });
  expect(catalog.faultCount).toBe(catalog.faults.length);
  expect(catalog.faults.map(({ line }) => line)).toEqual(expect.arrayContaining([3, 4]));
  // A web page may have sent a check that names another Host.
  const hidden = (await reloaded.send("GET", "/ready", { Host: "evil.example" })).body.catalog;
  expect(hidden).toEqual({ hash: before.hash, loadedAt: before.loadedAt, faultCount: catalog.faultCount });
  const ann = new E2eClient(reloaded);
  expect((await ann.hold("music")).priority).toBe(20);

  const agents = [...E2E_AGENTS, scripted("newcomer", { priority: 99 })];
  await reloaded.writeCatalog(JSON.stringify({ agents, default_agent: "newcomer" }));
  while (catalog.hash === before.hash) ({ catalog } = await ready());
  expect(catalog.faults).toBeUndefined();
  expect((await accepted(reloaded.get("/agents"))).defaultAgentId).toBe("newcomer");
  const { session } = await accepted(ann.askToCreate({ activate: true }));
  expect(session).toMatchObject({ agentId: "newcomer", priority: 99 });
  await reloaded.stop();
});

test("a new catalogue renumbers the sessions of a floor at once, and tells a removed agent from a disabled one", async () => {
  const reloaded = await NodeUnderTest.start();
  onTestFinished(() => reloaded.stop());
  const ann = new E2eClient(reloaded);
  const [gone, off] = [await ann.create("weather"), await ann.create("chat")];
  const [music, phone] = [await ann.hold("music"), await ann.hold("phone")];
  const changes: Record<string, object> = { music: { priority: 70 }, chat: { enabled: false } };
  const agents = E2E_AGENTS.filter(({ name }) => name !== "weather").map((agent) => ({
    ...agent,
    ...changes[String(agent["name"])],
  }));
  const { catalog: before } = await accepted(reloaded.get("/ready"));
  await reloaded.writeCatalog(JSON.stringify({ agents, default_agent: "general" }));
  while ((await accepted(reloaded.get("/ready"))).catalog.hash === before.hash);
  await expect.poll(async () => (await ann.see(music.id)).priority).toBe(70);
  await accepted(ann.on(phone.id, "archive"));
  expect(await ann.see(music.id)).toMatchObject({ state: "active", priority: 70 });
  await accepted(ann.on(music.id, "pause"));
  const { session, decision } = await accepted(ann.on(music.id, "resume"));
  expect([session.priority, decision.challenger.priority]).toEqual([70, 70]);
  expect((await refused(ann.on(gone.id, "activate"))).decision).toMatchObject({ reason: "unknown_agent", rule: 1 });
  expect((await refused(ann.on(off.id, "activate"))).decision).toMatchObject({ reason: "agent_disabled", rule: 1 });
});

test("/ready reports that a catalogue has faults, and lists them to operators only", async () => {
  const settings = { INTERLOCK_RATE_LIMITS: "refused=2/1d" };
  const { node: guarded, ann, ops } = await startGuarded({ settings, mayFail: true }, onTestFinished);
  await guarded.writeCatalog("agents:\n  - name: general\n    priority: sk-secret-value\n");
  const ready = async (caller: Pick<Caller, "get">) => (await accepted(caller.get("/ready"))).catalog;
  while ((await ready(guarded)).faultCount === undefined);
  const { hash, loadedAt } = await ready(guarded);
  for (const caller of [guarded, ann]) expect(await ready(caller)).toEqual({ hash, loadedAt, faultCount: 1 });
  expect((await ready(ops)).faults).toMatchObject([{ line: 3, path: "agents[0].priority" }]);
  // It does not check keys either.
  for (const guess of ["guess-1", "guess-2"]) await ready(new Caller(guarded, guess));
  expect((await new Caller(guarded, "guess-3").get("/agents")).status).toBe(429);
});

test("/metrics is Prometheus text, and counts commands", async () => {
  const counted = async () => {
    const { text } = await node.get("/metrics");
    return Number(/interlock_commands_total\{type="session.create",outcome="ok"\} (\d+)/.exec(text)?.[1] ?? 0);
  };
  const before = await counted();
  await new E2eClient(node).create("music");
  expect(await counted()).toBe(before + 1);
  const { status, headers, text } = await node.get("/metrics");
  expect(status).toBe(200);
  expect(headers["content-type"]).toMatch(/^text\/plain; version=0\.0\.4/);
  const names = ["interlock_connections", "interlock_floors_active", "interlock_runs", "process_cpu_seconds_total"];
  for (const name of names) expect(text).toContain(`# TYPE ${name}`);
  for (const state of ["driven", "held", "waiting"]) expect(text).toContain(`interlock_runs{state="${state}"} 0\n`);
  for (const line of text.split("\n").filter((each) => each !== "")) {
    expect(line).toMatch(/^(# (HELP|TYPE) \w+ .+|\w+(\{.*\})? [-+0-9.eNaInf]+)$/);
  }
});

describe("/openapi.json", async () => {
  const { text } = await node.send("GET", "/openapi.json");
  const document = OpenApiDocument.parse(JSON.parse(text));
  const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({
      name: `${method.toUpperCase()} ${path}`,
      path,
      operation: operation as Operation,
    })),
  );

  const componentAt = (reference: string) =>
    document.components.schemas[reference.replace("#/components/schemas/", "")];

  test("/openapi.json has exactly the routes of the contract, each with a stable operation id", () => {
    const ids = Object.fromEntries(operations.map(({ name, operation }) => [operation.operationId, name]));
    expect(ids).toEqual({
      listRuns: "GET /runs",
      cancelRun: "POST /runs/{id}/cancel",
      createSession: "POST /session/create",
      loadSession: "POST /session/load",
      listSessions: "GET /session/list",
      getSession: "GET /session/{id}",
      changeSession: "PATCH /session/{id}",
      deleteSession: "DELETE /session/{id}",
      listMessages: "GET /session/{id}/messages",
      withdrawMessage: "DELETE /session/{id}/messages/{messageId}",
      listLogLines: "GET /session/{id}/messages/{messageId}/logs",
      getImage: "GET /session/{id}/images/{hash}",
      activateSession: "POST /session/{id}/activate",
      pauseSession: "POST /session/{id}/pause",
      resumeSession: "POST /session/{id}/resume",
      archiveSession: "POST /session/{id}/archive",
      stopSession: "POST /session/{id}/stop",
      summarizeSession: "POST /session/{id}/summarize",
      switchMode: "POST /session/{id}/mode",
      scheduleSession: "POST /session/{id}/schedule",
      streamSession: "GET /session/{id}/events",
      getFloor: "GET /floor/{id}",
      listFloors: "GET /floors",
      listFloorEvents: "GET /floor/{id}/log",
      stopFloor: "POST /floor/{id}/stop",
      stopAllOnFloor: "POST /floor/{id}/stop-all",
      setFloorFlags: "PUT /floor/{id}/flags",
      changeFloorFlags: "PATCH /floor/{id}/flags",
      previewDecision: "POST /floor/{id}/what-if",
      replayFloor: "POST /floor/{id}/replay",
      streamFloor: "GET /floor/{id}/events",
      streamFloors: "GET /floors/events",
      listAgents: "GET /agents",
      sendMessage: "POST /message",
      streamConnection: "GET /events",
      createTicket: "POST /ticket",
      setCookie: "POST /cookie",
      clearCookie: "DELETE /cookie",
      getHealth: "GET /health",
      getReadiness: "GET /ready",
      forgetUser: "DELETE /user/{id}",
      exportUser: "GET /user/{id}/export",
      getMetrics: "GET /metrics",
      listNodes: "GET /nodes",
      listUsage: "GET /usage",
      listWebhooks: "GET /webhooks",
      testWebhook: "POST /webhooks/{name}/test",
      enableWebhook: "POST /webhooks/{name}/enable",
      forkSession: "POST /session/{id}/fork",
      listRollbackPoints: "GET /session/rollback-points",
      compressContext: "POST /context/compress",
      moveSession: "POST /session/{id}/move",
      rollBackSession: "POST /session/{id}/rollback",
      resendMessage: "POST /session/{id}/messages/{messageId}/resend",
      editMessage: "POST /session/{id}/messages/{messageId}/edit",
      exportSession: "GET /session/{id}/export",
      importSession: "POST /session/import",
      listQueue: "GET /session/{id}/queue",
      listDefinitions: "GET /agents/definitions",
      createDefinition: "POST /agents/definitions",
      getDefinition: "GET /agents/definitions/{id}",
      changeDefinition: "PATCH /agents/definitions/{id}",
      deleteDefinition: "DELETE /agents/definitions/{id}",
      getMatrix: "GET /catalogue/matrix",
      compareCatalogue: "POST /catalogue/diff",
      createChatCompletion: "POST /v1/chat/completions",
      createResponse: "POST /v1/responses",
      listModels: "GET /v1/models",
      getModel: "GET /v1/models/{model}",
      postChat: "POST /api/chat",
      resumeChat: "GET /api/chat/{id}/stream",
      abortChat: "DELETE /api/chat/{id}/stream",
      callMcp: "POST /mcp",
    });
    expect(Object.keys(ids)).toHaveLength(operations.length);
  });

  test("/openapi.json describes each route, in one of the described groups", () => {
    // `OpenApiDocument` checks that each has an id, a summary, a description and a tag.
    const described = document.tags.map(({ name }) => name);
    expect([...new Set(operations.flatMap(({ operation }) => operation.tags))].toSorted()).toEqual(
      described.toSorted(),
    );
    const summaries = operations.map(({ operation }) => operation.summary);
    expect(new Set(summaries).size).toBe(summaries.length);
  });

  test("/openapi.json has every event as a component, and lists those of each stream", () => {
    const carried = (path: string) => {
      const { content } = document.paths[path]!.get!.responses["200"]!;
      const { $ref } = content!["text/event-stream"]!.schema as { $ref: string };
      const union = componentAt($ref) as { oneOf: { $ref: string }[]; discriminator: Discriminator };
      const { propertyName, mapping } = union.discriminator;
      expect(propertyName).toBe("type");
      expect(Object.values(mapping)).toEqual(union.oneOf.map((each) => each.$ref));
      for (const [type, place] of Object.entries(mapping)) {
        expect(componentAt(place), type).toMatchObject({ properties: { type: { const: type } } });
      }
      return Object.keys(mapping);
    };
    const logged = Object.keys(LOGGED_EVENTS) as LoggedType[];
    const ends = ["reset", "bye"];
    const ofFloor = logged.filter(isFloorEvent);
    const ofSession = [
      ...logged.filter((type) => EVENT_LOGS[type] !== "floor"),
      "delta",
      "log",
      "rollback_result",
      ...ends,
    ];
    expect(carried("/session/{id}/events")).toEqual(ofSession);
    expect(carried("/floor/{id}/events")).toEqual([...ofFloor, ...ends]);
    expect(carried("/floors/events").toSorted()).toEqual(["bye", "floor", "reset"]);
    const ofConnection = carried("/events");
    expect(ofConnection).toEqual(["connected", "agent_list", ...ofSession]);
    const all = [...ofConnection, "floor", ...logged.filter((type) => EVENT_LOGS[type] === "floor")];
    expect(all.toSorted()).toEqual([...logged, ...Object.keys(LIVE_EVENTS)].toSorted());
  });

  test("/openapi.json declares the key of each write that accepts one, and the position of each stream that has one", () => {
    const headed = (header: string) =>
      operations
        .filter(({ operation }) =>
          operation.parameters?.some(({ name, in: place }) => place === "header" && name === header),
        )
        .map(({ operation }) => operation.operationId);
    expect(headed("Last-Event-ID").toSorted()).toEqual(["streamConnection", "streamFloor", "streamSession"]);
    const writes = operations.flatMap(({ operation }) => (operation.requestBody ? [operation.operationId] : []));
    const keyless = [
      ...["loadSession", "previewDecision", "replayFloor", "compareCatalogue"],
      ...["createTicket", "setCookie", "clearCookie"],
    ];
    expect(headed("Idempotency-Key").toSorted()).toEqual(
      writes.filter((id) => ![...keyless, "callMcp"].includes(id)).toSorted(),
    );
  });

  test("/openapi.json declares each parameter of a path, and every reference in it is valid", () => {
    for (const { name, path, operation } of operations) {
      const declared = operation.parameters?.filter((parameter) => parameter.in === "path").map((each) => each.name);
      expect(declared ?? [], name).toEqual([...path.matchAll(/\{(\w+)\}/g)].map(([, parameter]) => parameter));
    }
    const components = new Set(Object.keys(document.components.schemas).map((each) => `#/components/schemas/${each}`));
    const references = referencesIn(document);
    for (const reference of references) expect(components, reference).toContain(reference);
    for (const component of components) expect(references, component).toContain(component);
  });

  test("/openapi.json requires no credential when authentication is off", () => {
    expect(document.security).toEqual([]);
    expect(document.components.securitySchemes).toBeUndefined();
    for (const { name, operation } of operations) expect(operation.security, name).toBeUndefined();
  });

  test("/openapi.json has a schema for each success, and one Problem for all failures except those in OpenAI's format", () => {
    expect(document.components.schemas).toHaveProperty("Problem");
    for (const { name, operation } of operations) {
      expect(Object.keys(operation.responses), name).toEqual(expect.arrayContaining(["200", "4XX", "default"]));
      expect(operation.responses["200"]!.content, name).toBeDefined();
      const problem = name.includes(" /v1/") ? "OpenAiProblem" : "Problem";
      for (const failure of ["4XX", "default"]) {
        expect(operation.responses[failure]!.content, name).toEqual({
          "application/json": { schema: { $ref: `#/components/schemas/${problem}` } },
        });
      }
    }
  });

  test("/openapi.json requires a body only where one is needed", () => {
    const needed = operations.filter(({ operation }) => operation.requestBody?.required).map(({ name }) => name);
    expect(needed.toSorted()).toEqual([
      "PATCH /session/{id}",
      "POST /agents/definitions",
      "POST /api/chat",
      "POST /catalogue/diff",
      "POST /context/compress",
      "POST /floor/{id}/replay",
      "POST /floor/{id}/what-if",
      "POST /message",
      "POST /session/import",
      "POST /session/load",
      "POST /session/{id}/messages/{messageId}/edit",
      "POST /session/{id}/mode",
      "POST /session/{id}/move",
      "POST /v1/chat/completions",
      "POST /v1/responses",
    ]);
  });
});
