import type { Page } from "playwright-core";
import { expect, onTestFinished, test } from "vitest";
import { createClient } from "../../../src/client/client.ts";
import { addressAtRest } from "../../support/browsers/chromium.ts";
import {
  addressOf,
  connected,
  describePage,
  driveFloor,
  gone,
  messagesOn,
  startPageNode,
} from "../../support/browsers/page-stage.ts";
import { accepted, E2eClient } from "../../support/clients/e2e-client.ts";
import { saveLog } from "../../support/documents/saved-log.ts";

const node = await startPageNode();

/** Its log does not change. */
const driven = await driveFloor(node);

/** The colour of a bar, and its height in px. */
type Bar = [string, number];

/** The bars of the first two lanes, at a part of their width. */
const barsAt = (page: Page, part: number) =>
  page.evaluate<Bar[]>(`(() => {
    const canvas = document.querySelector("section canvas");
    const { data } = canvas.getContext("2d").getImageData(Math.round((canvas.width - 1) * ${part}), 0, 1, 44);
    const colours = Array.from({ length: 44 }, (_, y) => "rgb(" + [...data.subarray(4 * y, 4 * y + 3)].join(", ") + ")");
    return [0, 22].map((top) => {
      const lane = colours.slice(top, top + 22);
      return [lane[11], lane.filter((colour) => colour === lane[11]).length];
    });
  })()`);

