import type { Page } from "playwright-core";
import { beforeAll, expect, onTestFinished, test } from "vitest";
import { axeFaults } from "../../support/browsers/axe.ts";
import { buildPage } from "../../support/browsers/built-page.ts";
import { describePage, PHONE, shown, signIn, startPageNode } from "../../support/browsers/page-stage.ts";
import { E2E_AGENTS, WITH_MUSIC_BENEATH } from "../../support/catalogs/e2e-catalog.ts";
import { keyOf, startGuarded } from "../../support/clients/callers.ts";
import { accepted, E2eClient, refused } from "../../support/clients/e2e-client.ts";

/** On one line: Chromium takes seconds to fill in a thousand lines. */
const catalogue = (agents: readonly object[]) => JSON.stringify({ agents, default_agent: "general" });
const BENEATH = catalogue(WITH_MUSIC_BENEATH);

const node = await startPageNode();
let floor = "";
beforeAll(async () => {
  const ann = new E2eClient(node);
  const music = await ann.hold("music");
  await ann.talk(music.id, "hello");
  const call = await ann.hold("phone");
  await refused(node.post("/session/create", { userId: ann.userId, agentId: "weather", activate: true }));
  await accepted(ann.on(call.id, "archive"));
  floor = encodeURIComponent(music.floorId);
});

/** Fill in a catalogue and play the last hour, with the keyboard alone. */
async function replayByKeys(page: Page, text: string, field: string): Promise<void> {
  const box = page.getByLabel(field);
  await box.fill(text);
  await box.focus();
  // The file, the comparison, the hour.
  for (let key = 0; key < 3; key += 1) await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
}

const fitsScreen = (page: Page) => page.evaluate<boolean>("document.documentElement.scrollWidth <= innerWidth");

