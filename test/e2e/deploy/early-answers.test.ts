import { beforeAll, expect, onTestFinished, test } from "vitest";
import { keyOf, startGuarded } from "../../support/clients/callers.ts";
import { accepted } from "../../support/clients/e2e-client.ts";
import type { OpenApiDocument } from "../../support/documents/openapi-document.ts";
import { headOf, RawSocket } from "../../support/networks/raw-socket.ts";
import { describeWithNginx } from "../../support/servers/nginx.ts";

const { node, ann, bob } = await startGuarded({ settings: { INTERLOCK_PROXIES: "127.0.0.1" } });

/** More than the system and the node take without reading, and less than the largest request. */
const SMALL = 400_000;
/** More than the node reads after its answer. */
const LARGE = 3_000_000;
/** A client of which the node neither reads nor writes anything for so long leaves, and its request is a fault. */
const GIVE_UP_MS = 10_000;
const LINES = "application/x-ndjson";

/** Where a body is refused. */
const PLACES = ["the first byte", "the middle", "the end"] as const;
type Place = (typeof PLACES)[number];

interface Case {
  name: string;
  method: string;
  path: string;
  type: string;
  key: string;
  body: string;
  isChunked: boolean;
}

let requests: Case[] = [];

beforeAll(async () => {
  await accepted(ann.post("/session/create", { id: "of-ann", userId: "ann" }));
  await accepted(bob.post("/session/create", { id: "of-bob", userId: "bob" }));
  const { paths } = (await node.send("GET", "/openapi.json")).body as unknown as OpenApiDocument;
  requests = Object.entries(paths).flatMap(([path, methods]) =>
    Object.keys(methods).flatMap((method) => casesOf(method.toUpperCase(), path)),
  );
});

/** Bodies of a route that are refused for their caller, which is found out before them, or for a fault at one place. */
function casesOf(method: string, route: string): Case[] {
  const path = route.replace(/\{\w+\}/g, "of-ann");
  const isImport = route === "/session/import";
  const type = isImport ? LINES : "application/json";
  const bodies = (isImport ? [SMALL, LARGE] : [SMALL]).flatMap((size) =>
    PLACES.map((place) => ({
      what: `${size} bytes, fault at ${place}`,
      body: (isImport ? linesOf : jsonOf)(size, place),
    })),
  );
  const all = [
    ...bodies.map(({ what, body }) => ({ what, key: keyOf("ann"), body })),
    { what: "of an unknown caller", key: "no-key-of-this-node", body: bodies[0]!.body },
  ];
  return all.flatMap(({ what, key, body }) =>
    [false, true].map((isChunked) => {
      const name = `${method} ${route}: ${what}, ${isChunked ? "in chunks" : "with its length"}`;
      return { name, method, path, type, key, body, isChunked };
    }),
  );
}

function jsonOf(size: number, place: Place): string {
  const half = "a".repeat(size / 2);
  if (place === "the first byte") return `x"${half}${half}"`;
  return place === "the middle" ? `"${half}\n${half}"` : `"${half}${half}"x`;
}

function linesOf(size: number, place: Place): string {
  const fault = "no line of an export\n";
  const count = Math.ceil(size / 1_000);
  const lines = Array.from({ length: count }, (_, n) => {
    const message = { type: "message", id: `m${n}`, role: "user", status: "success", createdAt: 1 };
    return `${JSON.stringify({ ...message, content: "x".repeat(900) })}\n`;
  });
  lines.unshift('{"type":"session","version":1}\n');
  lines.push(`{"type":"end","messages":${count}}\n`);
  lines.splice({ "the first byte": 0, "the middle": lines.length / 2, "the end": lines.length }[place], 0, fault);
  return lines.join("");
}

/** Send a whole request at once, however early it is answered. */
async function send(url: string, { method, path, type, key, body, isChunked }: Case): Promise<RawSocket> {
  const client = await RawSocket.open(url);
  onTestFinished(() => client.destroy());
  client.socket.setTimeout(GIVE_UP_MS, () => client.destroy());
  const length = Buffer.byteLength(body);
  const framing = isChunked ? { "Transfer-Encoding": "chunked" } : { "Content-Length": length };
  const head = headOf(method, path, { "Content-Type": type, Authorization: `Bearer ${key}`, ...framing });
  void client.send(head + (isChunked ? `${length.toString(16)}\r\n${body}\r\n0\r\n\r\n` : body));
  return client;
}

/** Resolves with an answer once it is whole, or with its head if it is an event stream. */
async function answerOf(client: RawSocket): Promise<string> {
  const text = await client.until(/\r\n\r\n/);
  const head = text.slice(0, text.indexOf("\r\n\r\n") + 4);
  if (/^HTTP\/1\.1 204 |text\/event-stream/i.test(head)) return head;
  const length = /^content-length: (\d+)\r$/im.exec(head)?.[1];
  if (length === undefined) return await client.until(/\r\n0\r\n\r\n$/);
  return await client.until(new RegExp(`^[\\s\\S]{${head.length + Number(length)}}`));
}

/** What is wrong with the state in which an answer leaves a direct connection; undefined if nothing is. */
async function faultOf(client: RawSocket): Promise<string | undefined> {
  const answer = await answerOf(client);
  if (/text\/event-stream/i.test(answer)) return;
  if (!/^HTTP\/1\.1 \d{3} /.test(answer)) return `no answer: ${answer.slice(0, 80)}`;
  if (/\r\nconnection: close\r\n/i.test(answer)) return void (await client.closed);
  client.text = "";
  await client.send(headOf("GET", "/health"));
  const next = await client.until(/"status":"ok"/);
  return next.includes('"status":"ok"') ? undefined : `the next request was not answered: ${next.slice(0, 80)}`;
}

test("a body that is refused anywhere leaves its connection to the next request, or the answer says that it closes", async () => {
  const faults: string[] = [];
  for (const request of requests) {
    const client = await send(node.url, request);
    const fault = await faultOf(client);
    if (fault !== undefined) faults.push(`${request.name}: ${fault}`);
    client.destroy();
  }
  expect(faults).toEqual([]);
});

describeWithNginx("nginx with deploy/nginx.conf", (startNginx) => {
  test("a user's refused bodies fail no request of another user of the same proxy", async () => {
    const proxy = await startNginx(Number(new URL(node.url).port));
    const faults: string[] = [];
    for (const request of requests) {
      const client = await send(proxy, request);
      const answer = await answerOf(client);
      if (!/^HTTP\/1\.1 [24]\d\d /.test(answer)) faults.push(`${request.name}: ann got ${answer.slice(0, 80)}`);
      const other = await fetch(`${proxy}/session/of-bob`, {
        headers: { Authorization: `Bearer ${keyOf("bob")}` },
        signal: AbortSignal.timeout(GIVE_UP_MS),
      }).then(({ status }) => status, String);
      if (other !== 200) faults.push(`${request.name}: bob got ${other}`);
      client.destroy();
    }
    expect(faults).toEqual([]);
  });
});
