import type { BrowserContextOptions, Locator, Page } from "playwright-core";
import { afterAll, afterEach, expect } from "vitest";
import { E2eClient } from "../clients/e2e-client.ts";
import { type NodeOptions, NodeUnderTest } from "../nodes/node-under-test.ts";
import { buildPage } from "./built-page.ts";
import { describeInChromium } from "./chromium.ts";

export const PHONE = { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true };

/** A node that serves the page. @param atEnd registers its stop; default: the end of the file */
export async function startPageNode(
  options: NodeOptions = {},
  atEnd: (stop: () => Promise<void>) => void = afterAll,
): Promise<NodeUnderTest> {
  const node = await NodeUnderTest.start({ pageFolder: await buildPage(), ...options });
  atEnd(() => node.stop());
  return node;
}

type Place = { floorId: string; id?: string };

/** The address of a view of this floor, and of its session in views that have one. */
export const addressOf = ({ url }: { url: string }, view: string, { floorId, id = "" }: Place) =>
  `${url}/#/${view}/${encodeURIComponent(floorId)}${id && ["session", "machine"].includes(view) ? `/${id}` : ""}`;

export interface OpenOptions extends BrowserContextOptions {
  /** Errors of the console that are part of the test. Default: none. */
  expected?: RegExp;
}
export type Open = (url: string, options?: OpenOptions) => Promise<Page>;

/** A suite of tests of the page in Chromium. Errors in its console that a test does not expect fail the test. */
export function describePage(name: string, suite: (open: Open) => void): void {
  describeInChromium(name, (open) => {
    const checks: (() => void)[] = [];
    afterEach(() => {
      for (const check of checks.splice(0)) check();
    });
    suite(async (url, { expected, ...options } = {}) => {
      const { page, faults } = await open(url, options);
      checks.push(() => expect(faults.filter((fault) => !expected?.test(fault))).toEqual([]));
      return page;
    });
  });
}

/** A new user's session of this agent that has the floor, and a view of it. */
export async function openHeld(open: Open, node: NodeUnderTest, view: string, agentId: string, options?: OpenOptions) {
  const user = new E2eClient(node);
  const session = await user.hold(agentId);
  const page = await open(addressOf(node, view, session), options);
  return { user, session, id: session.id, floorId: session.floorId, page };
}

/** A new user's floor: music answered, a call paused it, and a joke was refused. */
export async function driveFloor(node: NodeUnderTest, words = "hello") {
  const user = new E2eClient(node);
  const music = await user.hold("music");
  await user.talk(music.id, words);
  await user.hold("phone");
  await user.askToCreate({ agentId: "chat", activate: true });
  return { user, music, address: (view: string) => addressOf(node, view, music) };
}

export async function signIn(page: Page, token: string): Promise<void> {
  await page.getByLabel("Token").fill(token);
  await page.getByRole("button", { name: "Sign in" }).click();
}

/** Makes something that has an address, and opens that. */
export async function openMade<T extends { address: string }>(open: Open, making: Promise<T>, options?: OpenOptions) {
  const made = await making;
  return { ...made, page: await open(made.address, options) };
}

export const shown = (place: Locator) => place.waitFor();
export const gone = (place: Locator) => place.waitFor({ state: "detached" });
export const hasFocus = (place: Locator) => place.and(place.page().locator(":focus")).waitFor();
export const connected = (page: Page) => page.getByText("Connected", { exact: true }).waitFor();
export const messagesOn = (page: Page) => page.getByRole("region", { name: "Messages" });
