import { once } from "node:events";
import { connect } from "node:net";
import { setImmediate as nextTurn } from "node:timers/promises";
import { expect, onTestFinished, test } from "vitest";
import { create, say } from "../../support/clients/node-client.ts";
import { SessionReader } from "../../support/clients/session-reader.ts";
import { type ChildServer, makeInstallation } from "../../support/nodes/child-server.ts";

const CATALOG = {
  agents: [{ name: "listener", adapter: { kind: "scripted", replies: [{ say: "ok", delay: "0ms" }] } }],
};
const MESSAGES = 60;
const HEAVY = "x".repeat(262_144);
const READERS = 5;
/** The bytes that a slow reader reads at a time. */
const SIP = 65_536;

/** A session with a large log; resolves with its last place. */
async function fillSession(server: ChildServer): Promise<number> {
  await create(server, "heavy", "listener");
  const reader = await SessionReader.of(server, "heavy");
  for (let n = 0; n < MESSAGES; n++) {
    const runId = await say(server, "heavy", HEAVY);
    await reader.stream.next("complete", ({ data }) => data.runId === runId);
  }
  return reader.transcript.seqOf("heavy");
}

/** Reads a session from its beginning in small pieces; resolves when the event at a place has arrived. */
async function readSlowly(server: ChildServer, last: number): Promise<void> {
  const { hostname, port, host } = new URL(server.url);
  const socket = connect({ host: hostname, port: Number(port) });
  onTestFinished(() => void socket.destroy());
  socket.write(`GET /session/heavy/events HTTP/1.1\r\nHost: ${host}\r\nAccept: text/event-stream\r\n\r\n`);
  const lastId = new RegExp(`\\nid: [a-z0-9]+\\.${last}\\.[a-z0-9]+\\ndata: `);
  for (let text = ""; !lastId.test(text); ) {
    const sip: Buffer | null = socket.read(Math.max(1, Math.min(SIP, socket.readableLength)));
    if (sip) text = text.slice(-64) + sip.toString("latin1");
    else await once(socket, "readable");
    await nextTurn();
  }
}

test("slow readers of a log of large messages delay no other request", async () => {
  const server = await (await makeInstallation(CATALOG)).start();
  const last = await fillSession(server);
  let isOver = false;
  const readers = Promise.all(Array.from({ length: READERS }, () => readSlowly(server, last)));
  const reading = readers.finally(() => {
    isOver = true;
  });
  let answered = 0;
  while (!isOver) {
    expect((await server.ask("GET", "/health")).status).toBe(200);
    answered += 1;
  }
  await reading;
  // The node answered between pages: the amount read in one iteration of its event loop is bounded.
  expect(answered).toBeGreaterThan(READERS * 4);
});
