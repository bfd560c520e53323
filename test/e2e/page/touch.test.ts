import type { Page } from "playwright-core";
import { expect, onTestFinished, test } from "vitest";
import { addressAtRest } from "../../support/browsers/chromium.ts";
import {
  addressOf,
  describePage,
  messagesOn,
  type Open,
  PHONE,
  startPageNode,
} from "../../support/browsers/page-stage.ts";
import { E2E_AGENTS, scripted } from "../../support/catalogs/e2e-catalog.ts";
import { accepted, E2eClient } from "../../support/clients/e2e-client.ts";
import { saveLog } from "../../support/documents/saved-log.ts";

/** An agent with the longest label, whose answers take many lines. */
const LONG = { label: `Wordy ${"with many names ".repeat(7)}`.trim() };
const node = await startPageNode({ agents: [...E2E_AGENTS, scripted("wordy", { ...LONG, priority: 25 })] });

const SCREENS = [
  { name: "a phone", viewport: PHONE.viewport },
  { name: "a tablet", viewport: { width: 820, height: 1180 } },
];

/** The timeline of a log of two hours, on a phone. */
async function openLog(open: Open) {
  const page = await open(`${node.url}/#/timeline`, PHONE);
  const saved = await saveLog([0, 1_800, 3_600, 5_400, 7_200], onTestFinished);
  await page.locator("input[type=file]").first().setInputFiles(saved);
  const picture = page.getByRole("img", { name: /5 sessions over time/ });
  await picture.waitFor();
  return { page, picture };
}

/** Fingers on the page: each step lists the positions of all that touch it; an empty step lifts them. */
async function fingersOn(page: Page) {
  const session = await page.context().newCDPSession(page);
  let down = 0;
  return async (...points: { x: number; y: number }[]) => {
    const type = points.length > down ? "touchStart" : points.length < down ? "touchEnd" : "touchMove";
    down = points.length;
    const touchPoints = points.map((point, id) => ({ ...point, id }));
    await session.send("Input.dispatchTouchEvent", { type, touchPoints });
  };
}

/** The part of the log that the address selects; undefined: all of it. */
function spanOf(page: Page): { from: number; to: number } | undefined {
  const query = new URLSearchParams(page.url().split("?")[1]);
  const [from, to] = [Number(query.get("from")), Number(query.get("to"))];
  return to > 0 ? { from, to } : undefined;
}

/** The same once it follows the fingers no longer. */
async function spanAtRest(page: Page): Promise<{ from: number; to: number }> {
  await addressAtRest(page);
  return spanOf(page)!;
}

describePage("fingers on the timeline", (open) => {
  test("two fingers on the overview choose the part between them and follow; a remaining finger chooses nothing", async () => {
    const { page } = await openLog(open);
    const { x, y, width, height } = (await page.getByRole("img", { name: /^The whole log/ }).boundingBox())!;
    const at = (part: number) => ({ x: x + part * width, y: y + height / 2 });
    const touch = await fingersOn(page);
    await touch(at(0.75));
    await touch(at(0.75), at(0.25));
    await page.waitForURL(/from=\d+/);
    const half = await spanAtRest(page);
    await touch(at(0.95), at(0.05));
    await expect.poll(() => spanOf(page)!.from).toBeLessThan(half.from);
    const most = await spanAtRest(page);
    expect(most.to).toBeGreaterThan(half.to);
    expect((most.to - most.from) / (half.to - half.from)).toBeCloseTo(0.9 / 0.5, 2);

    await touch(at(0.95));
    await touch(at(0.4));
    await touch();
    await page.getByRole("button", { name: "Refused", exact: true }).tap();
    await page.waitForURL(/only=refused/);
    expect(spanOf(page)).toEqual(most);
  });

  test("two fingers on the lanes zoom and move the log, and keep the moment; one finger chooses a moment", async () => {
    const { page, picture } = await openLog(open);
    const { x, y, width } = (await picture.boundingBox())!;
    const at = (part: number) => ({ x: x + part * width, y: y + 10 });
    const touch = await fingersOn(page);
    await touch(at(0.4));
    await touch(at(0.4), at(0.6));
    await touch(at(0.3), at(0.7));
    await touch(at(0.1), at(0.9));
    await touch();
    await page.waitForURL(/from=\d+/);
    const near = await spanAtRest(page);
    expect(page.url()).not.toContain("at=");

    await touch(at(0.1));
    await touch(at(0.1), at(0.9));
    await touch(at(0.4), at(0.6));
    await touch();
    await expect.poll(() => spanOf(page)!.from).toBeLessThan(near.from);
    const far = await spanAtRest(page);
    expect((far.to - far.from) / (near.to - near.from)).toBeCloseTo(4, 2);

    await touch(at(0.5));
    await touch();
    await page.waitForURL(/at=\d+/);
    expect(spanOf(page)).toEqual(far);
  });
});

