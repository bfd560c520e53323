import { once } from "node:events";
import { IncomingMessage, type ServerResponse } from "node:http";
import { connect, type Socket } from "node:net";
import { promisify } from "node:util";
import { expect, onTestFinished, test } from "vitest";
import { endWithClient } from "../../../src/gateway/http/sockets/hang-up.ts";
import { LoopPace } from "../../../src/gateway/http/sockets/loop-pace.ts";
import { Sockets } from "../../../src/gateway/http/sockets/sockets.ts";
import { headOf, oneByteChunks, RawSocket } from "../../support/networks/raw-socket.ts";
import { VirtualClock } from "../../support/runner/virtual-clock.ts";
import { listen } from "../../support/servers/listen.ts";

const GET = headOf("GET", "/slow");
const HALF = "GET /health HTTP/1.1\r\nHost: 127";

/** A server whose answers the test controls; `/health` is answered at once. */
async function open({ max = 100, maxPerAddress = 100, proxies = [] as string[], pace = new LoopPace() } = {}) {
  const clock = new VirtualClock();
  const received: { path: string; response: ServerResponse }[] = [];
  let wake = () => {};
  let cuts = 0;
  const onCut = () => {
    cuts += 1;
  };
  const sockets = new Sockets({ clock, pace, max, maxPerAddress, proxies, onCut });
  let made = 0;
  class CountedRequest extends IncomingMessage {
    constructor(socket: Socket) {
      super(socket);
      made += 1;
    }
  }
  const serve = (request: IncomingMessage, response: ServerResponse) => {
    if (request.url === "/health") return void response.end("alive");
    received.push({ path: request.url!, response });
    wake();
  };
  const refusalOf = ({ headers }: IncomingMessage) => (headers["x-refused"] === undefined ? undefined : "refused");
  const server = sockets.serve(serve, { IncomingMessage: CountedRequest as typeof IncomingMessage }, refusalOf);
  server.on("clientError", (_error, socket) => sockets.endUnreadable(socket as Socket, "unreadable"));
  const url = `http://127.0.0.1:${await listen(server)}`;
  sockets.start();
  onTestFinished(() => sockets.stop());
  /** A connection that the server has accepted: if possible, it has answered a later one. */
  const dial = async (said = "", from?: string) => {
    const socket = await RawSocket.open(url, { ...(from !== undefined && { from }) });
    onTestFinished(() => socket.destroy());
    if (said !== "") await socket.send(said);
    return socket;
  };
  /** A client that does not read. */
  const dialDeaf = async () => {
    const deaf = await RawSocket.open(url, { reads: false });
    onTestFinished(() => deaf.destroy());
    await deaf.send(GET);
    return deaf;
  };
  /** A client that keeps its side open when the server has ended the other. */
  const dialLasting = () => {
    const socket = connect({ port: Number(new URL(url).port), host: "127.0.0.1", allowHalfOpen: true });
    onTestFinished(() => void socket.destroy());
    socket.on("error", () => {});
    const lasting = { socket, text: "" };
    socket.setEncoding("latin1").on("data", (piece: string) => {
      lasting.text += piece;
    });
    return lasting;
  };
  const whenReceived = async (count: number) => {
    while (received.length < count) {
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
    }
    return received[count - 1]!.response;
  };
  const connections = () => promisify(server.getConnections.bind(server))();
  /** A connection that its client keeps is closed after 20 s, which does not count as a cut. */
  const isClosedInTime = async () => {
    expect(await connections()).toBe(1);
    await clock.advance(20_000);
    await expect.poll(connections).toBe(0);
    expect(cuts).toBe(0);
  };
  const isAlive = async () =>
    expect(await (await dial(headOf("GET", "/health"))).until(ALIVE)).toMatch(/^HTTP\/1\.1 200/);
  const stage = { clock, received, whenReceived, dial, dialDeaf, dialLasting, connections, isClosedInTime, isAlive };
  return { ...stage, cuts: () => cuts, made: () => made };
}

