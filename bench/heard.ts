import { Child } from "./support/child.ts";
import { measureCost, type Send } from "./support/command-rate.ts";
import { Connection } from "./support/connection.ts";
import { listen } from "./support/listener.ts";
import { median, quantile } from "./support/statistics.ts";
import type { Row } from "./support/table.ts";

/** The cost of sessions that are heard together, compared with floors and catalogues without them. */
const ROUND_MS = 1_500;
const ROUNDS = 5;
const CLIENTS = 8;
/** Ducked sessions, and paused sessions, on each crowded floor. */
const DUCKED = 15;
const PAUSED = 15;
const PROMPTS = 600;
const WARM_UP = 200;

type Post = <T>(path: string, body?: object) => Promise<T>;

const create = (post: Post, agentId: string, userId: string) =>
  post<{ session: { id: string } }>("/session/create", { agentId, userId, activate: true });

/** Start a prompt over the holder, and end it: two decisions, each of which arranges all sessions of the floor. */
const prompt =
  (kind: string): Send =>
  async (connection, client) => {
    const body = JSON.stringify({ agentId: "prompt", userId: `${kind}-${client}`, activate: true });
    const made = await connection.request("POST", "/session/create", body);
    if (made.status !== 200) return made;
    return connection.request("POST", `/session/${JSON.parse(made.body).session.id}/archive`);
  };

/** Create a holder that the prompt ducks, and ducked and paused sessions on its floor. */
async function fillFloor(post: Post, userId: string, ducked: number, paused: number): Promise<void> {
  for (let each = 0; each < paused; each++) await create(post, "plain", userId);
  await create(post, "front", userId);
  for (let each = 0; each < ducked; each++) await create(post, "low", userId);
}

async function benchCrowd(): Promise<Row> {
  const child = await Child.start("interlock.ts", ["", "together"]);
  const connection = await Connection.open(child.url);
  const post: Post = (path, body) => connection.post(path, body);
  for (let client = 0; client < CLIENTS; client++) {
    await fillFloor(post, `crowded-${client}`, DUCKED, PAUSED);
    await fillFloor(post, `lone-${client}`, 0, 0);
    const floor = await connection.request("GET", `/floor/u%3Acrowded-${client}`);
    const { ducked, paused } = JSON.parse(floor.body);
    if (ducked.length !== DUCKED || paused.length !== PAUSED) throw new Error(`not a crowd: ${floor.body}`);
  }
  connection.close();
  const costs = { crowded: [] as number[], lone: [] as number[] };
  for (let round = 0; round <= ROUNDS; round++) {
    for (const kind of ["crowded", "lone"] as const) {
      const { cpuUs } = await measureCost(child, CLIENTS, ROUND_MS, prompt(kind));
      // The first round warms up.
      if (round > 0) costs[kind].push(cpuUs);
    }
  }
  await child.stop();
  return {
    what: `CPU per prompt over ${DUCKED + PAUSED} ducked and paused sessions, compared with none`,
    ours: median(costs.crowded),
    reference: median(costs.lone),
    unit: "µs",
    atMost: 2,
  };
}

/** Measures from the request of the interrupting session to the event at a reader of the interrupted one. */
async function openInterruption(catalog: string, [holder, challenger]: [string, string], loses: string) {
  const child = await Child.start("interlock.ts", ["", catalog]);
  const connection = await Connection.open(child.url);
  const post: Post = (path, body) => connection.post(path, body);
  const { session } = await create(post, holder, "ann");
  const listener = await listen(child.url, `/session/${session.id}/events`);
  const timesMs: number[] = [];
  return {
    timesMs,
    async play() {
      const lost = listener.hears(loses);
      const asked = performance.now();
      const made = await create(post, challenger, "ann");
      timesMs.push((await lost) - asked);
      const back = listener.hears('"event":"resume"');
      await connection.request("POST", `/session/${made.session.id}/archive`);
      await back;
    },
    async stop() {
      listener.close();
      connection.close();
      await child.stop();
    },
  };
}

async function benchLoss(): Promise<Row[]> {
  const ours = await openInterruption("together", ["front", "prompt"], '"to":"ducked');
  const reference = await openInterruption("alone", ["music", "phone"], '"to":"paused"');
  for (let call = 0; call < PROMPTS + WARM_UP; call++) {
    await ours.play();
    await reference.play();
  }
  await ours.stop();
  await reference.stop();
  const figure = (share: number) => ({
    ours: quantile(ours.timesMs.slice(WARM_UP), share),
    reference: quantile(reference.timesMs.slice(WARM_UP), share),
    unit: "ms",
  });
  return [
    { what: "request → ducked, compared with → paused alone, median", ...figure(0.5), atMost: 1.2 },
    { what: "request → ducked, compared with → paused alone, p99", ...figure(0.99) },
  ];
}

export async function benchHeard(): Promise<Row[]> {
  return [await benchCrowd(), ...(await benchLoss())];
}
