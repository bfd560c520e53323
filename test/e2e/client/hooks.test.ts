import { fileURLToPath } from "node:url";
import { afterAll, expect, test } from "vitest";
import { buildPage } from "../../support/built-page.ts";
import { closeChromium, describeInChromium } from "../../support/chromium.ts";
import { accepted, E2eClient } from "../../support/e2e-client.ts";
import { NodeUnderTest } from "../../support/node-under-test.ts";

const pageFolder = await buildPage(fileURLToPath(new URL("../../support/hooks-page", import.meta.url)));
const node = await NodeUnderTest.start({ pageFolder });
afterAll(() => node.stop());
afterAll(closeChromium);

describeInChromium("the hooks of interlock/react", (open) => {
  test("show a session, its floor and all floors as they are, and share their streams", async () => {
    const ann = new E2eClient(node);
    const { id, floorId } = await ann.hold("general");
    const ids = new URLSearchParams([
      ["id", id],
      ["id", floorId],
    ]);
    const { page, faults } = await open(`${node.url}/?${ids}`);
    await page.getByRole("button", { name: "Say hello" }).click();
    await page.getByText("Hello there.", { exact: true }).waitFor();
    for (const name of ["floor", "the same floor"]) {
      await page.getByLabel(name, { exact: true }).getByText("general").waitFor();
    }
    await page.getByLabel("floors").getByText("held").waitFor();
    const phone = await ann.hold("phone");
    await page.getByLabel("the same floor").getByText("phone").waitFor();
    await page.getByLabel("chat").getByText("paused").waitFor();
    // One for the session, one for the floor, one for all floors; although React mounts each twice.
    expect(JSON.parse((await node.get("/health")).text).connections).toBe(3);
    await accepted(ann.on(phone.id, "archive"));
    await page.getByLabel("chat").getByText("active").waitFor();
    expect(faults).toEqual([]);
  });
});