describePage("the timeline", (open) => {
  test("the timeline and the sequence view say that a log is being read, could not be read, or is empty", async () => {
    const page = await open(node.url, { expected: /403/ });
    for (const [view, empty] of [
      ["timeline", "There are no events on this floor yet."],
      ["sequence", "There are no messages on this floor yet."],
    ]) {
      const floor = `u%3A${node.newUser()}`;
      const released = Promise.withResolvers<void>();
      const refused = { errorCode: "forbidden", error: "not today", retryable: false };
      await page.route("**/log?*", async (route) => {
        await released.promise;
        await route.fulfill({ status: 403, json: refused });
      });
      await page.goto(`${node.url}/#/${view}/${floor}`);
      await page.getByText("Reading the log…").waitFor();
      await expect.poll(() => page.getByText(empty!).count()).toBe(0);
      released.resolve();
      await page.getByRole("alert").getByText("The log could not be read: not today").waitFor();
      await page.unroute("**/log?*");
      await page.reload();
      await page.getByText(empty!).waitFor();
    }
  });

  test("the timeline has a lane for each session and a line for each event; choosing a line shows its moment in all views", async () => {
    const page = await open(driven.address("timeline"));
    await page.getByRole("link", { name: "Music hello" }).waitFor();
    await page.getByRole("link", { name: /^Phone/ }).waitFor();
    await page.getByLabel("Which events").selectOption("refused");
    await page.locator("main").getByText("Chat (10) was refused: 10 is less than 90 of Phone.").waitFor();
    await page.getByText(/^1 of \d+$/).waitFor();
    await page.getByLabel("Which events").selectOption("all");
    await page.getByRole("heading", { name: "Timeline" }).click();
    await page.keyboard.press("Home");
    await page.waitForURL(/at=1\b/);
    const lines = page.getByRole("region", { name: "Events" }).getByRole("button");
    await lines.filter({ hasText: /created.*Music/ }).waitFor();
    await lines
      .filter({ hasText: /activate created → active\.idle/ })
      .first()
      .click();
    await page.waitForURL(/at=3\b/);
    await lines.filter({ hasText: /created.*Music/ }).click();
    await page.waitForURL(/at=1\b/);
    await page.getByRole("navigation").getByRole("link", { name: "Floor" }).click();
    await page.getByText("The floor is free. Choose an agent to start a session.").waitFor();
    await page.goto(`${driven.address("session")}?at=1`);
    await page.getByText("There are no messages yet.").waitFor();
    await page.getByRole("button", { name: "Live", exact: true }).click();
    await messagesOn(page).getByText("Hello there.").waitFor();
  });

  test("new lanes move nothing while the pointer is in the timeline; the lanes get their room when it leaves", async () => {
    const user = new E2eClient(node);
    for (let nth = 0; nth < 5; nth += 1) await user.create("general");
    const page = await open(addressOf(node, "timeline", { floorId: `u:${user.userId}` }));
    const filter = page.getByLabel("Which events");
    await filter.hover();
    await page.getByRole("img", { name: /^5 sessions over time/ }).waitFor();
    const top = async () => (await filter.boundingBox())!.y;
    const before = await top();
    for (let nth = 0; nth < 3; nth += 1) await user.create("general");
    await page.getByRole("img", { name: /^8 sessions over time/ }).waitFor();
    expect(await top()).toBe(before);
    await page.getByRole("link", { name: "Session", exact: true }).hover();
    await expect.poll(top).toBeGreaterThan(before);
    // The pointer is elsewhere: the region grows with the lanes.
    const grown = await top();
    await user.create("general");
    await expect.poll(top).toBe(grown + 22);
    // A timeline that opens beneath the pointer has room for all of its lanes.
    await filter.hover();
    await page.reload();
    await expect.poll(top).toBe(grown + 22);
  });

  test("a reader who scrolled back in the log stays there when events are added; at the end the log follows", async () => {
    const user = new E2eClient(node);
    const { id, floorId } = await user.hold("stacker");
    for (let nth = 0; nth < 10; nth += 1) await user.talk(id, "hello");
    const page = await open(addressOf(node, "timeline", { floorId }));
    const lines = page.getByRole("region", { name: "Events" });
    const top = () => page.evaluate<number>("document.querySelector('[aria-label=Events]').scrollTop");
    await expect.poll(top).toBeGreaterThan(0);
    const end = await top();
    await user.talk(id, "nod");
    await lines.getByText("Yes.").first().waitFor();
    await expect.poll(top).toBeGreaterThan(end);
    await page.evaluate("document.querySelector('[aria-label=Events]').scrollTo(0, 40)");
    await lines.getByRole("button", { name: /created.*Stacker/ }).waitFor();
    await page.getByRole("region", { name: "Events" }).hover();
    const events = page.getByText(/^\d+ of \d+$/);
    const before = await events.textContent();
    await user.talk(id, "hello");
    await expect.poll(() => events.textContent()).not.toBe(before);
    expect(await top()).toBe(40);
    // A chosen moment is shown wherever it is.
    await page.keyboard.press("End");
    await page.keyboard.press("ArrowLeft");
    await page.waitForURL(/at=/);
    await expect.poll(top).toBeGreaterThan(end);
  });

  test("messages and titles, which the floor's stream does not carry, are in the list while it is live", async () => {
    const user = new E2eClient(node);
    const { id, floorId } = await user.hold("stacker");
    await accepted(user.say(id, "ask"));
    const page = await open(addressOf(node, "timeline", { floorId }));
    await connected(page);
    // The log is read again when the stream opens: until then, these events would be part of it anyway.
    await page.waitForResponse(/\/log\?/, { timeout: 2_000 }).catch(() => undefined);
    await createClient({ baseUrl: node.url }).renameSession(id, "Songs for the road");
    const lines = page.getByRole("region", { name: "Events" }).getByRole("button");
    await lines.filter({ hasText: /updated Songs for the road/ }).waitFor();
    await accepted(user.say(id, "and then another one"));
    await lines.filter({ hasText: /user and then another one/ }).waitFor();
    expect((await lines.allTextContents()).slice(-2).join()).toMatch(/updated Songs.*user and then/);
    await page.getByRole("link", { name: "Stacker Songs for the road" }).waitFor();
  });

  test("the legend shows bars in the colours and heights of the lanes, in both languages, and a few lanes leave their room to the log, on a phone too", async () => {
    const page = await open(driven.address("timeline"));
    await page.getByRole("link", { name: "Music hello" }).waitFor();
    const languages = [
      { legend: "色条的含义", paused: "已暂停", idle: "占用中", failed: "失败", bad: "被拒绝或失败" },
      {
        legend: "What the bars mean",
        paused: "paused",
        idle: "has the floor",
        failed: "failed",
        bad: "refused or failed",
      },
    ];
    for (const { legend, ...words } of languages) {
      await page.keyboard.press("KeyL");
      await page.getByRole("list", { name: legend }).waitFor();
      const shown = await page.evaluate<Record<string, Bar>>(`Object.fromEntries(
        [...document.querySelectorAll("[aria-label='${legend}'] li")].map((item) => {
          const mark = item.querySelector("i");
          return [item.textContent, [getComputedStyle(mark).backgroundColor, mark.getBoundingClientRect().height]];
        }))`);
      expect(Object.keys(shown)).toHaveLength(9);
      expect(shown[words.bad]![0]).toBe(shown[words.failed]![0]);
      // Music was paused by the call, which has the floor until the end of the log.
      await expect.poll(() => barsAt(page, 0.99)).toEqual([shown[words.paused], shown[words.idle]]);
      expect(shown[words.paused]![1]).toBeLessThan(shown[words.idle]![1]);
      // Before the call its lane is empty.
      expect((await barsAt(page, 0.02))[1]![0]).not.toBe(shown[words.idle]![0]);
    }
    const boxOf = async (label: string) => (await page.getByLabel(label, { exact: true }).boundingBox())!;
    const lanes = page.getByRole("img", { name: /2 sessions over time/ });
    for (const { gap, ...viewport } of [
      { width: 1280, height: 720, gap: 4 },
      { width: 390, height: 844, gap: 12 },
    ]) {
      await page.setViewportSize(viewport);
      const isApart = async () => {
        const [legend, lines] = [await boxOf("What the bars mean"), await boxOf("Events")];
        const top = (await lanes.boundingBox())!.y;
        return lines.y - legend.y - legend.height >= gap && lines.height > legend.y - top;
      };
      await expect.poll(isApart).toBe(true);
    }
    const items = page.getByRole("list", { name: "What the bars mean" }).getByRole("listitem");
    await expect.poll(async () => (await items.last().boundingBox())?.height).toBeGreaterThan(0);
    for (const item of await items.all()) {
      const { x, width } = (await item.boundingBox())!;
      expect(x + width).toBeLessThanOrEqual(390);
    }
  });

  test("a refusal that left no session crosses all lanes", async () => {
    const { user, address } = await driveFloor(node);
    await user.create("general");
    const page = await open(address("timeline"));
    await page.getByText(/^3 of 3 sessions/).waitFor();
    /** The lanes that have a red pixel above their bars. */
    const crossed = () =>
      page.evaluate<boolean[]>(`(() => {
        const canvas = document.querySelector("section canvas");
        const red = getComputedStyle(document.querySelector("[aria-label='What the bars mean'] li:nth-child(4) i"));
        const wanted = red.backgroundColor.match(/\\d+/g).map(Number);
        return [2, 24, 46].map((y) => {
          const { data } = canvas.getContext("2d").getImageData(0, y, canvas.width, 1);
          return Array.from({ length: canvas.width }, (_, x) => 4 * x)
            .some((at) => wanted.every((part, index) => data[at + index] === part));
        });
      })()`);
    await expect.poll(crossed).toEqual([true, true, true]);
  });

  test("the timeline is scrubbed by a press on a lane, and zoomed and moved with keys, buttons and the wheel", async () => {
    const page = await open(driven.address("timeline"));
    const picture = page.getByRole("img", { name: /3 decisions/ });
    await picture.waitFor();
    const { x, y, width } = (await picture.boundingBox())!;
    await page.mouse.click(x + width / 2, y + 10);
    await page.waitForURL(/at=\d+/);
    /** The beginning, the middle and the end of the log. */
    const axis = async () =>
      (await page.locator("[aria-hidden=true] > span", { hasText: /^\d\d:\d\d:\d\d/ }).allTextContents()).join(" ");
    const whole = await axis();
    await page.getByRole("button", { name: "Zoom in" }).click();
    await page.getByRole("button", { name: "Zoom in" }).click();
    await page.getByRole("button", { name: "Later" }).click();
    await expect.poll(axis).not.toBe(whole);
    await page.getByRole("button", { name: "Whole log" }).click();
    await expect.poll(axis).toBe(whole);

    await page.getByRole("region", { name: "Sessions over time" }).focus();
    for (const [nearer, farther] of [
      ["KeyW", "KeyS"],
      ["Equal", "Minus"],
    ] as const) {
      await page.keyboard.press(nearer);
      await expect.poll(axis).not.toBe(whole);
      const near = await axis();
      await page.keyboard.press("KeyD");
      await expect.poll(axis).not.toBe(near);
      await page.keyboard.press("KeyA");
      await expect.poll(axis).toBe(near);
      await page.keyboard.press(farther);
      await expect.poll(axis).toBe(whole);
    }
    await page.getByRole("region", { name: "Sessions over time" }).hover();
    await page.keyboard.down("Control");
    await page.mouse.wheel(0, -100);
    await page.keyboard.up("Control");
    await expect.poll(axis).not.toBe(whole);
  });

  test("a drag on the overview chooses the shown part, and a press alone chooses nothing", async () => {
    const page = await open(driven.address("timeline"));
    await page.getByRole("img", { name: /3 decisions/ }).waitFor();
    const overview = page.getByRole("img", { name: /^The whole log: drag/ });
    const { x, y, width, height } = (await overview.boundingBox())!;
    const spanOf = () => {
      const query = new URLSearchParams(page.url().split("?")[1]);
      return Number(query.get("to")) - Number(query.get("from"));
    };
    await page.mouse.click(x + width / 2, y + height / 2);
    await page.mouse.move(x + width * 0.75, y + height / 2);
    await page.mouse.down();
    await page.mouse.move(x + width * 0.5, y + height / 2);
    await page.mouse.move(x + width * 0.25, y + height / 2);
    await page.waitForURL(/from=\d+/);
    await page.mouse.up();
    await addressAtRest(page);
    const half = spanOf();
    // The button was released, so this is not a drag.
    await page.mouse.move(x + width * 0.3, y + height / 2);
    await page.mouse.down();
    await page.mouse.move(x + 1, y + height / 2);
    await page.mouse.up();
    await expect.poll(spanOf).toBeLessThan(half);
    await addressAtRest(page);
    const less = spanOf();
    // A drag that began elsewhere is not one either.
    await page.mouse.move(x - 100, y - 20);
    await page.mouse.down();
    await page.mouse.move(x + width * 0.9, y + height / 2);
    await page.mouse.move(x + width * 0.6, y + height / 2);
    await page.mouse.up();
    await page.getByRole("button", { name: "Refused", exact: true }).click();
    await page.waitForURL(/only=refused/);
    expect(spanOf()).toBe(less);
    await page.getByRole("button", { name: "Whole log" }).click();
    await expect.poll(spanOf).toBe(0);
  });

  test("the timeline filters sessions in flight, refused or failed, shows their share, and keeps the filter in the address", async () => {
    const page = await open(driven.address("timeline"));
    const preset = (name: string) => page.getByRole("button", { name, exact: true });
    const lanes = page.getByRole("region", { name: "Sessions over time" }).getByRole("link");
    await page.getByText(/^2 of 2 sessions, \d+ events/).waitFor();
    await preset("Refused").click();
    await page.waitForURL(/only=refused/);
    await page.getByText(/^1 of \d+$/).waitFor();
    await page.getByText(/^0 of 2 sessions/).waitFor();
    await expect.poll(() => lanes.count()).toBe(0);
    await page.reload();
    await page.getByText(/^1 of \d+$/).waitFor();
    await expect.poll(() => preset("Refused").getAttribute("aria-pressed")).toBe("true");
    await page.getByRole("navigation").getByRole("link", { name: "Floor" }).click();
    await page.getByRole("navigation").getByRole("link", { name: "Timeline" }).click();
    await page.getByText(/^1 of \d+$/).waitFor();

    await preset("Failed").click();
    await page.getByText("Nothing matches “Failed”.").waitFor();
    await page.getByRole("region", { name: "Log" }).getByRole("button", { name: "All events" }).click();
    await expect.poll(() => lanes.count()).toBe(2);
    await expect.poll(() => page.url()).not.toContain("only=");

    await preset("In flight").click();
    await page.waitForURL(/only=inflight/);
    const ann = new E2eClient(node);
    await ann.hold("music");
    const { id, floorId } = await ann.hold("general");
    await ann.say(id, "ask");
    await page.goto(`${node.url}/#/timeline/${encodeURIComponent(floorId)}?only=inflight`);
    await page.getByText(/^1 of 2 sessions/).waitFor();
    const events = page.getByRole("region", { name: "Events" }).getByRole("button");
    await events.filter({ hasText: "Which one?" }).waitFor();
    await expect.poll(() => events.first().textContent()).toContain("turn");
  });

  test("the timeline folds gaps, in the address too", async () => {
    const saved = await saveLog([0, 1, 7_201, 7_202], onTestFinished);
    const page = await open(`${node.url}/#/timeline`, { timezoneId: "UTC" });
    await page.locator("input[type=file]").first().setInputFiles(saved);
    const middle = page.locator("[aria-hidden=true] > span", { hasText: /\d\d:\d\d:\d\d/ }).nth(1);
    await expect.poll(() => middle.textContent()).toMatch(/^09:0/);
    await expect.poll(() => page.getByText("⋯ 2h").count()).toBe(0);
    await page.getByRole("button", { name: "Fold gaps" }).click();
    await page.getByText("⋯ 2h").waitFor();
    await page.waitForURL(/fold=yes/);
    const picture = page.getByRole("img", { name: /4 sessions over time/ });
    const { x, y, width } = (await picture.boundingBox())!;
    // Two seconds with a short fold between them.
    await page.mouse.click(x + width * 0.8, y + 10);
    await page.waitForURL(/at=3\b/);
    await page.mouse.click(x + width * 0.2, y + 10);
    await page.waitForURL(/at=1\b/);
    await page.getByRole("button", { name: "Fold gaps" }).click();
    await expect.poll(() => page.getByText("⋯ 2h").count()).toBe(0);
  });

  test("all fields of the chosen event are shown beside the lanes, on a phone as a sheet, and can be closed", async () => {
    const page = await open(driven.address("timeline"));
    const lines = page.getByRole("region", { name: "Events" }).getByRole("button");
    const details = page.getByRole("region", { name: "Event", exact: true });
    await lines.filter({ hasText: "Phone (90) got the floor" }).click();
    await details.getByText("preempted · ").waitFor();
    await details.getByText("challenger", { exact: true }).first().waitFor();
    // The session that caused a pause is a link.
    await lines.filter({ hasText: /preempt.*by Phone/ }).click();
    await details.getByText("Caused by").waitFor();
    expect(await details.getByRole("link", { name: /^Phone/ }).getAttribute("href")).toMatch(/^#\/session\/.*at=/);
    await lines.filter({ hasText: "Chat (10) was refused" }).click();
    await details.getByText("lower_priority").first().waitFor();
    const [beside, lanes] = [details, page.getByRole("region", { name: "Sessions over time" })];
    const [{ x }, box] = [(await beside.boundingBox())!, (await lanes.boundingBox())!];
    expect(box.x + box.width).toBeLessThan(x);
    await details.getByRole("button", { name: "Close", exact: true }).click();
    await gone(details);
    await page.getByRole("button", { name: "Details", exact: true }).click();
    await details.waitFor();
    await page.setViewportSize({ width: 390, height: 844 });
    await gone(details);
    await page.getByRole("button", { name: "Details", exact: true }).click();
    await page.getByRole("dialog", { name: "Event", exact: true }).getByText("lower_priority").first().waitFor();
    await page.keyboard.press("Escape");
    await gone(page.getByRole("dialog"));
  });

  test("the timeline keeps the colours of states in forced colours, and marks the choice by a border", async () => {
    const page = await open(driven.address("timeline"), { forcedColors: "active" });
    await page.getByRole("img", { name: /3 decisions/ }).waitFor();
    const lane = `(() => {
      const canvas = document.querySelector("canvas[role=img]");
      const { data } = canvas.getContext("2d").getImageData(0, 11, canvas.width, 1);
      return new Set(Array.from({ length: canvas.width }, (_, x) => data.slice(4 * x, 4 * x + 3).join())).size;
    })()`;
    await expect.poll(() => page.evaluate<number>(lane)).toBeGreaterThan(2);
    const widths = await page.evaluate<string[]>(`[...document.querySelectorAll("nav a")]
      .map((tab) => tab.getAttribute("aria-current") + " " + getComputedStyle(tab).borderTopWidth)`);
    expect(widths.filter((width) => width.endsWith("2px"))).toEqual(["page 2px"]);
  });

  test("a paused timeline stays in place, and counts newer events", async () => {
    const { user, address } = await driveFloor(node);
    const page = await open(address("timeline"));
    const bar = page.getByRole("region", { name: "The moment that is shown" });
    await bar.getByText(/^\d+ of \d+ events$/).waitFor();
    const live = bar.getByRole("button", { name: "Live", exact: true });
    await live.click();
    await page.waitForURL(/at=\d+/);
    await expect.poll(() => live.getAttribute("aria-pressed")).toBe("false");
    const shown = async () => (await bar.textContent())!;
    const before = Number((await shown()).match(/of (\d+) events/)![1]);
    await user.askToCreate({ agentId: "phone", activate: true });
    await bar.getByText(/· \+\d+ since/).waitFor();
    const isCounted = async () => {
      const [, all, came] = (await shown()).match(/of (\d+) events.*\+(\d+) since/)!.map(Number);
      return all! > before && all! - came! === before;
    };
    await expect.poll(isCounted).toBe(true);
    await live.click();
    await expect.poll(() => bar.getByText(/since/).count()).toBe(0);
  });
});
