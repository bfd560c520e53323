import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { type Browser, chromium, type Page } from "playwright-core";
import { createClient } from "../src/client/client.ts";
import { Child } from "./support/child.ts";
import { generateLog } from "./support/generated-log.ts";
import { median } from "./support/statistics.ts";
import type { Row } from "./support/table.ts";
import { type Frames, traceFrames } from "./support/trace.ts";

/** The page in Chromium, compared with an empty page: time to the first paint, and frames drawn per second. */
const LOADS = 5;
const EVENTS = 100_000;
const SESSIONS = 10_000;
const WATCHED_MS = 5_000;
const TRANSITIONS_PER_SECOND = 200;
const VIEWS = ["floor", "session", "machine", "timeline", "sequence", "node"];
const ARGUMENTS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"];

/** Moves an element in each frame, because a browser draws no frame without a change. */
const EMPTY_PAGE = `<!doctype html><title>empty</title><h1>Empty</h1><p id="dot" style="position:absolute">.</p>`;
const ANIMATE_EMPTY = `new Promise((done) => {
  const until = performance.now() + ${WATCHED_MS};
  const step = (now) => {
    document.getElementById("dot").style.left = (now % 500) + "px";
    if (now < until) requestAnimationFrame(step); else done();
  };
  requestAnimationFrame(step);
})`;
/** Drags the moment to and fro over the whole log, one step per frame. */
const SCRUB = `new Promise((done) => {
  const slider = document.querySelector("input[type=range]");
  const set = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value").set;
  const begun = performance.now();
  const step = (now) => {
    const part = (1 - Math.cos((now - begun) / 800)) / 2;
    set.call(slider, String(Math.round(part * Number(slider.max))));
    slider.dispatchEvent(new Event("input", { bubbles: true }));
    if (now - begun < ${WATCHED_MS}) requestAnimationFrame(step); else done();
  };
  requestAnimationFrame(step);
})`;
/** Counts the frames in which the view itself changed, because the view may follow the slider later. */
const COUNT_MOMENTS = `(() => {
  window.moments = 0;
  let last;
  new MutationObserver(() => {
    const frame = document.timeline.currentTime;
    if (frame !== last) window.moments += 1;
    last = frame;
  }).observe(document.querySelector("main"), { subtree: true, childList: true, attributes: true, characterData: true });
})()`;
/** Moves an element, so that the page draws a frame at each refresh of the screen. */
const WATCH = `new Promise((done) => {
  const lamp = document.body.appendChild(document.createElement("i"));
  lamp.textContent = ".";
  lamp.style.cssText = "position:fixed;top:0";
  const begun = performance.now();
  const step = (now) => {
    lamp.style.left = (now % 500) + "px";
    if (now - begun < ${WATCHED_MS}) requestAnimationFrame(step); else done();
  };
  requestAnimationFrame(step);
})`;

