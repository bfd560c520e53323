import { readFile } from "node:fs/promises";
import type { Page } from "playwright-core";
import { expect, onTestFinished, test } from "vitest";
import {
  addressOf,
  describePage,
  gone,
  hasFocus,
  messagesOn,
  openMade,
  shown,
  startPageNode,
} from "../../support/browsers/page-stage.ts";
import { writeTemporary } from "../../support/clients/callers.ts";
import { E2eClient } from "../../support/clients/e2e-client.ts";

const node = await startPageNode();

/** A session that has the floor and answered these messages. */
async function talked(...texts: string[]) {
  const ann = new E2eClient(node);
  const session = await ann.hold("general");
  for (const text of texts) await ann.talk(session.id, text);
  return { ann, session, address: addressOf(node, "session", session) };
}

const ofUser = (page: Page, text: string) => page.getByRole("article", { name: "User" }).filter({ hasText: text });

/** The session that the page shows, once it has changed. */
async function shownAfter(page: Page, former: string): Promise<string> {
  await page.waitForURL((url) => !url.hash.includes(former));
  return new URL(page.url()).hash.split("/").at(-1)!;
}

describePage("copies of a session", (open) => {
  test("an edited message is sent in a copy that replaces the session, and not by keys of an input method; if the floor is refused, the reason is beside its field, which keeps the text", async () => {
    const { ann, session, page } = await openMade(open, talked("hello", "nod"), { expected: /409/ });
    await ofUser(page, "hello").getByRole("button", { name: "Edit" }).click();
    const field = page.getByLabel("New text of the message");
    await expect.poll(() => field.inputValue()).toBe("hello");
    await field.press("Escape");
    await gone(field);
    await ofUser(page, "hello").getByRole("button", { name: "Edit" }).press("Enter");
    await field.fill("nod twice");
    for (const key of ["Enter", "Escape"]) {
      // The second as Safari sends it, after the composition.
      await field.dispatchEvent("keydown", { key, isComposing: true });
      await field.dispatchEvent("keydown", { key, keyCode: 229 });
    }
    expect(await field.inputValue()).toBe("nod twice");
    const replaces = page.getByLabel("The copy takes the place of this session, which is archived");
    await replaces.uncheck();
    await page.getByRole("button", { name: "Send in a copy", exact: true }).click();
    const alert = page.getByRole("form", { name: "Edit" }).getByRole("alert");
    await alert.getByText("General has the same priority and came first.").waitFor();
    await alert.getByText("Why").click();
    await alert.getByText("equal_priority").waitFor();
    await expect.poll(() => field.inputValue()).toBe("nod twice");
    expect((await ann.see(session.id)).state).toBe("active");
    await replaces.check();
    await field.press("Enter");
    const copy = await shownAfter(page, session.id);
    await messagesOn(page).getByText("nod twice").waitFor();
    await messagesOn(page).getByText("Yes.").waitFor();
    await expect.poll(() => page.getByRole("article", { name: "User" }).count()).toBe(1);
    expect(await ann.see(session.id)).toMatchObject({ state: "archived", replacedBy: copy });
    expect(await ann.see(copy)).toMatchObject({ state: "active", origin: { by: "edit" } });
  });

  test("a session is copied up to a message, or completely, and stays unchanged", async () => {
    const { ann, session, address, page } = await openMade(open, talked("hello", "nod"));
    const answer = page.getByRole("article", { name: "General" }).filter({ hasText: "Hello there." });
    await answer.getByRole("button", { name: "More for this message" }).press("Enter");
    await page.getByRole("button", { name: "Copy the session up to here", exact: true }).press("Enter");
    await page.getByRole("button", { name: "Make the copy", exact: true }).press("Enter");
    const part = await shownAfter(page, session.id);
    await messagesOn(page).getByText("Hello there.").waitFor();
    await expect.poll(() => page.getByRole("article", { name: "User" }).count()).toBe(1);
    expect((await ann.see(part)).origin).toMatchObject({ by: "fork", sessionId: session.id });
    await page.goto(address);
    await page.getByRole("button", { name: "More for this session", exact: true }).click();
    await page.getByRole("button", { name: "Copy the session", exact: true }).click();
    await page.getByRole("button", { name: "Make the copy", exact: true }).click();
    const whole = await shownAfter(page, session.id);
    await messagesOn(page).getByText("Yes.").waitFor();
    expect((await ann.messages(whole)).length).toBe(4);
    expect((await ann.see(whole)).agentId).toBe("general");
    expect((await ann.see(session.id)).state).toBe("active");
  });

  test("a session moves to another zone of its user, and the page goes with it; one that another client moves leads to the one in which it goes on", async () => {
    const [more, item, yes] = ["会话的更多操作", "移到其他区域", "移动"] as const;
    const { ann, session, page } = await openMade(open, talked("hello"), { locale: "zh-CN" });
    await page.getByRole("button", { name: more, exact: true }).press("Enter");
    await page.getByRole("button", { name: item, exact: true }).press("Enter");
    const zone = page.getByRole("form", { name: item, exact: true }).getByRole("textbox");
    await hasFocus(zone);
    await zone.dispatchEvent("keydown", { key: "Escape", isComposing: true });
    await zone.fill("rear");
    await page.getByRole("button", { name: yes, exact: true }).press("Enter");
    const moved = await shownAfter(page, session.id);
    await page.getByRole("article").getByText("Hello there.", { exact: true }).waitFor();
    expect(await ann.see(moved)).toMatchObject({ zone: "rear", state: "active" });
    expect(await ann.see(session.id)).toMatchObject({ state: "archived", replacedBy: moved });
    const { body } = await ann.node.post(`/session/${moved}/move`, { zone: "front" });
    await page.getByRole("link", { name: "它在另一个会话中继续。" }).click();
    expect(await shownAfter(page, moved)).toBe(body.session.id);
    await page.getByRole("article").getByText("Hello there.", { exact: true }).waitFor();
  });

  test("a session is copied for another agent of its catalogue; a refusal shows the reason where the agent was chosen", async () => {
    const words = ["More for this session", "Copy the session", "Agent of the copy", "Make the copy"] as const;
    const [more, item, label, yes] = words;
    const { ann, session, page } = await openMade(open, talked("hello"), { expected: /404/ });
    await page.route("**/fork", (route) => route.continue({ postData: JSON.stringify({ agentId: "nobody" }) }));
    const opener = page.getByRole("button", { name: more, exact: true });
    const agent = page
      .getByRole("form", { name: item, exact: true })
      .getByRole("combobox", { name: label, exact: true });
    const ask = async () => {
      await opener.press("Enter");
      await page.getByRole("button", { name: item, exact: true }).press("Enter");
      await hasFocus(agent);
      await expect.poll(() => agent.inputValue()).toBe("general");
    };
    await ask();
    await page.keyboard.press("Escape");
    await gone(agent);
    await hasFocus(opener);
    await ask();
    await agent.selectOption("planner");
    await page.keyboard.press("Tab");
    await hasFocus(page.getByRole("button", { name: yes, exact: true }));
    await page.keyboard.press("Enter");
    await page.getByRole("alert").getByText("Invalid agent ID: nobody").waitFor();
    await expect.poll(() => agent.inputValue()).toBe("planner");
    expect((await ann.see(session.id)).state).toBe("active");
    await page.unroute("**/fork");
    await page.getByRole("button", { name: yes, exact: true }).click();
    const copy = await shownAfter(page, session.id);
    await page.getByRole("article").getByText("Hello there.", { exact: true }).waitFor();
    await gone(agent);
    expect(await ann.see(copy)).toMatchObject({ agentId: "planner", origin: { by: "fork", sessionId: session.id } });
    expect(await ann.see(session.id)).toMatchObject({ agentId: "general", state: "active" });
  });

  test("the choice of agents has the session's own even if its catalogue lost it, and says which are unavailable", async () => {
    const { ann, session, page } = await openMade(open, talked("hello"));
    await page.route("**/agents*", async (route) => {
      const response = await route.fetch();
      const { agents, ...rest } = await response.json();
      const [left] = agents.filter(({ id }: { id: string }) => id === "planner");
      await route.fulfill({ response, json: { ...rest, agents: [{ ...left, available: false }] } });
    });
    await page.reload();
    await page.getByRole("button", { name: "More for this session", exact: true }).click();
    await page.getByRole("button", { name: "Copy the session", exact: true }).click();
    const agent = page.getByLabel("Agent of the copy");
    await expect.poll(() => agent.locator("option").allTextContents()).toEqual(["general", "Planner · Not available"]);
    await page.getByRole("button", { name: "Make the copy", exact: true }).click();
    expect((await ann.see(await shownAfter(page, session.id))).agentId).toBe("general");
  });

  test("all turns from a message on are taken back after one question; a refusal shows the reason where it was requested", async () => {
    const options = { expected: /409/, locale: "zh-CN" };
    const { ann, session, page } = await openMade(open, talked("hello", "nod", "hello again"), options);
    await page.route("**/rollback", (route) => route.continue({ postData: JSON.stringify({ turns: 9 }) }));
    await page.getByRole("button", { name: "会话的更多操作", exact: true }).click();
    await page.getByRole("button", { name: "撤回最后一轮", exact: true }).click();
    const last = page.getByRole("group", { name: /^撤回最后一轮？/ });
    await last.getByRole("button", { name: "撤回", exact: true }).click();
    await page.getByRole("alert").getByText("The session has only 3 turns that can be taken back.").waitFor();
    await page.unroute("**/rollback");
    await page.getByRole("button", { name: "English" }).click();

    const choose = async () => {
      await ofUser(page, "nod").getByRole("button", { name: "More for this message" }).click();
      await page.getByRole("button", { name: "Take back from here on", exact: true }).click();
    };
    const question = page.getByRole("group", { name: /^Take back the last 2 turns\?/ });
    await choose();
    await question.waitFor();
    await page.keyboard.press("Escape");
    await gone(question);
    const opener = ofUser(page, "nod").getByRole("button", { name: "More for this message" });
    await hasFocus(opener);
    expect((await ann.see(session.id)).state).toBe("active");
    await choose();
    await question.getByRole("button", { name: "Take back" }).click();
    const copy = await shownAfter(page, session.id);
    await expect.poll(() => messagesOn(page).getByText("Hello there.").count()).toBe(1);
    expect((await ann.messages(copy)).map(({ content }: { content: string }) => content)).toEqual([
      "hello",
      "Hello there.",
    ]);
    expect(await ann.see(session.id)).toMatchObject({ state: "archived", replacedBy: copy });
  });

  test("a session is saved as Markdown, and as lines that can be imported; a broken file is refused with its line", async () => {
    const { session, page } = await openMade(open, talked("hello"), { expected: /400/ });
    const save = async (name: string) => {
      await page.getByRole("button", { name: "More for this session", exact: true }).click();
      const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name }).click()]);
      return { name: download.suggestedFilename(), text: await readFile(await download.path(), "utf8") };
    };
    const read = await save("Save as Markdown");
    expect(read.name).toMatch(/^interlock-hello\.md$/);
    expect(read.text).toContain("Hello there.");
    const kept = await save("Save for an import");
    expect(kept.name).toMatch(/\.jsonl$/);
    const { session: elsewhere } = await talked();
    await page.goto(addressOf(node, "session", elsewhere));
    const picker = page.locator("input[type=file][accept*=ndjson]");
    await picker.setInputFiles(await writeTemporary("kept.jsonl", kept.text, onTestFinished));
    const imported = await shownAfter(page, elsewhere.id);
    await messagesOn(page).getByText("Hello there.").waitFor();
    expect((await new E2eClient(node).see(imported)).floorId).toBe(elsewhere.floorId);
    expect(imported).not.toBe(session.id);
    await picker.setInputFiles(
      await writeTemporary("broken.jsonl", `${kept.text.split("\n")[0]}\n{}\n`, onTestFinished),
    );
    await shown(
      page
        .getByRole("region", { name: "Sessions" })
        .getByRole("alert")
        .getByText(/line 2/i),
    );
  });
});
