import type { Page } from "playwright-core";
import { afterAll, expect, test } from "vitest";
import { addressOf, describePage, openHeld, shown, startPageNode } from "../../support/browsers/page-stage.ts";
import { CAR } from "../../support/catalogs/car-catalog.ts";
import { makeClerk } from "../../support/catalogs/e2e-catalog.ts";
import { E2eClient } from "../../support/clients/e2e-client.ts";
import { startProviderServer } from "../../support/servers/provider-server.ts";

const provider = await startProviderServer();
afterAll(() => provider.close());
const node = await startPageNode({ agents: [...CAR, makeClerk(provider.baseUrl)], catalog: {} });

const chartOf = (page: Page, name: string) => page.getByRole("img", { name: new RegExp(`^${name}`) });
const litIn = (page: Page, name: string) => chartOf(page, name).locator("[data-lit=true]").getAttribute("data-state");
const lights = (page: Page, name: string, state: string) => expect.poll(() => litIn(page, name)).toBe(state);

describePage("the machine view", (open) => {
  test("the machine view draws the machines, and highlights states and the last arrow, live and at past moments", async () => {
    const { user: ann, page } = await openHeld(open, node, "machine", "music_agent");
    const lifecycle = chartOf(page, "Session, lifecycle:");
    await lights(page, "Session, lifecycle:", "active");
    await expect.poll(() => lifecycle.locator("[data-state]").count()).toBe(6);
    await expect.poll(() => litIn(page, "Session, activity:")).toBe("idle");
    await expect.poll(() => litIn(page, "Floor, arbiter:")).toBe("held");

    await ann.hold("prompt_agent");
    await lights(page, "Session, lifecycle:", "ducked");
    await lifecycle.getByText("-14 dB").waitFor();
    await lifecycle.locator("[data-traversed=true]", { hasText: "duck" }).waitFor();
    await page.getByRole("listitem").filter({ hasText: "duck active.idle → ducked.idle -14 dB" }).waitFor();

    await page.getByRole("heading", { name: "Machine" }).click();
    await page.keyboard.press("Home");
    await lights(page, "Session, lifecycle:", "created");
    await expect.poll(() => litIn(page, "Floor, arbiter:")).toBe("free");
    await expect.poll(() => page.getByRole("button", { name: "session.archive" }).isDisabled()).toBe(true);
    await page.keyboard.press("End");
    await lights(page, "Session, lifecycle:", "ducked");
  });

  test("the level of a ducked session is also in the stack, and its lane has a lower bar", async () => {
    const { page } = await openHeld(open, node, "floor", "music_agent");
    const agents = page.getByRole("region", { name: "Agents" });
    await agents.getByRole("button", { name: /^Prompt/ }).hover();
    await page.getByText("would be heard quieter (-14 dB)").waitFor();
    await agents.getByRole("button", { name: /^Prompt/ }).click();
    const card = page.getByRole("article", { name: "Music Agent: quieter" });
    await card.getByText("-14 dB").waitFor();
    const decisions = page.getByRole("region", { name: "Decisions", exact: true });
    await shown(decisions.getByText("Prompt Agent (80) got the floor: 80 against 20, Music Agent is heard quieter."));
    await page.getByRole("navigation").getByRole("link", { name: "Timeline" }).click();
    await page.getByText("duck active.idle → ducked.idle -14 dB").waitFor();
    // The heights of the painted pixels in the first lane, column by column.
    const heights = () =>
      page.evaluate<number[]>(`(() => {
        const canvas = document.querySelector("canvas[role=img]");
        const { data, width } = canvas.getContext("2d").getImageData(0, 0, canvas.width, 20);
        return Array.from({ length: width }, (_, x) => {
          let height = 0;
          for (let y = 0; y < 20; y += 1) if (data[(y * width + x) * 4 + 3] > 0) height += 1;
          return height;
        });
      })()`);
    await expect.poll(heights).toEqual(expect.arrayContaining([8, 13]));
    const colours = await page.evaluate<string[]>(`(() => {
      const canvas = document.querySelector("canvas[role=img]");
      const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, 20);
      const seen = new Set();
      for (let at = 0; at < data.length; at += 4) if (data[at + 3] === 255) seen.add(data.slice(at, at + 3).join());
      return [...seen];
    })()`);
    // The height of an audible session, and of a decision's mark.
    expect(colours).toEqual(expect.arrayContaining(["11,122,107", "21,33,44"]));
  });

  test("the machine view sends the commands that the session accepts, and shows what it refuses and why", async () => {
    const ben = new E2eClient(node);
    const music = await ben.hold("clerk");
    const page = await open(addressOf(node, "machine", { floorId: music.floorId }), { expected: /409/ });
    await page.getByRole("button", { name: "session.pause" }).click();
    await lights(page, "Session, lifecycle:", "paused");
    await page.getByRole("button", { name: "session.update title" }).click();
    await page.getByRole("textbox", { name: "session.update title" }).fill("Evening songs");
    await page.getByRole("button", { name: "Send" }).click();
    await expect.poll(async () => (await ben.see(music.id)).title).toBe("Evening songs");
    await ben.hold("phone_agent");
    await page.getByLabel("Session whose machine is shown").selectOption(music.id);
    await page.getByRole("button", { name: "session.resume" }).click();
    await page.getByRole("alert").getByText("50 is less than 90").waitFor();
    await page.getByRole("button", { name: "session.archive" }).click();
    await lights(page, "Session, lifecycle:", "archived");
    await page.getByText(/^\d+ that it refuses$/).click();
    await page.getByRole("listitem").filter({ hasText: "session.chat ✕ session_archived" }).waitFor();
    await page.getByRole("button", { name: "session.delete" }).click();
    await page.getByText("Delete it for good?").waitFor();
    await page.getByRole("button", { name: "Send" }).click();
    await expect.poll(async () => (await node.get(`/session/${music.id}`)).status).toBe(404);
  });

  test("the machine view requests a summary, and chooses one of the agent's modes, if the agent has any", async () => {
    const cay = new E2eClient(node);
    const { id, floorId } = await cay.hold("clerk");
    provider.willReply({ kind: "stream", text: ["Yes."] }, { kind: "stream", text: ["# In short"] });
    await cay.talk(id, "Is it?");
    const page = await open(addressOf(node, "machine", { floorId, id }));
    await page.getByRole("button", { name: "session.summarize" }).click();
    await expect.poll(async () => (await cay.see(id)).summary).toBe("In short");
    await page.getByRole("button", { name: "session.update mode" }).click();
    await page.getByRole("combobox", { name: "session.update mode" }).selectOption("work");
    await page.getByRole("button", { name: "Send" }).click();
    await expect.poll(async () => (await cay.see(id)).mode).toBe("work");
    const music = await new E2eClient(node).hold("music_agent");
    await page.goto(addressOf(node, "machine", music));
    await page.getByRole("button", { name: "session.update mode" }).click();
    await page.getByText("Its agent has no modes.").waitFor();
    await expect.poll(() => page.getByRole("button", { name: "Send" }).count()).toBe(0);
  });

  test("the machine view explains a missing floor, a missing session and another owner's session, and names no session in its place", async () => {
    const page = await open(`${node.url}/#/machine`, { expected: /404/ });
    await page.getByText("Choose a floor above to see its machines at work.").waitFor();
    await page.goto(addressOf(node, "machine", { floorId: "u:nobody-yet" }));
    await page.getByText("There is no session on this floor yet: start one in the view Floor.").waitFor();
    await expect.poll(() => litIn(page, "Floor, arbiter:")).toBe("free");
    await page.goto(addressOf(node, "machine", { floorId: "u:nobody-yet", id: "no-such-session" }));
    await page.getByText("There is no such session, or it is not yours.").waitFor();
    const session = await new E2eClient(node).hold("music_agent");
    await page.goto(addressOf(node, "machine", { ...session, id: "nowhere" }));
    await page.getByText("There is no such session, or it is not yours.").waitFor();
    const choice = page.getByLabel("Session whose machine is shown");
    await expect.poll(() => choice.locator("option:checked").innerText()).toBe("Choose a session");
    await choice.selectOption(session.id);
    await page.getByRole("button", { name: "session.archive" }).waitFor();
  });
});
