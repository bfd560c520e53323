import { Redis } from "ioredis";
import { startPostgres } from "../test/support/servers/postgres-server.ts";
import { startRedis } from "../test/support/servers/redis-server.ts";
import { Child } from "./support/child.ts";
import { Connection } from "./support/connection.ts";
import { type Listener, listen } from "./support/listener.ts";
import { Readers } from "./support/readers.ts";
import { median, quantile } from "./support/statistics.ts";
import type { Row } from "./support/table.ts";

/** Several nodes on PostgreSQL and Redis, all on this machine. */
const CLIENTS = 64;
const ROUND_MS = 3_000;
const ROUNDS = 4;

/** For each user a phone call begins and ends in each cycle: 20 × 2 commands in 200 ms are 200 commands a second. */
const USERS = 20;
const CYCLE_MS = 200;
const CYCLES = 60;
const WARM_UP_CYCLES = 15;

const READERS = 1_000;
/** The deltas of one `sing` reply in the catalogue of `servers/node.ts`. */
const DELTAS = 300;
const DELTA_MS = 20;
const SONGS = 3;

interface Servers {
  database: string;
  bus: string;
}

export async function benchScaled(): Promise<Row[]> {
  const postgres = await startPostgres();
  const redis = await startRedis();
  try {
    const servers = { database: (await postgres.makeDatabase()).url, bus: redis.url };
    return [...(await commands(servers)), ...(await trips(servers)), ...(await relay(servers))];
  } finally {
    await redis.stop();
    await postgres.stop();
  }
}

const startNode = ({ database, bus }: Servers, roles: string) =>
  Child.start("node.ts", ["--store", database, "--bus", bus, "--roles", roles]);

/**
 * Durable commands per second of a gateway and an orchestrator in separate processes, compared with one process on
 * SQLite.
 */
async function commands(servers: Servers): Promise<Row[]> {
  const alone = await Child.start("interlock.ts");
  const orchestrator = await startNode(servers, "orchestrator");
  const gateway = await startNode(servers, "gateway");
  const sides = [
    { url: alone.url, rates: [] as number[], ids: await makeSessions(alone.url) },
    { url: gateway.url, rates: [] as number[], ids: await makeSessions(gateway.url) },
  ];
  for (let round = 0; round <= ROUNDS; round++) {
    for (const { url, rates, ids } of sides) {
      const rate = await pauseAndResume(url, ids);
      // The first round warms up.
      if (round > 0) rates.push(rate);
    }
  }
  await gateway.stop();
  await orchestrator.stop();
  await alone.stop();
  const [one, several] = sides.map(({ rates }) => median(rates));
  return [
    {
      what: "commands/s, 64 clients, several nodes compared with one",
      ours: several!,
      reference: one!,
      unit: "/s",
      atLeast: 0.2,
    },
  ];
}

async function makeSessions(url: string): Promise<string[]> {
  const connection = await Connection.open(url);
  const ids: string[] = [];
  for (let index = 0; index < CLIENTS; index++) {
    const body = { agentId: "music", activate: true };
    ids.push((await connection.post<{ session: { id: string } }>("/session/create", body)).session.id);
  }
  connection.close();
  return ids;
}

async function pauseAndResume(url: string, ids: readonly string[]): Promise<number> {
  const connections = await Promise.all(ids.map(() => Connection.open(url)));
  const begun = performance.now();
  let count = 0;
  await Promise.all(
    connections.map(async (connection, client) => {
      for (let turn = 0; turn % 2 === 1 || performance.now() < begun + ROUND_MS; turn++) {
        const path = `/session/${ids[client]}/${turn % 2 ? "resume" : "pause"}`;
        const { status, body } = await connection.request("POST", path);
        if (status !== 200) throw new Error(`${status} ${body}`);
        count += 1;
      }
    }),
  );
  const seconds = (performance.now() - begun) / 1_000;
  for (const connection of connections) connection.close();
  return count / seconds;
}

interface Trips {
  ours: number[];
  bare: number[];
}

/** From the phone's request at one gateway to `paused` at a reader on another, at 200 commands a second. */
async function trips(servers: Servers): Promise<Row[]> {
  const orchestrator = await startNode(servers, "orchestrator");
  const ours = { near: await startNode(servers, "gateway"), far: await startNode(servers, "gateway") };
  const bare = { near: await startBare(servers), far: await startBare(servers) };
  const measured: Trips = { ours: [], bare: [] };
  await Promise.all(Array.from({ length: USERS }, (_, user) => measureTrips(user, ours, bare, measured)));
  for (const child of [ours.near, ours.far, bare.near, bare.far, orchestrator]) await child.stop();
  return [0.5, 0.99].map((share) => ({
    what: `request at B → paused at A, ${share === 0.5 ? "median" : "p99"}`,
    ours: quantile(measured.ours, share),
    reference: quantile(measured.bare, share),
    unit: "ms",
    atMost: 4,
  }));
}

