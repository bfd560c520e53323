import { setTimeout as elapse } from "node:timers/promises";
import { expect, onTestFinished, test } from "vitest";
import { headOf, RawSocket } from "../../support/networks/raw-socket.ts";
import { makeInstallation } from "../../support/nodes/child-server.ts";

/** Longer than a node's event loop is ever busy. */
const FROZEN_MS = 3_000;

const HUNG_UP: Record<string, { count: number; isKnown: boolean; hangUp: (client: RawSocket) => void }> = {
  closed: { count: 1, isKnown: true, hangUp: (client) => client.destroy() },
  "closed-several": { count: 8, isKnown: true, hangUp: (client) => client.destroy() },
  "closed-new": { count: 1, isKnown: false, hangUp: (client) => client.destroy() },
  "closed-several-new": { count: 8, isKnown: false, hangUp: (client) => client.destroy() },
  reset: { count: 1, isKnown: true, hangUp: (client) => void client.socket.resetAndDestroy() },
};

interface Client {
  readonly id: string;
  readonly isKnown: boolean;
  readonly hangUp?: (client: RawSocket) => void;
  socket?: RawSocket;
}

test("a frozen node that wakes carries out what its clients wait for, and no request of a client that hung up", async () => {
  const installation = await makeInstallation({ agents: [{ name: "general" }] });
  const node = await installation.start();
  const dial = async () => {
    const client = await RawSocket.open(node.url);
    onTestFinished(() => client.destroy());
    return client;
  };
  const clients: Client[] = [
    ...Object.entries(HUNG_UP).flatMap(([how, { count, ...rest }]) =>
      Array.from({ length: count }, (_, index) => ({ id: `${how}-${index}`, ...rest })),
    ),
    { id: "patient", isKnown: true },
    { id: "patient-new", isKnown: false },
  ];
  for (const client of clients) {
    const { id } = client;
    expect((await node.post("/session/create", { id, userId: id, title: "before" })).status).toBe(200);
    if (client.isKnown) client.socket = await dial();
  }
  node.freeze();
  onTestFinished(() => node.thaw());
  for (const client of clients) {
    client.socket ??= await dial();
    const body = JSON.stringify({ title: "late" });
    const headers = { "Content-Type": "application/json", "Content-Length": body.length };
    await client.socket.send(`${headOf("PATCH", `/session/${client.id}`, headers)}${body}`);
  }
  await elapse(FROZEN_MS);
  for (const { hangUp, socket } of clients) hangUp?.(socket!);
  node.thaw();
  for (const { hangUp, socket } of clients) {
    if (!hangUp) expect(await socket!.until(/^HTTP\/1\.1 \d+/)).toMatch(/^HTTP\/1\.1 200/);
  }
  const titles = await Promise.all(
    clients.map(async ({ id }) => [id, (await node.ask("GET", `/session/${id}`)).body.session.title]),
  );
  expect(titles).toEqual(clients.map(({ id, hangUp }) => [id, hangUp ? "before" : "late"]));
});
