import { afterAll, expect, test } from "vitest";
import { buildPage } from "../../support/built-page.ts";
import { closeChromium, describeInChromium } from "../../support/chromium.ts";
import { NodeUnderTest } from "../../support/node-under-test.ts";

const pageFolder = await buildPage();
const node = await NodeUnderTest.start({ pageFolder });
afterAll(() => node.stop());
afterAll(closeChromium);

/** Music plays, a call pauses it, a joke is refused. */
async function drive(): Promise<{ userId: string; music: string; address: string }> {
  const userId = node.newUser();
  const make = async (agentId: string) =>
    (await node.post("/session/create", { agentId, userId, activate: true })).body.session?.id;
  const music = await make("music");
  await node.post("/message", { type: "chat", sessionId: music, content: "hello" });
  await make("phone");
  await make("chat");
  return { userId, music, address: `${node.url}/#/timeline/u%3A${userId}` };
}

describeInChromium("the timeline", (open) => {
  test("says that a log is read, that it could not be, and that it is empty, and so does the sequence view", async () => {
    const { page } = await open(node.url);
    for (const [view, empty] of [
      ["timeline", "Nothing happened on this floor yet."],
      ["sequence", "Nothing was said on this floor yet."],
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
      expect(await page.getByText(empty!).count()).toBe(0);
      released.resolve();
      await page.getByRole("alert").getByText("The log could not be read: not today").waitFor();
      await page.unroute("**/log?*");
      await page.reload();
      await page.getByText(empty!).waitFor();
    }
  });

  test("the timeline has a lane for each session and a line for each event, and choosing a line shows all views as of that event", async () => {
    const { userId, music, address } = await drive();
    const { page, faults } = await open(address);
    await page.getByRole("link", { name: "Music hello" }).waitFor();
    await page.getByRole("link", { name: /^Phone/ }).waitFor();
    await page.getByLabel("Which events").selectOption("refused");
    await page.getByText("Chat (10) was refused: 10 is less than 90 of Phone.").waitFor();
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
    await page.goto(`${node.url}/#/session/u%3A${userId}/${music}?at=1`);
    await page.getByText("Nothing was said yet.").waitFor();
    await page.getByRole("button", { name: "Live", exact: true }).click();
    await page.getByText("Hello there.").waitFor();
    expect(faults).toEqual([]);
  });

  test("the timeline is scrubbed by a press on a lane, and zoomed and moved with keys and buttons", async () => {
    const { address } = await drive();
    const { page } = await open(address);
    const picture = page.getByRole("img", { name: /3 decisions/ });
    await picture.waitFor();
    const { x, y, width } = (await picture.boundingBox())!;
    await page.mouse.click(x + width / 2, y + 10);
    await page.waitForURL(/at=\d+/);
    const axis = () =>
      page
        .locator("[aria-hidden=true] > span", { hasText: /\d\d:\d\d:\d\d/ })
        .first()
        .textContent();
    const whole = await axis();
    await page.getByRole("button", { name: "Zoom in" }).click();
    await page.getByRole("button", { name: "Zoom in" }).click();
    await page.getByRole("button", { name: "Later" }).click();
    await expect.poll(axis, { timeout: 20_000 }).not.toBe(whole);
    await page.getByRole("button", { name: "Whole log" }).click();
    await expect.poll(axis, { timeout: 20_000 }).toBe(whole);
  });

  test("draws what the log says: at each moment a bar on the holder's lane", async () => {
    const { address } = await drive();
    const { page } = await open(address);
    await page.getByRole("img", { name: /3 decisions/ }).waitFor();
    const painted = () =>
      page.evaluate<number>(`(() => {
        const canvas = document.querySelector("canvas[role=img]");
        const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
        return data.filter((value, index) => index % 4 === 3 && value > 0).length;
      })()`);
    await expect.poll(painted, { timeout: 20_000 }).toBeGreaterThan(1_000);
  });
});