const ALIVE = /alive$/;

test("a connection takes its next request after one whose body was not read to its end", async () => {
  const { whenReceived, dial } = await open();
  const client = await dial(headOf("POST", "/a", { "Content-Length": "4" }));
  const response = await whenReceived(1);
  await client.send("text");
  for await (const _piece of response.req) break;
  // Node.js detaches the socket from a request that is destroyed before its end.
  expect(response.req.socket).toBeNull();
  response.end("answer 1.");
  await client.until(/answer 1\.$/);
  await client.send(headOf("GET", "/b"));
  await whenReceived(2);
});

test("thirty-two requests may wait behind the one in progress; one more closes the connection", async () => {
  const { whenReceived, dial } = await open();
  const patient = await dial(GET.repeat(33));
  for (let count = 1; count <= 33; count++) {
    (await whenReceived(count)).end(`answer ${count}.`);
    await patient.until(new RegExp(`answer ${count}\\.$`));
  }

  const flood = await dial(GET.repeat(34));
  await flood.closed;
  expect(flood.text).toBe("");
});

test("a refused head is answered after the requests before it, nothing behind it is read, and its connection is cut if its client keeps it", async () => {
  const { received, whenReceived, dialLasting, isClosedInTime } = await open();
  const client = dialLasting();
  const { socket } = client;
  const refused = headOf("POST", "/no", { "X-Refused": "1" });
  socket.write(`${headOf("GET", "/a")}${refused}${headOf("GET", "/b")}`);
  const response = await whenReceived(1);
  socket.write(headOf("GET", "/c"));
  expect(client.text).toBe("");
  response.end("answer.");
  await once(socket, "end");
  expect(client.text).toMatch(/answer\.refused$/);
  expect(received).toHaveLength(1);
  await isClosedInTime();
});

test("a request that waits and whose body does not come whole is not begun, and refused after the requests before it", async () => {
  const { received, whenReceived, dialLasting } = await open();
  const client = dialLasting();
  const half = `${headOf("POST", "/half", { "Content-Length": "10" })}half`;
  client.socket.end(`${headOf("GET", "/a")}${headOf("GET", "/b")}${half}`);
  for (const count of [1, 2]) {
    const response = await whenReceived(count);
    // The end of the connection has arrived, too.
    await new Promise(setImmediate);
    response.end(`answer ${count}.`);
  }
  await once(client.socket, "end");
  expect(client.text).toMatch(/answer 1\..*answer 2\.unreadable$/s);
  expect(received).toHaveLength(2);
});

test("a connection whose body could not be read is cut if its client keeps it", async () => {
  const { whenReceived, dialLasting, isClosedInTime } = await open();
  const client = dialLasting();
  const { socket } = client;
  socket.write(headOf("POST", "/body", { "Transfer-Encoding": "chunked" }));
  await whenReceived(1);
  for (const piece of ["zz\r\n", "zz\r\n", "more"]) socket.write(piece);
  await once(socket, "end");
  expect(client.text).toBe("unreadable");
  await isClosedInTime();
});

test("a request waits for its turn, and a probe that comes after it does not", async () => {
  const waiting: (() => void)[] = [];
  class HeldPace extends LoopPace {
    override request(begin: () => void): void {
      waiting.push(begin);
    }
  }
  const { dial, received, whenReceived, isAlive } = await open({ pace: new HeldPace() });
  const slow = await dial(GET);
  for (let probes = 0; probes < 2; probes++) await isAlive();
  expect([received.length, waiting.length]).toEqual([0, 1]);
  waiting[0]!();
  (await whenReceived(1)).end("answer.");
  expect(await slow.until(/answer\.$/)).toMatch(/^HTTP\/1\.1 200/);
});

test("the parser starts no request beyond the limit from the same bytes", async () => {
  const { dial, made } = await open();
  const flood = await dial(GET.repeat(1_000));
  await flood.closed;
  // The request in progress, those that may wait, and the one that is too many.
  expect(made()).toBe(34);
});

