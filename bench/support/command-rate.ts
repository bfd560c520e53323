import type { Child } from "./child.ts";
import { Connection } from "./connection.ts";

/** Sends one request of a client. */
export type Send = (connection: Connection, client: number, turn: number) => Promise<{ status: number; body: string }>;

/** Measure the rate of commands. Each client sends one request at a time. */
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

/** Measure the rate, and the server's CPU per command in µs: of all threads, and of the main thread. */
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
