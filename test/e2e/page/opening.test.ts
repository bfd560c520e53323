import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { AS_OLDEST_BROWSER } from "../../support/browsers/oldest-engines.ts";
import { addressOf, connected, describePage, messagesOn, startPageNode } from "../../support/browsers/page-stage.ts";
import { E2eClient } from "../../support/clients/e2e-client.ts";
import { CuttingProxy } from "../../support/networks/cutting-proxy.ts";

const node = await startPageNode();

/** Records for each request of the page's script whether the page had been drawn when it was sent. */
const RECORD_REQUESTS = `
  window.requests = [];
  const send = window.fetch;
  window.fetch = (target, options) => {
    const path = new URL(String(target.url ?? target), location.href).pathname;
    window.requests.push({ path: decodeURIComponent(path), isDrawn: document.querySelector("nav a") !== null });
    return send(target, options);
  };`;

const requestsOf = (page: Page) => page.evaluate<{ path: string; isDrawn: boolean }[]>("window.requests");
const scriptsOf = (page: Page) =>
  page.evaluate<string[]>(`performance.getEntriesByType("resource").map(({ name }) => name)`);
const agentButton = (page: Page) => page.locator("[aria-labelledby=agents] button:enabled").first();

/** Holds the floor's stream until the returned function is called. */
async function holdStream(page: Page): Promise<() => void> {
  const mayOpen = Promise.withResolvers<void>();
  await page.route("**/floor/*/events*", async (route) => {
    await mayOpen.promise;
    await route.continue();
  });
  return mayOpen.resolve;
}

describePage("opening the page", (open) => {
  test("the page requests the agents and its floor before it draws anything", async () => {
    const page = await open("about:blank");
    await page.addInitScript(RECORD_REQUESTS);
    await page.goto(`${node.url}/#/floor/u%3Aearly`);
    await agentButton(page).waitFor();
    const requests = await requestsOf(page);
    for (const path of ["/agents", "/floor/u:early"]) {
      expect(requests.filter((each) => each.path === path)).toEqual([{ path, isDrawn: false }]);
    }
  });

  test("the agents are requested once, even if the stream opens before they arrive, and again after a lost connection", async () => {
    const page = await open("about:blank", { expected: /ERR_/ });
    const proxy = await CuttingProxy.start(node.url);
    let requests = 0;
    const answer = Promise.withResolvers<void>();
    await page.route("**/agents", async (route) => {
      requests += 1;
      await answer.promise;
      await route.continue();
    });
    await page.goto(`${proxy.url}/#/floor/u%3Aonce`);
    await connected(page);
    answer.resolve();
    await agentButton(page).waitFor();
    expect(requests).toBe(1);

    proxy.refuse();
    await page.getByText("Disconnected", { exact: true }).waitFor();
    proxy.admit();
    await expect.poll(() => requests).toBe(2);
  });

  test("the agents are read again if the first answer was an error and the connection then opens", async () => {
    const page = await open("about:blank", { expected: /404/ });
    let requests = 0;
    const openStream = await holdStream(page);
    await page.route("**/agents", async (route) => {
      requests += 1;
      if (requests > 1) return route.continue();
      const problem = { type: "about:blank", title: "Not found", status: 404, code: "not_found" };
      return route.fulfill({ status: 404, contentType: "application/problem+json", body: JSON.stringify(problem) });
    });
    await page.goto(`${node.url}/#/floor/u%3Aagain`);
    await page.getByRole("heading", { name: "again" }).waitFor();
    await expect.poll(() => requests).toBe(1);
    openStream();
    await agentButton(page).waitFor();
    expect(requests).toBe(2);
  });

  test("each view works in a browser without what the oldest ones lack", async () => {
    const session = await new E2eClient(node).hold("general");
    const page = await open("about:blank");
    await page.addInitScript(AS_OLDEST_BROWSER);
    for (const view of ["floor", "session", "timeline", "sequence", "machine", "policy", "node"]) {
      await page.goto(addressOf(node, view, session));
      await page.getByRole("navigation", { name: "Views" }).locator("[aria-current]").waitFor();
      await connected(page);
    }
    await page.goto(addressOf(node, "session", session));
    await page.getByRole("textbox", { name: "Say something" }).fill("hello");
    await page.keyboard.press("Enter");
    await messagesOn(page).getByText("Hello there.").waitFor();
  });

  test("the script of the session view is loaded after the floor view is connected, without a click", async () => {
    const page = await open("about:blank");
    const openStream = await holdStream(page);
    await page.goto(`${node.url}/#/floor/u%3Anext`);
    await agentButton(page).waitFor();
    const isLoaded = async () => (await scriptsOf(page)).some((name) => /\/session-view-[^/]+\.js$/.test(name));
    expect(await isLoaded()).toBe(false);
    openStream();
    await expect.poll(isLoaded).toBe(true);

    await page.route("**/assets/**", (route) => route.abort());
    await page.getByRole("navigation", { name: "Views" }).getByRole("link", { name: "Session" }).click();
    await page.getByRole("searchbox", { name: "Search titles and messages" }).waitFor();
  });
});
