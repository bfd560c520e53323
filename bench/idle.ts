import { Child } from "./support/child.ts";
import { Connection } from "./support/connection.ts";
import { Readers } from "./support/readers.ts";
import type { Row } from "./support/table.ts";

/** What an event stream costs while nothing happens on it. */
const CONNECTIONS = 5_000;

async function memoryPer(child: Child, path: (index: number) => string): Promise<number> {
  // What the first few bring into being, code above all, is not theirs.
  const first = await Readers.open(
    child.url,
    Array.from({ length: 50 }, (_, index) => path(index)),
  );
  const before = await child.memory();
  const readers = await Readers.open(
    child.url,
    Array.from({ length: CONNECTIONS }, (_, index) => path(index)),
  );
  const after = await child.memory();
  readers.close();
  first.close();
  return (after.heap - before.heap) / CONNECTIONS;
}

export async function benchIdle(): Promise<Row[]> {
  const bare = await Child.start("bare-http.ts");
  const perBare = await memoryPer(bare, () => "/");
  await bare.stop();

  const ours = await Child.start("interlock.ts");
  const connection = await Connection.open(ours.url);
  const ids: string[] = [];
  for (let index = 0; index < 100; index++) {
    const { session } = await connection.post<{ session: { id: string } }>("/session/create", {});
    ids.push(session.id);
  }
  const perSession = await memoryPer(ours, (index) => `/session/${ids[index % ids.length]}/events`);
  await ours.stop();

  const fresh = await Child.start("interlock.ts");
  const perConnection = await memoryPer(fresh, () => "/events");
  connection.close();
  await fresh.stop();
  return [
    { what: "bytes per idle stream, session", ours: perSession, beside: perBare, unit: "B", atMost: 1.15 },
    { what: "bytes per idle stream, connection", ours: perConnection, beside: perBare, unit: "B", atMost: 1.15 },
  ];
}
