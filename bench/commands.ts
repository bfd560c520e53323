import { Child } from "./support/child.ts";
import { measureCost, type Send } from "./support/command-rate.ts";
import { Connection } from "./support/connection.ts";
import { median } from "./support/statistics.ts";
import type { Row } from "./support/table.ts";

/** Durable commands over HTTP: so many clients, one after the other each, for so long; rounds of both in turn. */
const ROUND_MS = 2_000;
const ROUNDS = 5;

type Cost = Awaited<ReturnType<typeof measureCost>>;

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

  const results = new Map<string, Cost[]>();
  const measure = async (name: string, child: Child, clients: number, send: Send) => {
    const cost = await measureCost(child, clients, ROUND_MS, send);
    results.set(name, [...(results.get(name) ?? []), cost]);
  };
  for (let round = 0; round <= ROUNDS; round++) {
    for (const clients of [1, 64]) {
      await measure(`bare ${clients}`, bare, clients, bareSend);
      await measure(`ours ${clients}`, ours, clients, pauseResume);
      await measure(`rename ${clients}`, ours, clients, rename(own));
    }
    await measure("one floor", ours, 64, rename(shared));
    // The first round warms up.
    if (round === 0) results.clear();
  }
  await bare.stop();
  await ours.stop();
  const of = (name: string, what: keyof Cost = "perSecond") => median(results.get(name)!.map((cost) => cost[what]));
  return [
    {
      what: "commands/s, 1 client (pause, resume)",
      ours: of("ours 1"),
      beside: of("bare 1"),
      unit: "/s",
      atLeast: 0.7,
    },
    {
      what: "commands/s, 64 clients (pause, resume)",
      ours: of("ours 64"),
      beside: of("bare 64"),
      unit: "/s",
      atLeast: 0.45,
    },
    {
      what: "CPU per command, 64 clients (pause, resume)",
      ours: of("ours 64", "cpuUs"),
      beside: of("bare 64", "cpuUs"),
      unit: "µs",
    },
    {
      what: "the main thread's CPU of that, beside 80 µs",
      ours: of("ours 64", "mainUs"),
      beside: 80,
      unit: "µs",
      atMost: 1,
    },
    { what: "commands/s, 1 client (rename)", ours: of("rename 1"), beside: of("bare 1"), unit: "/s", atLeast: 0.7 },
    {
      what: "commands/s, 64 clients (rename)",
      ours: of("rename 64"),
      beside: of("bare 64"),
      unit: "/s",
      atLeast: 0.45,
    },
    {
      what: "64 clients on one floor, beside 64 floors",
      ours: of("one floor"),
      beside: of("rename 64"),
      unit: "/s",
      atLeast: 0.6,
    },
  ];
}
