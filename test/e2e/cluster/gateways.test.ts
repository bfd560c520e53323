import { Redis } from "ioredis";
import { expect, onTestFinished, test } from "vitest";
import { create, headOf, messagesOf, postUntilKnown, say } from "../../support/clients/node-client.ts";
import { SessionReader } from "../../support/clients/session-reader.ts";
import type { ChildServer } from "../../support/nodes/child-server.ts";
import { Cluster, describeClusters } from "../../support/nodes/cluster.ts";
import { clientOf } from "../../support/nodes/load.ts";
import { atEndOfSuite } from "../../support/runner/at-end-of-suite.ts";
import { beforeTries } from "../../support/runner/before-tries.ts";
import { within } from "../../support/runner/within.ts";
import { connectDatabase } from "../../support/servers/postgres-server.ts";

const says = (reply: object) => ({ kind: "scripted", replies: [reply] });
const CATALOG = {
  agents: [
    { name: "music", priority: 20, adapter: says({ say: ["♪ "], delay: "20ms", repeat: 500 }) },
    { name: "phone", priority: 90, interruptible: false },
    { name: "general", priority: 40, adapter: says({ say: ["Here."], delay: "0ms" }) },
    { name: "counter", adapter: says({ say: ["one ", "two ", "three ", "four "], delay: "30ms", repeat: 5 }) },
    { name: "router", adapter: says({ say: ["gen", "eral"], delay: "0ms" }) },
  ],
  routing: [
    { says: "hello|goodbye", agent: "music" },
    { continues: "1d" },
    { ask: "router", among: ["general"], within: "30s" },
  ],
};

