import { Child, type Memory } from "./support/child.ts";
import { Connection } from "./support/connection.ts";
import { Readers } from "./support/readers.ts";
import type { Row } from "./support/table.ts";

/** The memory of an event stream on which nothing happens. */
const CONNECTIONS = 5_000;

/** @returns bytes per stream: live memory after a garbage collection, and growth of the resident set */
async function memoryPerStream(child: Child, path: (index: number) => string): Promise<Memory> {
  const open = (count: number) =>
    Readers.open(
      child.url,
      Array.from({ length: count }, (_, index) => path(index)),
    );
  // The first streams load code and grow caches, which is not memory per stream.
  const first = await open(50);
  const before = await child.memory();
  const readers = await open(CONNECTIONS);
  const after = await child.memory();
  readers.close();
  first.close();
  return { heap: (after.heap - before.heap) / CONNECTIONS, rss: (after.rss - before.rss) / CONNECTIONS };
}

export async function benchIdle(): Promise<Row[]> {
  const bare = await Child.start("bare-http.ts");
  const perBare = await memoryPerStream(bare, () => "/");
  await bare.stop();

  const ours = await Child.start("interlock.ts");
  const connection = await Connection.open(ours.url);
  const ids: string[] = [];
  for (let index = 0; index < 100; index++) {
    const { session } = await connection.post<{ session: { id: string } }>("/session/create", {});
    ids.push(session.id);
  }
  const perSession = await memoryPerStream(ours, (index) => `/session/${ids[index % ids.length]}/events`);
  connection.close();
  await ours.stop();

  const fresh = await Child.start("interlock.ts");
  const perConnection = await memoryPerStream(fresh, () => "/events");
  await fresh.stop();
  const row = (what: string, key: keyof Memory, memory: Memory): Row => ({
    what,
    ours: memory[key],
    reference: perBare[key],
    unit: "B",
  });
  return [
    { ...row("bytes per idle stream, session", "heap", perSession), atMost: 1.15 },
    { ...row("bytes per idle stream, connection", "heap", perConnection), atMost: 1.15 },
    row("resident bytes per idle stream, session", "rss", perSession),
    row("resident bytes per idle stream, connection", "rss", perConnection),
  ];
}
