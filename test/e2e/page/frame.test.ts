import type { Locator } from "playwright-core";
import { expect, onTestFinished, test } from "vitest";
import { createClient } from "../../../src/client/client.ts";
import { buildPage } from "../../support/browsers/built-page.ts";
import { addressOf, connected, describePage, signIn, startPageNode } from "../../support/browsers/page-stage.ts";
import { keyOf, startGuarded } from "../../support/clients/callers.ts";
import { accepted, E2eClient } from "../../support/clients/e2e-client.ts";
import { CuttingProxy } from "../../support/networks/cutting-proxy.ts";

const node = await startPageNode();

const connections = async () => JSON.parse((await node.get("/health")).text).connections as number;

describePage("the page's frame", (open) => {
  test("the page has its bar before its script has been read, and only once; it explains floors when no floor is chosen, and opens one by its user's name", async () => {
    const page = await open(node.url, { expected: /ERR_FAILED/ });
    await page.route("**/*.js", (route) => route.abort());
    await page.reload();
    const bar = page.getByRole("banner");
    await bar.getByText("Interlock", { exact: true }).waitFor();
    expect((await bar.boundingBox())?.height).toBe(48);
    await page.unroute("**/*.js");
    await page.reload();
    await connected(page);
    await expect.poll(() => bar.count()).toBe(1);
    await page.getByRole("main").getByLabel("User").fill("zoë / left");
    await page.getByRole("main").getByRole("button", { name: "Open", exact: true }).click();
    await page.getByRole("heading", { name: "zoë / left", exact: true }).waitFor();
    const { agents } = (await node.get("/agents")).body;
    for (const { name } of agents) await page.getByRole("button", { name, exact: false }).first().waitFor();
  });

  test("the page lists its keys, and obeys them while no field has the focus", async () => {
    const page = await open(`${node.url}/#/floor/u%3Akeys`);
    await page.getByRole("button", { name: "Keys", exact: true }).click();
    await page.getByText("The event before, after (Shift: ten)").waitFor();
    await page.getByRole("button", { name: "Close" }).click();
    await page.getByRole("dialog").waitFor({ state: "hidden" });
    await page.keyboard.press("KeyL");
    await page.getByText("已连接", { exact: true }).waitFor();
    await page.getByLabel("标志名").press("KeyL");
    await expect.poll(() => page.locator("html").getAttribute("lang")).toBe("zh-CN");
  });

  test("the page follows the browser's language and the system's theme until others are chosen, without a reload, and remembers the choice", async () => {
    const page = await open(node.url, { locale: "zh-CN", colorScheme: "dark" });
    await page.getByRole("heading", { name: "谁拥有发言权，为什么", exact: true }).waitFor();
    await expect.poll(() => page.locator("html").getAttribute("lang")).toBe("zh-CN");
    await page.getByRole("button", { name: "English" }).click();
    await page.getByRole("heading", { name: "Who has the floor, and why", exact: true }).waitFor();
    const ground = () => page.evaluate<string>("getComputedStyle(document.documentElement).backgroundColor");
    await expect.poll(() => ground()).toBe("rgb(14, 20, 26)");
    const scrollBars = () => page.evaluate<string>("getComputedStyle(document.documentElement).scrollbarColor");
    expect(await scrollBars()).toBe("rgb(107, 123, 137) rgba(0, 0, 0, 0)");
    await page.getByRole("button", { name: "Switch to light colours" }).click();
    await expect.poll(() => ground()).toBe("rgb(243, 245, 247)");
    await page.reload();
    await page.getByRole("heading", { name: "Who has the floor, and why", exact: true }).waitFor();
    await expect.poll(() => ground()).toBe("rgb(243, 245, 247)");
  });

  test("the address takes a position of the log as the API shows it, and the page says if it takes none", async () => {
    const { floorId } = await new E2eClient(node).hold("music");
    const address = (at: string) => `${node.url}/#/timeline/${encodeURIComponent(floorId)}?at=${at}`;
    const { events } = await createClient({ baseUrl: node.url }).readFloorLog(floorId);
    const { position } = events[1]!;
    const page = await open(address(position));
    await page.getByText("2 of 3 events").waitFor();
    const alert = page.getByRole("alert");
    await connected(page);
    expect(await alert.count()).toBe(0);
    for (const wrong of ["yesterday", "other.2"]) {
      await page.goto(address(wrong));
      await alert.getByText(`The moment “${wrong}” of the address is not a position of this log.`).waitFor();
      await page.getByText("3 of 3 events").waitFor();
    }
    await page.getByRole("slider", { name: "Look at an earlier moment" }).press("ArrowLeft");
    await page.getByText("2 of 3 events").waitFor();
    await expect.poll(() => alert.count()).toBe(0);
    await expect.poll(() => page.url()).toBe(address("2"));
  });

  test("a lost connection is said in a place that moves nothing, on a phone too, and makes the signs of states hollow until the page has reconnected by itself", async () => {
    const proxy = await CuttingProxy.start(node.url);
    const { id, floorId } = await new E2eClient(node).hold("music");
    const page = await open(addressOf(proxy, "session", { floorId, id }), { expected: /ERR_/ });
    const connection = (status: string) => page.locator(`header [role=status][data-status="${status}"]`).waitFor();
    const placeOf = async (locator: Locator) => (await locator.first().boundingBox())!;
    /** Whether all signs are hollow, or none: the inside of a hollow one has no colour, and its outline has one. */
    const hollow = () =>
      page.evaluate<boolean[]>(`[...new Set([...document.querySelectorAll("main [data-lamp]")].map((lamp) => {
        const { webkitTextFillColor, webkitTextStrokeWidth } = getComputedStyle(lamp);
        return webkitTextFillColor === "rgba(0, 0, 0, 0)" && webkitTextStrokeWidth === "1px";
      }))]`);
    await connection("open");
    await page.locator("main [data-lamp]").nth(2).waitFor();
    expect(await hollow()).toEqual([false]);
    const title = page.getByRole("heading", { level: 1 });
    for (const viewport of [
      { width: 390, height: 844 },
      { width: 1280, height: 720 },
    ]) {
      await page.setViewportSize(viewport);
      await expect.poll(async () => (await placeOf(page.locator("header"))).width).toBe(viewport.width);
      const before = await placeOf(title);
      proxy.refuse();
      await connection("waiting");
      const line = page.getByText(/No connection since \d+:\d+:\d+.*\. Trying again in \d+ s\./);
      await line.waitFor();
      expect(await placeOf(title)).toEqual(before);
      const { y, height } = await placeOf(line);
      expect(y).toBeGreaterThanOrEqual((await placeOf(page.locator("header"))).height);
      expect(y + height).toBeLessThanOrEqual(before.y);
      await expect.poll(hollow).toEqual([true]);
      // A past moment is known.
      await page.keyboard.press("ArrowLeft");
      await expect.poll(hollow).toEqual([false]);
      await page.keyboard.press("End");
      await expect.poll(hollow).toEqual([true]);
      proxy.admit();
      await connection("open");
      await expect.poll(hollow).toEqual([false]);
    }
  });

  test("the strip at the bottom shows every event of the log, with a tick for a refusal, in the colours of the theme", async () => {
    const user = new E2eClient(node);
    const { id, floorId } = await user.hold("phone");
    await createClient({ baseUrl: node.url }).renameSession(id, "A call");
    const other = await user.create("music");
    expect((await user.on(other.id, "activate")).status).toBe(409);
    const page = await open(addressOf(node, "floor", { floorId }));
    const events = (await createClient({ baseUrl: node.url }).readFloorLog(floorId)).events.toReversed();
    const refused = events.findIndex(({ type, data }) => type === "arbitration" && data.outcome === "rejected");
    expect(refused).toBeGreaterThan(0);
    await page.getByText(`${events.length} of ${events.length} events`).waitFor();
    /** The height of the mark in the middle of each event's part of the strip, and whether it is red. */
    const marks = () =>
      page.evaluate<{ tall: number; isRed: boolean }[]>(`(() => {
        const strip = document.querySelector("section canvas");
        const { data, width, height } = strip.getContext("2d").getImageData(0, 0, strip.width, strip.height);
        return Array.from({ length: ${events.length} }, (_, event) => {
          const x = Math.floor((event * width) / ${events.length});
          const column = Array.from({ length: height }, (_, y) => data.slice(4 * (y * width + x), 4 * (y * width + x) + 4));
          const drawn = column.filter(([, , , alpha]) => alpha > 0);
          return { tall: drawn.length / height, isRed: drawn.some(([red, green]) => red > 2 * green) };
        });
      })()`);
    await expect.poll(async () => (await marks()).every(({ tall }) => tall > 0)).toBe(true);
    const ticks = (await marks()).map(({ isRed }) => isRed);
    expect(ticks).toEqual(events.map((_, event) => event === refused));
    const colour = () =>
      page.evaluate<string>(`(() => {
        const strip = document.querySelector("section canvas");
        return strip.getContext("2d").getImageData(0, strip.height - 1, 1, 1).data.slice(0, 3).join();
      })()`);
    expect(await colour()).toBe("111,127,141");
    await page.emulateMedia({ colorScheme: "dark" });
    await expect.poll(colour).toBe("132,150,165");
  });

  test("the page closes its streams after it was hidden for a while, and opens them when it is shown again", async () => {
    const page = await open(node.url);
    await page.clock.install();
    await page.reload();
    await connected(page);
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
    // A tab that is opened in the background is hidden from the beginning.
    await page.addInitScript('Object.defineProperty(document, "hidden", { value: true, configurable: true })');
    await page.reload();
    await connected(page);
    await page.clock.fastForward(11_000);
    await expect.poll(connections).toBe(0);
    await show(false);
    await expect.poll(connections).toBe(1);
  });

  test("the page asks for a required token, keeps it from its scripts, and deletes it at the sign-out; each view says that a floor belongs to another user, and links to the visible ones", async () => {
    const { node: guarded, bob } = await startGuarded({ pageFolder: await buildPage() }, onTestFinished);
    await bob.post("/session/create", { agentId: "music", userId: "bob", activate: true });
    const page = await open(guarded.url, { expected: /40[14]/ });
    await page.getByLabel("Token").fill("not-the-key-0123456789abcdef");
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByText("The server does not accept this token.").waitFor();
    await signIn(page, keyOf("ann"));
    await connected(page);
    await page.getByRole("heading", { name: "Who has the floor, and why", exact: true }).waitFor();
    const kept = await page.evaluate<string>(
      "document.cookie + JSON.stringify({ ...localStorage, ...sessionStorage })",
    );
    expect(kept).not.toContain(keyOf("ann"));
    await page.reload();
    await connected(page);
    for (const view of ["floor", "session", "machine", "timeline", "sequence"]) {
      await page.goto(`${guarded.url}/#/${view}/u%3Abob`);
      await page.locator(`nav [aria-current][href*="${view}"]`).waitFor();
      await page.getByRole("alert").getByText("There is no such floor, or it is not yours.").waitFor();
    }
    await page.getByRole("link", { name: "Choose another floor" }).click();
    await page.getByText("No floor was used yet. Open one, and start a session on it.").waitFor();
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByLabel("Token").waitFor();
    await page.reload();
    await page.getByLabel("Token").waitFor();
    await expect.poll(() => page.getByRole("button", { name: "Sign out" }).count()).toBe(0);
  });

  test("every view announces new decisions to screen readers, at most one in two seconds, and none from before the page was opened", async () => {
    const ann = new E2eClient(node);
    const { floorId } = await ann.hold("music");
    const page = await open(node.url);
    await page.clock.install();
    await page.goto(addressOf(node, "timeline", { floorId }));
    await connected(page);
    const told = page.locator("p[aria-live=polite]");
    await page.getByText(/got the floor: it is free/).waitFor();
    await page.clock.fastForward(5_000);
    await page.clock.fastForward(5_000);
    expect(await told.textContent()).toBe("");
    await page.clock.pauseAt(Date.now() + 60_000);
    let clockMs = 0;
    /** The page's clock when this is announced. */
    const announcedAt = async (text: RegExp) => {
      for (; !text.test((await told.textContent())!); clockMs += 50) await page.clock.runFor(50);
      return clockMs;
    };
    await ann.hold("phone");
    const first = await announcedAt(/^Phone \(90\) got the floor: 90 against 20, Music is paused\.$/);
    await ann.askToCreate({ agentId: "weather", activate: true });
    await ann.askToCreate({ agentId: "chat", activate: true });
    expect((await announcedAt(/^Chat \(10\) was refused/)) - first).toBeGreaterThan(1_900);
  });

  test("the bar fits one line on a tablet, in Chinese too, and links in every view to the session that waits for an answer", async () => {
    const ann = new E2eClient(node);
    const { id, floorId } = await ann.hold("general");
    await ann.say(id, "ask");
    const viewport = { width: 900, height: 900 };
    const page = await open(addressOf(node, "timeline", { floorId }), { viewport });
    const bar = page.getByRole("banner");
    await bar.getByRole("link", { name: "1 waiting for an answer" }).waitFor();
    expect((await bar.boundingBox())!.height).toBeLessThan(60);
    await page.keyboard.press("KeyL");
    await bar.getByRole("link", { name: /待回答/ }).waitFor();
    expect((await bar.boundingBox())!.height).toBeLessThan(60);
    await page.keyboard.press("KeyL");
    await bar.getByRole("link", { name: "1 waiting for an answer" }).click();
    await page.getByRole("group", { name: "Which one?" }).waitFor();
  });

  test("the page lists the floors by their last activity if none is chosen, idle ones too, as they change", async () => {
    const bob = new E2eClient(node);
    await accepted(bob.on((await bob.hold("music")).id, "archive"));
    const page = await open(node.url);
    const first = page.getByRole("main").getByRole("link").first();
    await first.getByText(bob.userId).waitFor();
    await first.getByText("free", { exact: true }).waitFor();
    const ann = new E2eClient(node);
    const music = await ann.hold("music");
    const line = page.getByRole("main").getByRole("link", { name: ann.userId, exact: false });
    await line.getByText("held · Music").waitFor();
    await first.getByText(ann.userId).waitFor();
    await ann.hold("phone");
    await line.getByText("held · Phone · ‖ 1").waitFor();
    await line.click();
    await page.getByRole("article", { name: "Music: paused" }).waitFor();
    await expect.poll(() => page.getByRole("article").count()).toBe(2);
    expect(music.floorId).toBe(`u:${ann.userId}`);
  });
});