export async function benchPage(): Promise<Row[]> {
  const node = await Child.start("interlock.ts");
  const empty = createServer((_, response) => response.setHeader("Content-Type", "text/html").end(EMPTY_PAGE));
  await new Promise<void>((resolve) => empty.listen(0, "127.0.0.1", resolve));
  const emptyUrl = `http://127.0.0.1:${(empty.address() as AddressInfo).port}/`;
  const browser = await chromium.launch({
    executablePath: process.env["TEST_CHROMIUM"] ?? "/usr/bin/chromium",
    args: ARGUMENTS,
  });
  try {
    const limit = await measureLoads(browser, emptyUrl, "h1");
    const ours = await measureLoads(browser, `${node.url}/#/floor/u%3Aann`, "[aria-labelledby=agents] button:enabled");
    const still = await withPage(browser, emptyUrl, (page) => traceFrames(browser, page, ANIMATE_EMPTY));
    const rows: Row[] = [
      {
        what: "first paint, compared with an empty page",
        ours: ours.paint,
        reference: limit.paint,
        unit: "ms",
        atMost: 3,
      },
      { what: "until agents can be started", ours: ours.ready, reference: limit.ready, unit: "ms" },
    ];
    const add = (what: string, frames: Frames) => {
      const { dropped, longerThanFrame, longTasks, longestMs, p99Ms } = frames;
      console.log(
        `${what}: ${dropped} dropped, ${longerThanFrame} tasks over 16.7 ms, ${longTasks} over 50 ms, ` +
          `p99 ${p99Ms.toFixed(1)} ms, longest ${longestMs.toFixed(1)} ms`,
      );
      rows.push({ what, ours: frames.perSecond, reference: still.perSecond, unit: "frames/s", atLeast: 0.9 });
    };
    const log = Buffer.from(generateLog(EVENTS, SESSIONS));
    for (const view of VIEWS) {
      if (view === "node") continue;
      const [frames, moments] = await withPage(browser, node.url, async (page) => {
        await openLog(page, log, view);
        await page.evaluate(COUNT_MOMENTS);
        return [await traceFrames(browser, page, SCRUB), await page.evaluate<number>("window.moments")] as const;
      });
      add(`scrubbing ${EVENTS.toLocaleString("en")} events, ${view}`, frames);
      const shown = (moments * 1_000) / WATCHED_MS;
      rows.push({ what: "  moments that the view showed", ours: shown, reference: still.perSecond, unit: "/s" });
    }
    for (const view of VIEWS) {
      const [frames, transitions] = await withPage(browser, `${node.url}/#/${view}/u%3Aann`, async (page) => {
        await page.getByText("Connected", { exact: true }).waitFor();
        const stop = moveFloor(node.url);
        const frames = await traceFrames(browser, page, WATCH);
        return [frames, await stop()] as const;
      });
      add(`${Math.round(transitions)} transitions a second, ${view}`, frames);
    }
    return rows;
  } finally {
    await browser.close();
    empty.close();
    await node.stop();
  }
}

async function withPage<T>(browser: Browser, url: string, work: (page: Page) => Promise<T>): Promise<T> {
  const context = await browser.newContext({ locale: "en-US", viewport: { width: 1920, height: 1080 } });
  const page = await context.newPage();
  try {
    await page.goto(url);
    return await work(page);
  } finally {
    await context.close();
  }
}

/**
 * Median times in ms after the navigation, with an empty cache: the first paint, and the time until the element is
 * there.
 */
async function measureLoads(
  browser: Browser,
  url: string,
  selector: string,
): Promise<{ paint: number; ready: number }> {
  const paints: number[] = [];
  const readies: number[] = [];
  for (let load = 0; load < LOADS; load += 1) {
    const [paint, ready] = await withPage(browser, url, async (page) => {
      await page.locator(selector).first().waitFor();
      return page.evaluate<[number, number]>(
        // An element may be in the document before it is painted.
        `new Promise((done) => {
          const ready = performance.now();
          const observer = new PerformanceObserver((paints) => {
            const first = paints.getEntriesByName("first-contentful-paint")[0];
            if (first) done([first.startTime, ready]);
          });
          observer.observe({ type: "paint", buffered: true });
        })`,
      );
    });
    paints.push(paint);
    readies.push(ready);
  }
  return { paint: median(paints), ready: median(readies) };
}

async function openLog(page: Page, log: Buffer, view: string): Promise<void> {
  const file = { name: "log.json", mimeType: "application/json", buffer: log };
  await page.locator("input[type=file]").first().setInputFiles(file);
  await page
    .getByText(`${EVENTS.toLocaleString("en")} of`)
    .first()
    .waitFor();
  await page.locator(`nav a[href^="#/${view}/"]`).click();
  await page.locator(`nav a[href^="#/${view}/"][aria-current=page]`).waitFor();
  await page.evaluate("new Promise((done) => requestIdleCallback(done))");
}

/**
 * Pause and resume a session at `TRANSITIONS_PER_SECOND`.
 *
 * @returns a function that ends it and resolves to the rate that was reached, per second
 */
function moveFloor(url: string): () => Promise<number> {
  const client = createClient({ baseUrl: url });
  let isOver = false;
  const moving = (async () => {
    const { session } = await client.createSession({ agentId: "music", userId: "ann", activate: true });
    const begun = performance.now();
    let moved = 0;
    for (; !isOver; moved += 2) {
      await client.pauseSession(session.id);
      await client.resumeSession(session.id);
      const ahead = (moved / TRANSITIONS_PER_SECOND) * 1_000 - (performance.now() - begun);
      if (ahead > 0) await new Promise((resolve) => setTimeout(resolve, ahead));
    }
    return (moved * 1_000) / (performance.now() - begun);
  })();
  return async () => {
    isOver = true;
    return await moving;
  };
}