/** The cycles of one user, spread evenly over the time: a call and its end, on our gateways and on the bare servers. */
async function measureTrips(
  user: number,
  ours: { near: Child; far: Child },
  bare: { near: Child; far: Child },
  measured: Trips,
): Promise<void> {
  const connection = await Connection.open(ours.far.url);
  const create = (agentId: string) =>
    connection.post<{ session: { id: string } }>("/session/create", { agentId, userId: `u${user}`, activate: true });
  const music = (await create("music")).session.id;
  const listener = await listen(ours.near.url, `/session/${music}/events`);
  const bareConnection = await Connection.open(bare.far.url);
  const bareListener = await listen(bare.near.url, `/${user}`);
  await wait((CYCLE_MS * user) / USERS);
  for (let cycle = 0; cycle < CYCLES + WARM_UP_CYCLES; cycle++) {
    const due = performance.now() + 2 * CYCLE_MS;
    let phone = "";
    const oursMs = await measure(listener, '"to":"paused"', async () => {
      phone = (await create("phone")).session.id;
    });
    await wait(due - CYCLE_MS * 1.5 - performance.now());
    await connection.request("POST", `/session/${phone}/archive`);
    await wait(due - CYCLE_MS - performance.now());
    const body = JSON.stringify({ agentId: "phone", userId: `u${user}`, cycle });
    const bareMs = await measure(bareListener, `"cycle":${cycle}}`, async () => {
      await bareConnection.request("POST", `/${user}`, body);
    });
    await wait(due - CYCLE_MS / 2 - performance.now());
    await bareConnection.request("POST", `/${user}`, JSON.stringify({ hangUp: cycle }));
    await wait(due - performance.now());
    if (cycle < WARM_UP_CYCLES) continue;
    measured.ours.push(oursMs);
    measured.bare.push(bareMs);
  }
  for (const each of [listener, bareListener, connection, bareConnection]) each.close();
}

const startBare = ({ database, bus }: Servers) => Child.start("bare-trip.ts", [database, bus]);

async function measure(listener: Listener, text: string, ask: () => Promise<void>): Promise<number> {
  const heard = listener.hears(text);
  const asked = performance.now();
  await ask();
  return (await heard) - asked;
}

const wait = (ms: number) => new Promise((resolve) => setTimeout(resolve, Math.max(0, ms)));

/** CPU of a gateway per delta that arrives over Redis and goes to 1,000 readers. */
async function relay(servers: Servers): Promise<Row[]> {
  const others = await startNode(servers, "orchestrator,worker");
  const gateway = await startNode(servers, "gateway");
  const connection = await Connection.open(gateway.url);
  const { session } = await connection.post<{ session: { id: string } }>("/session/create", { agentId: "music" });
  const readers = await Readers.open(gateway.url, Array(READERS).fill(`/session/${session.id}/events`));
  const bare = await startBare(servers);
  const bareReaders = await Readers.open(bare.url, Array(READERS).fill("/song"));
  const redis = new Redis(servers.bus);
  const ours: number[] = [];
  const reference: number[] = [];
  for (let song = 0; song <= SONGS; song++) {
    // Only our side also sends what a turn has besides deltas: two messages and three transitions.
    const oursUs = await cpuOf(gateway, readers.frames(READERS * DELTAS), async () => {
      await connection.post("/message", { type: "chat", sessionId: session.id, content: "sing" });
    });
    await wait(500);
    const frame = `data: ${JSON.stringify({ type: "delta", data: { text: "la ".repeat(8) }, pad: "x".repeat(200) })}\n\n`;
    const bareUs = await cpuOf(bare, bareReaders.frames(READERS * DELTAS), async () => {
      for (let delta = 0; delta < DELTAS; delta++) {
        await redis.publish("bare/song", frame);
        await wait(DELTA_MS);
      }
    });
    if (song === 0) continue;
    ours.push(oursUs);
    reference.push(bareUs);
  }
  redis.disconnect();
  readers.close();
  bareReaders.close();
  connection.close();
  for (const child of [gateway, others, bare]) await child.stop();
  return [
    {
      what: "CPU per delta to 1,000 readers over Redis",
      ours: median(ours),
      reference: median(reference),
      unit: "µs",
      atMost: 1.3,
    },
  ];
}

/** µs of CPU per delta. */
async function cpuOf(child: Child, all: Promise<void>, begin: () => Promise<void>): Promise<number> {
  const before = await child.usage();
  await Promise.all([begin(), all]);
  const { cpuUs } = await child.usage();
  return (cpuUs - before.cpuUs) / DELTAS;
}
