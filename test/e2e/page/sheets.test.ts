import type { Locator } from "playwright-core";
import { expect, onTestFinished, test } from "vitest";
import { axeFaults } from "../../support/browsers/axe.ts";
import {
  addressOf,
  describePage,
  gone,
  hasFocus,
  PHONE,
  shown,
  startPageNode,
} from "../../support/browsers/page-stage.ts";
import { E2eClient } from "../../support/clients/e2e-client.ts";
import { saveLog } from "../../support/documents/saved-log.ts";

const node = await startPageNode();

const WIDE = { viewport: { width: 1920, height: 1080 } };

/** A call paused the music, and a joke was refused. No test changes this floor. */
const user = new E2eClient(node);
const music = await user.hold("music", { title: "songs" });
await user.hold("phone", { title: "a call" });
await user.askToCreate({ agentId: "chat", activate: true });
const address = addressOf(node, "floor", music);

describePage("the panels beside the floor", (open) => {
  test("on a phone the newest decision is a line that opens a sheet of all, which Escape or a press outside closes; the sessions and their search are a sheet, from which one is opened", async () => {
    const page = await open(address, PHONE);
    const opener = page.getByRole("button", { name: /^Decisions Chat \(10\) was refused/ });
    await opener.tap();
    const sheet = page.getByRole("dialog", { name: "Decisions", exact: true });
    await sheet.getByText("Music (20) got the floor: it is free.").waitFor();
    await sheet.locator("summary").first().tap();
    await sheet.getByText("lower_priority").waitFor();
    expect(await axeFaults(page)).toEqual([]);
    await page.keyboard.press("Escape");
    await gone(sheet);
    await hasFocus(opener);

    await opener.tap();
    await sheet.waitFor();
    await page.touchscreen.tap(195, 40);
    await gone(sheet);
    await hasFocus(opener);
    await opener.tap();
    await sheet.getByRole("button", { name: "Close", exact: true }).tap();
    await gone(sheet);
    await hasFocus(opener);

    await page.getByRole("article", { name: "Music: paused" }).waitFor();
    expect(await page.getByRole("searchbox").count()).toBe(0);
    await page.getByRole("button", { name: "Sessions", exact: true }).tap();
    const sessions = page.getByRole("dialog", { name: "Sessions", exact: true });
    await sessions.getByRole("link", { name: /^a call/ }).waitFor();
    await sessions.getByRole("searchbox").fill("songs");
    await gone(sessions.getByRole("link", { name: /^a call/ }));
    expect(await axeFaults(page)).toEqual([]);
    await sessions.getByRole("link", { name: /^songs/ }).tap();
    await page.waitForURL(new RegExp(`#/session/.*/${music.id}`));
    await page.getByRole("heading", { name: "songs", exact: true }).waitFor();
    await gone(sessions);
  });

  test("on a phone an empty floor is followed by the agents, in the focus order too, with the decisions at the bottom", async () => {
    const page = await open(`${node.url}/#/floor/u%3A${node.newUser()}`, PHONE);
    const line = page.getByRole("button", { name: /^Decisions/ });
    const agents = page.getByRole("region", { name: "Agents", exact: true });
    await agents.getByRole("button").first().waitFor();
    const bottom = async (place: Locator) => {
      const { y, height } = (await place.boundingBox())!;
      return y + height;
    };
    expect(await bottom(line)).toBeGreaterThan(844 - 10);
    expect(await bottom(page.getByText("No session waits."))).toBeLessThan((await agents.boundingBox())!.y);
    expect(await bottom(agents)).toBeLessThan((await page.getByLabel("name of a flag").boundingBox())!.y);
    await page.getByRole("button", { name: "Stop all", exact: true }).focus();
    await page.keyboard.press("Tab");
    await hasFocus(agents.getByRole("button").first());
  });

  test("on a larger screen tabs choose agents or sessions, with the arrow keys too, and / focuses the search", async () => {
    const page = await open(address);
    const tab = (name: string) => page.getByRole("tab", { name, exact: true });
    const panel = (name: string) => page.getByRole("tabpanel", { name, exact: true });
    await shown(panel("Agents").getByRole("button", { name: /^Phone/ }));
    await tab("Agents").focus();
    await page.keyboard.press("ArrowRight");
    await hasFocus(tab("Sessions"));
    await shown(panel("Sessions").getByRole("link", { name: /^songs/ }));
    await page.keyboard.press("ArrowLeft");
    await shown(panel("Agents").getByRole("button", { name: /^Phone/ }));
    await page.getByRole("heading", { level: 1 }).click();
    await page.keyboard.press("/");
    await hasFocus(panel("Sessions").getByRole("searchbox"));
    await page.keyboard.type("a call");
    await gone(panel("Sessions").getByRole("link", { name: /^songs/ }));
  });
});

