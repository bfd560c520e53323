import type { Locator, Page } from "playwright-core";
import { expect, test } from "vitest";
import {
  addressOf,
  connected,
  describePage,
  gone,
  hasFocus,
  messagesOn,
  openHeld,
  startPageNode,
} from "../../support/browsers/page-stage.ts";
import { accepted, E2eClient } from "../../support/clients/e2e-client.ts";

const node = await startPageNode();

const focused = (page: Page) => page.evaluate<string>("document.activeElement.textContent");
const press = async (page: Page, control: Locator) => {
  await control.focus();
  await page.keyboard.press("Enter");
};
const announced = (page: Page, sentence: string) =>
  page.locator("[aria-live=polite]").getByText(sentence, { exact: true }).waitFor({ state: "attached" });

describePage("the page's keys", (open) => {
  test("keys move through the sessions, open one, close it, and leave the focus on its row", async () => {
    const ann = new E2eClient(node);
    const titles = ["one", "two", "three"];
    for (const title of titles) await ann.create("general", { title });
    const { floorId } = await ann.create("general", { title: "four" });
    const page = await open(addressOf(node, "session", { floorId }));
    await page.getByRole("link", { name: /^four/ }).waitFor();
    await page.keyboard.press("KeyJ");
    await expect.poll(() => focused(page)).toMatch(/four/);
    await page.keyboard.press("KeyJ");
    await page.keyboard.press("ArrowDown");
    await expect.poll(() => focused(page)).toMatch(/two/);
    await page.keyboard.press("KeyK");
    await expect.poll(() => focused(page)).toMatch(/three/);
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "three", exact: true }).waitFor();
    await page.keyboard.press("ArrowUp");
    await expect.poll(() => focused(page)).toMatch(/four/);
    await page.keyboard.press("Escape");
    await page.getByText("Choose a session from the list.").waitFor();
    await expect.poll(() => focused(page)).toMatch(/three/);
  });

  test("keys open and close a decision, and pause and resume the session whose card has the focus", async () => {
    const ben = new E2eClient(node);
    const { floorId, id: music } = await ben.hold("music");
    const { id: phone } = await ben.hold("phone");
    const page = await open(addressOf(node, "floor", { floorId }), { expected: /409/ });
    await page.getByRole("article", { name: "Music: paused" }).waitFor();
    // Without a focused card: the holder.
    await page.keyboard.press("KeyP");
    await page.getByRole("article", { name: "Phone: paused" }).waitFor();
    await page.getByRole("article", { name: "Music: has the floor" }).waitFor();
    await page.keyboard.press("KeyR");
    await expect.poll(async () => (await ben.see(phone)).state).toBe("active");
    const card = page.getByRole("article", { name: "Music: paused" });
    await card.getByRole("link", { name: "Music" }).focus();
    await page.keyboard.press("KeyP");
    await page.keyboard.press("KeyR");
    await card.getByRole("alert").getByText("Music (20) was refused: 20 is less than 90 of Phone.").waitFor();
    expect((await ben.see(music)).state).toBe("paused");
    const decision = page.getByRole("region", { name: "All decisions" }).locator("details").first();
    await page.getByRole("heading", { name: "Decisions" }).click();
    // The two cards, then the decisions.
    for (let press = 0; press < 3; press += 1) await page.keyboard.press("KeyJ");
    await hasFocus(decision.locator("summary"));
    await page.keyboard.press("Enter");
    await decision.getByText("Rule").waitFor();
    await page.keyboard.press("Escape");
    await decision.getByText("Rule").waitFor({ state: "hidden" });
  });

  test.each(["floor", "session", "machine"])("a key aborts a run in the %s view after one question", async (view) => {
    const cay = new E2eClient(node);
    const { floorId, id } = await cay.hold("general");
    await cay.say(id, "play");
    const page = await open(addressOf(node, view, { floorId, id }));
    const question = page.getByRole("group", { name: "Abort its run? What it has written is kept." });
    const yes = question.getByRole("button", { name: view === "machine" ? "Send" : "Abort its run", exact: true });
    await page.locator('main [data-key="X"]').waitFor();
    await page.keyboard.press("KeyX");
    await hasFocus(yes);
    await page.keyboard.press("Escape");
    await gone(question);
    expect((await cay.see(id)).activity).toBe("running");
    await page.keyboard.press("KeyX");
    await hasFocus(yes);
    await page.keyboard.press("Enter");
    await expect.poll(async () => (await cay.see(id)).activity).toBe("idle");
  });

  test("keys answer a confirmation that has the focus, and change the view elsewhere", async () => {
    const dov = new E2eClient(node);
    const { floorId, id } = await dov.hold("general");
    await dov.say(id, "delete it");
    const page = await open(addressOf(node, "session", { floorId, id }));
    const confirmation = page.getByRole("region", { name: "May delete_file run?" });
    await confirmation.waitFor();
    await page.getByRole("button", { name: "Rename", exact: true }).focus();
    await page.keyboard.press("Digit3");
    await page.waitForURL(/#\/machine\//);
    await page.keyboard.press("Digit2");
    await confirmation.waitFor();
    const row = page.locator("main a[aria-current=true]");
    await row.waitFor();
    await page.keyboard.press("KeyK");
    await hasFocus(row);
    await page.keyboard.press("KeyJ");
    await hasFocus(confirmation);
    await page.keyboard.press("Digit4");
    await hasFocus(page.getByLabel("Or reject, and say why"));
    await confirmation.getByRole("button", { name: "Reject", exact: true }).focus();
    await page.keyboard.press("Digit1");
    await messagesOn(page).getByText("Deleted.").waitFor();
    expect(page.url()).toContain("#/session/");
  });

  test("all keys can be switched off, and stay off after a reload", async () => {
    const page = await open(addressOf(node, "floor", { floorId: "u:quiet" }));
    await connected(page);
    await page.keyboard.press("Shift+Slash");
    await page.getByLabel("Keys are on").uncheck();
    await page.getByRole("button", { name: "Close", exact: true }).click();
    const unmoved = async () => {
      for (const key of ["Digit3", "KeyL", "Space", "KeyT", "Shift+Slash"]) await page.keyboard.press(key);
      expect(page.url()).toContain("#/floor/");
      await expect.poll(() => page.locator("html").getAttribute("lang")).toBe("en");
      await expect.poll(() => page.getByRole("dialog").count()).toBe(0);
    };
    await page.getByRole("heading", { name: "quiet" }).click();
    await unmoved();
    await page.reload();
    await connected(page);
    await unmoved();
    await page.getByRole("button", { name: "Keys", exact: true }).click();
    await page.getByLabel("Keys are on").check();
    await page.getByRole("button", { name: "Close", exact: true }).click();
    await page.getByRole("heading", { name: "quiet" }).click();
    await page.keyboard.press("Digit3");
    await page.waitForURL(/#\/machine\//);
  });

  test("Escape closes a menu and leaves the session open, and the focus is on the menu's button again", async () => {
    const ann = new E2eClient(node);
    const { id, floorId } = await ann.hold("general");
    await ann.talk(id, "hello");
    const page = await open(addressOf(node, "session", { floorId, id }));
    for (const name of ["More for this session", "More for this message"]) {
      const opener = page.getByRole("button", { name, exact: true }).first();
      await opener.focus();
      await page.keyboard.press("Enter");
      await page.locator(":popover-open").waitFor();
      await page.keyboard.press("Escape");
      await expect.poll(() => page.locator(":popover-open").count()).toBe(0);
      await hasFocus(opener);
      expect(page.url()).toContain(id);
    }
    const edit = page.getByRole("button", { name: "Edit", exact: true });
    await edit.focus();
    await page.keyboard.press("Enter");
    await hasFocus(page.getByLabel("New text of the message"));
    await page.keyboard.press("Escape");
    await hasFocus(edit);
    await page.keyboard.press("Enter");
    await page.getByRole("button", { name: "Cancel", exact: true }).press("Escape");
    await hasFocus(edit);
    expect(page.url()).toContain(id);
  });

  test("a session is renamed, paused and resumed with the keyboard alone, and the focus stays", async () => {
    const { floorId, page } = await openHeld(open, node, "session", "general");
    const rename = page.getByRole("button", { name: "Rename", exact: true });
    await rename.focus();
    await page.keyboard.press("Enter");
    await hasFocus(page.getByLabel("New title"));
    await page.keyboard.press("Escape");
    await hasFocus(rename);
    await page.keyboard.press("Enter");
    await page.getByRole("button", { name: "Save", exact: true }).press("Escape");
    await hasFocus(rename);
    await page.keyboard.press("Enter");
    await page.keyboard.type("Umbrellas");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "Umbrellas", exact: true }).waitFor();
    await hasFocus(rename);
    await page.keyboard.press("Tab");
    for (const name of ["Pause", "Resume", "Pause"]) {
      await hasFocus(page.getByRole("button", { name, exact: true }));
      await page.keyboard.press("Enter");
    }
    await page.goto(addressOf(node, "floor", { floorId }));
    const music = page.getByRole("region", { name: "Agents" }).getByRole("button", { name: /^Music/ });
    await music.focus();
    await page.keyboard.press("Enter");
    await page.getByRole("article", { name: /^Music/ }).waitFor();
    await hasFocus(music);
  });

  test.each([
    { width: 1280, height: 560 },
    { width: 390, height: 700 },
  ])("what has the focus is not beneath the bars at the bottom: at $width px", async (viewport) => {
    const ann = new E2eClient(node);
    const { floorId } = await ann.hold("music");
    await ann.hold("general");
    await ann.hold("phone");
    const page = await open(addressOf(node, "floor", { floorId }), { viewport });
    await page.getByRole("article", { name: "Music: paused" }).waitFor();
    const covered: string[] = [];
    for (let step = 0; step < 50; step += 1) {
      await page.keyboard.press("Tab");
      const name = await page.evaluate<string>(`(() => {
        const element = document.activeElement;
        const { left, right, top, bottom } = element.getBoundingClientRect();
        if (!element.closest("main") || bottom - top > innerHeight / 2) return "";
        const shown = document.elementFromPoint((left + right) / 2, bottom - 2);
        return shown && (element.contains(shown) || shown.contains(element)) ? "" : element.textContent;
      })()`);
      if (name !== "") covered.push(name);
    }
    expect(covered).toEqual([]);
  });
});

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
    const place = () => page.evaluate<string>("document.activeElement.localName + document.activeElement.textContent");
    await expect.poll(place).not.toMatch(/^body|Stop/);
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
      await expect.poll(() => focused(page)).toMatch(/^(Pause|Rename)$/);
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
