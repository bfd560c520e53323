import { AxeBuilder } from "@axe-core/playwright";
import { afterAll, expect, test } from "vitest";
import { buildPage } from "../../support/built-page.ts";
import { keysFile, writeTemporary } from "../../support/callers.ts";
import { closeChromium, describeInChromium } from "../../support/chromium.ts";
import { CuttingProxy } from "../../support/cutting-proxy.ts";
import { NodeUnderTest } from "../../support/node-under-test.ts";

const KEY = "ann-key-0123456789abcdef0123456789";
/** Each size, theme and language at least once, and the smallest screen in all: axe takes seconds for each. */
const LOOKS = [
  { viewport: { width: 1280, height: 720 }, colorScheme: "light", locale: "en-US" },
  { viewport: { width: 390, height: 844 }, colorScheme: "dark", locale: "en-US" },
  { viewport: { width: 390, height: 844 }, colorScheme: "light", locale: "zh-CN" },
  { viewport: { width: 1920, height: 1080 }, colorScheme: "dark", locale: "zh-CN" },
] as const;

const pageFolder = await buildPage();
const node = await NodeUnderTest.start({ pageFolder });
afterAll(() => node.stop());
afterAll(closeChromium);

const connections = async () => JSON.parse((await node.get("/health")).text).connections as number;

describeInChromium("the page's frame", (open) => {
  test("explains floors when no floor is chosen, and opens one by its user's name", async () => {
    const { page, faults } = await open(node.url);
    await page.getByText("Connected", { exact: true }).waitFor();
    await page.getByRole("main").getByLabel("User").fill("zoë / left");
    await page.getByRole("main").getByRole("button", { name: "Open", exact: true }).click();
    await page.getByRole("heading", { name: "zoë / left", exact: true }).waitFor();
    const { agents } = (await node.get("/agents")).body;
    for (const { name } of agents) await page.getByRole("button", { name, exact: false }).first().waitFor();
    expect(faults).toEqual([]);
  });

  test("lists its keys, and obeys them while no field has the focus", async () => {
    const { page } = await open(`${node.url}/#/floor/u%3Akeys`);
    await page.getByRole("button", { name: "Keys", exact: true }).click();
    await page.getByText("The event before, after (Shift: ten)").waitFor();
    await page.getByRole("button", { name: "Close" }).click();
    await page.keyboard.press("KeyL");
    await page.getByText("已连接", { exact: true }).waitFor();
    await page.getByLabel("标志名").press("KeyL");
    expect(await page.locator("html").getAttribute("lang")).toBe("zh-CN");
  });

  test("speaks Chinese to a browser that does, and switches without a reload", async () => {
    const { page, faults } = await open(node.url, { locale: "zh-CN" });
    await page.getByRole("heading", { name: "谁拥有发言权，为什么", exact: true }).waitFor();
    expect(await page.locator("html").getAttribute("lang")).toBe("zh-CN");
    await page.getByRole("button", { name: "English" }).click();
    await page.getByRole("heading", { name: "Who has the floor, and why", exact: true }).waitFor();
    await page.reload();
    await page.getByRole("heading", { name: "Who has the floor, and why", exact: true }).waitFor();
    expect(faults).toEqual([]);
  });

  test("follows the system's theme until another is chosen, and remembers the choice", async () => {
    const { page } = await open(node.url, { colorScheme: "dark" });
    const ground = () => page.evaluate<string>("getComputedStyle(document.documentElement).backgroundColor");
    expect(await ground()).toBe("rgb(14, 20, 26)");
    await page.getByRole("button", { name: "Switch to light colours" }).click();
    expect(await ground()).toBe("rgb(243, 245, 247)");
    await page.reload();
    await page.getByText("Connected", { exact: true }).waitFor();
    expect(await ground()).toBe("rgb(243, 245, 247)");
  });

  test.each(LOOKS)(
    "has no fault that axe finds and nothing beside the screen: $viewport.width $colorScheme $locale",
    async (how) => {
      const { page } = await open(`${node.url}/#/floor/u%3Alooks`, how);
      await page.getByRole("listitem").first().waitFor();
      const { violations } = await new AxeBuilder({ page }).analyze();
      expect(violations.map(({ id, nodes }) => `${id}: ${nodes[0]?.html}`)).toEqual([]);
      expect(await page.evaluate<number>("document.documentElement.scrollWidth")).toBeLessThanOrEqual(
        how.viewport.width,
      );
    },
  );

  test("says that the connection is lost, keeps what it shows, and comes back by itself", async () => {
    const road = await CuttingProxy.start(node.url);
    const { page } = await open(`${road.url}/#/floor/u%3Aroad`);
    await page.getByRole("listitem").first().waitFor();
    await page.getByText("Connected", { exact: true }).waitFor();
    road.refuse();
    await page.getByText("Disconnected", { exact: true }).waitFor();
    await page.getByText(/No connection to the server\. Trying again in \d+ s\./).waitFor();
    expect(await page.getByRole("listitem").count()).toBeGreaterThan(0);
    road.admit();
    await page.getByText("Connected", { exact: true }).waitFor();
  });

  test("closes its streams after it was hidden for a while, and opens them when it is shown again", async () => {
    const { page } = await open(node.url);
    await page.clock.install();
    await page.reload();
    await page.getByText("Connected", { exact: true }).waitFor();
    // Connections of earlier pages, and of this page before its reload, may still be closing.
    await expect.poll(connections).toBe(1);
    const show = (isHidden: boolean) =>
      page.evaluate(`Object.defineProperty(document, "hidden", { value: ${isHidden}, configurable: true });
        document.dispatchEvent(new Event("visibilitychange"));`);
    await show(true);
    await page.clock.fastForward(11_000);
    await expect.poll(connections).toBe(0);
    await show(false);
    await expect.poll(connections).toBe(1);
  });

  test("asks for a token where the server wants one, and keeps it out of the scripts' reach", async () => {
    const file = await writeTemporary("keys.yaml", keysFile([{ owner: "ann", key: KEY }]), afterAll);
    const guarded = await NodeUnderTest.start({ pageFolder, settings: { INTERLOCK_AUTH: `keys:${file}` } });
    afterAll(() => guarded.stop());
    const { page } = await open(guarded.url);
    await page.getByLabel("Token").fill("not-the-key-0123456789abcdef");
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByText("The server does not accept this token.").waitFor();
    await page.getByLabel("Token").fill(KEY);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByText("Connected", { exact: true }).waitFor();
    await page.getByRole("heading", { name: "Who has the floor, and why", exact: true }).waitFor();
    const kept = await page.evaluate<string>(
      "document.cookie + JSON.stringify({ ...localStorage, ...sessionStorage })",
    );
    expect(kept).not.toContain(KEY);
    await page.reload();
    await page.getByText("Connected", { exact: true }).waitFor();
  });
});
