import { once } from "node:events";
import { access } from "node:fs/promises";
import { connect, type Socket } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { type ChildServer, makeInstallation } from "../../support/nodes/child-server.ts";

const CATALOG = { agents: [{ name: "general" }] };

/** A socket to the node on which this text was sent. */
async function open(server: ChildServer, said: string): Promise<{ socket: Socket; closed: Promise<unknown> }> {
  const { hostname, port } = new URL(server.url);
  const socket = connect(Number(port), hostname);
  onTestFinished(() => void socket.destroy());
  const closed = new Promise((resolve) => socket.once("close", resolve));
  socket.on("error", () => {});
  await once(socket, "connect");
  if (said !== "") socket.write(said);
  return { socket, closed };
}

/** The node closed its store: an interrupted process leaves SQLite's WAL file. */
async function expectGoodOrder(server: ChildServer, file: string): Promise<void> {
  expect(await server.ended).toEqual({ code: 0, signal: null });
  await expect(access(`${file}-wal`)).rejects.toThrow(/ENOENT/);
}

test.each([
  ["on which nothing was ever said", ""],
  ["on which a request was begun", "GET /health HTTP/1.1\r\nHost: 127"],
  [
    "on which a body is missing",
    "POST /message HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{",
  ],
])("a socket %s does not delay a stopping node", async (_, said) => {
  const installation = await makeInstallation(CATALOG, { INTERLOCK_DRAIN: "1s" });
  const server = await installation.start();
  const { closed } = await open(server, said);
  // The text has arrived: what followed it was answered.
  expect((await server.post("/session/create", { userId: "ann" })).status).toBe(200);
  server.signal("SIGTERM");
  await expectGoodOrder(server, installation.file);
  await closed;
});

test("idle kept-alive sockets do not delay a stopping node", async () => {
  const installation = await makeInstallation(CATALOG, { INTERLOCK_DRAIN: "1s" });
  const server = await installation.start();
  const request = "GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
  const sockets = await Promise.all(Array.from({ length: 50 }, (_, n) => open(server, n % 2 ? request : "")));
  for (const [n, { socket }] of sockets.entries()) if (n % 2) await once(socket, "data");
  expect((await server.post("/session/create", { userId: "ann" })).status).toBe(200);
  await access(`${installation.file}-wal`);
  server.signal("SIGTERM");
  await expectGoodOrder(server, installation.file);
  await Promise.all(sockets.map(({ closed }) => closed));
});
