import { setTimeout as elapse } from "node:timers/promises";
import { expect, onTestFinished, test } from "vitest";
import { headOf, RawSocket } from "../../support/networks/raw-socket.ts";
import { makeInstallation } from "../../support/nodes/child-server.ts";

/** Longer than a node's event loop is ever busy. */
const FROZEN_MS = 3_000;

test.each<[string, { count: number; isKnown: boolean; hangUp: (client: RawSocket) => void }]>([
  ["closed its connection", { count: 1, isKnown: true, hangUp: (client) => client.destroy() }],
  ["closed one of several connections", { count: 8, isKnown: true, hangUp: (client) => client.destroy() }],
  ["closed a new connection", { count: 1, isKnown: false, hangUp: (client) => client.destroy() }],
  ["closed one of several new connections", { count: 8, isKnown: false, hangUp: (client) => client.destroy() }],
  ["reset its connection", { count: 1, isKnown: true, hangUp: (client) => void client.socket.resetAndDestroy() }],
])(
  "a frozen node that wakes carries out what its clients wait for, and no request of a client that %s",
  async (_, { count, isKnown, hangUp }) => {
    const installation = await makeInstallation({ agents: [{ name: "general" }] });
    const node = await installation.start();
    const dial = async () => {
      const client = await RawSocket.open(node.url);
      onTestFinished(() => client.destroy());
      return client;
    };
    const clients = new Map<string, RawSocket | undefined>();
    for (const name of [...Array.from({ length: count }, (_each, index) => `gone${index}`), "patient"]) {
      expect((await node.post("/session/create", { id: name, userId: name, title: "before" })).status).toBe(200);
      clients.set(name, isKnown ? await dial() : undefined);
    }
    node.freeze();
    onTestFinished(() => node.thaw());
    for (const [id, known] of clients) {
      const client = known ?? (await dial());
      clients.set(id, client);
      const body = JSON.stringify({ title: "late" });
      const headers = { "Content-Type": "application/json", "Content-Length": body.length };
      await client.send(`${headOf("PATCH", `/session/${id}`, headers)}${body}`);
    }
    await elapse(FROZEN_MS);
    for (const [id, client] of clients) if (id !== "patient") hangUp(client!);
    node.thaw();
    expect(await clients.get("patient")!.until(/^HTTP\/1\.1 \d+/)).toMatch(/^HTTP\/1\.1 200/);
    const titles = await Promise.all(
      [...clients.keys()].map(async (id) => [id, (await node.ask("GET", `/session/${id}`)).body.session.title]),
    );
    expect(titles).toEqual([...clients.keys()].map((id) => [id, id === "patient" ? "late" : "before"]));
  },
);