const CHUNKED = headOf("POST", "/slow", { "Transfer-Encoding": "chunked" });

test("a chunked body is accepted as the first request of a connection, and behind another request closes it", async () => {
  const { dial, whenReceived } = await open();
  const only = await dial(`${CHUNKED}${oneByteChunks(10)}0\r\n\r\n`);
  (await whenReceived(1)).end("answer.");
  expect(await only.until(/answer\.$/)).toMatch(/^HTTP\/1\.1 200/);

  const second = await dial(`${GET}${CHUNKED}${oneByteChunks(10)}`);
  await second.closed;
  expect(second.text).toBe("");
});

test("a length beside chunks, behind another request, is refused after the answer to it", async () => {
  const { dial, received, whenReceived } = await open();
  for (const lines of [
    "Transfer-Encoding: chunked\r\nContent-Length: 5",
    "Content-Length: 5\r\nTransfer-Encoding: chunked",
    "Transfer-Encoding: chunked, identity",
  ]) {
    received.length = 0;
    const client = await dial(
      `${GET}POST /x HTTP/1.1\r\nHost: a\r\n${lines}\r\n\r\n0\r\n\r\n${headOf("GET", "/smuggled")}`,
    );
    (await whenReceived(1)).end("answer.");
    await client.closed;
    expect(client.text).toMatch(/answer\.unreadable$/);
    expect(received).toHaveLength(1);
  }
});

test("sixteen chunked bodies of an address are received at once; a further one closes its connection, and other requests pass", async () => {
  const { dial, received, whenReceived, isAlive } = await open();
  for (let count = 1; count <= 16; count++) await dial(CHUNKED);
  await whenReceived(16);
  const further = await dial(CHUNKED);
  await further.closed;
  const other = await dial(CHUNKED, "127.0.0.2");
  await whenReceived(17);
  other.destroy();
  await isAlive();

  const isOver = once(received[0]!.response, "close");
  received[0]!.response.end("answer.");
  await isOver;
  await dial(CHUNKED);
  await whenReceived(18);
});

/** The server has read the end of what the client sends. */
const hasClosedItsSide = (response: ServerResponse) => expect.poll(() => response.socket!.readableEnded).toBe(true);

test("a request that is whole before its client closes its side is answered, and then the connection ends", async () => {
  const { dial, whenReceived, connections } = await open();
  const early = await dial(GET);
  const text = early.halfClose();
  const first = await whenReceived(1);
  await hasClosedItsSide(first);
  first.end("answer.");
  expect(await text).toMatch(/^HTTP\/1\.1 200 OK\r\n.*Connection: close\r\n.*answer\.$/s);

  const late = await dial(GET);
  const response = await whenReceived(2);
  response.writeHead(200, { "Content-Length": 7 }).write("ans");
  await late.until(/ans$/);
  const lateText = late.halfClose();
  await hasClosedItsSide(response);
  response.end("wer.");
  expect(await lateText).toMatch(/answer\.$/);
  expect(await connections()).toBe(0);
});

test("requests that wait behind another one are not carried out when their client closes its side", async () => {
  const { dial, received, whenReceived, connections } = await open();
  const client = await dial(GET.repeat(3));
  await whenReceived(1);
  expect(await client.halfClose()).toBe("");
  expect(received).toHaveLength(1);
  expect(await connections()).toBe(0);
});

test("a refused head is answered although its client has closed its side", async () => {
  const { dial, whenReceived } = await open();
  const client = await dial(`${GET}${headOf("POST", "/no", { "X-Refused": "1" })}`);
  const text = client.halfClose();
  const response = await whenReceived(1);
  await hasClosedItsSide(response);
  response.end("answer.");
  expect(await text).toMatch(/answer\.refused$/);
});

