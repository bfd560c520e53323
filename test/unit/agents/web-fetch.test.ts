import { type AddressInfo, createServer as createTcpServer } from "node:net";
import { describe, expect, onTestFinished, test } from "vitest";
import { textOfPage } from "../../../src/agents/tools/page-text.ts";
import { createWebFetchTool, type WebFetchOptions } from "../../../src/agents/tools/web-fetch.ts";
import { createAddressCheck } from "../../../src/system/public-address.ts";
import { createRunStage, turnOf } from "../../support/agents/run-stage.ts";
import { type Answer, SmallServer } from "../../support/servers/small-server.ts";

/** A site on this machine, and the requests that it gets. */
async function serve(answer: Answer) {
  const server = await SmallServer.start(answer);
  onTestFinished(() => server[Symbol.asyncDispose]());
  return { port: new URL(server.url).port, heard: server.heard };
}
const saysX: Answer = (response) => response.end("x");

type Lookup = NonNullable<WebFetchOptions["lookup"]>;
/** A resolver that knows only these names. */
const resolving = (names: Record<string, string[]>) =>
  ((host: string, _: unknown, answer: (error: Error | null, found: object[]) => void) => {
    const found = (names[host] ?? []).map((address) => ({ address, family: address.includes(":") ? 6 : 4 }));
    if (found.length > 0) answer(null, found);
    else answer(Object.assign(new Error("unknown"), { code: "ENOTFOUND" }), []);
  }) as unknown as Lookup;

async function read(url: string, options: Partial<WebFetchOptions>) {
  const tool = createWebFetchTool({ hosts: ["*"], timeoutMs: 1_000, ...options });
  const { control } = createRunStage();
  return await tool.run({ url }, { toolCallId: "c", turn: turnOf("x"), control, emit: async () => {} });
}

const LOOPBACK = { networks: ["127.0.0.0/8"] };
/** Reads a page of a site on this machine. */
const readAt = (port: string | number, path = "/", options: Partial<WebFetchOptions> = {}) =>
  read(`http://127.0.0.1:${port}${path}`, { ...LOOPBACK, hosts: [`127.0.0.1:${port}`], ...options });

