import { expect, onTestFinished, test } from "vitest";
import { describeInFirefox, type FirefoxPage, findInPage } from "../../support/browsers/firefox.ts";
import { startPageNode } from "../../support/browsers/page-stage.ts";

const node = await startPageNode();

const press = (page: FirefoxPage, selector: string, text: string) => findInPage(page, selector, text, true);

describeInFirefox("the page in Firefox", (start) => {
  test("the page plays a call over music through every view, and replays it", async () => {
    // A separate browser for each try, because the page remembers the language that the last step chooses.
    const firefox = await start();
    onTestFinished(() => firefox.stop());
    const page = await firefox.open(`${node.url}/#/floor/u%3A${node.newUser()}`);
    await press(page, "[aria-labelledby=agents] button:enabled", "Music");
    await findInPage(page, "[data-front=true]", "Music");
    await press(page, "[aria-labelledby=agents] button:enabled", "Phone");
    await findInPage(page, "[data-front=true]", "Phone");
    await findInPage(page, "[data-look=paused]", "Music");
    await findInPage(page, "[aria-labelledby=decisions] li", "90 against 20, Music is paused.");

    await press(page, "[data-look=paused] a", "Open");
    await findInPage(page, "h1", "New Session");
    await press(page, "nav a", "Machine");
    await findInPage(page, "[data-state=paused][data-lit=true]", "paused");
    await findInPage(page, "[data-traversed=true]", "preempt");
    await press(page, "nav a", "Sequence");
    await findInPage(page, `button:has([aria-label="Arbiter to Music:"])`, "preempt → paused");
    await press(page, "nav a", "Timeline");
    await findInPage(page, "button[type=button]", "Music is paused.");
    // The list shows the end of the log, and both sessions were activated: go to the beginning for the first of them.
    await page.evaluate(`document.body.dispatchEvent(new KeyboardEvent("keydown", { code: "Home", bubbles: true }))`);
    await findInPage(page, "[aria-labelledby=log] button[aria-current=true]", "created Music");
    await press(page, "button[type=button]", "activate created → active.idle");
    await press(page, "nav a", "Floor");
    await findInPage(page, "[data-front=true]", "Music");
    await expect.poll(() => page.evaluate("location.hash")).toMatch(/at=\d+/);
    await press(page, "button", "Live");
    await findInPage(page, "[data-front=true]", "Phone");
    await press(page, "nav a", "Node");
    await findInPage(page, "main", "Ready");
    await press(page, "button", "中文");
    await findInPage(page, "nav a", "状态机");
    expect(page.faults).toEqual([]);
  });
});
