import { expect, onTestFinished, test } from "vitest";
import { createClient } from "../../../src/client/client.ts";
import type { ServerEvent } from "../../../src/client/server-event.ts";
import { readPage } from "../../docs/page.ts";
import { type BrowserPage, describeInChromium } from "../../support/browsers/chromium.ts";
import { keyOf, keysFor } from "../../support/clients/callers.ts";
import { headOf } from "../../support/clients/node-client.ts";
import { Page } from "../../support/clients/page.ts";
import { type ChildServer, type Installation, makeInstallation } from "../../support/nodes/child-server.ts";
import { freePort } from "../../support/servers/free-port.ts";
import { describeWithNginx } from "../../support/servers/nginx.ts";
import { type Answer, SmallServer } from "../../support/servers/small-server.ts";

const KEY = keyOf("ann");
const shown = readPage("docs/use/protocol.md").blocks.find(({ info }) => info === "js follow")!;
const CATALOG = { agents: [{ name: "echo", priority: 20 }] };
/** Streams; nginx has room for 512 connections by itself, and a stream takes two. */
const MANY = 300;
const mayBeSaid = () => true;
const emptyPage: Answer = (response) =>
  response.writeHead(200, { "content-type": "text/html" }).end("<!doctype html><title>page</title>");

/** Nodes that listen on the same port, one after the other, and a session with one turn. */
async function openInstallation(settings: Record<string, string> = {}, key?: string) {
  const port = await freePort();
  const installation = await makeInstallation(CATALOG, { PORT: String(port), ...settings });
  const node = await installation.start();
  await clientOf(node, key).createSession({ id: "talk", userId: "ann", activate: true });
  await say(node, key);
  return { installation, node, port };
}

async function say(node: ChildServer, key?: string): Promise<string> {
  const { runId } = await clientOf(node, key).send({ type: "chat", sessionId: "talk", content: "hello" });
  return runId!;
}

const clientOf = ({ url }: ChildServer, key?: string) =>
  createClient({ baseUrl: url, ...(key !== undefined && { headers: { authorization: `Bearer ${key}` } }) });

/** Start another node in place of the stopped one, and run a turn on it. */
async function goOn(installation: Installation, key?: string): Promise<{ node: ChildServer; runId: string }> {
  const node = await installation.start();
  return { node, runId: await say(node, key) };
}

const seqsUpTo = (head: number) => Array.from({ length: head }, (_, n) => n + 1);
const isEnd = (runId: string) => (event: ServerEvent) => event.type === "complete" && event.data.runId === runId;

