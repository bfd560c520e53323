import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { BOUNDS } from "../../../src/config/bounds.ts";
import { peerKeyOf, readUnanswered, type Unanswered } from "../../../src/gateway/streams/silent-peers.ts";
import { EventStream } from "../../support/clients/event-stream.ts";
import { FloorFeed } from "../../support/floors/floor-feed.ts";
import { UnreliableBus } from "../../support/networks/unreliable-bus.ts";
import { openGateway } from "../../support/nodes/gateway-stage.ts";
import { turn, VirtualClock } from "../../support/runner/virtual-clock.ts";
import { listen } from "../../support/servers/listen.ts";
import { MemoryStore } from "../../support/stores/memory-store.ts";

const PATHS = ["/session/a/events", "/floor/u%3Aann/events", "/floors/events", "/events"];

async function place() {
  const store = new MemoryStore();
  const bus = new UnreliableBus();
  const clock = new VirtualClock();
  /** The bytes that each socket's peer has acknowledged, while the kernel sends the rest again. */
  const acknowledged = new Map<Socket, number>();
  const unanswered = async (): Promise<Unanswered> =>
    new Map([...acknowledged].map(([socket, bytes]) => [peerKeyOf(socket), socket.bytesWritten - bytes]));
  const { gateway, url, cuts } = await openGateway({ store, bus, clock, unanswered });
  const sockets: Socket[] = [];
  gateway.app.server.on("connection", (socket: Socket) => sockets.push(socket));
  await new FloorFeed(store, bus).create("a");
  const open = async (path: string) => {
    const stream = await EventStream.during(url + path);
    await stream.until(({ retries }) => retries.length > 0);
    return { stream, socket: sockets.at(-1)! };
  };
  return { clock, cuts, gateway, open, acknowledged };
}

test.each(PATHS)("a stream of %s whose reader vanished is ended within a minute, and others are not", async (path) => {
  const { clock, cuts, gateway, open, acknowledged } = await place();
  const gone = await open(path);
  const slow = await open(path);
  const here = await open(path);
  const silent = once(gone.socket, "close");
  acknowledged.set(gone.socket, 10);
  for (let ms = 0; ms < 60_000; ms += BOUNDS.silentLookMs) {
    // A phone on a bad line acknowledges something now and then.
    acknowledged.set(slow.socket, Math.floor(ms / 20_000));
    await clock.advance(BOUNDS.silentLookMs);
    await turn();
  }
  await silent;
  expect([gateway.streams.count, cuts()]).toEqual([2, 1]);
  expect([slow.stream.ending, here.stream.ending]).toEqual([undefined, undefined]);
});

test("the kernel's tables do not name a reader that is there and does not read", async () => {
  const server = createServer();
  const client = connect(await listen(server), "127.0.0.1");
  const [socket] = (await once(server, "connection")) as [Socket];
  onTestFinished(() => {
    client.destroy();
    socket.destroy();
  });
  client.pause();
  for (let bytes = 0; bytes < 16_777_216; bytes += 65_536) socket.write(Buffer.alloc(65_536));
  while (socket.writableLength === 0) await turn();
  expect(await readUnanswered()).not.toContain(peerKeyOf(socket));
});
