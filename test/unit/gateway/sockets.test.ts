import { once } from "node:events";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { Sockets } from "../../../src/gateway/http/sockets.ts";
import { headOf, RawSocket } from "../../support/raw-socket.ts";
import { VirtualClock } from "../../support/virtual-clock.ts";

const GET = headOf("GET", "/slow");
const HALF = "GET /health HTTP/1.1\r\nHost: 127";

/** A server that answers when it is told to; `/health` it answers at once. */
async function open({ max = 100, maxPerAddress = 100, proxies = [] as string[] } = {}) {
  const clock = new VirtualClock();
  const heard: { path: string; response: ServerResponse }[] = [];
  let wake = () => {};
  let cuts = 0;
  const onCut = () => {
    cuts += 1;
  };
  const sockets = new Sockets({ clock, max, maxPerAddress, proxies, onCut });
  const server = sockets.serve((request: IncomingMessage, response: ServerResponse) => {
    if (request.url === "/health") return void response.end("alive");
    heard.push({ path: request.url!, response });
    wake();
  }, {});
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  sockets.start();
  onTestFinished(() => {
    sockets.stop();
    server.closeAllConnections();
    server.close();
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  /** A connection that the server has accepted: it has answered a later one, where it could. */
  const dial = async (said = "", from?: string) => {
    const socket = await RawSocket.open(url, { ...(from !== undefined && { from }) });
    onTestFinished(() => socket.destroy());
    if (said !== "") await socket.send(said);
    return socket;
  };
  const whenHeard = async (count: number) => {
    while (heard.length < count) {
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
    }
  };
  return { clock, heard, whenHeard, dial, url, cuts: () => cuts };
}

const ALIVE = /alive$/;

test("requests that come together are worked on one after another, and answered in their order", async () => {
  const { heard, whenHeard, dial } = await open();
  const client = await dial(["/a", "/b", "/c"].map((path) => headOf("GET", path)).join(""));
  for (const count of [1, 2, 3]) {
    await whenHeard(count);
    expect(heard).toHaveLength(count);
    heard[count - 1]!.response.end(`answer ${count}.`);
    await client.until(new RegExp(`answer ${count}\\.$`));
  }
  expect(heard.map(({ path }) => path)).toEqual(["/a", "/b", "/c"]);
});

test("thirty-two requests may wait behind the one under way; one more closes the connection", async () => {
  const { heard, whenHeard, dial } = await open();
  const patient = await dial(GET.repeat(33));
  await whenHeard(1);
  for (let count = 1; count <= 33; count++) {
    await whenHeard(count);
    heard[count - 1]!.response.end(`answer ${count}.`);
    await patient.until(new RegExp(`answer ${count}\\.$`));
  }

  const flood = await dial(GET.repeat(34));
  await flood.closed;
  expect(flood.text).toBe("");
});

test("an answer that a client does not read for fifteen seconds is cut off; one that it reads slowly is not", async () => {
  const { clock, heard, whenHeard, url, cuts } = await open();
  const deaf = await RawSocket.open(url, { reads: false });
  await deaf.send(GET);
  await whenHeard(1);
  const { response } = heard[0]!;
  response.end(Buffer.alloc(64 * 1_024 * 1_024));
  const closed = once(response, "close");
  await clock.advance(5_000);
  await clock.advance(10_000);
  expect(cuts()).toBe(0);
  await clock.advance(15_000);
  expect(cuts()).toBe(1);
  await closed;
});

test("an address that has all its connections gets another for the one that waited longest without a request", async () => {
  const { dial } = await open({ maxPerAddress: 3 });
  const halves = [];
  for (let index = 0; index < 3; index++) halves.push(await dial(HALF));
  const client = await dial(headOf("GET", "/health"));
  expect(await client.until(ALIVE)).toMatch(/^HTTP\/1\.1 200/);
  await halves[0]!.closed;
  // The others are as they were.
  await halves[2]!.send(".0.0.1\r\n\r\n");
  expect(await halves[2]!.until(ALIVE)).toMatch(/^HTTP\/1\.1 200/);
});

test("half-sent heads of many addresses leave room for a request too", async () => {
  const { dial } = await open({ max: 4 });
  const halves = [];
  for (let index = 0; index < 4; index++) halves.push(await dial(HALF, `127.0.0.${index + 2}`));
  const client = await dial(headOf("GET", "/health"));
  expect(await client.until(ALIVE)).toMatch(/^HTTP\/1\.1 200/);
  await halves[0]!.closed;
});

test.each([{ max: 2 }, { maxPerAddress: 2 }])(
  "with every connection at work (%o) a probe is answered, and other requests are not",
  async (bounds) => {
    const { whenHeard, dial, heard } = await open(bounds);
    await dial(GET);
    await dial(GET);
    await whenHeard(2);
    const other = await dial(GET);
    await other.closed;
    expect([other.text, heard.length]).toEqual(["", 2]);
    const probe = await dial(headOf("GET", "/health"));
    expect(await probe.until(ALIVE)).toMatch(/^HTTP\/1\.1 200/);
    // However many connections were opened in between and say nothing.
    for (let index = 0; index < 100; index++) await dial();
    const again = await dial(headOf("GET", "/health"));
    expect(await again.until(ALIVE)).toMatch(/^HTTP\/1\.1 200/);
  },
);

test("a connection that is over leaves its place to another", async () => {
  const { heard, whenHeard, dial } = await open({ maxPerAddress: 1 });
  const first = await dial(GET);
  await whenHeard(1);
  const closed = once(heard[0]!.response, "close");
  first.destroy();
  await closed;
  await dial(GET);
  await whenHeard(2);
});

test("a trusted proxy has connections for all its clients", async () => {
  const { whenHeard, dial } = await open({ maxPerAddress: 1, proxies: ["127.0.0.8/30"] });
  for (let index = 0; index < 4; index++) await dial(GET, "127.0.0.9");
  await whenHeard(4);
});
