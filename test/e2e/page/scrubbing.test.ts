import type { Page } from "playwright-core";
import { afterAll, expect, test } from "vitest";
import { buildPage } from "../../support/browsers/built-page.ts";
import { closeChromium, describeInChromium } from "../../support/browsers/chromium.ts";
import { NodeUnderTest } from "../../support/nodes/node-under-test.ts";

const node = await NodeUnderTest.start({ pageFolder: await buildPage() });
afterAll(() => node.stop());
afterAll(closeChromium);

const ROUNDS = 120;
/** The events of a round: a pause, a decision and a resume. */
const EVENTS_A_ROUND = 3;
/** Moments at which every list is full and does not end, in rounds before the log's end. */
const MOMENTS = [20, 40];

/** A floor on which the same events repeat. Returns its id and the number of its events. */
async function goRound(): Promise<{ floorId: string; count: number }> {
  const userId = node.newUser();
  const { id } = (await node.post("/session/create", { agentId: "music", userId, activate: true })).body.session;
  for (let round = 0; round < ROUNDS; round += 1) {
    await node.post(`/session/${id}/pause`);
    await node.post(`/session/${id}/resume`);
  }
  const { events } = (await node.get(`/floor/u:${userId}/log?limit=2000`)).body as unknown as { events: object[] };
  return { floorId: `u:${userId}`, count: events.length };
}

const scrubTo = (page: Page, count: number) =>
  page.evaluate(`(async () => {
  const slider = document.querySelector("input[type=range]");
  const { set } = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value");
  set.call(slider, "${count}");
  slider.dispatchEvent(new Event("input", { bubbles: true }));
})()`);

/**
 * The elements that are added to and removed from the view from now on, by tag; `changed` counts changes of texts and
 * attributes. The details of an event are left out: they follow the moment later, and differ from event to event.
 */
const watchView = (page: Page) =>
  page.evaluate(`(() => {
    window.made = [];
    window.changed = 0;
    new MutationObserver((records) => {
      for (const { type, target, addedNodes, removedNodes } of records) {
        if ((target.closest ? target : target.parentElement)?.closest('section[aria-label="Event"]')) continue;
        const elements = [...addedNodes, ...removedNodes].filter((each) => each instanceof Element);
        window.made.push(...elements.map(({ tagName }) => tagName));
        if (type !== "childList") window.changed += 1;
      }
    }).observe(document.querySelector("main"), { subtree: true, childList: true, attributes: true, characterData: true });
  })()`);

describeInChromium("scrubbing", (open) => {
  test.each(["floor", "machine", "timeline", "sequence"])(
    "a moment is shown in the same elements as the previous one: %s",
    async (view) => {
      const { floorId, count } = await goRound();
      const { page, faults } = await open(`${node.url}/#/${view}/${encodeURIComponent(floorId)}?at=${count - 2}`);
      const slider = page.getByRole("slider", { name: "Look at an earlier moment" });
      await expect.poll(() => slider.getAttribute("max")).toBe(String(count));
      const shown = page.locator("main[aria-busy=false]");
      const moveTo = async (moment: number) => {
        await scrubTo(page, moment);
        await expect.poll(() => slider.getAttribute("value")).toBe(String(moment));
        await shown.waitFor();
      };
      const moments = MOMENTS.map((rounds) => count - rounds * EVENTS_A_ROUND);
      for (const moment of moments) await moveTo(moment);
      await watchView(page);
      for (const moment of [...moments, ...moments]) await moveTo(moment);
      expect(await page.evaluate<number>("window.changed")).toBeGreaterThan(0);
      expect(await page.evaluate<string[]>("window.made")).toEqual([]);
      expect(faults).toEqual([]);
    },
  );

  test("a list that became shorter ends with its last row", async () => {
    const { floorId, count } = await goRound();
    const { page } = await open(`${node.url}/#/sequence/${encodeURIComponent(floorId)}?at=${count}`);
    const slider = page.getByRole("slider", { name: "Look at an earlier moment" });
    await expect.poll(() => slider.getAttribute("max")).toBe(String(count));
    await page.getByRole("heading", { name: "Sequence" }).click();
    for (let steps = 1; steps <= 5; steps += 1) {
      await page.keyboard.press("ArrowLeft");
      await expect.poll(() => slider.getAttribute("value")).toBe(String(count - steps));
    }
    const gap = () =>
      page.evaluate<number>(`(() => {
        const list = document.querySelector("main section[tabindex]");
        list.scrollTop = list.scrollHeight;
        const rows = [...list.querySelectorAll("li")].map((row) => row.getBoundingClientRect().bottom);
        return Math.abs(list.getBoundingClientRect().bottom - Math.max(...rows));
      })()`);
    await expect.poll(gap).toBeLessThan(3);
  });
});