describePage("buttons on touch screens", (open) => {
  test("buttons are at least 44 px high on touch screens: in the floor, session and machine views", async () => {
    const user = new E2eClient(node);
    const { id, floorId } = await user.hold("general");
    await user.talk(id, "hello");
    await user.hold("phone");
    const floor = encodeURIComponent(floorId);
    const page = await open(`${node.url}/#/floor/${floor}`, PHONE);
    /** What its buttons are, and how high. Those of long lists have the height of their rows. */
    const lowButtons = () =>
      page.evaluate<string[]>(`[...document.querySelectorAll("main button:not(li[aria-posinset] button)")]
        .filter((button) => button.checkVisibility() && button.getBoundingClientRect().height < 44)
        .map((button) => button.textContent)`);
    await page.getByRole("article", { name: "General: paused" }).waitFor();
    expect(await lowButtons()).toEqual([]);
    await page.goto(`${node.url}/#/session/${floor}/${id}`);
    await page.getByRole("article").getByRole("button", { name: "Copy", exact: true }).first().waitFor();
    expect(await lowButtons()).toEqual([]);
    await page.goto(`${node.url}/#/machine/${floor}/${id}`);
    await page.getByRole("button", { name: "session.update title", exact: true }).waitFor();
    expect(await lowButtons()).toEqual([]);
  });
});

describePage("a question on a phone", (open) => {
  test("a question leaves room for the conversation, and the page scrolls to the answers and the field", async () => {
    const user = new E2eClient(node);
    const { id, floorId } = await user.hold("general");
    await user.talk(id, "hello");
    await accepted(user.say(id, "delete"));
    await user.hold("phone");
    const page = await open(addressOf(node, "session", { floorId, id }), PHONE);
    const reject = page.getByRole("button", { name: /Reject$/ });
    await reject.waitFor();
    const messages = messagesOn(page);
    const height = async () => (await messages.boundingBox())!.height;
    expect(await height()).toBeGreaterThanOrEqual(200);
    // The list keeps its own scroll bar, however long the conversation is.
    expect(await height()).toBeLessThan(400);
    await messages.getByText("delete", { exact: true }).waitFor();
    const field = page.getByRole("textbox", { name: "Say something" });
    await page.evaluate("scrollTo(0, document.body.scrollHeight)");
    const [bar, last] = [await page.getByRole("button", { name: "Live" }).boundingBox(), await field.boundingBox()];
    expect(last!.y + last!.height).toBeLessThan(bar!.y);
  });
});

