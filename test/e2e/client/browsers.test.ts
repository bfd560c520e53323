import { execFile } from "node:child_process";
import { EventEmitter, once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { describeInChromium } from "../../support/browsers/chromium.ts";
import { bundleForBrowsers } from "../../support/browsers/client-bundle.ts";
import { describeInFirefox, type Firefox } from "../../support/browsers/firefox.ts";
import { AS_OLDEST_BROWSER } from "../../support/browsers/oldest-engines.ts";
import { Caller, keysFile, writeTemporary } from "../../support/clients/callers.ts";
import { accepted } from "../../support/clients/e2e-client.ts";
import { CuttingProxy } from "../../support/networks/cutting-proxy.ts";
import { NodeUnderTest } from "../../support/nodes/node-under-test.ts";
import { PLAYERS } from "../../support/nodes/players.ts";
import { describeWith } from "../../support/programs/suites.ts";
import { atEndOfSuite } from "../../support/runner/at-end-of-suite.ts";
import { type Answer, frame, SmallServer, stream } from "../../support/servers/small-server.ts";

const run = promisify(execFile);

const bundle = await bundleForBrowsers("client/interlock-client");
const html = '<!doctype html><meta charset="utf-8"><title>client</title>';
/** What the pages report to this test, by the test's name. */
const reports = new EventEmitter();
const pages = createServer((request, response) => {
  if (request.url?.startsWith("/told/")) reports.emit(request.url.slice("/told/".length));
  const isScript = request.url === "/client.js";
  response.writeHead(200, { "Content-Type": isScript ? "text/javascript" : "text/html" }).end(isScript ? bundle : html);
});
await new Promise<void>((resolve) => pages.listen(0, "127.0.0.1", resolve));
afterAll(() => void pages.close());
const pageUrl = `http://127.0.0.1:${(pages.address() as AddressInfo).port}/`;
const settings = { INTERLOCK_ORIGINS: new URL(pageUrl).origin };
const node = await NodeUnderTest.start({ settings });
afterAll(() => node.stop());
const KEY = "ann-key-0123456789abcdef0123456789";
const keys = await writeTemporary("keys.yaml", keysFile([{ owner: "ann", key: KEY }]), afterAll);
/** Requires authentication; its agents are external, with leases. */
const guarded = await NodeUnderTest.start({
  agents: [...PLAYERS, { name: "radio", priority: 20, lease: "9s", adapter: { kind: "external" } }],
  catalog: { default_agent: "general" },
  settings: { ...settings, INTERLOCK_AUTH: `keys:${keys}` },
});
afterAll(() => guarded.stop());

/** A client with a key whose requests are all recorded; its streams open with tickets. */
const guardedClient = (url: string) => `
  const { createClient, LiveConnection, LiveSession } = await import("/client.js");
  const noted = [];
  const client = createClient({
    baseUrl: ${JSON.stringify(url)},
    headers: { Authorization: "Bearer ${KEY}" },
    streamsBy: "ticket",
    fetch: (input, init) => {
      const { pathname, searchParams } = new URL(String(input));
      const authorization = new Headers(init?.headers).get("authorization");
      noted.push({ pathname, ticket: searchParams.get("ticket"), authorization, body: init?.body });
      return fetch(input, init);
    },
  });
  const until = (live, isSo) => new Promise((resolve) => {
    const look = () => isSo(live.view) && resolve(live.view);
    live.subscribe(look);
    look();
  });`;

/** Follows a connection that is cut once. */
const reconnect = (url: string) => `(async () => {
  ${guardedClient(url)}
  const live = new LiveConnection(client);
  const first = await until(live, ({ status, connectionId }) => status === "open" && connectionId !== undefined);
  await fetch("/told/open");
  await until(live, ({ status }) => status === "waiting");
  const again = await until(live, ({ status }) => status === "open");
  const opened = noted.filter(({ pathname }) => pathname === "/events");
  return JSON.stringify({ isSame: first.connectionId === again.connectionId, opened });
})()`;

/** Takes part in a session for longer than its lease alone would last, and then stops without notice. */
const takePart = (url: string) => `(async () => {
  ${guardedClient(url)}
  const { session } = await client.createSession({ agentId: "radio", userId: "ann", activate: true });
  const live = new LiveSession(client, session.id, { isParticipant: true });
  const leave = live.subscribe(() => {});
  const beats = () => noted.filter(({ body }) => String(body).includes("heartbeat")).length;
  await new Promise((resolve) => {
    const look = setInterval(() => beats() > 5 && resolve(clearInterval(look)), 50);
  });
  const { state } = (await client.getSession(session.id)).session;
  leave();
  return JSON.stringify({ id: session.id, state });
})()`;

/** Requests a counted reply in a new session, and waits for the complete answer, assembled from its pieces. */
const talk = (url: string) => `(async () => {
  const { createClient, LiveSession } = await import("/client.js");
  const client = createClient({ baseUrl: ${JSON.stringify(url)} });
  const { session } = await client.createSession({ agentId: "music", activate: true });
  const live = new LiveSession(client, session.id);
  let grew = 0;
  const said = await new Promise((resolve) => {
    const stop = live.subscribe(() => {
      const [, answer] = live.view.messages;
      if (answer?.isStreaming) grew += 1;
      if (answer?.status === "success") { stop(); resolve(answer.content); }
    });
    void live.send("count");
  });
  return JSON.stringify({ said, state: live.view.session.state, grew: grew > 1 });
})()`;

/** Reads a stream to its end. */
const read = (url: string) => `(async () => {
  const { createClient } = await import("/client.js");
  const client = createClient({ baseUrl: ${JSON.stringify(url)}, delay: async () => {} });
  const seqs = [];
  for await (const event of client.openSession("s")) seqs.push(event.seq);
  return JSON.stringify(seqs);
})()`;

/** Answers like a server of another origin whose proxy does not send CORS headers. */
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
  // Sent again from the start, because a browser may drop what arrived with the cut.
  allowed(stream([frame(1), frame(2), frame(3)])),
  allowed((response) => response.writeHead(204).end()),
];

