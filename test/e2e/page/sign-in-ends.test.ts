import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Page, Request } from "playwright-core";
import { expect, onTestFinished, test } from "vitest";
import {
  addressOf,
  connected,
  describePage,
  gone,
  hasFocus,
  messagesOn,
  shown,
  startPageNode,
} from "../../support/browsers/page-stage.ts";
import { Caller, keysFile, writeTemporary } from "../../support/clients/callers.ts";
import { accepted } from "../../support/clients/e2e-client.ts";
import { freePort } from "../../support/servers/free-port.ts";
import { nowS, signWithSecret } from "../../support/servers/token-issuer.ts";

const SECRET = "0123456789abcdef0123456789abcdef";
const FORMER_KEY = "ann-key-0123456789abcdef0123456789";
const KEY = "ann-key-that-came-later-0123456789abcdef";
const OTHER_KEY = "ben-key-0123456789abcdef0123456789";
/** A token that ended so long ago, in s, is good for 8 s more, because nodes forgive clocks that differ by 10 s. */
const ENDED_S = 2;

const composer = (page: Page) => page.getByLabel("Say something");
const dialog = (page: Page) => page.getByRole("dialog", { name: "Sign in again" });

async function signIn(page: Page, token: string): Promise<void> {
  await page.getByRole("dialog").getByLabel("Token").fill(token);
  await page.getByRole("button", { name: "Sign in" }).click();
  await gone(page.getByRole("dialog").getByLabel("Token"));
}

/** The page's cookie is gone when it sends a message; a reading may be refused before. */
async function sayUnrecognized(page: Page, content: string): Promise<void> {
  await connected(page);
  await composer(page).fill(content);
  await page.context().clearCookies();
  // Not by a key, which does nothing while the dialog is open.
  await page
    .locator("form")
    .filter({ has: composer(page) })
    .dispatchEvent("submit");
  await dialog(page).waitFor();
}

/** Requests of a page, and those that were refused with 401, by method, path and query. */
function watch(page: Page) {
  const sent: Request[] = [];
  const refused: string[] = [];
  page.on("request", (request) => void sent.push(request));
  page.on("response", (response) => {
    const request = response.request();
    const { pathname, search } = new URL(request.url());
    if (response.status() === 401) refused.push(`${request.method()} ${pathname}${search}`);
  });
  const keys = async (path: string) => {
    const posts = sent.filter((request) => request.method() === "POST" && new URL(request.url()).pathname === path);
    return Promise.all(posts.map((request) => request.headerValue("idempotency-key")));
  };
  return { sent, refused, keys };
}

type Watched = ReturnType<typeof watch>;

/** The page sends nothing, however long it waits. */
async function expectSilence(page: Page, { sent, refused }: Watched): Promise<void> {
  const before = sent.length;
  await page.clock.runFor(60_000);
  expect(sent.slice(before).map((request) => request.url())).toEqual([]);
  // Each was refused once, and not asked again.
  expect(refused).toEqual([...new Set(refused)]);
}

/** A node that knows these keys, and an active session of ann's on it. */
async function startWithSession(users: Parameters<typeof keysFile>[0], agentId = "general") {
  const file = await writeTemporary("keys.yaml", keysFile(users), onTestFinished);
  const node = await startPageNode({ settings: { INTERLOCK_AUTH: `keys:${file}` } }, onTestFinished);
  const ann = new Caller(node, KEY);
  const { session } = await accepted(ann.post("/session/create", { agentId, userId: "ann", activate: true }));
  const floor = encodeURIComponent(session.floorId);
  return { node, ann, session, floor, address: `${node.url}/#/session/${floor}/${session.id}` };
}

