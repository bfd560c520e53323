import type { Locator, Page } from "playwright-core";
import { expect, test } from "vitest";
import {
  addressOf,
  describePage,
  gone,
  hasFocus,
  messagesOn,
  openHeld,
  startPageNode,
} from "../../support/browsers/page-stage.ts";
import { accepted, E2eClient } from "../../support/clients/e2e-client.ts";

const node = await startPageNode();

const press = async (page: Page, control: Locator) => {
  await control.focus();
  await page.keyboard.press("Enter");
};
const announced = (page: Page, sentence: string) =>
  page.locator("[aria-live=polite]").getByText(sentence, { exact: true }).waitFor({ state: "attached" });

describePage("the focus, when its control goes", (open) => {
  test("a paused session's card moves, and keeps the focus; the state is announced", async () => {
    const ann = new E2eClient(node);
    await ann.hold("music", { title: "Songs" });
    const { floorId } = await ann.hold("phone", { title: "Call" });
    const page = await open(addressOf(node, "floor", { floorId }));
    const phone = page.getByRole("article", { name: /^Phone/ });
    await press(page, phone.getByRole("button", { name: "Pause" }));
    await page.getByRole("article", { name: "Phone: paused" }).waitFor();
    await hasFocus(phone.getByRole("button", { name: "Resume" }));
    await announced(page, "Call: paused.");
    await page.keyboard.press("Enter");
    await page.getByRole("article", { name: "Phone: has the floor" }).waitFor();
    await hasFocus(phone.getByRole("button", { name: "Pause" }));
    await announced(page, "Call: has the floor.");
  });

  test("after an archived card the focus is on the next card, and at the end on one before", async () => {
    const ben = new E2eClient(node);
    await ben.hold("music");
    await ben.hold("planner");
    const { floorId, id } = await ben.hold("phone", { title: "Call" });
    const page = await open(addressOf(node, "floor", { floorId }));
    const card = (name: string) => page.getByRole("article", { name: new RegExp(`^${name}`) });
    await press(page, card("Planner").getByRole("button", { name: "Archive" }));
    await hasFocus(card("Music").getByRole("link", { name: "Music" }));
    await press(page, card("Music").getByRole("button", { name: "Archive" }));
    await hasFocus(card("Phone").getByRole("link", { name: "Phone" }));
    // Another client archives the last one: the focus is on what comes after it.
    await accepted(ben.on(id, "archive"));
    await gone(card("Phone"));
    await expect.poll(() => page.evaluate<string>("document.activeElement.localName")).not.toBe("body");
  });

  test("stopping the only holder never leaves the focus on another command that ends sessions", async () => {
    const { page } = await openHeld(open, node, "floor", "music");
    await press(page, page.getByRole("button", { name: "Stop the holder" }));
    await announced(page, "Archived sessions: 1.");
    await page.getByText("The floor is free.").waitFor();
    const focused = () =>
      page.evaluate<string>("document.activeElement.localName + document.activeElement.textContent");
    await expect.poll(focused).not.toMatch(/^body|Stop/);
  });

  test("when a run has been aborted the focus is on the command before, not on Archive", async () => {
    const dan = new E2eClient(node);
    const { floorId, id } = await dan.hold("general", { title: "Tune" });
    await dan.say(id, "play");
    for (const view of ["session", "floor"]) {
      const page = await open(addressOf(node, view, { floorId, id }));
      await press(page, page.getByRole("button", { name: "Abort its run" }));
      await hasFocus(page.getByRole("group").getByRole("button", { name: "Abort its run" }));
      await page.keyboard.press("Enter");
      await announced(page, "Tune: its run was aborted.");
      await gone(page.getByRole("button", { name: "Abort its run" }));
      const focused = () => page.evaluate<string>("document.activeElement.textContent");
      await expect.poll(focused).toMatch(/^(Pause|Rename)$/);
      await dan.say(id, "play");
    }
  });

  test("in a session: archive, an answered question and a withdrawn message leave the focus near them", async () => {
    const eve = new E2eClient(node);
    const { floorId, id } = await eve.hold("stacker", { title: "Ask me" });
    await accepted(eve.say(id, "ask"));
    const page = await open(addressOf(node, "session", { floorId, id }));
    await accepted(eve.say(id, "later"));
    await press(page, page.getByRole("button", { name: "Withdraw" }));
    await announced(page, "The message was withdrawn.");
    await hasFocus(messagesOn(page).getByRole("button", { name: "Copy" }).last());
    await page.getByRole("radio", { name: "b", exact: true }).check();
    await press(page, page.getByRole("button", { name: "Answer", exact: true }));
    // The list of the events says the same words a moment later.
    await page.getByRole("article", { name: "Stacker" }).getByText("You chose b.").waitFor();
    await announced(page, "The answer was sent.");
    await hasFocus(messagesOn(page));
    await press(page, page.getByRole("button", { name: "Archive", exact: true }));
    await page.getByText(/^This session is archived/).waitFor();
    await announced(page, "Ask me: archived.");
    await hasFocus(page.getByRole("button", { name: "More for this session" }));
  });

  test("a press beside all controls takes the focus away, also when its control goes later", async () => {
    const { user: fay, id, page } = await openHeld(open, node, "floor", "music");
    await page
      .getByRole("article", { name: /^Music/ })
      .getByRole("button", { name: "Archive" })
      .focus();
    await page.getByRole("banner").getByText("Interlock").click();
    await accepted(fay.on(id, "archive"));
    await page.getByText("The floor is free.").waitFor();
    await page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))");
    expect(await page.evaluate<string>("document.activeElement.localName")).toBe("body");
  });
});
