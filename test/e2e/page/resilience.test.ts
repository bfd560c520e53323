import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { afterAll, expect, onTestFinished, test } from "vitest";
import { createClient } from "../../../src/client/client.ts";
import { buildPage } from "../../support/browsers/built-page.ts";
import { closeChromium, describeInChromium } from "../../support/browsers/chromium.ts";
import { E2eClient } from "../../support/clients/e2e-client.ts";
import { CuttingProxy } from "../../support/networks/cutting-proxy.ts";
import { NodeUnderTest } from "../../support/nodes/node-under-test.ts";
import { freePort } from "../../support/servers/free-port.ts";

const pageFolder = await buildPage();
const node = await NodeUnderTest.start({ pageFolder });
afterAll(() => node.stop());
afterAll(closeChromium);

/** What Chromium itself writes on the console about an answer that was no success, or that did not come. */
const unexpected = (faults: readonly string[]) =>
  faults.filter((fault) => !fault.startsWith("Failed to load resource"));

const pathOf = ({ floorId, id }: { floorId: string; id: string }) => `#/session/${encodeURIComponent(floorId)}/${id}`;
const messages = (page: Page) => page.getByRole("region", { name: "Messages" });

/** The page has every event of the floor's log, and shows the session's whole conversation. */
async function expectWhole(page: Page, url: string, floorId: string): Promise<void> {
  const { events } = await createClient({ baseUrl: url }).readFloorLog(floorId, { limit: 2_000 });
  await page.getByText(`${events.length} of ${events.length} events`, { exact: true }).waitFor();
}

describeInChromium("the page survives", (open) => {
  test("the server's restart: messages typed meanwhile are sent once it is back, once only", async () => {
    const folder = await mkdtemp(join(tmpdir(), "interlock-restart-"));
    onTestFinished(() => rm(folder, { recursive: true }));
    const settings = { PORT: String(await freePort()), INTERLOCK_STORE: `sqlite:${join(folder, "log.db")}` };
    const before = await NodeUnderTest.start({ pageFolder, settings });
    const ann = new E2eClient(before);
    const session = await ann.hold("general");
    const { page, faults } = await open(`${before.url}/${pathOf(session)}`);
    await page.getByText("Connected", { exact: true }).waitFor();
    await before.stop();
    await page.getByText("Disconnected", { exact: true }).waitFor();
    await page.getByLabel("Say something").fill("hello");
    await page.getByLabel("Say something").press("Enter");

    const after = await NodeUnderTest.start({ pageFolder, settings });
    onTestFinished(() => after.stop());
    await messages(page).getByText("Hello there.").waitFor();
    await page.getByText("Connected", { exact: true }).waitFor();
    await new E2eClient(after, ann.userId).talk(session.id, "nod");
    await messages(page).getByText("Yes.").waitFor();
    await expect.poll(() => page.getByRole("article", { name: "User" }).count()).toBe(2);
    await expectWhole(page, after.url, session.floorId);
    expect(unexpected(faults)).toEqual([]);
  });

  test("a proxy that answers 502 for a while, and shows what happened behind it", async () => {
    const road = await CuttingProxy.start(node.url);
    const ben = new E2eClient(node);
    const session = await ben.hold("general");
    const { page, faults } = await open(`${road.url}/${pathOf(session)}`);
    await page.getByText("Connected", { exact: true }).waitFor();
    road.answer502();
    await page.getByText("Disconnected", { exact: true }).waitFor();
    await ben.talk(session.id, "hello");
    await ben.hold("phone");
    road.admit();
    await messages(page).getByText("Hello there.").waitFor();
    await page.getByRole("button", { name: "Resume", exact: true }).waitFor();
    await expectWhole(page, node.url, session.floorId);
    expect(unexpected(faults)).toEqual([]);
  });

  test("a laptop's sleep, in which its connections die unseen, and goes on where it was", async () => {
    const road = await CuttingProxy.start(node.url);
    const cay = new E2eClient(node);
    const session = await cay.hold("general");
    const { page, faults } = await open(`${road.url}/${pathOf(session)}`);
    await page.getByText("Connected", { exact: true }).waitFor();
    const devtools = await page.context().newCDPSession(page);
    await devtools.send("Page.setWebLifecycleState", { state: "frozen" });
    road.refuse();
    await cay.talk(session.id, "hello");
    await cay.hold("phone");
    road.admit();
    await devtools.send("Page.setWebLifecycleState", { state: "active" });
    await messages(page).getByText("Hello there.").waitFor();
    await page.getByRole("button", { name: "Resume", exact: true }).waitFor();
    await page.getByText("Connected", { exact: true }).waitFor();
    await expectWhole(page, node.url, session.floorId);
    expect(unexpected(faults)).toEqual([]);
  });
});