test("a client that closes its side and does not read its answer is cut off", async () => {
  const { clock, whenReceived, dialDeaf, cuts, connections } = await open();
  void (await dialDeaf()).halfClose();
  const response = await whenReceived(1);
  await hasClosedItsSide(response);
  response.end(Buffer.alloc(64 * 1_024 * 1_024));
  for (const ms of [5_000, 10_000, 15_000]) await clock.advance(ms);
  expect(cuts()).toBe(1);
  await expect.poll(connections).toBe(0);
});

test("an answer that waits for a run ends when its client closes its side, before or after it began to wait", async () => {
  const { dial, whenReceived, connections } = await open();
  const late = await dial(GET);
  endWithClient(await whenReceived(1));
  expect(await late.halfClose()).toBe("");

  const early = await dial(GET);
  const text = early.halfClose();
  const response = await whenReceived(2);
  await hasClosedItsSide(response);
  endWithClient(response);
  expect(await text).toBe("");
  expect(await connections()).toBe(0);
});

test("an answer that a client does not read for fifteen seconds is cut off; a slowly read answer is not", async () => {
  const { clock, whenReceived, dialDeaf, cuts } = await open();
  await dialDeaf();
  const response = await whenReceived(1);
  response.end(Buffer.alloc(64 * 1_024 * 1_024));
  const closed = once(response, "close");
  await clock.advance(5_000);
  await clock.advance(10_000);
  expect(cuts()).toBe(0);
  await clock.advance(15_000);
  expect(cuts()).toBe(1);
  await closed;
});

test("an address at its limit gets a new connection in place of its longest idle one", async () => {
  const { dial, isAlive } = await open({ maxPerAddress: 3 });
  const halves = [];
  for (let index = 0; index < 3; index++) halves.push(await dial(HALF));
  await isAlive();
  await halves[0]!.closed;
  // The other connections are unaffected.
  await halves[2]!.send(".0.0.1\r\n\r\n");
  expect(await halves[2]!.until(ALIVE)).toMatch(/^HTTP\/1\.1 200/);
});

test("half-sent heads of many addresses leave room for a complete request", async () => {
  const { dial, isAlive } = await open({ max: 4 });
  const halves = [];
  for (let index = 0; index < 4; index++) halves.push(await dial(HALF, `127.0.0.${index + 2}`));
  await isAlive();
  await halves[0]!.closed;
});

test.each([
  ["of the node", { max: 2 }],
  ["of an address", { maxPerAddress: 2 }],
])("while all connections %s are busy, probes are answered and other requests are not", async (_, bounds) => {
  const { whenReceived, dial, received, isAlive } = await open(bounds);
  await dial(GET);
  await dial(GET);
  await whenReceived(2);
  const other = await dial(GET);
  await other.closed;
  expect([other.text, received.length]).toEqual(["", 2]);
  await isAlive();
  // Regardless of the number of silent connections opened in between.
  for (let index = 0; index < 100; index++) await dial();
  await isAlive();
});

test("a closed connection frees its place for one other: at once if it is reset, and else with its answer", async () => {
  const { received, whenReceived, dial } = await open({ maxPerAddress: 1 });
  const leave: ((client: RawSocket) => void)[] = [
    (client) => client.socket.resetAndDestroy(),
    (client) => {
      client.destroy();
      received.at(-1)!.response.end("too late");
    },
  ];
  let client = await dial(GET);
  for (const [index, go] of leave.entries()) {
    const closed = once(await whenReceived(index + 1), "close");
    go(client);
    await closed;
    client = await dial(GET);
  }
  await whenReceived(3);
  const further = await dial(GET);
  await further.closed;
  expect([further.text, received.length]).toEqual(["", 3]);
});

test("a trusted proxy has connections for all its clients", async () => {
  const { whenReceived, dial } = await open({ maxPerAddress: 1, proxies: ["127.0.0.8/30"] });
  for (let index = 0; index < 4; index++) await dial(GET, "127.0.0.9");
  await whenReceived(4);
});
