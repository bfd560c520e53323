import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import {
  addressOf,
  connected,
  describePage,
  gone,
  hasFocus,
  shown,
  startPageNode,
} from "../../support/browsers/page-stage.ts";
import { accepted, E2eClient } from "../../support/clients/e2e-client.ts";

const node = await startPageNode();

const EN = {
  more: "More for this session",
  item: "Delete the session",
  question: /^Delete it for good\? Its messages, images and log are lost\.$/,
  working: /^Delete it for good\? Its run ends, and its messages, images and log are lost\.$/,
  yes: "Delete",
  no: "No",
};
const ZH: Omit<typeof EN, "working"> = {
  more: "会话的更多操作",
  item: "删除会话",
  question: /^永久删除？它的消息、图片和日志都会丢失。$/,
  yes: "删除",
  no: "否",
};

const statusOf = async (id: string) => (await node.get(`/session/${id}`)).status;

/** The page may read a session at the moment of its deletion. */
const expected = /404/;

/** Opens the question from the menu, with the mouse. */
async function ask(page: Page, words: typeof ZH = EN): Promise<void> {
  await page.getByRole("button", { name: words.more, exact: true }).click();
  await page.getByRole("button", { name: words.item, exact: true }).click();
}

/** The session is no longer in the address, and going back in the browser does not return to it. */
async function isLeft(page: Page, id: string): Promise<void> {
  await page.waitForURL((url) => url.hash.startsWith("#/session/") && !url.hash.includes(id));
}

