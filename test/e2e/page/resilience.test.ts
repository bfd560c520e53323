import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Page, Request } from "playwright-core";
import { expect, onTestFinished, test } from "vitest";
import { createClient } from "../../../src/client/client.ts";
import { addressOf, connected, describePage, messagesOn, startPageNode } from "../../support/browsers/page-stage.ts";
import { E2eClient } from "../../support/clients/e2e-client.ts";
import { CuttingProxy } from "../../support/networks/cutting-proxy.ts";
import { freePort } from "../../support/servers/free-port.ts";

const node = await startPageNode();

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

  test.each([
    { what: "a proxy that answers 502 for a while", isAsleep: false },
    { what: "a laptop's sleep, in which its connections are lost unnoticed", isAsleep: true },
  ])("the page survives $what, and shows what happened meanwhile", async ({ isAsleep }) => {
    const proxy = await CuttingProxy.start(node.url);
    const ben = new E2eClient(node);
    const session = await ben.hold("general");
    const page = await open(addressOf(proxy, "session", session), { expected });
    await connected(page);
    const devtools = await page.context().newCDPSession(page);
    const setLifecycle = (state: "frozen" | "active") => devtools.send("Page.setWebLifecycleState", { state });
    if (isAsleep) {
      await setLifecycle("frozen");
      proxy.refuse();
    } else {
      proxy.answer502();
      await page.getByText("Disconnected", { exact: true }).waitFor();
    }
    await ben.talk(session.id, "hello");
    await ben.hold("phone");
    proxy.admit();
    if (isAsleep) await setLifecycle("active");
    await messagesOn(page).getByText("Hello there.").waitFor();
    await page.getByRole("button", { name: "Resume", exact: true }).waitFor();
    await connected(page);
    await expectWhole(page, node.url, session.floorId);
  });
});
