import { once } from "node:events";
import { createServer, type Server, type ServerResponse } from "node:http";
import { createConnection } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { BOUNDS } from "../../../src/config/bounds.ts";
import { SseWriter } from "../../../src/gateway/streams/sse-writer.ts";
import { EventStream } from "../../support/clients/event-stream.ts";
import { turn } from "../../support/runner/virtual-clock.ts";
import { listen } from "../../support/servers/listen.ts";
import { NOON } from "../../support/stores/floor-writer.ts";

/** More than the kernel buffers between two sockets of one machine. */
const MANY_BYTES = 64 * 1_048_576;

async function answer(server: Server): Promise<{ response: ServerResponse; writer: SseWriter }> {
  const [, response] = (await once(server, "request")) as [unknown, ServerResponse];
  return { response, writer: new SseWriter(response, {}, NOON) };
}

/** A client and the writer that it reads from, over a real connection. */
async function connect(): Promise<{ client: EventStream; response: ServerResponse; writer: SseWriter }> {
  const server = createServer();
  const port = await listen(server);
  const client = EventStream.begin(`http://127.0.0.1:${port}/`);
  onTestFinished(() => client.cut());
  const { response, writer } = await answer(server);
  await client.until(({ retries }) => retries.length > 0);
  return { client, response, writer };
}

/** The same, with a client that has stopped reading; the kernel's buffers are full. */
async function connectStalled() {
  const connected = await connect();
  connected.client.stall();
  await fill(connected.writer);
  return connected;
}

/** Let the client read until the writer can send again. */
async function drain({ client, writer }: { client: EventStream; writer: SseWriter }): Promise<void> {
  const drained = new Promise<void>((resolve) => {
    writer.source = { advance: resolve };
  });
  client.read();
  await drained;
}

const master = { kind: "master", name: "general", depth: 0, path: ["general"] };
const frame = (text: string) => `data: ${JSON.stringify(eventOf(text))}\n\n`;
const eventOf = (text: string) => ({
  type: "delta",
  data: {
    messageId: "m",
    runId: "r",
    attempt: 1,
    kind: "text",
    offset: 0,
    text,
    agent: master,
  },
  timestamp: new Date(NOON).toISOString(),
});

/** Write until the kernel's buffers are full and the reader is behind. */
async function fill(writer: SseWriter): Promise<void> {
  const piece = frame("x".repeat(60_000));
  for (let bytes = 0; bytes < MANY_BYTES; bytes += piece.length) {
    writer.write(piece);
    for (let turns = 0; writer.isFull; turns++) {
      if (turns === 20) return;
      await turn();
    }
  }
  throw new Error("the kernel takes everything");
}

test("an event stream has no framing around its events: it ends with its connection", async () => {
  const { client } = await connect();
  expect(client.headers["connection"]).toBe("close");
  expect(client.headers).not.toHaveProperty("transfer-encoding");
  expect(client.headers).not.toHaveProperty("content-length");
});

test("a reader is cut off at once, and its pending bytes are dropped", async () => {
  const { client, writer } = await connectStalled();
  writer.destroy();
  client.read();
  expect(await client.over()).toBe("cut");
  expect(writer.write(frame("late"))).toBe("closed");
});

test("a write to an event stream returns ok, full or closed", async () => {
  const { client, response, writer } = await connect();
  expect(writer.write(frame("a"))).toBe("ok");
  client.stall();
  await fill(writer);
  expect([writer.isFull, writer.write(frame("b"))]).toEqual([true, "full"]);
  const closed = once(response, "close");
  client.cut();
  await closed;
  expect([writer.isClosed, writer.write(frame("c"))]).toEqual([true, "closed"]);
});

test("a reader that is just closing its connection can be cut off", async () => {
  const server = createServer();
  const port = await listen(server);
  const client = createConnection({ port, host: "127.0.0.1", allowHalfOpen: true });
  onTestFinished(() => void client.destroy());
  client.write("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  const { response, writer } = await answer(server);
  await once(client, "data");
  const socket = response.socket!;
  const closed = once(socket, "close");
  socket.once("end", () => writer.destroy());
  client.end();
  await closed;
  expect(writer.write(frame("late"))).toBe("closed");
});

test("an event stream reports that a slow reader has caught up, and the reader then has everything", async () => {
  const { client, writer } = await connectStalled();
  writer.write(frame("the last"));
  await drain({ client, writer });
  expect(writer.isFull).toBe(false);
  await client.next("delta", ({ data }) => data.text === "the last");
  expect(writer.write(frame("more"))).toBe("ok");
});

test("an event stream sends one farewell, and writes nothing after it", async () => {
  const { client, writer } = await connect();
  writer.endEarly("draining", NOON, 1_234);
  expect(writer.write(frame("late"))).toBe("closed");
  expect(await client.over()).toBe("clean");
  expect(client.retries).toEqual([BOUNDS.retryMs, 1_234]);
  expect(client.events).toMatchObject([{ type: "bye", data: { reason: "draining", reconnectInMs: 1_234 } }]);
});

test("a silent event stream is kept open with a comment", async () => {
  const { client, writer } = await connect();
  for (const ms of [-1, 0, 1_000]) writer.heartbeat(NOON + BOUNDS.heartbeatMs + ms);
  writer.endEarly("ended", NOON);
  await client.over();
  expect(client.comments).toBe(1);
});

test("a reader that has not drained its socket for too long is cut off, but not one with an empty buffer", async () => {
  const { client, writer } = await connect();
  const later = NOON + 10 * BOUNDS.stallMs;
  writer.heartbeat(later);
  client.stall();
  await fill(writer);
  writer.heartbeat(later + 1_000);
  writer.heartbeat(later + 1_000 + BOUNDS.stallMs - 1);
  expect(writer.isCut).toBe(false);
  writer.heartbeat(later + 1_000 + BOUNDS.stallMs);
  expect(writer.isCut).toBe(true);
});

test("text that waits for a stalled reader counts in bytes, and is not taken for text that the reader drained", async () => {
  const { response, writer } = await connectStalled();
  writer.heartbeat(NOON + 1_000);
  const { writableLength } = response.socket!;
  const text = frame("你".repeat(100));
  writer.write(text);
  expect(response.socket!.writableLength - writableLength).toBe(Buffer.byteLength(text));
  writer.heartbeat(NOON + 1_000 + BOUNDS.stallMs);
  expect(writer.isCut).toBe(true);
});

test("a reader that drains its socket now and then is not cut off", async () => {
  const { client, writer } = await connectStalled();
  for (let seconds = 10; seconds < 60; seconds += 10) {
    writer.heartbeat(NOON + seconds * 1_000);
    expect(writer.isCut).toBe(false);
    await drain({ client, writer });
    client.stall();
    await fill(writer);
  }
});

test("the stream of a client that disconnected before it was opened is closed from the beginning", async () => {
  const server = createServer();
  const port = await listen(server);
  const client = EventStream.begin(`http://127.0.0.1:${port}/`);
  const [, response] = (await once(server, "request")) as [unknown, ServerResponse];
  const gone = once(response, "close");
  client.cut();
  await gone;
  const writer = new SseWriter(response, {}, NOON);
  expect([writer.isClosed, writer.write(frame("a"))]).toEqual([true, "closed"]);
});