function behavesIn(evaluate: (expression: string) => Promise<string>): void {
  test("the client follows a session, and puts its answer together while it is written", async () => {
    const reports = JSON.parse(await evaluate(talk(node.url)));
    expect(reports).toEqual({ said: expect.stringMatching(/\w/), state: "active", grew: true });
  });

  test("streams carry a ticket and no token, a new ticket for each connection, and continue after a cut", async () => {
    const proxy = await CuttingProxy.start(guarded.url);
    const isOpen = once(reports, "open");
    const followed = evaluate(reconnect(proxy.url));
    await Promise.race([isOpen, followed]);
    proxy.cut();
    const { isSame, opened } = JSON.parse(await followed) as {
      isSame: boolean;
      opened: { ticket: string | null; authorization: string | null }[];
    };
    expect(isSame).toBe(true);
    expect(opened.length).toBeGreaterThan(1);
    expect(opened.map(({ authorization }) => authorization)).toEqual(opened.map(() => null));
    expect(new Set(opened.map(({ ticket }) => ticket ?? "none")).size).toBe(opened.length);
  });

  test("a participant's lease is renewed while it takes part, and lapses when it leaves", async () => {
    const { id, state } = JSON.parse(await evaluate(takePart(guarded.url)));
    expect(state).toBe("active");
    const ann = new Caller(guarded, KEY);
    const stateNow = async () => (await accepted(ann.get(`/session/${id}`))).session.state;
    await expect.poll(stateNow).toBe("paused");
  });

  test("a stream reconnects after a cut, a 502 without CORS headers, and a refused connection; 204 ends it", async () => {
    await using server = await SmallServer.start(...ROAD);
    expect(JSON.parse(await evaluate(read(server.url)))).toEqual([1, 2, 3]);
    expect(server.heard.length).toBe(ROAD.length);
  });
}

describeInChromium("the client in a Chromium without what the oldest browsers lack", (open) => {
  behavesIn(async (expression) => {
    const { page } = await open("about:blank");
    await page.addInitScript(AS_OLDEST_BROWSER);
    await page.goto(pageUrl);
    return page.evaluate<string>(expression);
  });
});

describeWith(["node20"], "the client in Node 20", (path) => {
  const atEnd = atEndOfSuite();
  let file: string;
  beforeAll(async () => {
    file = await writeTemporary("client.mjs", bundle, atEnd);
  });
  behavesIn(async (expression) => {
    // What a page has from its server.
    const alone = expression
      .replaceAll('"/client.js"', JSON.stringify(pathToFileURL(file)))
      .replaceAll('"/told/', `"${pageUrl}told/`);
    const { stdout } = await run(path, ["-e", `${alone}.then((said) => { console.log(said); process.exit(); })`]);
    return stdout;
  });
});

describeInFirefox("the client in Firefox", (start) => {
  let firefox: Firefox;
  beforeAll(async () => {
    firefox = await start();
  });
  afterAll(() => firefox?.stop());
  behavesIn((expression) => firefox.evaluate(pageUrl, expression));
});
