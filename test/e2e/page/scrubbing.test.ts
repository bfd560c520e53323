import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import {
  addressOf,
  connected,
  describePage,
  type Open,
  shown,
  startPageNode,
} from "../../support/browsers/page-stage.ts";
import { MadeLog } from "../../support/documents/made-log.ts";

const node = await startPageNode();

/** The number of events of a long log. */
const LONG = 20_000;
/** The most elements that a view may have, however long the log is. */
const MAX_ELEMENTS = 1_200;
/** Times by which the browser is slowed down, so that a moment takes several frames. */
const SLOW = 8;

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
const round = await goRound();

/** A view of that floor at a moment, once it has the whole log. */
async function openRound(open: Open, view: string, at: number) {
  const page = await open(`${addressOf(node, view, round)}?at=${at}`);
  const slider = page.getByRole("slider", { name: "Look at an earlier moment" });
  await expect.poll(() => slider.getAttribute("max")).toBe(String(round.count));
  return { page, slider, count: round.count };
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
    window.watcher = new MutationObserver((records) => {
      for (const { type, target, addedNodes, removedNodes } of records) {
        if ((target.closest ? target : target.parentElement)?.closest('section[aria-label="Event"]')) continue;
        const elements = [...addedNodes, ...removedNodes].filter((each) => each instanceof Element);
        window.made.push(...elements.map(({ tagName }) => tagName));
        if (type !== "childList") window.changed += 1;
      }
    });
    window.watcher.observe(document.querySelector("main"), { subtree: true, childList: true, attributes: true, characterData: true });
  })()`);

/** A saved log of many short sessions. */
function longLog(): Buffer {
  const log = new MadeLog();
  for (let serial = 0; log.length < LONG; serial += 1) {
    const id = `s${serial}`;
    const challenger = { sessionId: id, agentId: "music", priority: 20, explained: [] };
    log.create(id, { title: `Session ${serial}` });
    log.add("arbitration", id, { outcome: "granted", reason: "floor_free", challenger, say: "Yes." });
    log.move(id, "created", "active.idle", "activate");
    for (let turn = 0; turn < 3; turn += 1) {
      log.move(id, "active.idle", "active.running", "turn");
      log.move(id, "active.running", "active.idle", "done");
    }
    log.move(id, "active.idle", "archived", "archive");
  }
  return Buffer.from(log.toJson());
}

/** Open the long log in the page. */
async function showLongLog(page: Page): Promise<void> {
  const file = { name: "log.json", mimeType: "application/json", buffer: longLog() };
  await page.locator("input[type=file]").first().setInputFiles(file, { timeout: 90_000 });
  await shown(page.getByText(`${LONG.toLocaleString("en")} of`).first());
}

describePage("scrubbing", (open) => {
  test("each view shows a moment in the same elements as the previous one, and a link or a key leads to the moment chosen just before", async () => {
    const { page, slider, count } = await openRound(open, "floor", round.count - 2);
    const moveTo = async (moment: number) => {
      await scrubTo(page, moment);
      await expect.poll(() => slider.getAttribute("value")).toBe(String(moment));
      await page.locator("main[aria-busy=false]").waitFor();
    };
    const moments = MOMENTS.map((rounds) => count - rounds * EVENTS_A_ROUND);
    for (const view of ["floor", "machine", "sequence", "timeline"]) {
      await page.locator(`nav a[href^="#/${view}/"]`).click();
      await page.locator(`nav a[href^="#/${view}/"][aria-current=page]`).waitFor();
      await page.locator("main[aria-busy=false] h1").first().waitFor();
      for (const moment of moments) await moveTo(moment);
      await watchView(page);
      for (const moment of [...moments, ...moments]) await moveTo(moment);
      expect(await page.evaluate<number>("window.watcher.disconnect(); window.changed"), view).toBeGreaterThan(0);
      expect(await page.evaluate<string[]>("window.made"), view).toEqual([]);
    }
    for (const follow of [
      `document.querySelector('nav a[href^="#/floor/"]').click()`,
      `document.body.dispatchEvent(new KeyboardEvent("keydown", { code: "Digit1", bubbles: true }))`,
    ]) {
      await page.goto(`${addressOf(node, "timeline", round)}?at=${count - 2}`);
      await page.locator('nav a[href^="#/timeline/"][aria-current=page]').waitFor();
      await page.evaluate(`{
        document.body.dispatchEvent(new KeyboardEvent("keydown", { code: "Home", bubbles: true }));
        ${follow};
      }`);
      await page.locator('main:has([aria-labelledby="agents"])').waitFor();
      await expect.poll(() => slider.getAttribute("value"), { message: follow }).toBe("1");
    }
  });

  test("a movement of the handle renders nothing before the moment itself, which is rendered once", async () => {
    const { page, slider, count } = await openRound(open, "floor", round.count - 2);
    await connected(page);
    await page.locator("main[aria-busy=false]").waitFor();
    const changed = await page.evaluate<string[][]>(`new Promise((done) => {
      const nameOf = ({ target, attributeName }) => target.nodeName + " " + attributeName;
      const renderings = [];
      // React writes a field's type and name again as they were.
      const isChange = ({ type, target, attributeName, oldValue }) =>
        type !== "attributes" || (attributeName !== "name" && target.getAttribute(attributeName) !== oldValue);
      const note = (records) => renderings.push([...new Set(records.filter(isChange).map(nameOf))]);
      const watch = new MutationObserver(note);
      const all = { subtree: true, childList: true, attributes: true, characterData: true };
      watch.observe(document.documentElement, { ...all, attributeOldValue: true });
      const slider = document.querySelector("input[type=range]");
      Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value").set.call(slider, "${count - 60}");
      slider.dispatchEvent(new Event("input", { bubbles: true }));
      note(watch.takeRecords());
      // The address follows later, which renders the page once more.
      const address = location.hash;
      const look = () => {
        const isShown = document.querySelector("main").ariaBusy === "false";
        if (isShown || location.hash !== address) return done(renderings);
        requestAnimationFrame(look);
      };
      requestAnimationFrame(look);
    })`);
    expect(changed[0]).toEqual(["MAIN aria-busy"]);
    // The links in the bar above and the handle's value change in one step. What arrives meanwhile changes neither.
    const isOfMoment = (names: string[]) => names.some((name) => name === "A href" || name === "INPUT value");
    const rendered = changed.slice(1).filter(isOfMoment);
    expect(rendered).toHaveLength(1);
    expect(rendered[0]).toEqual(expect.arrayContaining(["A href", "INPUT value"]));
    await expect.poll(() => slider.getAttribute("value")).toBe(String(count - 60));
  });

  test("keys that follow in close succession each begin where the former one ended", async () => {
    const { page, slider, count } = await openRound(open, "floor", round.count);
    const press = (...codes: string[]) =>
      page.evaluate(`for (const code of ${JSON.stringify(codes)}) {
        document.body.dispatchEvent(new KeyboardEvent("keydown", { code, bubbles: true }));
      }`);
    await press(...Array.from({ length: 5 }, () => "ArrowLeft"));
    await expect.poll(() => slider.getAttribute("value")).toBe(String(count - 5));
    await press("Home", "ArrowRight", "ArrowRight");
    await expect.poll(() => slider.getAttribute("value")).toBe("3");
    await press("Space", "Space");
    await expect.poll(() => page.url()).toContain(`at=${count}`);
  });

  test(`the handle stays where it was dragged to while an earlier moment is drawn, and no view of ${LONG} events has more than ${MAX_ELEMENTS} elements`, async () => {
    const page = await open(node.url);
    await showLongLog(page);
    const session = await page.context().newCDPSession(page);
    await session.send("Emulation.setCPUThrottlingRate", { rate: SLOW });
    interface Drag {
      moved: string[];
      drawn: number;
      last: string;
    }
    const { moved, drawn, last } = await page.evaluate<Drag>(`new Promise((done) => {
      const slider = document.querySelector("input[type=range]");
      const { get, set } = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value");
      let at = "";
      const moved = [];
      const drawn = new Set();
      new MutationObserver(() => {
        drawn.add(slider.getAttribute("value"));
        if (at !== "" && get.call(slider) !== at) moved.push(get.call(slider) + " and not " + at);
      }).observe(document.documentElement, { subtree: true, attributes: true, characterData: true });
      let step = 0;
      const go = setInterval(() => {
        step += 1;
        at = String((1 + (step % 99)) * ${LONG / 100});
        set.call(slider, at);
        slider.dispatchEvent(new Event("input", { bubbles: true }));
        if (drawn.size < 5 && step < 1_000) return;
        clearInterval(go);
        done({ moved, drawn: drawn.size, last: at });
      }, 40);
    })`);
    await session.send("Emulation.setCPUThrottlingRate", { rate: 1 });
    expect(moved).toEqual([]);
    // Moments are drawn in between, and not only the last one. Two may be drawn between two movements.
    expect(drawn).toBeGreaterThanOrEqual(5);
    await expect.poll(() => page.locator("input[type=range]").getAttribute("value")).toBe(last);

    for (const view of ["floor", "session", "machine", "timeline", "sequence"]) {
      await page.locator(`nav a[href^="#/${view}/"]`).click();
      // A movement before the page has followed the link would be undone by it.
      await page.locator(`nav a[href^="#/${view}/"][aria-current=page]`).waitFor();
      await page.locator("main[aria-busy=false] h1").first().waitFor();
      await scrubTo(page, LONG / 2 + 7);
      await expect.poll(() => page.getByRole("slider").first().getAttribute("value")).toBe(String(LONG / 2 + 7));
      const elements = await page.evaluate<number>(`document.querySelectorAll("*").length`);
      expect(elements, view).toBeGreaterThan(100);
      expect(elements, view).toBeLessThan(MAX_ELEMENTS);
      await scrubTo(page, LONG);
      await expect.poll(() => page.getByRole("slider").first().getAttribute("value")).toBe(String(LONG));
    }
  });

  test("a list that became shorter ends with its last row", async () => {
    const { page, slider, count } = await openRound(open, "sequence", round.count);
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
