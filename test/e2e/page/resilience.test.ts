import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Page, Request } from "playwright-core";
import { expect, onTestFinished, test } from "vitest";
import { createClient } from "../../../src/client/client.ts";
import {
  addressOf,
  connected,
  describePage,
  gone,
  messagesOn,
  startPageNode,
} from "../../support/browsers/page-stage.ts";
import { E2eClient } from "../../support/clients/e2e-client.ts";
import { CuttingProxy } from "../../support/networks/cutting-proxy.ts";
import { freePort } from "../../support/servers/free-port.ts";

const node = await startPageNode();

const VIEWS = ["floor", "session", "machine"] as const;

/** Chromium's own messages on the console about an answer with an error status, or without an answer. */
const expected = /^Failed to load resource/;

/** The page has every event of the floor's log, and shows the session's whole conversation. */
async function expectWhole(page: Page, url: string, floorId: string): Promise<void> {
  const { events } = await createClient({ baseUrl: url }).readFloorLog(floorId, { limit: 2_000 });
  await page.getByText(`${events.length} of ${events.length} events`, { exact: true }).waitFor();
}

/**
 * In the page: when each stream was requested, and which `bye` ended it. Text, because tests are compiled without the
 * types of the DOM.
 */
const KEEP_STREAMS = `globalThis.streams = [];
  const ask = fetch;
  globalThis.fetch = async (url, init) => {
    const path = new URL(url).pathname;
    if (path.endsWith("/events")) globalThis.streams.push({ path, at: performance.now() });
    const answer = await ask(url, init);
    if (path.endsWith("/events")) void (async () => {
      const kept = globalThis.streams.findLast((each) => each.path === path);
      const decoder = new TextDecoder();
      for await (const bytes of answer.clone().body) {
        const bye = /"reconnectInMs":(\\d+)/.exec(decoder.decode(bytes));
        if (!bye) continue;
      Object.assign(kept, { byeAt: performance.now(), inMs: Number(bye[1]) });
      setTimeout(() => { kept.dueAt = performance.now(); }, kept.inMs);
      }
    })().catch(() => {});
    return answer;
  };`;

/** The number of streams that the page has requested. */
const askedOf = (page: Page) => page.evaluate<number>("globalThis.streams.length");

interface EndedStream {
  path: string;
  byeAt: number;
  inMs: number;
  /** When a timer of this page that began with the bye was over: a busy machine delays all of them alike. */
  dueAt: number;
  nextAt: number;
}

/** The streams that a `bye` ended, and when the page requested each of them again. */
async function streamsOf(page: Page): Promise<EndedStream[]> {
  const kept = await page.evaluate<(Partial<EndedStream> & { path: string; at: number })[]>("globalThis.streams");
  const ended = kept.flatMap(({ path, byeAt, inMs, dueAt }) => {
    const next = kept.find((each) => each.path === path && byeAt !== undefined && each.at > byeAt);
    const isEnded = byeAt !== undefined && inMs !== undefined && dueAt !== undefined && next;
    return isEnded ? [{ path, byeAt, inMs, dueAt, nextAt: next.at }] : [];
  });
  // The floor's stream, and the session's.
  expect(ended).toHaveLength(2);
  return ended;
}

/** The keys with which the page sends this command from now on. */
function keysOf(page: Page, path: string): () => Promise<(string | null)[]> {
  const sent: Request[] = [];
  page.on("request", (request) => {
    if (request.method() === "POST" && new URL(request.url()).pathname === path) sent.push(request);
  });
  return () => Promise.all(sent.map((request) => request.headerValue("idempotency-key")));
}

describePage("the page during outages", (open) => {
  test("the page announces an orderly restart, reconnects at the time it was given, and sends once what was typed meanwhile", async () => {
    const folder = await mkdtemp(join(tmpdir(), "interlock-drain-"));
    onTestFinished(() => rm(folder, { recursive: true }));
    const settings = { PORT: String(await freePort()), INTERLOCK_STORE: `sqlite:${join(folder, "log.db")}` };
    const before = await startPageNode({ settings }, () => {});
    const dov = new E2eClient(before);
    const session = await dov.hold("general");
    await dov.talk(session.id, "nod");
    const page = await open(before.url, { expected });
    await page.addInitScript(KEEP_STREAMS);
    await page.goto(addressOf(before, "session", session));
    await page.reload();
    await messagesOn(page).getByText("Yes.").waitFor();
    await connected(page);
    const keys = keysOf(page, "/message");
    const asked = await askedOf(page);
    const lists: string[] = [];
    page.on("requestfailed", (request) => void (request.url().includes("/session/list") && lists.push(request.url())));
    await before.shutDown();
    const line = page.getByText(/^The server announced at \d\d:\d\d:\d\d that it restarts\. Trying again in \d+ s\.$/);
    await line.waitFor();
    await page.getByLabel("Say something").fill("hello");
    await page.getByLabel("Say something").press("Enter");
    await page.getByLabel("Search titles and messages").fill("made");
    // It still says so when the server is not back at that time.
    await expect.poll(() => askedOf(page)).toBeGreaterThanOrEqual(asked + 2);
    // A read that was cancelled meanwhile is not an error, and is repeated later.
    await expect.poll(() => lists.length).toBeGreaterThanOrEqual(5);
    await line.waitFor();
    expect(await page.getByRole("alert").allTextContents()).toEqual([]);
    await before.stop();

    const after = await startPageNode({ settings }, onTestFinished);
    const again = new E2eClient(after, dov.userId);
    await again.create("music", { title: "made meanwhile" });
    await connected(page);
    await messagesOn(page).getByText("Hello there.").waitFor();
    await page.getByRole("link", { name: /^made meanwhile/ }).waitFor();
    await expectWhole(page, after.url, session.floorId);
    const said = (await again.messages(session.id)).map(({ content }) => content);
    expect(said).toEqual(["nod", "Yes.", "hello", "Hello there."]);
    await expect.poll(() => messagesOn(page).getByRole("article").count()).toBe(said.length);
    expect(new Set(await keys()).size).toBe(1);
    for (const { path, byeAt, inMs, dueAt, nextAt } of await streamsOf(page)) {
      expect(nextAt - byeAt, path).toBeGreaterThan(inMs - 20);
      expect(nextAt, path).toBeLessThan(dueAt + 700);
    }
  });

  test("the page survives a laptop's sleep, in which its connections are lost unnoticed, and shows what happened meanwhile", async () => {
    const proxy = await CuttingProxy.start(node.url);
    const ben = new E2eClient(node);
    const session = await ben.hold("general");
    const page = await open(addressOf(proxy, "session", session), { expected });
    await connected(page);
    const devtools = await page.context().newCDPSession(page);
    const setLifecycle = (state: "frozen" | "active") => devtools.send("Page.setWebLifecycleState", { state });
    await setLifecycle("frozen");
    proxy.refuse();
    await ben.talk(session.id, "hello");
    await ben.hold("phone");
    proxy.admit();
    await setLifecycle("active");
    await messagesOn(page).getByText("Hello there.").waitFor();
    await page.getByRole("button", { name: "Resume", exact: true }).waitFor();
    await connected(page);
    await expectWhole(page, node.url, session.floorId);
  });
});

