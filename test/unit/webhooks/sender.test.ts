import type { LookupAddress } from "node:dns";
import { once } from "node:events";
import { createServer, type Server } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import type { Webhook } from "../../../src/config/webhooks-file.ts";
import type { NoticeType } from "../../../src/protocol/notice.ts";
import { Sender, type SenderOptions } from "../../../src/webhooks/sender.ts";
import { RealClock } from "../../support/catalogs/watched-file.ts";
import { VirtualClock } from "../../support/runner/virtual-clock.ts";
import { accept, SECRET, verified } from "../../support/servers/hook-receiver.ts";
import { listen } from "../../support/servers/listen.ts";
import { type Answer, SmallServer } from "../../support/servers/small-server.ts";

const KEY = Buffer.from(SECRET.slice("whsec_".length), "base64");
const OTHER_KEY = Buffer.alloc(24, 9);
const MESSAGE = { id: "msg_1", payload: '{"type":"test","text":"é"}' };
const running = new AbortController().signal;

function senderTo(url: string, hook: Partial<Webhook> = {}, options: Partial<SenderOptions> = {}): Sender {
  const plain = { name: "h", url: new URL(url), keys: [KEY], types: new Set<NoticeType>() };
  const whole: Webhook = {
    ...{ ...plain, agents: undefined, users: undefined, mayBePrivate: true, timeoutMs: 10_000, ...hook },
  };
  const sender = new Sender(whole, { clock: new RealClock(), wallNow: () => Date.now(), ...options });
  onTestFinished(() => sender.close());
  return sender;
}

async function receiver(...answers: Answer[]): Promise<SmallServer> {
  const server = await SmallServer.start(...answers);
  onTestFinished(() => server[Symbol.asyncDispose]());
  return server;
}

test("a message is signed as Standard Webhooks says, by each key, and the connection is used again", async () => {
  const server = await receiver(accept);
  const sender = senderTo(`${server.url}/in?a=b`, { keys: [OTHER_KEY, KEY] });
  for (const id of ["msg_1", "msg_2"]) {
    expect(await sender.send({ ...MESSAGE, id }, running)).toEqual({ isAccepted: true, status: 204 });
  }
  const [first, second] = server.heard;
  expect(first).toMatchObject({ method: "POST", url: "/in?a=b", body: MESSAGE.payload });
  expect(first!.headers).toMatchObject({ "content-type": "application/json", "webhook-id": "msg_1" });
  for (const secret of [SECRET, `whsec_${OTHER_KEY.toString("base64")}`]) {
    expect(verified(first!, secret)).toMatchObject({ id: "msg_1", type: "test" });
  }
  expect(() => verified({ ...first!, body: first!.body.replace("é", "e") })).toThrow();
  expect(second!.headers["webhook-id"]).toBe("msg_2");
});

test("any other status is no acceptance, and a redirect is not followed", async () => {
  const elsewhere = await receiver(accept);
  const status =
    (code: number, headers = {}): Answer =>
    (response) =>
      void response.writeHead(code, headers).end();
  const server = await receiver(
    status(302, { location: elsewhere.url }),
    status(307, { location: elsewhere.url }),
    status(500),
    status(429, { "retry-after": "30" }),
    status(410),
  );
  const sender = senderTo(server.url);
  const results = [];
  for (let n = 0; n < 5; n++) results.push(await sender.send(MESSAGE, running));
  expect(results).toMatchObject([
    { isAccepted: false, status: 302, reason: "status 302, a redirect, which is not followed" },
    { isAccepted: false, status: 307 },
    { isAccepted: false, status: 500, reason: "status 500", retryAfterMs: undefined },
    { isAccepted: false, status: 429, retryAfterMs: 30_000 },
    { isAccepted: false, status: 410 },
  ]);
  expect(elsewhere.heard).toEqual([]);
});

