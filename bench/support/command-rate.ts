import type { Child } from "./child.ts";
import { Connection } from "./connection.ts";

/** One request of a client, and its answer. */
export type Send = (connection: Connection, client: number, turn: number) => Promise<{ status: number; body: string }>;

/** Commands per second: so many clients, each with one request after the other, for so long. */
export async function measureRate(
  url: string,
  clients: number,
  roundMs: number,
  send: Send,
): Promise<{ perSecond: number; count: number }> {
  const connections = await Promise.all(Array.from({ length: clients }, () => Connection.open(url)));
  let count = 0;
  const begun = performance.now();
  const until = begun + roundMs;
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
  return { perSecond: count / seconds, count };
}

/** The same, with the CPU that a command costs the server: all its threads, and its main thread alone, in µs. */
export async function measureCost(child: Child, clients: number, roundMs: number, send: Send) {
  const before = await child.usage();
  const { perSecond, count } = await measureRate(child.url, clients, roundMs, send);
  const after = await child.usage();
  return {
    perSecond,
    cpuUs: (after.cpuUs - before.cpuUs) / count,
    mainUs: (after.mainUs - before.mainUs) / count,
  };
}