describePage("the floor, session and machine views", (open) => {
  test.each(VIEWS)(
    "a view says that an outcome is unknown while the server is away, and the command takes effect once: %s",
    async (view) => {
      const proxy = await CuttingProxy.start(node.url);
      const ann = new E2eClient(node);
      const session = await ann.hold("music");
      const page = await open(addressOf(proxy, view, session), { expected: /ERR_|502/ });
      await connected(page);
      const pause = page.locator('main [data-key="P"]').first();
      await pause.waitFor();
      if (view === "machine") proxy.answer502();
      else proxy.refuse();
      await page.getByText(/^No connection since /).waitFor();
      await pause.click();
      await page.getByText("The result is not known yet. The command is repeated with the same key.").waitFor();
      // The earlier content is still shown.
      await expect.poll(() => pause.isVisible()).toBe(true);
      proxy.admit();
      await expect.poll(async () => (await ann.see(session.id)).state).toBe("paused");
      await gone(page.getByText("The result is not known yet"));
      const moves = (await ann.log(session.id)).filter(({ data }) => data["event"] === "pause");
      expect(moves.length).toBe(1);
    },
  );

  test("the views say that older events are gone when the server lost them, and show the new log", async () => {
    // A store in memory: the node that replaces this one starts another log.
    const settings = { PORT: String(await freePort()) };
    const before = await startPageNode({ settings }, () => {});
    const cay = new E2eClient(before);
    const session = await cay.hold("general");
    for (const text of ["hello", "nod", "hello"]) await cay.talk(session.id, text);
    const page = await open(addressOf(before, "floor", session), { expected: /ERR_/ });
    await page.getByText(/^(\d\d) of \1 events$/).waitFor();
    await before.stop();
    await page.getByText("Disconnected", { exact: true }).waitFor();
    const after = await startPageNode({ settings }, onTestFinished);
    const again = new E2eClient(after, cay.userId);
    await again.hold("phone");
    await page.getByText(/^Older events are no longer kept\. Read again at \d/).waitFor();
    await page.getByRole("article", { name: "Phone: has the floor" }).waitFor();
    await page.getByText(/^(\d) of \1 events$/).waitFor();
  });

  test.each(VIEWS)("a view that throws is replaced by a message, and the frame still works: %s", async (view) => {
    const eve = new E2eClient(node);
    const session = await eve.hold("general");
    const page = await open(node.url, { expected: /React error/, permissions: ["clipboard-read", "clipboard-write"] });
    await connected(page);
    // A session without the fields that every view reads.
    let isBroken = true;
    const broken = async (url: string) => {
      await page.route(url, async (route) => {
        const answer = await route.fetch();
        const text = await answer.text();
        await route.fulfill({
          response: answer,
          body: isBroken ? text.replace(/"title":"[^"]*"/g, '"title":{}') : text,
        });
      });
    };
    await broken("**/floor/*");
    await broken("**/session/load");
    await broken("**/session/list*");
    await page.goto(addressOf(node, view, session));
    const alert = page.getByRole("alert").filter({ hasText: "Something went wrong in this view." });
    await alert.getByRole("button", { name: "Copy" }).click();
    await expect.poll(() => page.evaluate("navigator.clipboard.readText()")).toMatch(/Error.*\n.*at /s);
    await page.getByText("Copied.", { exact: true }).waitFor();
    isBroken = false;
    await page.getByRole("navigation").getByRole("link", { name: "Node", exact: true }).click();
    await page.getByRole("heading", { name: "Node", exact: true }).waitFor();
    await page.goto("about:blank");
    await page.goto(addressOf(node, view, session));
    await page.locator("main h1").first().waitFor();
    await page.locator('main [data-key="P"]').first().waitFor();
    await expect.poll(() => alert.count()).toBe(0);
    // The page may still be reading when it is closed.
    await page.unrouteAll({ behavior: "ignoreErrors" });
  });
});
