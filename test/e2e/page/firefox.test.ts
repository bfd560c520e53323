import { expect, onTestFinished, test } from "vitest";
import { describeInFirefox, type FirefoxPage } from "../../support/browsers/firefox.ts";
import { startPageNode } from "../../support/browsers/page-stage.ts";
import { PATIENCE_MS } from "../../support/runner/patience.ts";

const node = await startPageNode();

/**
 * Waits in the page until an element contains the text, and returns the element's text; clicks it if `press` is set.
 */
const find = ({ evaluate }: FirefoxPage, selector: string, text: string, press = false) =>
  evaluate(`new Promise((found, fail) => {
    const until = Date.now() + ${PATIENCE_MS};
    const look = () => {
      const parts = [...document.querySelectorAll(${JSON.stringify(selector)})];
      const part = parts.find(({ textContent }) => textContent.includes(${JSON.stringify(text)}));
      if (!part && Date.now() > until) return fail(new Error(${JSON.stringify(`${selector}: ${text}`)} + "\\n" + document.body.innerText));
      if (!part) return void requestAnimationFrame(look);
      if (${press}) part.click();
      found(part.textContent);
    };
    look();
  })`);
const press = (page: FirefoxPage, selector: string, text: string) => find(page, selector, text, true);

describeInFirefox("the page in Firefox", (start) => {
  test("the page plays a call over music through every view, and replays it", async () => {
    // A separate browser for each try, because the page remembers the language that the last step chooses.
    const firefox = await start();
    onTestFinished(() => firefox.stop());
    const page = await firefox.open(`${node.url}/#/floor/u%3A${node.newUser()}`);
    await press(page, "[aria-labelledby=agents] button:enabled", "Music");
    await find(page, "[data-front=true]", "Music");
    await press(page, "[aria-labelledby=agents] button:enabled", "Phone");
    await find(page, "[data-front=true]", "Phone");
    await find(page, "[data-look=paused]", "Music");
    await find(page, "[aria-labelledby=decisions] li", "90 against 20, Music is paused.");

    await press(page, "[data-look=paused] a", "Open");
    await find(page, "h1", "New Session");
    await press(page, "nav a", "Machine");
    await find(page, "[data-state=paused][data-lit=true]", "paused");
    await find(page, "[data-traversed=true]", "preempt");
    await press(page, "nav a", "Sequence");
    await find(page, `button:has([aria-label="Arbiter to Music:"])`, "preempt → paused");
    await press(page, "nav a", "Timeline");
    await find(page, "button[type=button]", "Music is paused.");
    // The list shows the end of the log, and both sessions were activated: go to the beginning for the first of them.
    await page.evaluate(`document.body.dispatchEvent(new KeyboardEvent("keydown", { code: "Home", bubbles: true }))`);
    await find(page, "[aria-labelledby=log] button[aria-current=true]", "created Music");
    await press(page, "button[type=button]", "activate created → active.idle");
    await press(page, "nav a", "Floor");
    await find(page, "[data-front=true]", "Music");
    await expect.poll(() => page.evaluate("location.hash")).toMatch(/at=\d+/);
    await press(page, "button", "Live");
    await find(page, "[data-front=true]", "Phone");
    await press(page, "nav a", "Node");
    await find(page, "main", "Ready");
    await press(page, "button", "中文");
    await find(page, "nav a", "状态机");
    expect(page.faults).toEqual([]);
  });
});
