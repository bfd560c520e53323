import { afterAll, describe, expect, test } from "vitest";
import { E2E_AGENTS, scripted } from "../../support/e2e-catalog.ts";
import { accepted, E2eClient, refused } from "../../support/e2e-client.ts";
import { NodeUnderTest } from "../../support/node-under-test.ts";
import { OpenApiDocument, type Operation, referencesIn } from "../../support/openapi-document.ts";

const node = await NodeUnderTest.start();
afterAll(() => node.stop());

describe("/health", () => {
  test("says that the node lives, its version, and how many streams are open", async () => {
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
});

describe("/ready", () => {
  test("says that nothing is missing, and which catalogue serves since when", async () => {
    const { status, body } = await node.get("/ready");
    expect(status).toBe(200);
    expect(body).toEqual({
      status: "ok",
      missing: [],
      catalog: { hash: expect.stringMatching(/^[0-9a-f]{12}$/), loadedAt: expect.any(Number) },
    });
  });

  test("is 200 with the faults while a broken file stands there, and the old catalogue serves", async () => {
    const reloaded = await NodeUnderTest.start({ mayFail: true });
    const ready = () => accepted(reloaded.get("/ready"));
    const { catalog: before } = await ready();
    await reloaded.writeCatalog("agents:\n  - name: general\n    priority: 101\n  - name: general\n");
    let { catalog } = await ready();
    while (!catalog.faults) ({ catalog } = await ready());
    expect(catalog).toMatchObject({ hash: before.hash, loadedAt: before.loadedAt });
    expect(catalog.faults.map(({ line }) => line)).toEqual(expect.arrayContaining([3, 4]));
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

  test("a new catalogue counts for those who ask from then on: who has the floor, and who is woken, keeps its numbers", async () => {
    const reloaded = await NodeUnderTest.start();
    const ann = new E2eClient(reloaded);
    const music = await ann.hold("music");
    const phone = await ann.hold("phone");
    const agents = E2E_AGENTS.map((agent) => (agent["name"] === "music" ? { ...agent, priority: 70 } : agent));
    const { catalog: before } = await accepted(reloaded.get("/ready"));
    await reloaded.writeCatalog(JSON.stringify({ agents, default_agent: "general" }));
    while ((await accepted(reloaded.get("/ready"))).catalog.hash === before.hash);
    await accepted(ann.on(phone.id, "archive"));
    expect(await ann.see(music.id)).toMatchObject({ state: "active", priority: 20 });
    await accepted(ann.on(music.id, "pause"));
    const { session, decision } = await accepted(ann.on(music.id, "resume"));
    expect([session.priority, decision.challenger.priority]).toEqual([70, 70]);
    await reloaded.stop();
  });

  test("an agent that left the catalogue is told from one that is switched off, by sessions that were made before", async () => {
    const reloaded = await NodeUnderTest.start();
    const ann = new E2eClient(reloaded);
    const [gone, off] = [await ann.create("music"), await ann.create("chat")];
    const agents = E2E_AGENTS.filter(({ name }) => name !== "music").map((agent) =>
      agent["name"] === "chat" ? { ...agent, enabled: false } : agent,
    );
    const { catalog: before } = await accepted(reloaded.get("/ready"));
    await reloaded.writeCatalog(JSON.stringify({ agents, default_agent: "general" }));
    while ((await accepted(reloaded.get("/ready"))).catalog.hash === before.hash);
    expect((await refused(ann.on(gone.id, "activate"))).decision).toMatchObject({ reason: "unknown_agent", rule: 1 });
    expect((await refused(ann.on(off.id, "activate"))).decision).toMatchObject({ reason: "agent_disabled", rule: 1 });
    await reloaded.stop();
  });
});

describe("/metrics", () => {
  test("is what Prometheus reads, and counts what was commanded", async () => {
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
    for (const name of [
      "interlock_connections",
      "interlock_floors_active",
      "interlock_runs",
      "process_cpu_seconds_total",
    ]) {
      expect(text).toContain(`# TYPE ${name}`);
    }
    for (const line of text.split("\n").filter((each) => each !== "")) {
      expect(line).toMatch(/^(# (HELP|TYPE) \w+ .+|\w+(\{.*\})? [-+0-9.eNaInf]+)$/);
    }
  });
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

  test("has every route of the contract, and no other", () => {
    expect(operations.map(({ name }) => name).toSorted()).toEqual(
      [
        "POST /session/create",
        "POST /session/load",
        "GET /session/list",
        "GET /session/{id}",
        "PATCH /session/{id}",
        "DELETE /session/{id}",
        "GET /session/{id}/messages",
        "DELETE /session/{id}/messages/{messageId}",
        "GET /session/{id}/messages/{messageId}/logs",
        "GET /session/{id}/images/{hash}",
        "POST /session/{id}/activate",
        "POST /session/{id}/pause",
        "POST /session/{id}/resume",
        "POST /session/{id}/archive",
        "POST /session/{id}/stop",
        "GET /session/{id}/events",
        "GET /floor/{id}",
        "POST /floor/{id}/stop",
        "POST /floor/{id}/stop-all",
        "PUT /floor/{id}/flags",
        "POST /floor/{id}/what-if",
        "GET /floor/{id}/events",
        "GET /agents",
        "POST /message",
        "GET /events",
        "POST /ticket",
        "POST /cookie",
        "DELETE /cookie",
        "GET /health",
        "GET /ready",
        "GET /metrics",
      ].toSorted(),
    );
  });

  test("declares each parameter of a path, and refers to nothing that is not there", () => {
    for (const { name, path, operation } of operations) {
      const declared = operation.parameters?.filter((parameter) => parameter.in === "path").map((each) => each.name);
      expect(declared ?? [], name).toEqual([...path.matchAll(/\{(\w+)\}/g)].map(([, parameter]) => parameter));
    }
    const components = new Set(Object.keys(document.components.schemas).map((each) => `#/components/schemas/${each}`));
    for (const reference of referencesIn(document)) expect(components, reference).toContain(reference);
  });

  test("has a schema for each success, and one Problem for all failures", () => {
    expect(document.components.schemas).toHaveProperty("Problem");
    for (const { name, operation } of operations) {
      expect(Object.keys(operation.responses), name).toEqual(expect.arrayContaining(["200", "default"]));
      expect(operation.responses["200"]!.content, name).toBeDefined();
      expect(operation.responses["default"]!.content, name).toEqual({
        "application/json": { schema: { $ref: "#/components/schemas/Problem" } },
      });
    }
  });

  test("asks for a body only where one is needed", () => {
    const needed = operations.filter(({ operation }) => operation.requestBody?.required).map(({ name }) => name);
    expect(needed.toSorted()).toEqual([
      "PATCH /session/{id}",
      "POST /floor/{id}/what-if",
      "POST /message",
      "POST /session/load",
    ]);
  });
});
