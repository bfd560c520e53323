import { fileURLToPath } from "node:url";
import { afterAll, expect, test } from "vitest";
import { buildPage } from "../../support/browsers/built-page.ts";
import { describeInChromium } from "../../support/browsers/chromium.ts";
import { E2E_AGENTS } from "../../support/catalogs/e2e-catalog.ts";
import { accepted, E2eClient } from "../../support/clients/e2e-client.ts";
import { NodeUnderTest } from "../../support/nodes/node-under-test.ts";

const LEASE_MS = 8_000;
const pageFolder = await buildPage(fileURLToPath(new URL("../../support/browsers/hooks-page", import.meta.url)));
const radio = { name: "radio", lease: `${LEASE_MS}ms`, adapter: { kind: "external" } };
const node = await NodeUnderTest.start({ pageFolder, agents: [...E2E_AGENTS, radio] });
afterAll(() => node.stop());

describeInChromium("the hooks of interlock/react", (open) => {
  test("hooks show sessions, a floor, all floors and the connection, share their streams, and renew a lease", async () => {
    const ann = new E2eClient(node);
    const { id, floorId } = await ann.hold("general");
    const player = new E2eClient(node);
    const played = await player.hold("radio");
    const ids = new URLSearchParams([
      ["id", id],
      ["id", floorId],
      ["id", played.id],
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
    await page
      .getByLabel("connection")
      .getByText(/^open: .*\bgeneral\b.*\bradio\b/)
      .waitFor();
    // One stream for each session, one for the floor, one for all floors, one connection, although React mounts each
    // component twice.
    await expect.poll(async () => JSON.parse((await node.get("/health")).text).connections).toBe(5);
    // The participant's hook sends heartbeats, and each renews the lease.
    const { leaseUntil = 0 } = await player.see(played.id);
    const isKept = async () => ((await player.see(played.id)).leaseUntil ?? 0) > leaseUntil + LEASE_MS / 2;
    await expect.poll(isKept).toBe(true);
    await page.getByLabel("player").getByText("active").waitFor();
    await accepted(ann.on(phone.id, "archive"));
    await page.getByLabel("chat").getByText("active").waitFor();
    expect(faults).toEqual([]);
  });
});
