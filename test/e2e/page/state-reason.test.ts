import { expect, test } from "vitest";
import { addressOf, describePage, openHeld, shown, startPageNode } from "../../support/browsers/page-stage.ts";
import { CAR } from "../../support/catalogs/car-catalog.ts";

const radio = { name: "radio_agent", priority: 20, lease: "1h", adapter: { kind: "external" } };
const node = await startPageNode({ agents: [...CAR, radio], catalog: {} });

describePage("the explanation of a session's state", (open) => {
  test("a paused session's view explains which session paused it, with which priorities, and what resumes it; a ducked session can be paused", async () => {
    const { user: ann, id, page } = await openHeld(open, node, "session", "music_agent");
    await page.getByText("Music Agent (20) got the floor: it is free.").first().waitFor();
    const phone = await ann.hold("phone_agent");
    await page.getByText("Phone Agent (90) got the floor: 90 against 20, Music Agent is paused.").first().waitFor();
    await page.getByText("It resumes when the floor comes back to it.").waitFor();
    await ann.on(phone.id, "archive");
    await page.getByText("Music Agent (20) got the floor: it goes on.").first().waitFor();
    await page.getByRole("button", { name: "Pause", exact: true }).click();
    await page.getByText("paused by its user.").waitFor();
    await page.getByText("It stays paused until it is resumed or spoken to.").waitFor();
    await ann.on(id, "resume");
    await ann.hold("prompt_agent");
    await page.getByText("Music Agent is heard quieter.").first().waitFor();
    await page.getByRole("button", { name: "Pause", exact: true }).click();
    await expect.poll(async () => (await ann.see(id)).state).toBe("paused");
  });

  test("the card of a ducked session names the session that it is heard beneath", async () => {
    const { user: dov, session: phone, page } = await openHeld(open, node, "floor", "phone_agent");
    await dov.hold("chime_agent");
    const card = page.locator(`[data-card="${phone.id}"]`);
    await card.getByText(/ · 0 dB · .*beneath Chime Agent$/).waitFor();
    const prompt = await dov.create("prompt_agent", { activate: true });
    await shown(page.locator(`[data-card="${prompt.id}"]`).getByText(/ · beneath Chime Agent\.$/));
    await page.getByText("Prompt Agent (80) is heard: beneath Chime Agent.").first().waitFor();
  });

  test("an external agent's card shows its lease, and no view has a field to write to it", async () => {
    const { session: music, page } = await openHeld(open, node, "floor", "radio_agent");
    const card = page.locator("[data-front=true]");
    await card.getByText(/^(?:\d+h )?(?:\d+m )?\d+s of its lease left$/).waitFor();
    await expect.poll(() => page.getByLabel("Say something").count()).toBe(0);
    await page.goto(addressOf(node, "machine", music));
    await page.getByRole("button", { name: "session.heartbeat" }).waitFor();
    await expect.poll(() => page.getByRole("button", { name: "session.chat" }).count()).toBe(0);
    await page.getByText(/^\d+ that it refuses$/).click();
    await page.getByRole("listitem").filter({ hasText: "session.chat ✕ illegal_command" }).waitFor();
  });
});