describePage("the panels of a wide screen", (open) => {
  test("the floor view shows the five minutes before the moment, with a lane for each session of that time", async () => {
    const page = await open(`${node.url}/#/floor`, WIDE);
    const saved = await saveLog([0, 100, 600], onTestFinished);
    await page.locator("input[type=file]").first().setInputFiles(saved);
    await page.getByRole("navigation").getByRole("link", { name: "Floor" }).click();
    const recent = page.getByRole("region", { name: "The last five minutes", exact: false });
    await recent.getByRole("img", { name: /^3 sessions/ }).waitFor();
    /** How many pixels of each lane are painted in a column: the lane's bar, and the line beneath it. */
    const column = (part: number) =>
      page.evaluate<number[]>(`(() => {
        const canvas = document.querySelector("canvas[role=img]");
        const { data } = canvas.getContext("2d").getImageData(Math.round((canvas.width - 1) * ${part}), 0, 1, 66);
        const painted = Array.from({ length: 66 }, (_, y) => data[4 * y + 3] > 0);
        return [0, 22, 44].map((top) => painted.slice(top, top + 22).filter(Boolean).length);
      })()`);
    await expect.poll(() => column(0.5)).toEqual([2 + 1, 2 + 1, 1]);
    await page.getByRole("slider").press("Home");
    await page.getByRole("slider").press("ArrowRight");
    await recent.getByRole("img", { name: /^1 sessions?/ }).waitFor();
    // The moment is a past one: nothing but the window's size makes the page paint the lanes again.
    for (const width of [1820, 2240]) {
      await page.setViewportSize({ width, height: 1080 });
      const isSharp = () =>
        page.evaluate<boolean>(`(() => {
          const { width, clientWidth } = document.querySelector("canvas[role=img]");
          return width === clientWidth;
        })()`);
      await expect.poll(isSharp).toBe(true);
    }
    await page.setViewportSize({ width: 1280, height: 720 });
    await gone(recent);
  });

  test("from 1800 px on, the column on the right is 420 px wide, and nothing in it is cut off", async () => {
    const page = await open(address, WIDE);
    const columns = [
      { view: "floor", column: "section[aria-labelledby=decisions]", narrow: 360 },
      { view: "session", column: "[aria-label=Facts]", narrow: 635 },
      { view: "machine", column: "main aside", narrow: 320 },
    ];
    for (const { view, column, narrow } of columns) {
      await page.goto(addressOf(node, view, music));
      for (const [width, wanted] of [[1800, 420] as const, [1799, narrow] as const]) {
        await page.setViewportSize({ width, height: 1080 });
        const box = async () => (await page.locator(column).boundingBox())!;
        await expect.poll(async () => (await box()).width, { message: `${view} at ${width}` }).toBe(wanted);
        const { x } = await box();
        expect(x + wanted).toBeLessThanOrEqual(width);
        const cutOff = await page.evaluate<string[]>(`[...document.querySelectorAll(${JSON.stringify(`${column} *`)})]
          .filter((each) => each.getBoundingClientRect().right > ${x + wanted} && getComputedStyle(each).position !== "absolute")
          .map((each) => each.outerHTML)`);
        expect(cutOff, `${view} at ${width}`).toEqual([]);
      }
    }
  });

  test("the session view shows the session's machine beside its conversation, now and at a past moment", async () => {
    const page = await open(addressOf(node, "session", music), WIDE);
    const machine = page.getByRole("region", { name: "Machine", exact: true });
    const lit = (state: string) => machine.locator(`[data-state=${state}][data-lit=true]`);
    await lit("paused").waitFor();
    await lit("idle").waitFor();
    const { x, width } = (await machine.boundingBox())!;
    const facts = page.getByRole("region", { name: "Facts" });
    expect(x + width).toBeLessThan((await facts.boundingBox())!.x);
    // Both of its charts are visible as a whole.
    const hidden = () =>
      page.evaluate<number[]>(`(() => {
        const column = document.querySelector("section[aria-label=Machine]");
        return [column, ...column.querySelectorAll("figure section")].flatMap(
          (box) => [box.scrollHeight - box.clientHeight, box.scrollWidth - box.clientWidth]);
      })()`);
    await expect.poll(hidden).toEqual([0, 0, 0, 0, 0, 0]);
    await page.goto(`${addressOf(node, "session", music)}?at=1`);
    await lit("created").waitFor();
    await page.setViewportSize({ width: 1280, height: 720 });
    await gone(machine);
  });
});