test("an answer of 10 MB, and one that never ends, count at their status and are cut off", async () => {
  let written = 0;
  const flood: Answer = async (response) => {
    response.writeHead(200);
    for (; written < 160 && !response.destroyed; written++) {
      await new Promise((resolve) => response.write(Buffer.alloc(65_536), resolve));
    }
    response.end();
  };
  const closed: Promise<unknown>[] = [];
  const drip: Answer = (response) => {
    closed.push(once(response, "close"));
    response.writeHead(200);
    response.write("…");
  };
  const server = await receiver(flood, drip);
  const clock = new VirtualClock();
  const sender = senderTo(server.url, {}, { clock });
  expect(await sender.send(MESSAGE, running)).toEqual({ isAccepted: true, status: 200 });
  expect(await sender.send(MESSAGE, running)).toEqual({ isAccepted: true, status: 200 });
  await clock.advance(1_000);
  await Promise.all(closed);
  // What was written before the connection broke is what the kernel's buffers take.
  expect(written).toBeLessThan(160);
});

test("no answer, a cut connection and another protocol are told apart", async () => {
  const silent = await receiver(() => {});
  const clock = new VirtualClock();
  const waiting = senderTo(silent.url, {}, { clock }).send(MESSAGE, running);
  await silent.whenReceived(1);
  await clock.advance(10_000);
  expect(await waiting).toEqual({ isAccepted: false, reason: "no answer within 10 s" });
  const cutting = await receiver((response) => response.destroy());
  expect(await senderTo(cutting.url).send(MESSAGE, running)).toEqual({ isAccepted: false, reason: "ECONNRESET" });
  const switching = await receiver((response) => {
    response.socket!.end("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n");
  });
  const switched = await senderTo(switching.url).send(MESSAGE, running);
  expect(switched).toEqual({ isAccepted: false, reason: "the receiver answers with another protocol" });
  const stopping = new AbortController();
  const stopped = senderTo(silent.url).send(MESSAGE, stopping.signal);
  await silent.whenReceived(2);
  stopping.abort();
  expect(await stopped).toMatchObject({ isAccepted: false });
});

test("a connection that the receiver closed while it was unused is no failure", async () => {
  const closing = new Set<() => void>();
  const server: Server = createServer((socket) => {
    socket.once("data", () => {
      socket.write("HTTP/1.1 204 No Content\r\nConnection: keep-alive\r\n\r\n");
      // Whatever comes next on this connection finds it reset.
      socket.once("data", () => socket.resetAndDestroy());
    });
    closing.add(() => socket.destroy());
  });
  const sender = senderTo(`http://127.0.0.1:${await listen(server)}`);
  onTestFinished(() => {
    for (const close of closing) close();
  });
  for (let n = 0; n < 3; n++) {
    expect(await sender.send(MESSAGE, running)).toEqual({ isAccepted: true, status: 204 });
  }
});

test("private addresses are refused: as an address, as a name, and of a name that resolved to a public one before", async () => {
  const server = await receiver(accept);
  const { port } = new URL(server.url);
  const send = (url: string, addresses: LookupAddress[][]) => {
    const lookup = ((_: string, __: object, done: (error: null, found: LookupAddress[]) => void) => {
      done(null, addresses.shift()!);
    }) as unknown as SenderOptions["lookup"] & object;
    return senderTo(url, { mayBePrivate: false, timeoutMs: 1_000 }, { lookup });
  };
  for (const host of ["127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "169.254.169.254", "0x7f.1", "2130706433"]) {
    const result = await send(`http://${host}:${port}`, []).send(MESSAGE, running);
    expect(result, host).toMatchObject({ isAccepted: false, reason: expect.stringMatching(/is not a public address/) });
  }
  const own = [{ address: "127.0.0.1", family: 4 }];
  // Nothing answers there, and nothing is sent: the name has another address at the next attempt.
  const open = [{ address: "2001:db8::1", family: 6 }];
  const rebound = send(`http://rebind.example:${port}`, [own, [...own, ...open], own]);
  for (let n = 0; n < 3; n++) {
    expect(await rebound.send(MESSAGE, running)).toEqual({
      isAccepted: false,
      reason: "rebind.example is not a public address, and private_addresses is not set",
    });
  }
  expect(server.heard).toEqual([]);
});
