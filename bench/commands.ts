import { Child } from "./support/child.ts";
import { Connection } from "./support/connection.ts";
import { median } from "./support/statistics.ts";
import type { Row } from "./support/table.ts";

/** Durable commands over HTTP: so many clients, one after the other each, for so long; rounds of both in turn. */
const ROUND_MS = 2_000;
const ROUNDS = 5;

type Send = (connection: Connection, client: number, turn: number) => Promise<{ status: number; body: string }>;

async function rate(url: string, clients: number, send: Send): Promise<number> {
  const connections = await Promise.all(Array.from({ length: clients }, () => Connection.open(url)));
  let count = 0;
  const until = performance.now() + ROUND_MS;
  const begun = performance.now();
  await Promise.all(
    connections.map(async (connection, client) => {
      for (let turn = 0; performance.now() < until; turn++) {
        const { status, body } = await send(connection, client, turn);
        if (status !== 200) throw new Error(`${status} ${body}`);
        count += 1;
      }
    }),
  );
  const seconds = (performance.now() - begun) / 1_000;
  for (const connection of connections) connection.close();
  return count / seconds;
}

async function makeSessions(
  url: string,
  count: number,
  userOf: (index: number) => string | undefined,
): Promise<string[]> {
  const connection = await Connection.open(url);
  const ids: string[] = [];
  for (let index = 0; index < count; index++) {
    const userId = userOf(index);
    const body = { agentId: "music", activate: userId === undefined, ...(userId !== undefined && { userId }) };
    const { session } = await connection.post<{ session: { id: string } }>("/session/create", body);
    ids.push(session.id);
  }
  connection.close();
  return ids;
}

export async function benchCommands(): Promise<Row[]> {
  const bare = await Child.start("bare-commands.ts");
  const ours = await Child.start("interlock.ts");
  const own = await makeSessions(ours.url, 64, () => undefined);
  const shared = await makeSessions(ours.url, 64, () => "everybody");

  const bareSend: Send = (connection, client, turn) =>
    connection.request("POST", "/", JSON.stringify({ floor: `f${client}`, type: turn % 2 ? "resume" : "pause" }));
  const pauseResume: Send = (connection, client, turn) =>
    connection.request("POST", `/session/${own[client]}/${turn % 2 ? "resume" : "pause"}`);
  const rename =
    (ids: string[]): Send =>
    (connection, client, turn) =>
      connection.request("PATCH", `/session/${ids[client]}`, `{"title":"turn ${turn}"}`);

  const results = new Map<string, number[]>();
  const measure = async (name: string, url: string, clients: number, send: Send) => {
    const known = results.get(name) ?? [];
    known.push(await rate(url, clients, send));
    results.set(name, known);
  };
  for (let round = 0; round <= ROUNDS; round++) {
    for (const clients of [1, 64]) {
      await measure(`bare ${clients}`, bare.url, clients, bareSend);
      await measure(`ours ${clients}`, ours.url, clients, pauseResume);
      await measure(`rename ${clients}`, ours.url, clients, rename(own));
    }
    await measure("one floor", ours.url, 64, rename(shared));
    // The first round warms up.
    if (round === 0) results.clear();
  }
  await bare.stop();
  await ours.stop();
  const of = (name: string) => median(results.get(name)!);
  return [
    {
      what: "commands/s, 1 client (pause, resume)",
      ours: of("ours 1"),
      beside: of("bare 1"),
      unit: "/s",
      atLeast: 0.5,
    },
    {
      what: "commands/s, 64 clients (pause, resume)",
      ours: of("ours 64"),
      beside: of("bare 64"),
      unit: "/s",
      atLeast: 0.5,
    },
    { what: "commands/s, 1 client (rename)", ours: of("rename 1"), beside: of("bare 1"), unit: "/s", atLeast: 0.5 },
    { what: "commands/s, 64 clients (rename)", ours: of("rename 64"), beside: of("bare 64"), unit: "/s", atLeast: 0.5 },
    {
      what: "64 clients on one floor, beside 64 floors",
      ours: of("one floor"),
      beside: of("rename 64"),
      unit: "/s",
      atLeast: 0.6,
    },
  ];
}
