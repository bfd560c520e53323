import { afterAll, expect, test } from "vitest";
import { buildPage } from "../../support/built-page.ts";
import { keysFile, writeTemporary } from "../../support/callers.ts";
import { closeChromium, describeInChromium } from "../../support/chromium.ts";
import { NodeUnderTest } from "../../support/node-under-test.ts";

const KEY = "ann-key-0123456789abcdef0123456789";

const pageFolder = await buildPage();
const node = await NodeUnderTest.start({ pageFolder });
afterAll(() => node.stop());
afterAll(closeChromium);

describeInChromium("the node view", (open) => {
  test("shows what the node counts, as it grows", async () => {
    const { page, faults } = await open(`${node.url}/#/node`);
    await page.getByText(/^. Ready$/).waitFor();
    await page.getByText("It is gateway, orchestrator, worker").waitFor();
    await page.getByRole("listitem").filter({ hasText: "256 of 256 partitions of the floors this node" }).waitFor();
    const commands = page.locator("dl > div", { hasText: "Commands answered" });
    await commands.getByText(/since it started/).waitFor();
    const before = await commands.textContent();
    await node.post("/session/create", { agentId: "music", userId: node.newUser(), activate: true });
    await expect.poll(() => commands.textContent(), { timeout: 20_000 }).not.toBe(before);
    await page
      .locator("dl > div", { hasText: "Commits, 99 of 100 within" })
      .getByText(/≤ .* ms/)
      .waitFor();
    expect(faults).toEqual([]);
  });

  test("says where the catalogue on disk has faults", async () => {
    const faulty = await NodeUnderTest.start({ pageFolder, mayFail: true });
    afterAll(() => faulty.stop());
    await faulty.writeCatalog("agents: [{name: BAD NAME}]");
    const { page } = await open(`${faulty.url}/#/node`);
    await page
      .getByText(/agents\.0\.name|agents\[0\]\.name|name/)
      .first()
      .waitFor();
    await page
      .locator("code", { hasText: /^\d+:\d+ / })
      .first()
      .waitFor();
  });

  test("shows readiness without figures to callers that are not operators", async () => {
    const file = await writeTemporary("keys.yaml", keysFile([{ owner: "ann", key: KEY }]), afterAll);
    const guarded = await NodeUnderTest.start({ pageFolder, settings: { INTERLOCK_AUTH: `keys:${file}` } });
    afterAll(() => guarded.stop());
    const { page } = await open(`${guarded.url}/#/node`);
    await page.getByLabel("Token").fill(KEY);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByText(/^. Ready$/).waitFor();
    await page.getByText("Only operators see a node's figures.").waitFor();
  });
});
