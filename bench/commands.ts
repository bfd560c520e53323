import { Child } from "./support/child.ts";
import { measureCost, type Send } from "./support/command-rate.ts";
import { Connection } from "./support/connection.ts";
import { median } from "./support/statistics.ts";
import type { Row } from "./support/table.ts";

/** Durable commands over HTTP. Each client sends one request at a time; rounds of the two servers alternate. */
const ROUND_MS = 1_000;
const ROUNDS = 11;
const CLIENTS = 64;

type Cost = Awaited<ReturnType<typeof measureCost>>;
/** The figures of a series, one for each round. */
type Results = (name: string, figure?: keyof Cost) => number[];

async function createSessions(
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

const pauseOrResume = (turn: number) => (turn % 2 ? "resume" : "pause");

const sendBare: Send = (connection, client, turn) =>
  connection.request("POST", "/", JSON.stringify({ floor: `f${client}`, type: pauseOrResume(turn) }));

const sendPauseAndResume =
  (ids: readonly string[]): Send =>
  (connection, client, turn) =>
    connection.request("POST", `/session/${ids[client]}/${pauseOrResume(turn)}`);

const sendRename =
  (ids: readonly string[]): Send =>
  (connection, client, turn) =>
    connection.request("PATCH", `/session/${ids[client]}`, `{"title":"turn ${turn}"}`);

async function measureAll(bare: Child, ours: Child): Promise<Results> {
  const separate = await createSessions(ours.url, CLIENTS, () => undefined);
  const sameFloor = await createSessions(ours.url, CLIENTS, () => "everybody");
  const results = new Map<string, Cost[]>();
  const measure = async (name: string, child: Child, clients: number, send: Send) => {
    const cost = await measureCost(child, clients, ROUND_MS, send);
    results.set(name, [...(results.get(name) ?? []), cost]);
  };
  for (let round = 0; round <= ROUNDS; round++) {
    for (const clients of [1, CLIENTS]) {
      await measure(`bare ${clients}`, bare, clients, sendBare);
      await measure(`ours ${clients}`, ours, clients, sendPauseAndResume(separate));
      await measure(`rename ${clients}`, ours, clients, sendRename(separate));
    }
    await measure("one floor", ours, CLIENTS, sendRename(sameFloor));
    // The first round warms up.
    if (round === 0) results.clear();
  }
  return (name, figure = "perSecond") => results.get(name)!.map((cost) => cost[figure]);
}

export async function benchCommands(): Promise<Row[]> {
  const bare = await Child.start("bare-commands.ts");
  const ours = await Child.start("interlock.ts");
  const of = await measureAll(bare, ours);
  await bare.stop();
  await ours.stop();
  const compare = (what: string, name: string, reference: string, figure: keyof Cost): Row => {
    const [ours, theirs] = [of(name, figure), of(reference, figure)];
    const ratios = ours.map((value, round) => value / theirs[round]!);
    return { what, ours: median(ours), reference: median(theirs), ratios, unit: figure === "perSecond" ? "/s" : "µs" };
  };
  const rate = (what: string, name: string, reference: string, atLeast: number): Row => ({
    ...compare(what, name, reference, "perSecond"),
    atLeast,
  });
  return [
    rate("commands/s, 1 client (pause, resume)", "ours 1", "bare 1", 0.5),
    rate("commands/s, 64 clients (pause, resume)", "ours 64", "bare 64", 0.33),
    compare("CPU per command, 64 clients (pause, resume)", "ours 64", "bare 64", "cpuUs"),
    compare("main thread's CPU per command, 64 clients", "ours 64", "bare 64", "mainUs"),
    rate("commands/s, 1 client (rename)", "rename 1", "bare 1", 0.5),
    rate("commands/s, 64 clients (rename)", "rename 64", "bare 64", 0.33),
    rate("64 clients on one floor, compared with 64 floors", "one floor", "rename 64", 0.6),
  ];
}
