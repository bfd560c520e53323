import type { BrowserContextOptions, Page } from "playwright-core";
import { afterAll, expect, test } from "vitest";
import { buildPage } from "../../support/browsers/built-page.ts";
import { type BrowserPage, closeChromium, describeInChromium } from "../../support/browsers/chromium.ts";
import { E2eClient } from "../../support/clients/e2e-client.ts";
import { saveLog } from "../../support/documents/saved-log.ts";
import { NodeUnderTest } from "../../support/nodes/node-under-test.ts";

const node = await NodeUnderTest.start({ pageFolder: await buildPage() });
afterAll(() => node.stop());
afterAll(closeChromium);

const PHONE = { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true };

/** The timeline of a log of two hours, on a phone. */
async function openLog(open: (url: string, options?: BrowserContextOptions) => Promise<BrowserPage>) {
  const opened = await open(`${node.url}/#/timeline`, PHONE);
  const saved = await saveLog([0, 1_800, 3_600, 5_400, 7_200], afterAll);
  await opened.page.locator("input[type=file]").first().setInputFiles(saved);
  const picture = opened.page.getByRole("img", { name: /5 sessions over time/ });
  await picture.waitFor();
  return { ...opened, picture };
}

/** Fingers on the page: each step lists the positions of all that touch it; an empty step lifts them. */
async function fingersOn(page: Page) {
  const session = await page.context().newCDPSession(page);
  let down = 0;
  return async (...points: { x: number; y: number }[]) => {
    const type = points.length > down ? "touchStart" : points.length < down ? "touchEnd" : "touchMove";
    down = points.length;
    const touchPoints = points.map((point, id) => ({ ...point, id }));
    await session.send("Input.dispatchTouchEvent", { type, touchPoints });
  };
}

/** The part of the log that the address selects; undefined: all of it. */
function spanOf(page: Page): { from: number; to: number } | undefined {
  const query = new URLSearchParams(page.url().split("?")[1]);
  const [from, to] = [Number(query.get("from")), Number(query.get("to"))];
  return to > 0 ? { from, to } : undefined;
}

describeInChromium("fingers on the timeline", (open) => {
  test("two fingers on the overview choose the part between them and follow; a remaining finger chooses nothing", async () => {
    const { page, faults } = await openLog(open);
    const { x, y, width, height } = (await page.getByRole("img", { name: /^The whole log/ }).boundingBox())!;
    const at = (part: number) => ({ x: x + part * width, y: y + height / 2 });
    const touch = await fingersOn(page);
    await touch(at(0.75));
    await touch(at(0.75), at(0.25));
    await page.waitForURL(/from=\d+/);
    const half = spanOf(page)!;
    await touch(at(0.95), at(0.05));
    await expect.poll(() => spanOf(page)!.from).toBeLessThan(half.from);
    const most = spanOf(page)!;
    expect(most.to).toBeGreaterThan(half.to);
    expect((most.to - most.from) / (half.to - half.from)).toBeCloseTo(0.9 / 0.5, 2);

    await touch(at(0.95));
    await touch(at(0.4));
    await touch();
    await page.getByRole("button", { name: "Refused", exact: true }).tap();
    await page.waitForURL(/only=refused/);
    expect(spanOf(page)).toEqual(most);
    expect(faults).toEqual([]);
  });

  test("two fingers on the lanes zoom and move the log, and keep the moment; one finger chooses a moment", async () => {
    const { page, faults, picture } = await openLog(open);
    const { x, y, width } = (await picture.boundingBox())!;
    const at = (part: number) => ({ x: x + part * width, y: y + 10 });
    const touch = await fingersOn(page);
    await touch(at(0.4));
    await touch(at(0.4), at(0.6));
    await touch(at(0.3), at(0.7));
    await touch(at(0.1), at(0.9));
    await touch();
    await page.waitForURL(/from=\d+/);
    const near = spanOf(page)!;
    expect(page.url()).not.toContain("at=");

    await touch(at(0.1));
    await touch(at(0.1), at(0.9));
    await touch(at(0.4), at(0.6));
    await touch();
    await expect.poll(() => spanOf(page)!.from).toBeLessThan(near.from);
    const far = spanOf(page)!;
    expect((far.to - far.from) / (near.to - near.from)).toBeCloseTo(4, 2);

    await touch(at(0.5));
    await touch();
    await page.waitForURL(/at=\d+/);
    expect(spanOf(page)).toEqual(far);
    expect(faults).toEqual([]);
  });
});

describeInChromium("buttons on touch screens", (open) => {
  test("buttons are at least 44 px high on touch screens: in the floor, session and machine views", async () => {
    const user = new E2eClient(node);
    const { id, floorId } = await user.hold("general");
    await user.talk(id, "hello");
    await user.hold("phone");
    const floor = encodeURIComponent(floorId);
    const { page } = await open(`${node.url}/#/floor/${floor}`, PHONE);
    /** What its buttons are, and how high. Those of long lists have the height of their rows. */
    const lowButtons = () =>
      page.evaluate<string[]>(`[...document.querySelectorAll("main button:not(li[aria-posinset] button)")]
        .filter((button) => button.checkVisibility() && button.getBoundingClientRect().height < 44)
        .map((button) => button.textContent)`);
    await page.getByRole("article", { name: "General: paused" }).waitFor();
    expect(await lowButtons()).toEqual([]);
    await page.goto(`${node.url}/#/session/${floor}/${id}`);
    await page.getByRole("article").getByRole("button", { name: "Copy", exact: true }).first().waitFor();
    expect(await lowButtons()).toEqual([]);
    await page.goto(`${node.url}/#/machine/${floor}/${id}`);
    await page.getByRole("button", { name: "session.rename", exact: true }).waitFor();
    expect(await lowButtons()).toEqual([]);
  });
});
