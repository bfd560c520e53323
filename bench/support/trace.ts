import type { Browser, Page } from "playwright-core";

/** Figures from Chromium's tracing. */
export interface Frames {
  /** Drawn frames per second. */
  perSecond: number;
  dropped: number;
  /** Tasks of the page's main thread that took longer than one frame (16.7 ms). */
  longerThanFrame: number;
  longTasks: number;
  /** The longest task, in ms. */
  longestMs: number;
  /** The 99th percentile of the tasks, in ms. */
  p99Ms: number;
}

interface TraceEvent {
  name: string;
  ph: string;
  pid: number;
  tid: number;
  /** In µs. */
  dur?: number;
  args?: { name?: string };
}

const CATEGORIES = [
  "devtools.timeline",
  "disabled-by-default-devtools.timeline",
  "devtools.timeline.frame",
  "disabled-by-default-devtools.timeline.frame",
];
const FRAME_US = 16_700;
const LONG_US = 50_000;

/** @param expression is evaluated in the page; frames are counted until its promise settles */
export async function traceFrames(browser: Browser, page: Page, expression: string): Promise<Frames> {
  await browser.startTracing(page, { categories: CATEGORIES });
  const begun = performance.now();
  await page.evaluate(expression);
  const seconds = (performance.now() - begun) / 1_000;
  const { traceEvents } = JSON.parse((await browser.stopTracing()).toString()) as { traceEvents: TraceEvent[] };
  const drawn = traceEvents.filter(({ name }) => name === "DrawFrame");
  // The main thread of the process that drew.
  const threads = traceEvents.filter(({ name, args }) => name === "thread_name" && args?.name === "CrRendererMain");
  const main = threads.find(({ pid }) => drawn.some((event) => event.pid === pid)) ?? threads[0];
  const tasks = traceEvents
    .filter(({ name, ph, pid, tid }) => name === "RunTask" && ph === "X" && pid === main?.pid && tid === main?.tid)
    .map(({ dur = 0 }) => dur)
    .sort((one, other) => one - other);
  // Most tasks take almost no time: the percentile is taken over the longest tasks, one for each drawn frame.
  const perFrame = tasks.slice(-Math.max(1, drawn.length));
  return {
    perSecond: drawn.length / seconds,
    dropped: traceEvents.filter(({ name }) => name === "DroppedFrame").length,
    longerThanFrame: tasks.filter((us) => us > FRAME_US).length,
    longTasks: tasks.filter((us) => us > LONG_US).length,
    longestMs: (tasks.at(-1) ?? 0) / 1_000,
    p99Ms: (perFrame[Math.floor(perFrame.length * 0.99)] ?? 0) / 1_000,
  };
}
