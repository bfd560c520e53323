import { type Browser, type BrowserContextOptions, chromium, type Page } from "playwright-core";
import { expect, onTestFinished } from "vitest";
import type { Program } from "../programs/programs.ts";
import { describeWith } from "../programs/suites.ts";
import { PATIENCE_MS } from "../runner/patience.ts";

/**
 * Each new window would load two pages of the address bar's list, which takes twice the CPU of the window itself.
 * Chromium obeys the last such list of a command line only, so this one repeats what is needed of Playwright's own.
 */
const DISABLED_FEATURES = [
  ...["WebUIOmniboxPopup", "WebUIOmniboxAimPopup", "WebUIOmniboxFullPopup", "AimEnabled", "LensOverlay"],
  ...["HttpsUpgrades", "HttpsFirstBalancedModeAutoEnable", "PaintHolding", "ThirdPartyStoragePartitioning"],
  ...["AvoidUnnecessaryBeforeUnloadCheckSync", "DestroyProfileOnBrowserClose", "MediaRouter", "OptimizationHints"],
  ...["NetworkTimeServiceQuerying", "PreconnectToSearch"],
];
const ARGUMENTS = [
  "--headless",
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
  `--disable-features=${DISABLED_FEATURES.join()}`,
];

/** Text, because the tests are compiled without the types of the DOM. */
const WATCH_POLICY = `addEventListener("securitypolicyviolation", (event) => {
  console.error("policy: " + event.violatedDirective + " " + event.blockedURI + " " + event.sourceFile);
});`;

/** A page in a real Chromium, and its errors. */
export interface BrowserPage {
  page: Page;
  /** Errors of the console, uncaught errors and violations of the content security policy. */
  faults: string[];
}

/** A suite that needs Chromium, and perhaps other programs. */
export function describeInChromium(
  name: string,
  suite: (open: (url: string, options?: BrowserContextOptions) => Promise<BrowserPage>) => void,
  also: readonly Program[] = [],
): void {
  describeWith(["chromium", ...also], name, (path) => suite((url, options) => openPage(path, url, options)));
}

let browser: Promise<Browser> | undefined;
/**
 * Pages of finished tests, by their options, oldest first: a page that is loaded again takes half the time of a new
 * one.
 */
const kept = new Map<string, Page>();
const MAX_KEPT = 3;

async function openPage(
  executablePath: string,
  url: string,
  options: BrowserContextOptions = {},
): Promise<BrowserPage> {
  // One browser per process, which ends with it. Each open page has a separate profile.
  browser ??= chromium.launch({ executablePath, args: ARGUMENTS });
  const key = JSON.stringify(options);
  const page = kept.get(key) ?? (await makePage(await browser, options));
  kept.delete(key);
  let isAsNew = true;
  for (const [owner, name] of [
    [page.clock, "install"],
    [page, "addInitScript"],
  ] as const) {
    // None of these can be undone.
    const call = Reflect.get(Object.getPrototypeOf(owner), name) as (...given: unknown[]) => unknown;
    Reflect.set(owner, name, (...given: unknown[]) => {
      isAsNew = false;
      return call.apply(owner, given);
    });
  }
  onTestFinished(async ({ task }) => {
    await page.unrouteAll({ behavior: "ignoreErrors" });
    if (isAsNew && task.result?.state !== "fail" && (await forget(page, options))) kept.set(key, page);
    else await page.context().close();
    const [oldest, ...others] = kept;
    if (others.length < MAX_KEPT) return;
    kept.delete(oldest![0]);
    await oldest![1].context().close();
  });
  const faults: string[] = [];
  page.on("console", (message) => {
    if (message.type() === "error") faults.push(message.text());
  });
  page.on("pageerror", (error) => faults.push(error.message));
  await page.goto(url);
  return { page, faults };
}

async function makePage(browser: Browser, options: BrowserContextOptions): Promise<Page> {
  const page = await (await browser.newContext({ locale: "en-US", ...options })).newPage();
  await page.addInitScript(WATCH_POLICY);
  page.setDefaultTimeout(PATIENCE_MS);
  return page;
}

/** Removes what a test left in a page and its profile. Returns whether the page can be used again. */
async function forget(page: Page, { viewport }: BrowserContextOptions): Promise<boolean> {
  if (page.isClosed() || page.context().pages().length > 1) return false;
  page.removeAllListeners();
  await page.mouse.move(-1, -1);
  await page.setViewportSize(viewport ?? { width: 1280, height: 720 });
  await page.evaluate("localStorage.clear(); sessionStorage.clear()");
  await page.context().clearCookies();
  await page.goto("about:blank");
  return true;
}

/** Waits until the page's address, which follows a pointer, is the same at two looks. */
export async function addressAtRest(page: Page): Promise<void> {
  let before: string | undefined;
  const isAtRest = () => {
    const former = before;
    before = page.url();
    return former === before;
  };
  await expect.poll(isAtRest, { interval: 250 }).toBe(true);
}
