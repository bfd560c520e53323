import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { connect, type Socket } from "node:net";
import { text as textOf } from "node:stream/consumers";
import { expect, onTestFinished, test } from "vitest";
import {
  allowHalfOpen,
  handleHeads,
  keepOpenBehind,
  NO_HTTP,
  newestRequest,
  replaceSentHead,
  sentHeadOf,
} from "../../../src/gateway/http/node-internals.ts";
import { listen } from "../../support/servers/listen.ts";

const GET = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

/** A server and a connection to it. */
async function connected(server: Server): Promise<Socket> {
  const client = connect(await listen(server), "127.0.0.1");
  onTestFinished(() => void client.destroy());
  client.setEncoding("utf8");
  return client;
}

test.each([true, false])("a client that closes its side behind a request is answered: %s", async (isAllowed) => {
  const server = createServer((request, response) => {
    request.socket.once("end", () => setImmediate(() => response.end("late")));
    request.resume();
  });
  if (isAllowed) allowHalfOpen(server);
  const client = await connected(server);
  client.end(GET);
  const text = await textOf(client);
  expect(text.includes("late")).toBe(isAllowed);
});

test("the head of a request is handled before its request event, and the parser is stopped or goes on", async () => {
  const urls: (string | undefined)[] = [];
  const made: (string | undefined)[] = [];
  const server = createServer((request, response) => {
    made.push(request.url);
    response.end();
  });
  server.on("connection", (socket) => {
    const makeRequest = handleHeads(socket, (request, keepsAlive) => {
      urls.push(request.url);
      if (request.url === "/") return makeRequest!(request, keepsAlive);
      socket.end("refused");
      return NO_HTTP;
    });
  });
  const client = await connected(server);
  client.write(`${GET}${GET.replace("/", "/stop")}${GET.replace("/", "/behind")}`);
  expect(await textOf(client)).toMatch(/^HTTP\/1\.1 200 OK.*refused$/s);
  expect([urls, made]).toEqual([["/", "/stop"], ["/"]]);
});

test("the newest request of a socket says whether all of it has been read", async () => {
  const server = createServer();
  const client = await connected(server);
  client.write("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nab");
  const [request] = (await once(server, "request")) as [IncomingMessage, ServerResponse];
  const isWhole = () => newestRequest(request.socket) === request && request.complete;
  expect([newestRequest(request.socket) === request, isWhole()]).toEqual([true, false]);
  client.write("cd");
  request.resume();
  await once(request, "end");
  expect(isWhole()).toBe(true);
});

test.each([true, false])("more can be sent behind an answer with Connection: close: %s", async (isKept) => {
  const server = createServer((_, response) => {
    const socket = response.socket!;
    response.setHeader("Connection", "close");
    response.once("prefinish", () => isKept && keepOpenBehind(response));
    response.end("answer", () => {
      if (isKept) socket.end(" and more");
    });
  });
  const client = await connected(server);
  client.write(GET);
  expect((await textOf(client)).endsWith(isKept ? "answer and more" : "answer")).toBe(true);
});

test("the text of a sent head is kept, and another text in its place says as well that the head was sent", async () => {
  const server = createServer();
  const client = await connected(server);
  client.write(GET);
  const [, response] = (await once(server, "request")) as [IncomingMessage, ServerResponse];
  expect([sentHeadOf(response), response.headersSent]).toEqual([null, false]);
  response.flushHeaders();
  expect(sentHeadOf(response)).toMatch(/^HTTP\/1\.1 200 OK\r\n/);
  replaceSentHead(response, "sent");
  expect([sentHeadOf(response), response.headersSent]).toEqual(["sent", true]);
  response.end("text");
  await once(client, "data");
});