describePage("deleting a session", (open) => {
  test("an archived session is deleted after one question, and the others are shown", async () => {
    const ann = new E2eClient(node);
    const other = await ann.create("general", { title: "stays" });
    const { id, floorId } = await ann.hold("general");
    await ann.talk(id, "hello");
    await accepted(ann.on(id, "archive"));
    const page = await open(addressOf(node, "session", other), { locale: "zh-CN", expected });
    await page.getByRole("heading", { name: "stays", exact: true }).waitFor();
    await page.goto(addressOf(node, "session", { floorId, id }));
    await page.getByRole("article").getByText("Hello there.", { exact: true }).waitFor();
    const question = page.getByRole("group", { name: ZH.question });
    await ask(page, ZH);
    await question.getByRole("button", { name: ZH.no, exact: true }).click();
    await gone(question);
    expect(await statusOf(id)).toBe(200);
    await ask(page, ZH);
    await question.getByRole("button", { name: ZH.yes, exact: true }).click();
    await isLeft(page, id);
    await page.getByRole("status").getByText("“hello”已删除。", { exact: true }).waitFor();
    expect(await statusOf(id)).toBe(404);
    await page.goBack();
    await page.getByRole("heading", { name: "stays", exact: true }).waitFor();
    await expect.poll(() => page.getByRole("alert").count()).toBe(0);
  });

  test("a session, even a running one, is deleted with the keyboard, and the focus moves to the next row", async () => {
    const ben = new E2eClient(node);
    const later = await ben.create("music", { title: "later" });
    const { id, floorId } = await ben.hold("general", { title: "now" });
    await ben.say(id, "play");
    const page = await open(addressOf(node, "session", { floorId, id }), { expected });
    await page.locator('main [data-key="X"]').waitFor();
    const list = page.getByRole("region", { name: "Sessions" }).first();
    await list.getByRole("link", { name: /^later/ }).waitFor();
    const more = page.getByRole("button", { name: EN.more, exact: true });
    const question = page.getByRole("group", { name: EN.working });
    await more.press("Enter");
    await page.getByRole("button", { name: EN.item, exact: true }).press("Enter");
    await hasFocus(question.getByRole("button", { name: EN.yes, exact: true }));
    await page.keyboard.press("Escape");
    await gone(question);
    await hasFocus(more);
    expect((await ben.see(id)).activity).toBe("running");
    await more.press("Enter");
    await page.getByRole("button", { name: EN.item, exact: true }).press("Enter");
    await hasFocus(question.getByRole("button", { name: EN.yes, exact: true }));
    await page.keyboard.press("Enter");
    await isLeft(page, id);
    await hasFocus(list.getByRole("link", { name: /^later/ }));
    await gone(list.getByRole("link", { name: /^now/ }));
    await hasFocus(list.getByRole("link", { name: /^later/ }));
    expect(await statusOf(id)).toBe(404);
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "later", exact: true }).waitFor();
    expect(new URL(page.url()).hash).toContain(later.id);
    await page.keyboard.press("Escape");
    await page.getByText("Choose a session from the list.").waitFor();
    await gone(page.getByText("“now” was deleted."));
  });

  test("the focus moves to the next row also if the page is slow to draw what follows a deletion", async () => {
    const dee = new E2eClient(node);
    await dee.create("music", { title: "later" });
    const { id, floorId } = await dee.hold("general", { title: "now" });
    const page = await open(addressOf(node, "session", { floorId, id }), { expected });
    // The keeper of the focus does not wait for it.
    await page.addInitScript(() => {
      const { setTimeout } = globalThis;
      globalThis.setTimeout = ((run: () => void, ms?: number) =>
        ms === 50 ? void queueMicrotask(run) : setTimeout(run, ms)) as typeof globalThis.setTimeout;
    });
    await page.reload();
    const list = page.getByRole("region", { name: "Sessions" }).first();
    await shown(list.getByRole("link", { name: /^later/ }));
    await ask(page);
    await page.getByRole("button", { name: EN.yes, exact: true }).press("Enter");
    await isLeft(page, id);
    await gone(list.getByRole("link", { name: /^now/ }));
    await hasFocus(list.getByRole("link", { name: /^later/ }));
  });

  test("the list is shown after a deletion on a narrow screen, and has the focus", async () => {
    const cay = new E2eClient(node);
    const { id, floorId } = await cay.create("general", { title: "only one" });
    const page = await open(addressOf(node, "session", { floorId, id }), {
      expected,
      viewport: { width: 390, height: 844 },
    });
    await ask(page);
    await page.getByRole("button", { name: EN.yes, exact: true }).click();
    await isLeft(page, id);
    await page.getByText("There are no sessions yet.").waitFor();
    const list = page.getByRole("region", { name: "Sessions", exact: true });
    await hasFocus(list.last());
    expect(await statusOf(id)).toBe(404);
  });

  test("a refused deletion shows the reason beneath the question, and can be requested again", async () => {
    const dov = new E2eClient(node);
    const { id, floorId } = await dov.create("general");
    const page = await open(addressOf(node, "session", { floorId, id }), { expected: /40[04]/ });
    await page.route(`**/session/${id}`, (route) => {
      const headers = { ...route.request().headers(), "idempotency-key": "k".repeat(999) };
      return route.request().method() === "DELETE" ? route.continue({ headers }) : route.continue();
    });
    await ask(page);
    const yes = page.getByRole("button", { name: EN.yes, exact: true });
    await yes.press("Enter");
    await shown(page.getByRole("alert").getByText(/Idempotency-Key/i));
    await hasFocus(yes);
    expect(await statusOf(id)).toBe(200);
    await page.unroute(`**/session/${id}`);
    await page.keyboard.press("Enter");
    await isLeft(page, id);
    expect(await statusOf(id)).toBe(404);
  });

  test("a session that was opened during a deletion stays open", async () => {
    const eva = new E2eClient(node);
    await eva.create("general", { title: "next" });
    const { id, floorId } = await eva.create("general", { title: "slow" });
    const page = await open(addressOf(node, "session", { floorId, id }), { expected });
    let release = () => {};
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    await page.route(`**/session/${id}`, async (route) => {
      if (route.request().method() === "DELETE") await held;
      return route.continue();
    });
    await ask(page);
    const answered = page.waitForResponse((response) => response.request().method() === "DELETE");
    await page.getByRole("button", { name: EN.yes, exact: true }).click();
    await page.getByRole("link", { name: /^next/ }).click();
    await page.getByRole("heading", { name: "next", exact: true }).waitFor();
    release();
    await answered;
    await gone(page.getByRole("link", { name: /^slow/ }));
    await page.getByRole("heading", { name: "next", exact: true }).waitFor();
    expect(new URL(page.url()).hash).not.toContain(id);
  });

  test.each(["active", "archived"])(
    "a deletion whose answer is lost ends once a stream reports it: %s",
    async (state) => {
      const hal = new E2eClient(node);
      const { id, floorId } = await hal.hold("general", { title: "silent" });
      if (state === "archived") await accepted(hal.on(id, "archive"));
      const page = await open(addressOf(node, "session", { floorId, id }), { expected });
      await connected(page);
      await page.route(`**/session/${id}`, async (route) => {
        if (route.request().method() === "DELETE") await route.fetch();
        else await route.continue();
      });
      await ask(page);
      await page.getByRole("button", { name: EN.yes, exact: true }).click();
      await isLeft(page, id);
      await page.getByRole("status").getByText("“silent” was deleted.", { exact: true }).waitFor();
    },
  );

  test.each(["active", "archived"])("a session that another client deletes is shown as deleted: %s", async (state) => {
    const fay = new E2eClient(node);
    const { id, floorId } = await fay.hold("general");
    if (state === "archived") await accepted(fay.on(id, "archive"));
    const page = await open(addressOf(node, "session", { floorId, id }), { expected });
    await page.getByRole("button", { name: EN.more, exact: true }).waitFor();
    await connected(page);
    await accepted(node.delete(`/session/${id}`));
    await page.getByRole("alert").getByText("This session was deleted.").waitFor();
    await page.getByRole("main").getByRole("link", { name: "All sessions", exact: true }).click();
    await page.getByText("Choose a session from the list.").waitFor();
  });

  test("deletion is not offered at a past moment", async () => {
    const gil = new E2eClient(node);
    const { id, floorId } = await gil.hold("general", { title: "then" });
    const page = await open(`${addressOf(node, "session", { floorId, id })}?at=1`);
    const more = page.getByRole("button", { name: EN.more, exact: true });
    // Without the elements beside the view, a page that is not rendered yet would match.
    await page.getByRole("heading", { name: "then", exact: true }).waitFor();
    await page.getByRole("button", { name: "Rename", exact: true }).waitFor();
    expect(await more.count()).toBe(0);
    await page.goto(`${node.url}/#/machine/${encodeURIComponent(floorId)}/${id}?at=1`);
    const command = page.getByRole("button", { name: "session.delete", exact: true });
    await command.waitFor();
    expect(await command.isDisabled()).toBe(true);
    await page.getByRole("button", { name: "Live", exact: true }).click();
    await expect.poll(() => command.isDisabled()).toBe(false);
    await page.getByRole("navigation").getByRole("link", { name: "Session" }).click();
    await more.waitFor();
  });
});