describePage("the page after its sign-in expired", (open) => {
  /** Signed in, with timers that the test can move. */
  async function openSignedIn(url: string, token: string) {
    const page = await open(new URL(url).origin, { expected: /^Failed to load resource/ });
    await page.clock.install();
    await page.goto(url);
    await page.reload();
    await signIn(page, token);
    return { page, watched: watch(page) };
  }

  test("the page reports that its token expired, keeps its content and drafts, and continues after the next sign-in", async () => {
    const secret = await writeTemporary("secret", SECRET, onTestFinished);
    const node = await startPageNode({ settings: { INTERLOCK_AUTH: `jwt:${secret}` } }, onTestFinished);
    const later = await signWithSecret(SECRET, { sub: "ann" });
    const ann = new Caller(node, later);
    const { session } = await accepted(
      ann.post("/session/create", { agentId: "general", userId: "ann", activate: true }),
    );
    await accepted(ann.post("/message", { type: "chat", sessionId: session.id, content: "hello" }));
    const address = addressOf(node, "session", session);
    const { page, watched } = await openSignedIn(address, later);
    await messagesOn(page).getByText("Hello there.").waitFor();
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByRole("dialog").getByLabel("Token").waitFor();
    watched.refused.length = 0;
    // Made when the page is there: it is good for seconds only.
    await signIn(page, await signWithSecret(SECRET, { sub: "ann", exp: nowS() - ENDED_S }));
    await messagesOn(page).getByText("Hello there.").waitFor();
    await connected(page);
    await composer(page).fill("nod");

    await shown(dialog(page).getByText(/^Your sign-in ended at \d\d:\d\d:\d\d\. /));
    await page.getByText("Signed out", { exact: true }).waitFor();
    await expectSilence(page, watched);
    await expect.poll(() => messagesOn(page).getByText("Hello there.").isVisible()).toBe(true);
    await expect.poll(() => composer(page).inputValue()).toBe("nod");
    for (const _ of [1, 2, 3]) await page.keyboard.press("Escape");
    await dialog(page).waitFor();
    await accepted(ann.post(`/session/${session.id}/pause`));

    await signIn(page, later);
    await connected(page);
    expect(page.url()).toBe(address);
    await hasFocus(composer(page));
    await page.getByRole("button", { name: "Resume", exact: true }).click();
    await composer(page).press("Enter");
    await messagesOn(page).getByText("Yes.").waitFor();
    await expect.poll(() => messagesOn(page).getByRole("article").count()).toBe(4);
    expect(await watched.keys("/message")).toHaveLength(1);
  });

  test("the page asks for a sign-in once after a restart with other keys, and sends the kept message once", async () => {
    const folder = await mkdtemp(join(tmpdir(), "interlock-keys-"));
    onTestFinished(() => rm(folder, { recursive: true }));
    const common = { PORT: String(await freePort()), INTERLOCK_STORE: `sqlite:${join(folder, "log.db")}` };
    const start = async (key: string) => {
      const file = await writeTemporary("keys.yaml", keysFile([{ owner: "ann", key }]), onTestFinished);
      return startPageNode({ settings: { ...common, INTERLOCK_AUTH: `keys:${file}` } }, () => {});
    };
    const before = await start(FORMER_KEY);
    const fields = { agentId: "general", userId: "ann", activate: true };
    const { session } = await accepted(new Caller(before, FORMER_KEY).post("/session/create", fields));
    const address = addressOf(before, "session", session);
    const { page, watched } = await openSignedIn(address, FORMER_KEY);
    await connected(page);
    await before.stop();
    await page.getByText("Disconnected", { exact: true }).waitFor();
    await composer(page).fill("hello");
    await composer(page).press("Enter");

    const after = await start(KEY);
    onTestFinished(() => after.stop());
    await dialog(page).waitFor();
    await expectSilence(page, watched);
    expect((await accepted(new Caller(after, KEY).get(`/session/${session.id}/messages`))).messages).toEqual([]);
    await page.getByRole("dialog").getByLabel("Token").fill(FORMER_KEY);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByText("The server does not accept this token.").waitFor();

    await signIn(page, KEY);
    await messagesOn(page).getByText("Hello there.").waitFor();
    await connected(page);
    expect(page.url()).toBe(address);
    await expect.poll(() => composer(page).inputValue()).toBe("");
    await expect.poll(() => messagesOn(page).getByRole("article").count()).toBe(2);
    const kept = await accepted(new Caller(after, KEY).get(`/session/${session.id}/messages`));
    expect(kept.messages.map(({ content }) => content)).toEqual(["hello", "Hello there."]);
    expect(new Set(await watched.keys("/message")).size).toBe(1);
  });

  test("the page asks for a sign-in while its stream still runs, if a command or a read is refused first", async () => {
    const keys = [{ owner: "ann", key: KEY, operator: true }];
    const { node, ann, session, floor } = await startWithSession(keys, "music");
    const { page, watched } = await openSignedIn(`${node.url}/#/floor/${floor}`, KEY);
    await connected(page);
    const pause = page.getByRole("main").getByRole("button", { name: "Pause", exact: true }).first();
    await pause.waitFor();
    // As a browser does that forgets its cookies.
    await page.context().clearCookies();
    // Not `click()`, which waits while the dialog is open: a reading may have been refused before.
    await pause.dispatchEvent("click");
    await dialog(page).waitFor();
    expect((await accepted(ann.get(`/session/${session.id}`))).session.state).toBe("active");
    await signIn(page, KEY);
    await page.getByRole("article", { name: "Music: paused" }).waitFor();
    expect(new Set(await watched.keys(`/session/${session.id}/pause`)).size).toBe(1);

    await page.goto(`${node.url}/#/node/${floor}`);
    await page.getByRole("table").first().waitFor();
    await page.getByRole("button", { name: "中文" }).click();
    await page.getByText("已连接", { exact: true }).waitFor();
    watched.refused.length = 0;
    await page.context().clearCookies();
    await shown(page.getByRole("dialog", { name: "重新登录" }).getByText(/^登录已于 /));
    await expectSilence(page, watched);
    await expect.poll(() => page.getByRole("table", { includeHidden: true }).first().isVisible()).toBe(true);
  });

  test("waiting commands and all content are dropped when another user signs in", async () => {
    const users = [
      { owner: "ann", key: KEY, operator: true },
      { owner: "ben", key: OTHER_KEY, operator: true },
    ];
    const { ann, session, address } = await startWithSession(users);
    const { page, watched } = await openSignedIn(address, KEY);
    await sayUnrecognized(page, "hello");

    await signIn(page, OTHER_KEY);
    await page
      .getByText("You are now signed in as ben. Commands that the former user had waiting were not sent.")
      .waitFor();
    await connected(page);
    await expect.poll(() => composer(page).inputValue()).toBe("");
    await page.clock.runFor(60_000);
    expect((await accepted(ann.get(`/session/${session.id}/messages`))).messages).toEqual([]);
    expect((await watched.keys("/message")).length).toBeLessThanOrEqual(1);
    await page.getByRole("button", { name: "Close", exact: true }).click();
    await gone(page.getByText(/were not sent/));
    await page.reload();
    await connected(page);
    await expect.poll(() => page.getByText(/were not sent/).count()).toBe(0);
  });

  test("one sign-in lets all tabs continue, and their waiting commands are sent; a sign-out, and a sign-in as another user, apply to all tabs too", async () => {
    const users = [
      { owner: "ann", key: KEY },
      { owner: "ben", key: OTHER_KEY },
    ];
    const { ann, session, address } = await startWithSession(users);
    const { page } = await openSignedIn(address, KEY);
    const other = await page.context().newPage();
    await other.goto(address);
    await sayUnrecognized(other, "nod");
    await page.reload();
    await signIn(page, KEY);
    await gone(dialog(other));
    for (const tab of [page, other]) await messagesOn(tab).getByText("Yes.").waitFor();
    const kept = await accepted(ann.get(`/session/${session.id}/messages`));
    expect(kept.messages.map(({ content }) => content)).toEqual(["nod", "Yes."]);

    await other.getByRole("button", { name: "Sign out" }).click();
    await page.getByRole("dialog", { name: "Sign in", exact: true }).waitFor();
    await expect.poll(() => page.getByText("Yes.").count()).toBe(0);
    await signIn(page, OTHER_KEY);
    for (const tab of [page, other]) await tab.getByText(/, or it is not yours\.$/).waitFor();
    expect(await other.getByText("Yes.").count()).toBe(0);
  });
});
