import { expect, onTestFinished, test } from "vitest";
import { addressOf, connected, describePage, gone, startPageNode } from "../../support/browsers/page-stage.ts";
import { E2eClient } from "../../support/clients/e2e-client.ts";
import { CuttingProxy } from "../../support/networks/cutting-proxy.ts";
import { freePort } from "../../support/servers/free-port.ts";

const node = await startPageNode();

const VIEWS = ["floor", "session", "machine"] as const;

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
