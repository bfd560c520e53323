import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, expect, test } from "vitest";
import { closeChromium, describeInChromium } from "../../support/chromium.ts";
import { bundleForBrowsers } from "../../support/client-bundle.ts";
import { describeInFirefox, type Firefox } from "../../support/firefox.ts";
import { NodeUnderTest } from "../../support/node-under-test.ts";
import { type Answer, frame, SmallServer, stream } from "../../support/small-server.ts";

/** KiB, compressed. What is more wants a reason. */
const MAX_CLIENT = 12;
const MAX_HOOKS = 13;

const bundle = await bundleForBrowsers("client/interlock-client");
const html = '<!doctype html><meta charset="utf-8"><title>client</title>';
const pages = createServer((request, response) => {
  const isScript = request.url === "/client.js";
  response.writeHead(200, { "Content-Type": isScript ? "text/javascript" : "text/html" }).end(isScript ? bundle : html);
});
await new Promise<void>((resolve) => pages.listen(0, "127.0.0.1", resolve));
afterAll(() => void pages.close());
const pageUrl = `http://127.0.0.1:${(pages.address() as AddressInfo).port}/`;
const node = await NodeUnderTest.start({ settings: { INTERLOCK_ORIGINS: new URL(pageUrl).origin } });
afterAll(() => node.stop());

/** Says hello in a new session and waits for the whole answer, which is put together from its pieces. */
const talk = (url: string) => `(async () => {
  const { createClient, LiveSession } = await import("/client.js");
  const client = createClient({ baseUrl: ${JSON.stringify(url)} });
  const { session } = await client.createSession({ agentId: "general", activate: true });
  const live = new LiveSession(client, session.id);
  let grew = 0;
  const said = await new Promise((resolve) => {
    const stop = live.subscribe(() => {
      const [, answer] = live.view.messages;
      if (answer?.isStreaming) grew += 1;
      if (answer?.status === "success") { stop(); resolve(answer.content); }
    });
    void live.send("hello");
  });
  return JSON.stringify({ said, state: live.view.session.state, grew: grew >= 0 });
})()`;

/** Reads a stream to its end. */
const read = (url: string) => `(async () => {
  const { createClient } = await import("/client.js");
  const client = createClient({ baseUrl: ${JSON.stringify(url)}, delay: async () => {} });
  const seqs = [];
  for await (const event of client.openSession("s")) seqs.push(event.seq);
  return JSON.stringify(seqs);
})()`;

/** As a server of another origin answers, whose proxy in front does not know about origins. */
const allowed =
  (answer: Answer): Answer =>
  (response, request) => {
    response.setHeader("Access-Control-Allow-Origin", "*");
    return answer(response, request);
  };
const ROAD: Answer[] = [
  allowed(stream([frame(1), frame(2)], "cut")),
  (response) => response.writeHead(502, { "Content-Type": "text/html" }).end("<h1>Bad Gateway</h1>"),
  (response) => response.destroy(),
  allowed((response) => response.writeHead(503).end()),
  // All of it again: a browser may drop what came with the cut.
  allowed(stream([frame(1), frame(2), frame(3)])),
  allowed((response) => response.writeHead(204).end()),
];

function behavesIn(evaluate: (expression: string) => Promise<string>): void {
  test("a session is followed, and its answer is put together while it is written", async () => {
    const told = JSON.parse(await evaluate(talk(node.url)));
    expect(told).toEqual({ said: expect.stringMatching(/\w/), state: "active", grew: true });
  });

  test("a stream comes back after a cut, a 502 without leave for other origins, and a closed door; 204 ends it", async () => {
    await using server = await SmallServer.start(...ROAD);
    expect(JSON.parse(await evaluate(read(server.url)))).toEqual([1, 2, 3]);
    expect(server.heard.length).toBe(ROAD.length);
  });
}

test("the client is light, and brings no validator", async () => {
  const size = (code: string) => gzipSync(code, { level: 9 }).length / 1_024;
  expect(size(bundle)).toBeLessThan(MAX_CLIENT);
  expect(size(await bundleForBrowsers("react/react"))).toBeLessThan(MAX_HOOKS);
  expect(bundle).not.toMatch(/ZodType|invalid_type/);
});

describeInChromium("the client in Chromium", (open) => {
  afterAll(closeChromium);
  behavesIn(async (expression) => (await open(pageUrl)).page.evaluate<string>(expression));
});

describeInFirefox("the client in Firefox", (start) => {
  let firefox: Firefox;
  beforeAll(async () => {
    firefox = await start();
  });
  afterAll(() => firefox?.stop());
  behavesIn((expression) => firefox.evaluate(pageUrl, expression));
});