describePage("what-if by touch", (open) => {
  const agentButton = (page: Page, name: string) =>
    page.getByRole("region", { name: /^(Agents|智能体)$/ }).getByRole("button", { name: new RegExp(`^${name}`) });
  const holderCard = (page: Page) => page.locator("[data-front=true]");

  test("a tap starts an agent at once; with the switch on a tap shows what its start would do, and a second starts it", async () => {
    const user = node.newUser();
    const page = await open(`${node.url}/#/floor/u%3A${user}`, PHONE);
    let asked = 0;
    page.on("request", (request) => {
      if (request.url().endsWith("/what-if")) asked += 1;
    });
    await agentButton(page, "Music").tap();
    await holderCard(page).getByText("Music").waitFor();
    expect(asked).toBe(0);

    const preview = page.getByRole("button", { name: "What if?", exact: true });
    expect((await preview.boundingBox())!.height).toBeGreaterThanOrEqual(44);
    await page.getByText("Switch on to see first what an agent's start would do.").waitFor();
    await preview.tap();
    await preview.and(page.locator("[aria-pressed=true]")).waitFor();
    const phone = agentButton(page, "Phone");
    await expect.poll(() => descriptionOf(page, "Phone")).toMatch(/Press an agent to see what its start would do/);
    await phone.tap();
    const answer = page.getByText("Phone (90) would get the floor: 90 against 20, Music is paused.");
    await answer.waitFor();
    await phone.getByText("Press again to start").waitFor();
    await holderCard(page).getByText("would be paused").waitFor();
    expect((await node.get(`/floor/u%3A${user}`)).body.holder?.agentId).toBe("music");
    // The answer is visible, and not beneath the bar that opens the decisions.
    const sheets = page.getByRole("button", { name: "Sessions", exact: true });
    const [shown, bar] = [(await answer.boundingBox())!, (await sheets.boundingBox())!];
    expect(shown.y).toBeGreaterThan(0);
    expect(shown.y + shown.height).toBeLessThanOrEqual(bar.y);
    // It does not cover the button, so a second tap in the same place reaches that.
    await expect.poll(() => isOnTop(page, "Phone")).toBe(true);

    // Another client changes the floor: the shown answer follows.
    await node.post("/session/create", { agentId: "general", userId: user, activate: true });
    await page.getByText("Phone (90) would get the floor: 90 against 40, General is paused.").waitFor();
    await phone.tap();
    await holderCard(page).getByText("Phone").waitFor();
    await preview.tap();
    await page.getByText("Switch on to see first what an agent's start would do.").waitFor();
  });

  test.each(SCREENS)("nothing under the finger moves when an answer is shown: on $name", async ({ viewport }) => {
    const user = new E2eClient(node);
    await user.hold("music");
    const page = await open(`${node.url}/#/floor/u%3A${user.userId}`, { ...PHONE, viewport });
    await holderCard(page).getByText("Music").waitFor();
    await page.getByRole("button", { name: "What if?", exact: true }).tap();
    const places = () =>
      page.evaluate<number[]>(
        `[...document.querySelectorAll("[aria-labelledby=agents] li button")].map((button) => button.getBoundingClientRect().y)`,
      );
    const answers: [agent: string, answer: RegExp][] = [
      ["Phone", /Phone \(90\) would get the floor/],
      ["Chat", /Chat \(10\) would be refused/],
      ["Patient", /Patient \(10\) would wait/],
      ["General", /General \(40\) would get the floor/],
    ];
    for (const [agent, answer] of answers) {
      const button = agentButton(page, agent);
      await button.scrollIntoViewIfNeeded();
      await expect.poll(() => isOnTop(page, agent)).toBe(true);
      const before = await places();
      await button.tap();
      await page.getByText(answer).waitFor();
      expect(await places(), agent).toEqual(before);
      expect(await isOnTop(page, agent)).toBe(true);
    }
    await page.locator("[data-where=front]").getByText("General").waitFor();
    const size = await page.evaluate<string>(
      `getComputedStyle(document.querySelector("[data-where=front] small")).fontSize`,
    );
    expect(Number.parseFloat(size)).toBeGreaterThanOrEqual(12);
    // At the end of the page, where the floor's flags follow the list.
    await page.evaluate("scrollTo(0, document.body.scrollHeight)");
    const before = await places();
    await agentButton(page, "Patient").tap();
    await page.getByText(/Patient \(10\) would wait/).waitFor();
    expect(await places()).toEqual(before);
  });

  test.each(SCREENS)(
    "an answer of many lines scrolls in its place and covers nothing else: on $name",
    async ({ viewport }) => {
      const user = new E2eClient(node);
      await user.hold("wordy");
      const page = await open(`${node.url}/#/floor/u%3A${user.userId}`, { ...PHONE, viewport });
      await page.getByRole("button", { name: "What if?", exact: true }).tap();
      const place = page.getByRole("region", { name: "Answer about an agent" });
      await agentButton(page, "Phone").scrollIntoViewIfNeeded();
      const before = await place.boundingBox();
      await agentButton(page, "Phone").tap();
      const answer = place.getByText(/Phone \(90\) would get the floor.*is paused\.$/);
      await answer.waitFor();
      expect(await place.boundingBox()).toEqual(before);
      const hidden = await page.evaluate<number>(`(() => {
      const place = document.querySelector("[aria-label='Answer about an agent']");
      place.scrollTo(0, place.scrollHeight);
      return place.scrollTop;
    })()`);
      expect(hidden).toBeGreaterThan(0);
      expect(await place.boundingBox()).toEqual(before);
    },
  );

  test("with a mouse there is no switch: a long answer is visible beside the list, leaves the page as it is, is scrolled in its place, and disappears when the pointer leaves it", async () => {
    const user = new E2eClient(node);
    await user.hold("wordy");
    const page = await open(`${node.url}/#/floor/u%3A${user.userId}`, { viewport: { width: 1280, height: 720 } });
    await agentButton(page, "Phone").waitFor();
    expect(await page.getByRole("button", { name: "What if?" }).count()).toBe(0);
    const hint = page.getByText("Point at an agent to see what its start would do.");
    await hint.waitFor();
    // The bar below has come.
    await page.getByText(/^(\d+) of \1 events$/).waitFor();
    const height = () => page.evaluate<number>("document.documentElement.scrollHeight");
    const before = await height();
    await agentButton(page, "Phone").hover();
    const answer = page.getByText(/Phone \(90\) would get the floor.*is paused\.$/);
    await answer.waitFor();
    const place = page.getByRole("region", { name: "Answer about an agent" });
    const { y, height: high } = (await place.boundingBox())!;
    const bar = (await page.getByRole("button", { name: "Live", exact: true }).boundingBox())!;
    expect(await hint.count()).toBe(0);
    expect(y).toBeGreaterThan(0);
    expect(y + high).toBeLessThanOrEqual(bar.y);
    expect(await height()).toBe(before);

    await place.hover();
    // Longer than an answer lasts after the pointer has left its agent.
    await page.waitForTimeout(600);
    expect(await answer.count()).toBe(1);
    const scrolled = () =>
      page.evaluate<number>(`document.querySelector("[aria-label='Answer about an agent']").scrollTop`);
    await page.mouse.wheel(0, 200);
    await expect.poll(scrolled).toBeGreaterThan(0);
    await page.mouse.move(900, 300);
    await expect.poll(() => answer.count()).toBe(0);
    // The same with the keyboard: the focus goes from the last agent to the answer.
    const last = page.locator("[aria-labelledby=agents] li button").last();
    await last.focus();
    await place.getByText(/would/).waitFor();
    await page.keyboard.press("Tab");
    await page.waitForTimeout(600);
    expect(await place.getByText(/would/).count()).toBe(1);
    await page.keyboard.press("Shift+Tab");
  });

  test("the switch speaks Chinese", async () => {
    const page = await open(`${node.url}/#/floor/u%3A${node.newUser()}`, { ...PHONE, locale: "zh-CN" });
    await page.getByRole("button", { name: "如果……", exact: true }).tap();
    await agentButton(page, "Music").tap();
    await agentButton(page, "Music").getByText("再按一下即启动").waitFor();
  });
});

const BUTTON_OF = (name: string) => `[...document.querySelectorAll("[aria-labelledby=agents] li button")]
  .find(({ textContent }) => textContent.startsWith(${JSON.stringify(name)}))`;

/** Whether nothing covers the corners of an agent's button. */
const isOnTop = (page: Page, name: string) =>
  page.evaluate<boolean>(`(() => {
    const button = ${BUTTON_OF(name)};
    const { left, right, top, bottom } = button.getBoundingClientRect();
    return [[left + 10, top + 2], [right - 10, bottom - 2]].every(([x, y]) => button.contains(document.elementFromPoint(x, y)));
  })()`);

/** What a screen reader says of an agent's button after its name. */
const descriptionOf = (page: Page, name: string) =>
  page.evaluate<string>(`(() => {
    const button = ${BUTTON_OF(name)};
    const ids = button.getAttribute("aria-describedby").split(" ");
    return ids.map((id) => document.getElementById(id).textContent).join(" ");
  })()`);
