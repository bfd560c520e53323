import { type Browser, type BrowserContextOptions, chromium, type Page } from "playwright-core";
import { expect, onTestFinished } from "vitest";
import type { Program } from "../programs/programs.ts";
import { describeWith } from "../programs/suites.ts";

const ARGUMENTS = [
  "--headless",
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

/** Text, because the tests are compiled without the types of the DOM. */
const WATCH_POLICY = `addEventListener("securitypolicyviolation", (event) => {
  console.error("policy: " + event.violatedDirective + " " + event.blockedURI + " " + event.sourceFile);
});`;
/** The timeout for an element to appear, in ms. */
const PATIENCE_MS = 15_000;

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

async function openPage(
  executablePath: string,
  url: string,
  options: BrowserContextOptions = {},
): Promise<BrowserPage> {
  // One browser per test file; it ends with the process. Each page has a separate profile.
  browser ??= chromium.launch({ executablePath, args: ARGUMENTS });
  const context = await (await browser).newContext({ locale: "en-US", ...options });
  onTestFinished(() => context.close());
  const page = await context.newPage();
  const faults: string[] = [];
  page.on("console", (message) => {
    if (message.type() === "error") faults.push(message.text());
  });
  page.on("pageerror", (error) => faults.push(error.message));
  await page.addInitScript(WATCH_POLICY);
  page.setDefaultTimeout(PATIENCE_MS);
  await page.goto(url);
  return { page, faults };
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

/** Closes the browser of this file; call it in `afterAll`. */
export async function closeChromium(): Promise<void> {
  await (await browser)?.close();
  browser = undefined;
}