describeWithNginx("nginx with deploy/nginx.conf", (startNginx) => {
  test("the proxy answers event streams with an empty stream while no node is up, and other requests with 502", async () => {
    const proxy = await startNginx(await freePort());
    const origin = "http://page.test";
    const floor = "/floor/u%3Aann%2Fdriver/events?ticket=x";
    for (const path of ["/events?sessionId=talk", "/session/talk/events", floor, "/floors/events"]) {
      const answer = await fetch(proxy + path, { headers: { origin, accept: "text/event-stream" } });
      expect([answer.status, answer.headers.get("content-type")], path).toEqual([
        200,
        "text/event-stream; charset=utf-8",
      ]);
      expect(answer.headers.get("access-control-allow-origin")).toBe(origin);
      expect(answer.headers.get("cache-control")).toBe("no-cache, no-transform");
      expect(await answer.text()).toMatch(/^retry: [23][05]00\n$/);
    }
    for (const path of ["/health", "/session/events", "/session/talk"]) {
      expect((await fetch(proxy + path)).status, path).toBe(502);
    }
  });

  test("the proxy passes on a node's streams, their ends, and refusals of a stream", async () => {
    const { node, port } = await openInstallation();
    const proxy = await startNginx(port);
    expect((await fetch(`${proxy}/session/nobody/events`)).status).toBe(404);
    expect((await fetch(`${proxy}/events`, { headers: { accept: "text/html" } })).status).toBe(406);
    expect((await node.post("/session/talk/archive")).status).toBe(200);
    const { position } = (await node.ask("GET", "/session/talk")).body;
    expect((await fetch(`${proxy}/session/talk/events?lastEventId=${position}`)).status).toBe(204);
  });

  test("the proxy passes on more streams than nginx has room for by itself, and other requests beside them", async () => {
    const { port } = await openInstallation();
    const proxy = await startNginx(port);
    const abort = new AbortController();
    onTestFinished(() => abort.abort());
    const open = () => fetch(`${proxy}/session/talk/events`, { signal: abort.signal }).then(({ status }) => status);
    const statuses = await Promise.all(Array.from({ length: MANY }, () => open().catch(String)));
    expect(statuses.filter((status) => status !== 200)).toEqual([]);
    expect((await fetch(`${proxy}/session/talk`)).status).toBe(200);
  });

  test("the proxy passes on an import that is larger than any other request", async () => {
    const { node, port } = await openInstallation();
    const proxy = await startNginx(port);
    const exported = await (await fetch(`${node.url}/session/talk/export?format=jsonl`)).text();
    const [head, message] = exported.split("\n");
    const long = Array.from({ length: 24 }, (_, n) =>
      JSON.stringify({ ...JSON.parse(message!), id: `m${n}`, content: "x".repeat(131_072) }),
    );
    const body = [head, ...long, JSON.stringify({ type: "end", messages: long.length }), ""].join("\n");
    const headers = { "content-type": "application/x-ndjson" };
    const answer = await fetch(`${proxy}/session/import`, { method: "POST", headers, body });
    expect([answer.status, await answer.json()]).toMatchObject([200, { session: { messageCount: 24 } }]);
  });

  test("an EventSource behind the proxy survives its node's end, and continues at its position on the next one", async () => {
    const { installation, node, port } = await openInstallation();
    const proxy = await startNginx(port);
    const session = new Page(`${proxy}/session/talk/events`, { mayBeSaid });
    await session.until(() => session.logOf("talk").some(({ type }) => type === "complete"));
    const start = await headOf(node, "talk");
    const connection = new Page(`${proxy}/events?sessionId=talk`, { mayBeSaid, starts: { talk: start } });
    // The third event is the binding. Before it, the connection's position has no place in the session.
    await connection.until(() => connection.heard.length >= 3);
    await node.kill();
    // Each reader got the empty stream at least once.
    for (const page of [session, connection]) await page.until(() => page.opens >= 2);
    const { node: next, runId } = await goOn(installation);
    for (const page of [session, connection]) {
      await page.until(() => page.logOf("talk").some(({ type, data }) => type === "complete" && data.runId === runId));
      expect(page.faults).toEqual([]);
      expect(page.heard.map(({ type }) => type)).not.toContain("reset");
    }
    const head = await headOf(next, "talk");
    await session.until(() => session.logOf("talk").length >= head);
    expect(session.logOf("talk").map(({ seq }) => seq)).toEqual(seqsUpTo(head));
    const ids = connection.heard.filter(({ type }) => type === "connected").map(({ data }) => data.connectionId);
    expect(new Set(ids).size).toBe(1);
  });

  test.each([
    ["the shipped configuration", false],
    ["a usual configuration", true],
  ])("readers of the client reconnect behind a proxy with %s, after a 502 too", async (_, isPlain) => {
    const { installation, node, port } = await openInstallation();
    const proxy = await startNginx(port, { isPlain });
    const waits: (string | undefined)[] = [];
    const waited = Promise.withResolvers<void>();
    const events = createClient({ baseUrl: proxy }).openSession("talk", {
      onStatus(status, state) {
        if (status === "waiting") waits.push(state?.failure?.code);
        if (waits.length === 2) waited.resolve();
      },
    });
    onTestFinished(() => events.close());
    const seen: ServerEvent[] = [];
    let isOver = (_: ServerEvent) => false;
    const reading = (async () => {
      for await (const event of events) {
        if (event.seq !== undefined) seen.push(event);
        if (isOver(event)) return;
        // The next turn must find the session idle.
        if (event.type === "complete") await node.kill();
      }
    })();
    await waited.promise;
    const { node: next, runId } = await goOn(installation);
    isOver = isEnd(runId);
    await reading;
    expect(waits).toContain(isPlain ? "unavailable" : undefined);
    const seqs = seen.map(({ seq }) => seq!);
    expect(seqs).toEqual(seqsUpTo(seqs.length));
    expect(seqs.length).toBeLessThanOrEqual(await headOf(next, "talk"));
  });

  describeInChromium("a page of another origin in Chromium", (open) => {
    /** The page keeps its state in globals, because tests are compiled without the types of the DOM. */
    const follow = (newTicket: string, url: string) => `${shown.text}
      heard = []; refused = []; opens = 0; gaveUp = 0;
      const Plain = EventSource;
      EventSource = class extends Plain {
        constructor(url) {
          super(url);
          this.addEventListener("open", () => { opens += 1; });
          this.addEventListener("error", () => { if (this.readyState === Plain.CLOSED) gaveUp += 1; });
        }
      };
      stop = follow(${JSON.stringify(url)}, {
        onEvent: (event) => heard.push(event),
        onRefused: (status) => refused.push(status),
        newTicket: ${newTicket},
      });`;
    const expectInOrder = async (page: BrowserPage["page"]) => {
      const seqs = await page.evaluate<number[]>("heard.flatMap(({ seq }) => seq === undefined ? [] : [seq])");
      expect(seqs).toEqual(seqsUpTo(seqs.length));
    };
    const told = (runId: string) =>
      `heard.some(({ type, data }) => type === "complete" && data.runId === ${JSON.stringify(runId)})`;

    test("a page follows a stream as docs/use/protocol.md shows it, behind a proxy whose 502 closes an EventSource for good", async () => {
      await using blank = await SmallServer.start(emptyPage);
      const { installation, node, port } = await openInstallation({ INTERLOCK_ORIGINS: blank.url });
      const proxy = await startNginx(port, { isPlain: true });
      const { page } = await open(blank.url);
      await page.evaluate(follow("undefined", `${proxy}/session/talk/events`));
      await page.waitForFunction("heard.some(({ type }) => type === 'complete')");
      await node.kill();
      await page.waitForFunction("gaveUp >= 1");
      const { node: next, runId } = await goOn(installation);
      await page.waitForFunction(told(runId));
      await expectInOrder(page);
      // The stream's last event is the follower's last event.
      await next.post("/session/talk/archive");
      await page.waitForFunction("heard.at(-1).type === 'bye'");
      expect(await page.evaluate("refused")).toEqual([]);
    });

    test("a page gets a new ticket for each stream, since a used ticket is refused", async () => {
      await using blank = await SmallServer.start(emptyPage);
      const keys = await keysFor(["ann"], onTestFinished);
      const settings = { INTERLOCK_ORIGINS: blank.url, INTERLOCK_AUTH: `keys:${keys}` };
      const { installation, node, port } = await openInstallation(settings, KEY);
      const proxy = await startNginx(port);
      const { page } = await open(blank.url);
      const newTicket = `async () => {
        const headers = { Authorization: "Bearer ${KEY}", "Content-Type": "application/json" };
        const answer = await fetch("${proxy}/ticket", { method: "POST", headers, body: "{}" });
        if (!answer.ok) throw new Error("no ticket");
        return (await answer.json()).ticket;
      }`;
      await page.evaluate(follow(newTicket, `${proxy}/session/talk/events`));
      await page.waitForFunction("heard.some(({ type }) => type === 'complete')");
      await node.kill();
      await node.ended;
      const { runId } = await goOn(installation, KEY);
      await page.waitForFunction(told(runId));
      await expectInOrder(page);
      expect(await page.evaluate("refused")).toEqual([]);
    });

    test("a page learns that a stream is refused permanently, and does not reconnect", async () => {
      await using blank = await SmallServer.start(emptyPage);
      const { port } = await openInstallation({ INTERLOCK_ORIGINS: blank.url });
      const { page } = await open(blank.url);
      await page.evaluate(follow("undefined", `http://127.0.0.1:${port}/session/nobody/events`));
      await page.waitForFunction("refused.length > 0");
      expect(await page.evaluate("[refused, gaveUp, opens]")).toEqual([[404], 1, 0]);
    });

    test("a browser resumes a connection by itself", async () => {
      await using blank = await SmallServer.start(emptyPage);
      const { installation, node, port } = await openInstallation({ INTERLOCK_ORIGINS: blank.url });
      const proxy = await startNginx(port);
      const { page } = await open(blank.url);
      await page.evaluate(`
        heard = []; opens = 0;
        source = new EventSource(${JSON.stringify(`${proxy}/session/talk/events`)});
        source.onopen = () => { opens += 1; };
        source.onmessage = ({ data }) => { heard.push(JSON.parse(data)); };`);
      await page.waitForFunction("heard.length > 0");
      await node.kill();
      await page.waitForFunction("opens >= 2");
      const { runId } = await goOn(installation);
      await page.waitForFunction(told(runId));
      await expectInOrder(page);
    });
  });
});
