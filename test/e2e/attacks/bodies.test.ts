import { describe, expect, onTestFinished, test } from "vitest";
import { keyOf, startGuarded } from "../../support/clients/callers.ts";
import { accepted, refused } from "../../support/clients/e2e-client.ts";
import { headOf, oneByteChunks, RawSocket } from "../../support/networks/raw-socket.ts";

const ANN = keyOf("ann");
const { node, ops } = await startGuarded({ settings: { INTERLOCK_PROXIES: "127.0.0.9" } });

const JSON_TYPE = { "Content-Type": "application/json" };
const CHUNKED = { ...JSON_TYPE, "Transfer-Encoding": "chunked" };
const bearer = (key: string) => ({ Authorization: `Bearer ${key}` });

async function open(from = "127.0.0.1"): Promise<RawSocket> {
  const socket = await RawSocket.open(node.url, { from });
  onTestFinished(() => socket.destroy());
  return socket;
}

describe("a request that is refused", () => {
  test.each<[number, string, string, Record<string, string>]>([
    [404, "POST", "/nothing", {}],
    [405, "PUT", "/message", {}],
    [405, "POST", "/agents", {}],
    [401, "POST", "/message", {}],
    [401, "POST", "/message", bearer("made-up")],
    [403, "PUT", "/floor/u%3Aann/flags", bearer(ANN)],
    [404, "PUT", "/floor/u%3Abob/flags", bearer(ANN)],
    [403, "POST", "/message", { Host: "evil.example" }],
    [400, "POST", "/%zz", {}],
  ])("a request is refused with %i (%s %s) before its body has arrived", async (status, method, path, headers) => {
    const client = await open();
    await client.send(`${headOf(method, path, { ...headers, ...CHUNKED })}1\r\n{\r\n`);
    expect(await client.until(/\r\n\r\n/)).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `));
  });

  test("a refused request gets no 100 Continue; an admitted request gets one", async () => {
    const Expect = "100-continue";
    const refusedOne = await open();
    await refusedOne.send(headOf("POST", "/message", { ...JSON_TYPE, Expect, "Content-Length": 2 }));
    expect(await refusedOne.until(/\r\n\r\n/)).toMatch(/^HTTP\/1\.1 401 /);
    const welcome = await open();
    await welcome.send(
      headOf("POST", "/session/create", { ...JSON_TYPE, ...bearer(ANN), Expect, "Content-Length": 2 }),
    );
    expect(await welcome.until(/\r\n\r\n/)).toMatch(/^HTTP\/1\.1 100 Continue\r\n\r\n$/);
    await welcome.send("{}");
    expect(await welcome.until(/"success"/)).toContain("HTTP/1.1 200 OK");
  });

  test("a refused request leaves the connection to the next one once its body has arrived", async () => {
    const client = await open();
    const body = "x".repeat(100_000);
    await client.send(headOf("POST", "/nothing", { ...JSON_TYPE, "Content-Length": body.length }));
    await client.until(/"not_found"/);
    await client.send(`${body}${headOf("GET", "/health")}`);
    expect(await client.until(/"status":"ok"/)).toMatch(/HTTP\/1\.1 200 OK/);
  });

  test("a refused request is cut off when its body exceeds the size limit", async () => {
    const client = await open();
    await client.send(headOf("POST", "/nothing", CHUNKED));
    while (!client.socket.destroyed) await client.send(oneByteChunks(10_000));
    expect(client.text).toMatch(/^HTTP\/1\.1 404 /);
  });
});

describe("a body", () => {
  const write = headOf("POST", "/session/create", { ...CHUNKED, ...bearer(ANN) });

  test("a body in pieces of any size is put together", async () => {
    const client = await open();
    const chunks = [...'{"title":"naïve 車"}'].map((unit) => `${Buffer.byteLength(unit).toString(16)}\r\n${unit}\r\n`);
    await client.send(write);
    for (const chunk of chunks) await client.send(chunk);
    await client.send("0\r\n\r\n");
    const answer = Buffer.from(await client.until(/"success".*\}/s), "latin1").toString();
    expect(answer).toContain('"title":"naïve 車"');
  });

  test("a body in more pieces than its size needs is 413", async () => {
    const client = await open();
    await client.send(write);
    await client.send(oneByteChunks(40_000));
    expect(await client.until(/\r\n\r\n/)).toMatch(/^HTTP\/1\.1 413 /);
    await client.closed;
  });

  test.each<[string, unknown]>([
    ["flags", Object.fromEntries(Array.from({ length: 60_000 }, (_, index) => [`flag ${index}`, 1]))],
    ["nested arrays", Array.from({ length: 300 }, () => [[[[]]]])],
  ])("a body with more values than the limit is 413 before they are validated: %s", async (_, flags) => {
    const { errorCode, error, issues } = await refused(ops.ask("PUT", "/floor/u%3Aann/flags", flags));
    expect([errorCode, error, issues]).toEqual(["too_large", "The body has more than 1024 values.", undefined]);
  });

  test("a body with many faults gets twenty of them in its answer", async () => {
    const flags = Object.fromEntries(Array.from({ length: 500 }, (_, index) => [`f${index}`, "yes"]));
    expect((await refused(ops.ask("PUT", "/floor/u%3Aann/flags", flags))).issues).toHaveLength(20);
  });
});

describe("bodies that are sent slowly", () => {
  const SIZE = 2 * 1_024 * 1_024;
  const head = headOf("POST", "/message", { ...JSON_TYPE, ...bearer(ANN), "Content-Length": SIZE });
  /** A body without its last byte. */
  const hold = async (from: string, headers = "") => {
    const client = await open(from);
    await client.send(head.replace("\r\n\r\n", `\r\n${headers}\r\n`));
    await client.send(Buffer.alloc(SIZE - 1, 32));
    return client;
  };
  /** The answer to a whole body. */
  const offer = async (from: string, headers?: string) => {
    const client = await hold(from, headers);
    await client.send("}");
    return client.until(/"traceId"/);
  };
  /** Send another incomplete body after each that is not refused: the node ends those that are held for too long. */
  const whenRefused = async (from: string, held: RawSocket[], headers?: string) => {
    for (;;) {
      const answer = await offer(from, headers);
      if (answer.includes('"busy"')) return answer;
      held.push(await hold(from, headers));
    }
  };
  /** Enough to fill the memory that one address, or all of them, may make the node hold. */
  const fill = (from: string, count: number, headers?: string) =>
    Promise.all(Array.from({ length: count }, () => hold(from, headers)));

  test("slow bodies of one address leave room for its commands, and for large bodies of other addresses", async () => {
    const held = await fill("127.0.0.2", 17);
    expect(await whenRefused("127.0.0.2", held)).toContain('"retryable":true');
    const small = await open("127.0.0.2");
    await small.send(`${headOf("POST", "/session/create", { ...JSON_TYPE, ...bearer(ANN), "Content-Length": 2 })}{}`);
    expect(await small.until(/"success"/)).toMatch(/^HTTP\/1\.1 200 /);
    expect(await offer("127.0.0.3")).toMatch(/"bad_request"/);
    for (const each of held) each.destroy();
    // The node learns of the closed connections later.
    while (/"busy"/.test(await offer("127.0.0.2")));
  });

  test("slow bodies of many addresses behind a proxy are limited for the node", async () => {
    const held: RawSocket[] = [];
    for (let address = 1; address <= 5; address++) {
      held.push(...(await fill("127.0.0.9", 15, `X-Forwarded-For: 198.51.100.${address}\r\n`)));
    }
    await whenRefused("127.0.0.9", held, "X-Forwarded-For: 198.51.100.77\r\n");
    await accepted(ops.post("/session/create", { title: "small" }));
    for (const each of held) each.destroy();
  });
});