describeClusters("several gateways", (servers) => {
  const atEnd = atEndOfSuite();
  let cluster: Cluster;
  let here: ChildServer;
  let there: ChildServer;
  let orchestrator: ChildServer;
  let worker: ChildServer;

  beforeTries(async () => {
    cluster = await Cluster.make(servers, { catalog: CATALOG, atEnd });
    const nodes = [["gateway"], ["gateway"], ["orchestrator"], ["worker"]] as const;
    [here, there, orchestrator, worker] = await cluster.startAll(...nodes);
  });

  /** Resolves when each reader has all events of its session. */
  const haveAll = (readers: ReadonlyMap<SessionReader, string>) =>
    Promise.all(
      [...readers].map(async ([reader, id]) => {
        const head = await headOf(there, id);
        await reader.until((transcript) => transcript.seqOf(id) >= head);
        expect(reader.transcript.seqOf(id)).toBe(head);
      }),
    );

  /** Read at a node until a new event arrives. An overloaded node refuses readers, and they reconnect. */
  async function readAt(node: ChildServer, reader: SessionReader, id: string): Promise<void> {
    const before = reader.transcript.seqOf(id);
    reader.moveTo(node.url);
    for (;;) {
      try {
        await reader.open();
        return await reader.until((transcript) => transcript.seqOf(id) > before);
      } catch (error) {
        reader.check();
        if (!reader.stream.ending) throw error;
      }
    }
  }

  test("a command repeated at another gateway, or sent to both at once, has one answer and one effect", async () => {
    const first = await here.post("/message", { type: "chat", userId: "bob", content: "hello" }, "quick");
    expect(first.status).toBe(200);
    expect(await there.post("/message", { type: "chat", userId: "bob", content: "hello" }, "quick")).toEqual(first);
    const other = await there.post("/message", { type: "chat", userId: "bob", content: "goodbye" }, "quick");
    expect([other.status, other.body.errorCode]).toEqual([409, "idempotency_mismatch"]);
    const { sessionId } = first.body;
    for (let n = 0; n < 20; n++) {
      const ask = (node: ChildServer) => node.ask("PATCH", `/session/${sessionId}`, { title: `t${n}` }, `rename-${n}`);
      const [one, two] = await Promise.all([ask(here), ask(there)]);
      expect(one.status).toBe(200);
      expect(two).toEqual(one);
    }
    const reader = await SessionReader.of(here, sessionId);
    await haveAll(new Map([[reader, sessionId]]));
    const titles = reader.eventsOf(sessionId, "session_updated").flatMap(({ data }) => data.title ?? []);
    // The first message names the session.
    expect(titles).toEqual(["hello", ...Array.from({ length: 20 }, (_, n) => `t${n}`)]);
  });

  test("a sentence is heard by the agent that a router names at its worker, and the next one, at another gateway, goes on there", async () => {
    const sentence = (node: ChildServer, content: string) =>
      postUntilKnown(node, "/message", { type: "chat", userId: "cleo", content });
    const first = (await sentence(here, "what is the capital of France")).body;
    expect(first).toMatchObject({ routed: { agent: "general", by: "ask", row: 3 } });
    // While its agent speaks, the next sentence would be refused as busy.
    await (await SessionReader.of(there, first.sessionId)).has(first.sessionId, "complete");
    const next = (await sentence(there, "and of Spain")).body;
    expect(next).toMatchObject({ sessionId: first.sessionId, routed: { agent: "general", by: "continues", row: 2 } });
  });

  test("an announcement whose gateway dies between two floors is completed by its repeat at another, once on each floor", async () => {
    for (const zone of ["attic", "kitchen", "study"])
      await create(here, `song-${zone}`, "music", { userId: "house", zone });
    const doomed = await cluster.start(["gateway"]);
    const held = await connectDatabase(cluster.storeUrl);
    await held.query("BEGIN");
    await held.query("SELECT 1 FROM interlock.floors WHERE id = 'u:house/attic' FOR UPDATE");
    const wanted = { userId: "house", agentId: "general", zone: "*" };
    const lost = doomed.post("/session/create", wanted, "alarm").catch(() => "lost");
    const waiting = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    await expect.poll(() => cluster.sql(waiting)).not.toEqual([]);
    await doomed.kill();
    await create(there, "song-cellar", "music", { userId: "house", zone: "cellar" });
    await held.query("COMMIT");
    await held.end();
    expect(await lost).toBe("lost");

    const ask = (node: ChildServer) => node.post("/session/create", wanted, "alarm");
    const [one, other] = await Promise.all([ask(here), ask(there)]);
    expect(other).toEqual(one);
    expect((one.body as { zones?: object[] }).zones).toMatchObject(
      ["attic", "kitchen", "study"].map((zone) => ({ zone, decision: { outcome: "granted" } })),
    );
    const asked = "SELECT count(*)::int AS n FROM interlock.sessions WHERE agent_id = 'general' AND user_id = 'house'";
    expect(await cluster.sql(asked)).toEqual([{ n: 3 }]);

    // Both end the group; each session ends once.
    const { id, group } = one.body.session as unknown as { id: string; group: { sessions: { sessionId: string }[] } };
    const stops = await Promise.all([here, there].map((node) => node.post(`/session/${id}/stop`, { group: true })));
    expect(stops.map(({ status }) => status)).toEqual([200, 200]);
    for (const { sessionId } of group.sessions) {
      const { state } = (await here.ask("GET", `/session/${sessionId}`)).body.session;
      expect(state).toBe("archived");
    }
  });

  test("a session created at one gateway is bound to a connection at another, which continues at any gateway", async () => {
    const connection = await SessionReader.at(here, "/events");
    const { connectionId } = (await connection.stream.next("connected")).data;
    await create(there, "carol", "counter", { connectionId });
    await connection.until((transcript) => transcript.stateOf("carol") === "active.idle");
    connection.moveTo(there.url);
    await connection.open();
    expect((await connection.stream.next("connected")).data.connectionId).toBe(connectionId);
    // Neither session nor user is named: the connection implies them.
    expect((await here.post("/message", { type: "chat", connectionId, content: "count" })).status).toBe(200);
    await connection.has("carol", "complete");
  });

  test("the text of a running answer reaches readers at all gateways, piece by piece", async () => {
    await create(here, "dora", "counter");
    const readers = await Promise.all([here, there].map((node) => SessionReader.of(node, "dora")));
    await say(here, "dora", "count");
    for (const reader of readers) {
      await reader.has("dora", "complete");
      expect([...reader.transcript.finished.values()].at(-1)).toBe("one two three four ".repeat(5));
      expect(reader.stream.typesHeard().filter((type) => type === "delta").length).toBeGreaterThan(5);
    }
  });

  test("gateways lose their connection to Redis repeatedly, and readers get every event once, in order", async () => {
    const ids = Array.from({ length: 8 }, (_, n) => `cut${n}`);
    const connection = await SessionReader.at(here, "/events");
    const { connectionId } = (await connection.stream.next("connected")).data;
    // Sessions of many floors, none of them active, because a transcript takes all its sessions for one floor's.
    await Promise.all(ids.map((id) => create(here, id, "counter", { connectionId, activate: false })));
    const readers = new Map<SessionReader, string>();
    for (const id of ids) {
      for (const node of [here, there]) readers.set(await SessionReader.of(node, id), id);
    }
    const admin = new Redis(servers.redis().url);
    onTestFinished(() => admin.disconnect());
    const client = clientOf(() => [here, there]);
    const gaps = async () => {
      const counts = await Promise.all([here, there].map((node) => node.metric("interlock_followers_behind_total")));
      return counts.reduce((sum, count) => sum + count);
    };
    const before = await gaps();
    let isOver = false;
    const work = ids.flatMap((id) =>
      Array.from({ length: 4 }, async (_, writer) => {
        for (let n = 0; !isOver; n++) await client.renameSession(id, `${writer}.${n}`);
      }),
    );
    for (let kills = 0; kills < 10; kills++) {
      await Promise.all(
        [...readers].map(([reader, id]) => {
          const before = reader.transcript.seqOf(id);
          return reader.until((transcript) => transcript.seqOf(id) > before + 2);
        }),
      );
      // Commands are in progress: some are executed, and their answers are lost.
      expect(await admin.call("CLIENT", "KILL", "TYPE", "pubsub")).toBeGreaterThan(0);
    }
    isOver = true;
    await Promise.all(work);
    await haveAll(readers);
    for (const id of ids) {
      const head = await headOf(there, id);
      await connection.until((transcript) => transcript.seqOf(id) === head);
    }
    // Messages were lost indeed, and no stream was closed to recover from it.
    expect(await gaps()).toBeGreaterThan(before);
    for (const { stream } of [...readers.keys(), connection]) expect(stream.ending).toBeUndefined();
  });

  test("the readers of a killed gateway with five hundred readers lose no event", async () => {
    const dying = await cluster.start(["gateway"]);
    const ids = Array.from({ length: 50 }, (_, n) => `many${n}`);
    await Promise.all(ids.map((id) => create(here, id, "counter")));
    const readers = new Map<SessionReader, string>();
    const all = (node: ChildServer) => Promise.all([...readers].map(([reader, id]) => readAt(node, reader, id)));
    for (const id of ids) {
      for (let n = 0; n < 10; n++) readers.set(new SessionReader(`${dying.url}/session/${id}/events`), id);
    }
    onTestFinished(() => {
      for (const reader of readers.keys()) reader.close();
    });
    await all(dying);
    let isOver = false;
    const client = clientOf(() => [here, there]);
    const work = ids.map(async (id) => {
      for (let n = 0; !isOver; n++) await client.renameSession(id, `${n}`);
    });
    await Promise.all([...readers].map(([reader, id]) => reader.until((transcript) => transcript.seqOf(id) > 6)));
    await dying.kill();
    const tookMs = await within("going on elsewhere", all(there));
    console.info(`500 readers went on at another gateway after ${tookMs} ms`);
    isOver = true;
    await Promise.all(work);
    await haveAll(readers);
  });

  test("an agent defined at one gateway answers at others, also after a restart, until it is deleted", async () => {
    const body = { name: "helper", basedOn: "general", workspaceId: "w" };
    expect((await here.post("/agents/definitions", body)).status).toBe(200);
    const create = (at: typeof here) =>
      at.post("/session/create", { agentId: "helper", workspaceId: "w", activate: true });
    // The other nodes learn of the agent over the bus; until then it does not exist for them.
    await expect.poll(async () => (await create(there)).status).toBe(200);
    const session = (await create(there)).body.session as unknown as { id: string; agentId: string };
    await say(there, session.id, "hello");
    const said = async () => (await messagesOf(there, session.id)).at(-1);
    await expect.poll(said).toMatchObject({ content: "Here.", status: "success" });

    const third = await cluster.start(["gateway", "orchestrator", "worker"]);
    const shown = (await third.ask("GET", "/agents?workspaceId=w")).body as unknown as { agents: object[] };
    expect(shown.agents.at(-1)).toMatchObject({ id: session.agentId, workspaceId: "w" });

    // A copy made at one gateway is complete at another, and continues there.
    const fork = await here.post(`/session/${session.id}/fork`, { activate: true });
    expect(fork.body.session).toMatchObject({ state: "active", messageCount: 2, agentId: session.agentId });
    const copied = await messagesOf(there, fork.body.session.id);
    expect(copied.map(({ content }) => content)).toEqual(["hello", "Here."]);
    const back = await there.post(`/session/${fork.body.session.id}/rollback`);
    expect(back.body.session).toMatchObject({ state: "active", messageCount: 0 });
    const old = (await here.ask("GET", `/session/${fork.body.session.id}`)).body.session;
    expect(old.state).toBe("archived");

    expect((await there.ask("DELETE", `/agents/definitions/${session.agentId}`)).status).toBe(200);
    await expect.poll(async () => (await create(here)).status).toBe(404);
  });

  test("a node without the gateway role reports its health, and refuses all other requests", async () => {
    for (const node of [orchestrator, worker]) {
      expect((await node.ask("GET", "/health")).body.status).toBe("ok");
      expect((await node.ask("GET", "/ready")).body.status).toBe("ok");
      expect(await node.metric("process_start_time_seconds")).toBeGreaterThan(0);
      for (const [method, path] of [
        ["GET", "/session/list"],
        ["POST", "/session/create"],
        ["POST", "/message"],
        ["GET", "/events"],
        ["GET", "/agents"],
      ] as const) {
        const { status, body } = await node.ask(method, path, method === "POST" ? {} : undefined);
        expect([status, body.errorCode], `${method} ${path}`).toEqual([404, "not_found"]);
      }
    }
  });
});
