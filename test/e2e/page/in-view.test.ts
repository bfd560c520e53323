import type { Locator } from "playwright-core";
import { expect, onTestFinished, test } from "vitest";
import { SHIPPED_CATALOG } from "../../../src/config/settings.ts";
import { addressOf, describePage, messagesOn, openHeld, startPageNode } from "../../support/browsers/page-stage.ts";
import { E2E_AGENTS } from "../../support/catalogs/e2e-catalog.ts";
import { accepted, E2eClient } from "../../support/clients/e2e-client.ts";

const LIST = Array.from({ length: 40 }, (_, line) => `${line}.txt`);
const shredder = {
  name: "shredder",
  adapter: {
    kind: "scripted",
    replies: [{ confirm: { tool: "shred", arguments: { files: LIST } }, say: ["Done."], otherwise: ["Kept."] }],
  },
};
const node = await startPageNode({ agents: [...E2E_AGENTS, shredder] });

/** Whether a box shows an element completely, sooner or later. */
const shownOf = (element: Locator, box: Locator) =>
  expect.poll(async () => {
    const [inner, outer] = [(await element.boundingBox())!, (await box.boundingBox())!];
    return inner.y >= outer.y - 1 && inner.y + inner.height <= outer.y + outer.height + 1;
  });

describePage("what a view shows last", (open) => {
  test("a conversation of long messages is opened at its end, now and at a past moment", async () => {
    const ann = new E2eClient(node);
    const session = await ann.hold("general");
    for (let nth = 0; nth < 12; nth++) await ann.talk(session.id, `nod ${nth} ${"and so on ".repeat(200)}`);
    const page = await open(addressOf(node, "session", session));
    const messages = messagesOn(page);
    const last = page.getByRole("article", { name: "General" }).nth(11);
    await shownOf(last, messages).toBe(true);
    await page.getByRole("button", { name: "Live", exact: true }).click();
    await page.getByText(/^At /).waitFor();
    await page.reload();
    await shownOf(last, messages).toBe(true);
    const facts = page.getByRole("region", { name: "Facts" });
    await facts.locator("dd", { hasText: /^24$/ }).waitFor();
    // A reader who scrolled back stays there when the messages get room.
    await messages.hover();
    await page.mouse.wheel(0, -600);
    await shownOf(last, messages).toBe(false);
    await page.setViewportSize({ width: 1280, height: 760 });
    await shownOf(last, messages).toBe(false);
  });

  test("a past moment of a copy counts the messages that only the server has", async () => {
    const ben = new E2eClient(node);
    const first = await ben.hold("general");
    await ben.talk(first.id, "hello");
    const { session: copy } = (await node.post(`/session/${first.id}/fork`)).body;
    const page = await open(addressOf(node, "session", copy));
    await messagesOn(page).getByText("Hello there.").waitFor();
    await page.getByRole("button", { name: "Live", exact: true }).click();
    await page.getByText("2 copied messages are not in the log.").waitFor();
    await page.getByRole("region", { name: "Facts" }).locator("dd", { hasText: /^2$/ }).waitFor();
    expect(await page.getByText("There are no messages yet.").count()).toBe(0);
  });

  test("all agents are reached by scrolling the page, above what a press would do", async () => {
    const { page } = await openHeld(open, node, "floor", "music", { viewport: { width: 1280, height: 720 } });
    const agents = page.getByRole("region", { name: "Agents" });
    const buttons = agents.getByRole("button");
    await buttons.nth(9).waitFor();
    const scrollers = await page.evaluate<string[]>(`[...document.querySelectorAll("#beside, #beside *")]
      .filter((each) => each.querySelector("button") && each.scrollHeight > each.clientHeight + 1)
      .filter((each) => getComputedStyle(each).overflowY !== "visible")
      .map((each) => each.className)`);
    expect(scrollers).toEqual([]);
    const answer = page.getByRole("region", { name: "Answer about an agent" });
    for (let nth = 0; nth < (await buttons.count()); nth += 1) {
      await buttons.nth(nth).focus();
      const bottomOf = async () => {
        const [button, below] = [(await buttons.nth(nth).boundingBox())!, (await answer.boundingBox())!];
        return button.y >= 0 && button.y + button.height <= below.y && below.y + below.height <= 720 - 41;
      };
      await expect.poll(bottomOf).toBe(true);
    }
  });

  test("the ten agents of the shipped catalogue are above the fold of a small notebook, with their answer", async () => {
    const shipped = await startPageNode({ settings: { INTERLOCK_CONFIG: SHIPPED_CATALOG } }, onTestFinished);
    const page = await open(`${shipped.url}/#/floor/u%3Aann`, { viewport: { width: 1280, height: 800 } });
    const buttons = page.getByRole("region", { name: "Agents" }).getByRole("button");
    await buttons.nth(9).waitFor();
    const boxes = await Promise.all((await buttons.all()).map((button) => button.boundingBox()));
    const answer = (await page.getByRole("region", { name: "Answer about an agent" }).boundingBox())!;
    expect(boxes).toHaveLength(10);
    for (const box of boxes) expect(box!.y + box!.height).toBeLessThanOrEqual(answer.y);
    expect(answer.y + answer.height).toBeLessThanOrEqual(800 - 41);
  });

  test("a long confirmation leaves room for the conversation above it and the field below it", async () => {
    const cay = new E2eClient(node);
    const session = await cay.hold("shredder");
    await accepted(cay.say(session.id, "shred them"));
    const page = await open(addressOf(node, "session", session), { viewport: { width: 1280, height: 720 } });
    await page.getByRole("button", { name: "Reject", exact: true }).waitFor();
    await shownOf(page.getByRole("article", { name: "User" }), messagesOn(page)).toBe(true);
    for (const name of ["Approve", "Reject", "Send"]) {
      await shownOf(page.getByRole("button", { name, exact: true }), page.getByRole("main")).toBe(true);
      const { y, height } = (await page.getByRole("button", { name, exact: true }).boundingBox())!;
      expect(y + height, name).toBeLessThan(680);
    }
  });

  test("the newest line of the timeline stays in view when its list loses height", async () => {
    const dov = new E2eClient(node);
    const session = await dov.hold("general");
    for (let nth = 0; nth < 5; nth++) await dov.talk(session.id, "nod");
    const page = await open(addressOf(node, "timeline", session), { viewport: { width: 1280, height: 900 } });
    const events = page.getByRole("region", { name: "Events", exact: true });
    const newest = events.locator("[aria-current=true]");
    await shownOf(newest, events).toBe(true);
    const { height } = (await events.boundingBox())!;
    await page.setViewportSize({ width: 1280, height: 720 });
    await expect.poll(async () => (await events.boundingBox())!.height).toBeLessThan(height);
    await shownOf(newest, events).toBe(true);
  });

  test("the sequence view cuts no message off that has room beside the columns", async () => {
    const eve = new E2eClient(node);
    const session = await eve.hold("general");
    await accepted(eve.say(session.id, "refused"));
    const page = await open(addressOf(node, "sequence", session));
    const text = page.getByText(/provider_refused The model's provider/);
    await text.waitFor();
    const { x, width } = (await text.boundingBox())!;
    const row = (await page.getByRole("listitem").filter({ has: text }).boundingBox())!;
    expect(x + width).toBeLessThan(row.x + row.width);
    expect(row.width).toBeGreaterThan(1_200);
  });
});