describePage("the policy view", (open) => {
  test("the policy view shows who interrupts whom, and what an edited copy would change, and writes nothing", async () => {
    const agents = [
      { name: "phone", priority: 90, interruptible: false },
      { name: "music", priority: 20, when_preempted: "duck" },
      { name: "guide", priority: 80, beneath: { music: -14 } },
    ];
    const car = await startPageNode({ agents, catalog: {} }, onTestFinished);
    // The browser reports the refusal of the faulty copy.
    const page = await open(`${car.url}/#/policy`, { expected: /400/ });
    await page.getByRole("row", { name: "phone 90 refused refused refused" }).waitFor();
    await page.getByRole("row", { name: "music 20 pauses refused ducks -14 dB" }).waitFor();
    const before = (await car.get("/ready")).body;

    const edited = JSON.stringify({ agents: [{ ...agents[0], priority: 10 }, ...agents.slice(1)] }, null, 1);
    const copy = page.getByLabel("What would an edited copy change?");
    await copy.fill(edited);
    await page.getByRole("button", { name: "Compare" }).click();
    await page.getByText("2 cells change:").waitFor();
    const lines = page.locator("section li");
    expect(await lines.allTextContents()).toEqual([
      "phone: priority 90 → 10",
      "agents with other settings: phone",
      "phone asks while music is heard: pauses → refused",
      "phone asks while guide is heard: pauses → refused",
    ]);
    await copy.fill(edited.replace('"priority": 10', '"priority": 101'));
    expect(await lines.count()).toBe(0);
    await page.getByRole("button", { name: "Compare" }).click();
    await page.getByRole("main").getByText("The copy has 1 fault:").waitFor();
    expect(await lines.allTextContents()).toEqual(["5:16 agents[0].priority must be at most 100, not 101"]);
    const buffer = Buffer.from(JSON.stringify({ agents }));
    await page.getByLabel("Open a file…").setInputFiles({ name: "agents.yaml", mimeType: "application/yaml", buffer });
    await page.getByText("No cell of the matrix changes.").waitFor();
    expect((await car.get("/ready")).body).toEqual(before);

    // A file that is put in place changes the matrix that is shown.
    await car.writeCatalog(edited);
    await page.getByRole("row", { name: "music 20 refused refused ducks -14 dB" }).waitFor();
  });

  test("the last hour of a floor is played with another catalogue: lanes, differences with their stories, and agents; that nothing changes or happened, and faults, are told in a sentence", async () => {
    const viewport = { width: 1280, height: 800 };
    const page = await open(`${node.url}/#/policy/${floor}`, { viewport, expected: /400/ });
    const field = "What would an edited copy change?";
    await replayByKeys(page, BENEATH, field);
    await page.getByRole("main").getByText("1 thing becomes otherwise.").waitFor();
    expect(await page.getByRole("img", { name: /^2 sessions over time/ }).count()).toBe(2);
    const [before, after] = [
      page.getByRole("heading", { name: "Before", exact: true, level: 3 }),
      page.getByRole("heading", { name: "With this catalogue", exact: true, level: 3 }),
    ];
    expect((await before.boundingBox())!.y).toBeLessThan((await after.boundingBox())!.y);
    const difference = page.locator("ol > li");
    expect(await difference.locator("h4").innerText()).toMatch(/ Music/);
    const [was, is] = await difference.locator("ul").allInnerTexts();
    expect(was).toContain("active.idle → paused");
    expect(is).toContain("active.idle → ducked.idle -14 dB");
    const table = page.getByRole("table").filter({ hasText: "Longest silence" });
    await shown(table.getByRole("row", { name: /^Weather/ }));
    await difference.getByRole("link").click();
    await page.getByRole("heading", { name: "Log", exact: true }).waitFor();
    expect(page.url()).toMatch(/timeline\/.*at=\d+/);
    await page.goBack();
    // The text is kept.
    await expect.poll(() => page.getByLabel(field).inputValue()).toBe(BENEATH);

    await replayByKeys(page, catalogue(E2E_AGENTS), field);
    await page.getByRole("main").getByText("Nothing is otherwise.").waitFor();
    await replayByKeys(page, "agents: [{ name: a, priority: 101 }]", field);
    await page.getByRole("main").getByText("The copy has 1 fault:").waitFor();
    await shown(page.getByText("must be at most 100, not 101"));
    await page.goto(`${node.url}/#/policy/u%3Anobody`);
    await replayByKeys(page, catalogue(E2E_AGENTS), field);
    await page.getByRole("main").getByText("Nothing happened on this floor in that time.").waitFor();
    await page.goto(`${node.url}/#/policy`);
    await page.getByText("Choose a floor of this node").waitFor();
  });

  test("the view fits a phone, in Chinese and in the dark, and has no fault that axe finds", async () => {
    const page = await open(`${node.url}/#/policy/${floor}`, { ...PHONE, colorScheme: "dark", locale: "zh-CN" });
    await replayByKeys(page, BENEATH, "改过的文件会带来什么变化？");
    await page.getByRole("main").getByText("1 处会不同。").waitFor();
    await shown(page.getByRole("heading", { name: "用这份目录", exact: true, level: 3 }));
    expect(await fitsScreen(page)).toBe(true);
    expect(await axeFaults(page)).toEqual([]);
  });

  test("a replay is ended by its button and by leaving the view, and waits while the node plays another log", async () => {
    const page = await open(`${node.url}/#/policy/${floor}`, { expected: /503/ });
    await page.getByLabel("What would an edited copy change?").fill(BENEATH);
    const ended = () => page.waitForEvent("requestfailed", (request) => request.url().includes("/replay"));
    const held = Promise.withResolvers<void>();
    await page.route("**/replay?**", () => held.promise);
    for (const leave of [
      () => page.getByRole("button", { name: "Stop" }).click(),
      () => page.getByRole("link", { name: "Node", exact: true }).click(),
    ]) {
      await page.getByRole("button", { name: "The last week" }).click();
      await page.getByText("Asking the node…").waitFor();
      const failed = ended();
      await leave();
      await failed;
    }
    held.resolve();
    await page.unroute("**/replay?**");
    await page.goBack();
    const busy = { success: false, errorCode: "busy", error: "The node is playing another log.", retryable: true };
    let refusals = 0;
    await page.route("**/replay?**", async (route) => {
      refusals += 1;
      await (refusals > 2 ? route.continue() : route.fulfill({ status: 503, json: busy }));
    });
    await page.getByRole("button", { name: "The last day" }).click();
    await page.getByRole("main").getByText("1 thing becomes otherwise.").waitFor();
    expect(refusals).toBe(3);
  });

  test("callers who are not operators replay their own floor, and read no catalogue and no figures of the node", async () => {
    const { node: guarded, ann } = await startGuarded({ pageFolder: await buildPage() }, onTestFinished);
    await accepted(ann.post("/session/create", { agentId: "music", userId: "ann", activate: true }));
    const page = await open(`${guarded.url}/#/policy/u%3Aann`, { expected: /40[13]/ });
    await signIn(page, keyOf("ann"));
    await page.getByText("Only operators read the catalogue in use.").waitFor();
    expect(await page.getByRole("button", { name: "Compare" }).count()).toBe(0);
    await page.getByLabel("What would an edited copy change?").fill(catalogue(E2E_AGENTS));
    await page.getByRole("button", { name: "The last hour" }).click();
    await page.getByRole("main").getByText("Nothing is otherwise.").waitFor();
    await page.goto(`${guarded.url}/#/node`);
    await page.getByText(/^. Ready$/).waitFor();
    await page.getByText("Only operators see a node's figures.").waitFor();
  });
});
