import { access } from "node:fs/promises";
import { expect, onTestFinished, test } from "vitest";
import { RawSocket } from "../../support/networks/raw-socket.ts";
import { type ChildServer, makeInstallation } from "../../support/nodes/child-server.ts";

const CATALOG = { agents: [{ name: "general" }] };

/** A socket to the node on which this text was sent. */
async function open(server: ChildServer, said: string): Promise<RawSocket> {
  const socket = await RawSocket.open(server.url);
  onTestFinished(() => socket.destroy());
  if (said !== "") await socket.send(said);
  return socket;
}

test("sockets without a whole request do not delay a stopping node", async () => {
  const installation = await makeInstallation(CATALOG, { INTERLOCK_DRAIN: "1s" });
  const server = await installation.start();
  const begun = "GET /health HTTP/1.1\r\nHost: 127";
  const post = "POST /message HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n";
  const answered = "GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
  const said = ["", begun, `${post}Content-Length: 100\r\n\r\n{`, ...Array<string>(25).fill(answered)];
  const sockets = await Promise.all(said.map((text) => open(server, text)));
  for (const [n, socket] of sockets.entries()) if (said[n] === answered) await socket.until(/./);
  // The other texts have arrived: what followed them was answered.
  expect((await server.post("/session/create", { userId: "ann" })).status).toBe(200);
  await access(`${installation.file}-wal`);
  server.signal("SIGTERM");
  expect(await server.ended).toEqual({ code: 0, signal: null });
  // The node closed its store: an interrupted process leaves SQLite's WAL file.
  await expect(access(`${installation.file}-wal`)).rejects.toThrow(/ENOENT/);
  await Promise.all(sockets.map(({ closed }) => closed));
});
