import { Queue } from "bullmq";
import { Redis } from "ioredis";
import { expect, onTestFinished, test } from "vitest";
import { create, readiness, say } from "../../support/clients/node-client.ts";
import type { ChildServer } from "../../support/nodes/child-server.ts";
import { Cluster, describeClusters } from "../../support/nodes/cluster.ts";
import { atEndOfSuite } from "../../support/runner/at-end-of-suite.ts";
import { beforeTries } from "../../support/runner/before-tries.ts";

const CATALOG = { agents: [{ name: "general" }] };
const USERS = Array.from({ length: 12 }, (_, n) => `user${n}`);
/** Pieces of messages that never end, in hundreds. */
const PIECES = 500;

const PARTITIONS = Array.from({ length: 256 }, (_, partition) => partition);
/** Messages that no node sends. */
const NONSENSE = [
  "",
  "null",
  "{",
  "#",
  "#a 0/64\n",
  "[".repeat(60_000),
  JSON.stringify({ replyTo: "reply.stranger", askId: "1", envelope: null }),
  JSON.stringify({ askId: "1", outcome: { reply: { ok: true } } }),
  JSON.stringify({ changed: true }),
  JSON.stringify({ by: "stranger", taken: PARTITIONS }),
  JSON.stringify({ by: "stranger", taken: ["all", -1, 1e308] }),
  JSON.stringify({ kind: "events", floorId: "u:user0", prev: "all" }),
];
const run = { kind: "run", id: "e", floorId: "u:user0", sessionId: "none", runId: "none", agentId: "general" };
/** Jobs that no node adds. */
const JOBS = [
  null,
  5,
  {},
  { ...run, dueAt: 0, priority: 5 },
  { ...run, dueAt: 0, priority: "high", floorId: 5, runId: [] },
  { ...run, dueAt: 0, priority: 5, purpose: "summary" },
  { kind: "timer", id: 5, dueAt: 0, floorId: "u:user0" },
];

describeClusters("a stranger in Redis", (servers) => {
  const atEnd = atEndOfSuite();
  let nodes: readonly ChildServer[];
  let gateway: ChildServer;
  let stranger: Redis;
  let epoch: string;

  beforeTries(async () => {
    const cluster = await Cluster.make(servers, { catalog: CATALOG, settings: { INTERLOCK_LEASE: "1s" }, atEnd });
    nodes = await cluster.startAll(["gateway"], ["orchestrator", "worker"], ["orchestrator", "worker"]);
    gateway = nodes[0]!;
    stranger = new Redis(servers.redis().url);
    atEnd(() => stranger.disconnect());
    epoch = String((await cluster.sql("SELECT epoch FROM interlock.meta"))[0]!["epoch"]);
  });

  /** The status of a command to each user's floor. */
  async function askAll(): Promise<number[]> {
    const asked = USERS.map((user) => gateway.ask("PUT", `/floor/${encodeURIComponent(`u:${user}`)}/flags`, {}));
    return (await Promise.all(asked)).map(({ status }) => status);
  }
  const ALL_WELL = USERS.map(() => 200);

  async function chat(userId: string): Promise<void> {
    await create(gateway, userId, "general");
    await say(gateway, userId, "hello");
    await gateway.follow(userId, ({ type }) => type === "complete");
  }

  test("messages and jobs of a stranger stop no floor, no run and no node", async () => {
    expect(await askAll()).toEqual(ALL_WELL);
    const topics = (await stranger.pubsub("CHANNELS", `${epoch}.*`)) as string[];
    expect(topics.length).toBeGreaterThan(256);
    for (const topic of topics) await Promise.all(NONSENSE.map((message) => stranger.publish(topic, message)));
    const partition = topics.find((topic) => /\.floors\.\d+$/.test(topic))!;
    for (let hundred = 0; hundred < PIECES; hundred++) {
      const pipeline = stranger.pipeline();
      for (let n = 0; n < 100; n++) pipeline.publish(partition, `#${hundred}.${n} 0/64\n`);
      await pipeline.exec();
    }
    for (const name of ["runs", "timers"]) {
      const queue = new Queue(name, { prefix: epoch, connection: { host: "127.0.0.1", port: servers.redis().port } });
      for (const job of JOBS) await queue.add("stranger", job);
      await queue.close();
    }
    expect(await askAll()).toEqual(ALL_WELL);
    await Promise.all(USERS.map((user) => chat(user)));
    // While a node reads the flood, its beats are late, and it says so.
    for (const node of nodes) await expect.poll(async () => (await readiness(node))[0]).toBe(200);
  });

  test("beats from the future do not hide that Redis is away", async () => {
    const beats = (await stranger.pubsub("CHANNELS", `${epoch}.pulse.*`)) as string[];
    for (const topic of beats) await stranger.publish(topic, "1e300");
    servers.redis().freeze();
    onTestFinished(() => servers.redis().thaw());
    const statusIs = (status: number, node: ChildServer) =>
      expect.poll(async () => (await readiness(node))[0]).toBe(status);
    for (const node of nodes) await statusIs(503, node);
    servers.redis().thaw();
    for (const node of nodes) await statusIs(200, node);
    await expect.poll(() => askAll()).toEqual(ALL_WELL);
  });

  test("members that died while Redis's clock was ahead own no floors", async () => {
    await stranger.zadd(`${epoch}.members`, Date.now() + 3_600_000, "died", 9e15, "stranger");
    await expect.poll(() => stranger.zcard(`${epoch}.members`)).toBe(2);
    await expect.poll(() => askAll()).toEqual(ALL_WELL);
  });
});