describe("web-fetch", () => {
  test("web-fetch reads a page of a listed host as text", async () => {
    const { port } = await serve((response) => {
      response.setHeader("content-type", "text/html; charset=utf-8");
      response.end("<head><title>no</title></head><p>Hello &amp; <b>welcome</b></p><script>bad()</script><p>你好");
    });
    const lookup = resolving({ "page.test": ["127.0.0.1"] });
    const outcome = await read(`http://page.test:${port}/`, { ...LOOPBACK, lookup, hosts: [`page.test:${port}`] });
    expect(outcome).toEqual({ content: "Hello & welcome\n你好", isError: false });
  });

  test("web-fetch requests no host and no port that is not listed", async () => {
    const { port, heard } = await serve(saysX);
    for (const hosts of [["127.0.0.1"], ["example.com"], [`*.0.0.1:${Number(port) + 1}`]]) {
      expect(await readAt(port, "/", { hosts })).toMatchObject({ isError: true });
    }
    expect(heard).toEqual([]);
  });

  test.each([
    ["an address", "http://127.0.0.1:PORT/"],
    ["an address in another notation", "http://2130706433:PORT/"],
    ["an IPv6 address that holds it", "http://[::ffff:127.0.0.1]:PORT/"],
    ["a name that resolves to it", "http://inside.test:PORT/"],
    ["a name of which one address is it", "http://both.test:PORT/"],
  ])("web-fetch does not reach a loopback address by %s", async (_, url) => {
    const { port, heard } = await serve(saysX);
    const lookup = resolving({ "inside.test": ["127.0.0.1"], "both.test": ["93.184.215.14", "127.0.0.1"] });
    const outcome = await read(url.replace("PORT", port), { lookup, hosts: [`*:${port}`] });
    expect(outcome).toEqual({ content: expect.stringContaining("is not a public address"), isError: true });
    expect(heard).toEqual([]);
  });

  test("each redirect is checked again: its host, and the address it resolves to", async () => {
    const { port: inner, heard } = await serve(saysX);
    const { port: outer } = await serve((response, { url }) => {
      const location = url === "/host" ? "http://evil.test/" : `http://inside.test:${inner}/`;
      response.writeHead(302, { location }).end();
    });
    const options = {
      lookup: resolving({ "page.test": ["127.0.0.1"], "inside.test": ["127.0.0.3"] }),
      networks: ["127.0.0.1"],
      hosts: [`page.test:${outer}`, `inside.test:${inner}`],
    };
    expect((await read(`http://page.test:${outer}/host`, options)).content).toContain("evil.test is not on the list");
    expect((await read(`http://page.test:${outer}/address`, options)).content).toContain("inside.test is not a public");
    expect(heard).toEqual([]);
  });

  test("web-fetch stops after five redirects, and at content that is not text", async () => {
    const { port } = await serve((response, { url }) => {
      if (url === "/image") response.writeHead(200, { "content-type": "image/png" }).end("x");
      else response.writeHead(302, { location: "/again" }).end();
    });
    expect((await readAt(port)).content).toContain("More than 5 redirects");
    expect((await readAt(port, "/image")).content).toContain("image/png");
  });

  test("web-fetch reads an endless page only up to its limit, and closes the connection", async () => {
    const { promise: closed, resolve } = Promise.withResolvers<void>();
    const { port } = await serve((response) => {
      response.once("close", resolve);
      response.setHeader("content-type", "text/plain");
      const more = () => {
        while (!response.destroyed && response.write("y".repeat(65_536)));
      };
      response.on("drain", more);
      more();
    });
    const { content } = await readAt(port, "/", { maxBytes: 2_048 });
    expect(content).toBe(`${"y".repeat(2_048)}\n[cut after 2048 bytes]`);
    await closed;
  });

  test("web-fetch closes the connection when its run is aborted", async () => {
    const stopping = new AbortController();
    const { promise: closed, resolve } = Promise.withResolvers<void>();
    const { port } = await serve((response) => {
      response.once("close", resolve);
      stopping.abort();
    });
    const tool = createWebFetchTool({ ...LOOPBACK, hosts: [`127.0.0.1:${port}`], timeoutMs: 60_000 });
    const control = { ...createRunStage().control, signal: stopping.signal };
    const call = { toolCallId: "c", turn: turnOf("x"), control, emit: async () => {} };
    await expect(tool.run({ url: `http://127.0.0.1:${port}/` }, call)).rejects.toThrow(/abort/);
    await closed;
  });

  const UPGRADE = "Upgrade: websocket\r\nConnection: Upgrade\r\n";
  test.each([UPGRADE, ""])("web-fetch ends on a switch of the protocol, with the headers %j", async (headers) => {
    const server = createTcpServer((socket) => {
      socket.on("error", () => {});
      socket.once("data", () => socket.write(`HTTP/1.1 101 Switching Protocols\r\n${headers}\r\n`));
    });
    onTestFinished(() => void server.close());
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as AddressInfo;
    expect(await readAt(port)).toEqual({
      content: "The page answers with another protocol (status 101).",
      isError: true,
    });
  });

  test("web-fetch reports the status of a page that fails", async () => {
    const { port } = await serve((response) => response.writeHead(404, { "content-type": "text/plain" }).end("gone"));
    expect(await readAt(port)).toEqual({ content: "Status 404\ngone", isError: true });
  });

  test.each(["file:///etc/passwd", "not an address", "ftp://example.com/"])("web-fetch refuses %s", async (url) => {
    expect(await read(url, {})).toMatchObject({ isError: true });
  });
});

test.each([
  ["8.8.8.8", true],
  ["10.1.2.3", false],
  ["169.254.169.254", false],
  ["100.64.0.1", false],
  ["0.0.0.0", false],
  ["::1", false],
  ["fe80::1%eth0", false],
  ["fd00::1", false],
  ["::ffff:10.0.0.1", false],
  ["64:ff9b::a00:1", false],
  ["2002:a00:1::", false],
  ["::8.8.8.8", false],
  ["4000::1", false],
  ["010.8.8.8", false],
  ["127.1", false],
  ["2606:4700::1111", true],
  ["nonsense", false],
])("the address check says whether %s is public: %s", (address, isPublic) => {
  expect(createAddressCheck([])(address)).toBe(isPublic);
});

test.each([
  ["10.0.0.0/8", "10.1.2.3", true],
  ["10.1.2.3", "10.1.2.4", false],
  ["10.0.0.0/8", "::ffff:10.1.2.3", true],
  ["::ffff:10.0.0.0/104", "10.1.2.3", true],
  ["fe80::/10", "fe80::1%eth0", true],
  ["::1", "127.0.0.1", false],
])("with the network %s listed, the address check says whether %s may be reached: %s", (network, address, may) => {
  expect(createAddressCheck([network])(address)).toBe(may);
});

test("extracting the text of any page takes time in proportion to its length", () => {
  const nasty = "<".repeat(100_000) + "<!--".repeat(50_000) + "<script".repeat(50_000) + "&#".repeat(50_000);
  expect(textOfPage(nasty).length).toBeLessThan(nasty.length);
});
