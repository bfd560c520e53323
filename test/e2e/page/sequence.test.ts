import type { Page } from "playwright-core";
import { expect, onTestFinished, test } from "vitest";
import { writeLogFile } from "../../../page/log/log-file.ts";
import { createClient } from "../../../src/client/client.ts";
import { describePage, driveFloor, gone, startPageNode } from "../../support/browsers/page-stage.ts";
import { writeTemporary } from "../../support/clients/callers.ts";

const node = await startPageNode();

const row = (page: Page, name: RegExp) =>
  page.getByRole("region", { name: "Messages, oldest first" }).getByRole("button", { name });

describePage("the sequence view", (open) => {
  test("the sequence view shows messages between actors and decisions with their reasons, up to a moment, in the colours of their tones; on a narrow screen with both parties' names, and dots for columns", async () => {
    const { address } = await driveFloor(node);
    const page = await open(address("sequence"));
    await row(page, /Client to Arbiter: ?Chat: asks for the floor with 10/).waitFor();
    await row(page, /Arbiter to Client:.*Chat \(10\) was refused: 10 is less than 90 of Phone\./).waitFor();
    await row(page, /Arbiter to Music: ?preempt → paused/).waitFor();
    await row(page, /Client to Music: ?user hello/).waitFor();
    await row(page, /Music · run to Client: ?assistant Hello there\./).waitFor();
    await expect.poll(() => page.getByRole("link", { name: "Music" }).count()).toBe(1);

    await row(page, /Arbiter to Music: ?preempt/).click();
    await expect.poll(() => row(page, /Chat/).count()).toBe(0);
    await page.waitForURL(/at=\d+/);
    await page.keyboard.press("End");
    await row(page, /Arbiter to Client:.*Chat \(10\) was refused/).waitFor();
    /** The colours of a row's arrow or dots, and of its text: as names of the page's colours. */
    const coloursOf = (tone: string, mark: string) =>
      page.evaluate<string[]>(`(() => {
        const row = document.querySelector(${JSON.stringify(tone)});
        const probe = document.body.appendChild(document.createElement("i"));
        const nameOf = (colour) => ["s-idle", "s-failed", "edge", "ink"].find((name) => {
          probe.style.color = "var(--" + name + ")";
          return getComputedStyle(probe).color === colour;
        });
        const parts = [row.querySelector(${JSON.stringify(mark)}), row.querySelector("code").parentElement];
        const found = parts.map((part) => nameOf(getComputedStyle(part).color));
        probe.remove();
        return found;
      })()`);
    const tones = ["[data-tone=good]", "[data-tone=bad]", "main [aria-posinset] button:not([data-tone])"];
    const seen = async (mark: string) => Promise.all(tones.map((tone) => coloursOf(tone, mark)));
    await expect
      .poll(() => seen("[data-to]"))
      .toEqual([
        ["s-idle", "ink"],
        ["s-failed", "s-failed"],
        ["edge", "ink"],
      ]);
    await page.setViewportSize({ width: 390, height: 844 });
    const dots = "[role=img]";
    await expect.poll(() => page.locator(`main ${dots}`).count()).toBeGreaterThan(0);
    await expect
      .poll(() => seen(dots))
      .toEqual([
        ["s-idle", "ink"],
        ["s-failed", "s-failed"],
        ["ink", "ink"],
      ]);
    const refused = row(page, /Arbiter to Client:.*Chat \(10\) was refused: 10 is less than 90 of Phone\./);
    await refused.getByText("Arbiter → Client", { exact: true }).waitFor();
    const [beyond, ends] = await page.evaluate<[number, string[]]>(`(() => {
      const list = document.querySelector("section[aria-label='Messages, oldest first']");
      const dots = [...list.querySelectorAll("li:last-child i")];
      return [list.scrollWidth - list.clientWidth, dots.map(({ dataset }) => dataset.part)];
    })()`);
    expect(beyond).toBe(0);
    expect(ends.slice(0, 3)).toEqual(["end", "end", "off"]);
    await row(page, /Arbiter to Music: ?preempt/).click();
    await page.waitForURL(/at=\d+/);
    await gone(refused);
    await page.setViewportSize({ width: 1280, height: 720 });
    await gone(page.getByText("Arbiter → Client", { exact: true }));
    await row(page, /Client to Music: ?user hello/).waitFor();
  });

  test("the sequence view shows the span chosen in the timeline, also from its address in another browser", async () => {
    // Takes most of a second, so that there is a span to choose from.
    const { address: of } = await driveFloor(node, "count");
    const page = await open(of("timeline"));
    await page.getByRole("img", { name: /3 decisions/ }).waitFor();
    for (let presses = 0; presses < 12; presses += 1) await page.getByRole("button", { name: "Zoom in" }).click();
    await page.waitForURL(/from=\d+/);
    await page.getByRole("navigation").getByRole("link", { name: "Sequence" }).click();
    await page.getByText(/messages · .* to /).waitFor();
    const address = page.url();
    const shownCount = await page.getByText(/messages · /).textContent();
    const [shown, all] = shownCount!.match(/\d+/g)!.map(Number) as [number, number];
    expect(shown).toBeLessThan(all);
    await page.goto("about:blank");
    await page.goto(address);
    await page.getByText(shownCount!, { exact: true }).waitFor();
    await page.getByRole("button", { name: "Whole log" }).click();
    await page.getByText(`${all} of ${all} messages`).waitFor();
  });

  test.each([
    ["timeline", "Choose a floor above to see what happened on it."],
    ["sequence", "Choose a floor above to see its messages."],
  ])("the %s view explains a missing floor, and opens a saved log in its place", async (name, hint) => {
    const { user } = await driveFloor(node);
    const floorId = `u:${user.userId}`;
    const events = (await createClient({ baseUrl: node.url }).readFloorLog(floorId)).events.toReversed();
    const saved = await writeTemporary("log.json", writeLogFile({ floorId, events }), onTestFinished);
    const page = await open(`${node.url}/#/${name}`);
    const main = page.getByRole("main");
    await main.getByText(hint).waitFor();
    const picking = page.waitForEvent("filechooser");
    await main.getByRole("button", { name: "Open a log…" }).click();
    await (await picking).setFiles(saved);
    await main.getByText("Chat (10) was refused: 10 is less than 90 of Phone.").first().waitFor();
  });
});
