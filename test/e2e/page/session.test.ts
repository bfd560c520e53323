import { writeFile } from "node:fs/promises";
import { afterAll, expect, onTestFinished, test } from "vitest";
import { createClient } from "../../../src/client/client.ts";
import { keepLease } from "../../../src/client/live/lease.ts";
import { commandAdapter } from "../../support/agents/programs.ts";
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
import { E2E_AGENTS, makeClerk, scripted } from "../../support/catalogs/e2e-catalog.ts";
import { writeTemporary } from "../../support/clients/callers.ts";
import { accepted, E2eClient } from "../../support/clients/e2e-client.ts";
import { startProviderServer } from "../../support/servers/provider-server.ts";

const MARKDOWN = [
  "# A **plan**\n\n",
  "1. one\n2. two\n\n",
  "| a | b | c |\n|---|--:|:-:|\n| 1 | 2 | 3 |\n\n",
  "`code` <img src=x onerror=alert(1)> [bad](javascript:alert(1)) [good](https://example.org)\n\n",
  "1 &lt; 2 &amp;&amp; `&lt;` [sly](javascript&#58;alert(1)) [both](https://example.org/?a=1&amp;b=2)\n",
];
const writer = { name: "writer", adapter: { kind: "scripted", replies: [{ say: MARKDOWN, delay: "0ms" }] } };

const LEASE_MS = 5_000;
const provider = await startProviderServer();
afterAll(() => provider.close());
const modelAdapter = { kind: "ai-sdk", provider: "openai-compatible", model: "m", base_url: provider.baseUrl };
const others = [
  { name: "model", adapter: modelAdapter },
  makeClerk(provider.baseUrl),
  { name: "radio", lease: `${LEASE_MS}ms`, adapter: { kind: "external" } },
  { name: "builder", adapter: commandAdapter("works") },
  scripted("quiz", { priority: 40, answer_within: { heard: "20s" } }),
  { name: "podcast", lease: "1d", adapter: { kind: "external" } },
];
const node = await startPageNode({ agents: [...E2E_AGENTS, writer, ...others] });

/** A session that holds the floor of a separate user. */
async function makeSession(agentId: string): Promise<{ id: string; address: string }> {
  const { id, floorId } = await new E2eClient(node).hold(agentId);
  return { id, address: addressOf(node, "session", { floorId, id }) };
}

const say = (sessionId: string, content: string) =>
  accepted(node.post("/message", { type: "chat", sessionId, content }));

/** Resolves when the session takes its next turn: the page shows a reply before its run has ended. */
const isIdle = (sessionId: string) =>
  expect.poll(async () => (await node.get(`/session/${sessionId}`)).body.session.activity).toBe("idle");

/** The place of the newest event of the session's floor. */
async function newestPlace(sessionId: string): Promise<string> {
  const { position } = (await node.get(`/session/${sessionId}`)).body;
  return position.split(".")[1]!;
}

describePage("the session view", (open) => {
  test("the session view shows what an agent's program prints, while it works", async () => {
    const { id, page } = await openMade(open, makeSession("builder"));
    await page.getByLabel("Say something").fill("go");
    await page.getByLabel("Say something").press("Enter");
    await page.locator("pre", { hasText: "begun" }).waitFor();
    await node.post("/message", { type: "abort", sessionId: id });
  });

  test("the session view sends a message, shows the answer as it arrives, and the session's new title; each message has its time, and can be copied and sent again", async () => {
    const permissions = ["clipboard-read", "clipboard-write"];
    const { id, page } = await openMade(open, makeSession("general"), { permissions });
    await page.getByLabel("Say something").fill("hello there");
    await page.getByLabel("Say something").press("Enter");
    const messages = messagesOn(page);
    await messages.getByText("Hello there.").waitFor();
    await page.getByRole("heading", { name: "hello there", exact: true }).waitFor();
    const question = page.getByRole("article", { name: "User" });
    const time = question.locator("time");
    const [asked] = (await node.get(`/session/${id}/messages`)).body.messages;
    expect(await time.getAttribute("datetime")).toBe(new Date(asked!.createdAt).toISOString());
    expect(await time.innerText()).toMatch(/^\d{1,2}:\d{2}:\d{2}/);
    await question.getByRole("button", { name: "Copy", exact: true }).click();
    await expect.poll(() => page.evaluate("navigator.clipboard.readText()")).toBe("hello there");
    await messages.getByRole("button", { name: "Send again" }).click();
    await messages.getByText("Hello there.").nth(1).waitFor();
    await expect.poll(() => messages.getByRole("article", { name: "User" }).count()).toBe(2);
  });

  test("the session view shows Markdown as elements, and everything else as plain text", async () => {
    const { id, page } = await openMade(open, makeSession("writer"));
    await say(id, "go");
    const answer = page.getByRole("article", { name: "Writer" });
    await answer.getByRole("heading", { name: "A plan" }).waitFor();
    await answer.getByRole("cell", { name: "2" }).waitFor();
    const aligned = "[...document.querySelectorAll('th, td')].map((cell) => getComputedStyle(cell).textAlign)";
    const row = ["left", "right", "center"];
    expect(await page.evaluate<string[]>(aligned)).toEqual([...row, ...row]);
    await answer.getByText("<img src=x onerror=alert(1)>").waitFor();
    await expect.poll(() => answer.getByRole("listitem").count()).toBe(2);
    await answer.getByText("1 < 2 && &lt; sly both").waitFor();
    await expect.poll(() => answer.getByRole("link").count()).toBe(2);
    const hrefOf = (name: string) => answer.getByRole("link", { name }).getAttribute("href");
    await expect.poll(() => hrefOf("good")).toBe("https://example.org");
    await expect.poll(() => hrefOf("both")).toBe("https://example.org/?a=1&b=2");
    await expect.poll(() => answer.locator("img").count()).toBe(0);
  });

  test("the rest of a reply that was interrupted while it was spoken is marked as not heard, and no other reply's is", async () => {
    const { id, address } = await makeSession("general");
    const ann = new E2eClient(node);
    await ann.talk(id, "hello");
    const [, reply] = await ann.messages(id);
    const page = await open(address);
    await page.getByText("Hello there.", { exact: true }).waitFor();
    await ann.send({ type: "played", sessionId: id, messageId: reply!.id, upTo: 5 });
    // It may go on.
    expect(await page.getByText("Not heard:").count()).toBe(0);
    await ann.talk(id, "nod");
    const rest = page.locator("article > div").filter({ hasText: "Not heard:" });
    await expect.poll(() => rest.allInnerTexts()).toEqual([expect.stringMatching(/^Not heard:\s+there\.$/)]);
    await page.reload();
    await expect.poll(() => rest.allInnerTexts()).toEqual([expect.stringMatching(/^Not heard:\s+there\.$/)]);
  });

  test("confirmations and questions are answered in place, and their outcome is shown", async () => {
    const { id, page } = await openMade(open, makeSession("general"));
    await say(id, "delete it");
    const confirmation = page.getByRole("region", { name: "May delete_file run?" });
    await confirmation.getByText('"path": "a.txt"').waitFor();
    await expect.poll(() => page.title()).toBe("(1) Interlock");
    await confirmation.getByRole("button", { name: "Approve", exact: true }).click();
    await messagesOn(page).getByText("Deleted.").waitFor();
    await gone(confirmation);
    await page.getByText("delete_file").first().waitFor();
    await isIdle(id);
    await say(id, "pick some");
    await page.getByLabel("a", { exact: true }).check();
    await page.getByLabel("b", { exact: true }).check();
    await page.getByRole("button", { name: "Answer", exact: true }).click();
    await shown(page.getByRole("region", { name: "Messages" }).getByText(/You picked a.*b/));
  });

  test("a question that waits only while it is heard says so, and that its time stands still in a call", async () => {
    const ann = new E2eClient(node);
    const { id, floorId } = await ann.hold("quiz");
    const { page } = await openMade(open, Promise.resolve({ address: addressOf(node, "session", { floorId, id }) }));
    await say(id, "pick some");
    await page.getByText("waits 20s, while it is heard").waitFor();
    const call = await ann.hold("phone");
    await page.getByText("its time stands still while it cannot be heard").waitFor();
    await accepted(ann.on(call.id, "archive"));
    await page.getByText("waits 20s, while it is heard").waitFor();
  });

  test("a sub-agent's messages are folded beneath its call", async () => {
    const { id, page } = await openMade(open, makeSession("general"));
    await say(id, "browse");
    await messagesOn(page).getByText("It says: Hello there.").waitFor();
    const fold = page.locator("details", { has: page.locator("summary", { hasText: "↳ Weather" }) }).first();
    await expect.poll(() => fold.getAttribute("open")).toBeNull();
    await fold.locator("summary").first().click();
    await fold.getByRole("article", { name: "Weather" }).waitFor();
  });

  test("a reply that is incomplete shows the reason", async () => {
    const { id, page } = await openMade(open, makeSession("model"));
    const replies = [
      ["Cut: the model reached its length limit.", { text: ["Once upon a "], ending: "length" }],
      ["Cut by the provider's content filter.", { text: ["I would "], ending: "filtered" }],
      ["The reply has no text.", {}],
    ] as const;
    for (const [words, reply] of replies) {
      provider.willReply({ kind: "stream", ...reply });
      await say(id, "go on");
      await page.getByText(words).waitFor();
      await isIdle(id);
    }
    await page.reload();
    for (const [words] of replies) await page.getByText(words).waitFor();
  });

  test("a requested summary is shown folded where its messages end, then and later", async () => {
    const { id, address, page } = await openMade(open, makeSession("clerk"));
    const summarise = page.getByRole("button", { name: "Summarise", exact: true });
    await expect.poll(() => summarise.isDisabled()).toBe(true);
    provider.willReply({ kind: "stream", text: ["Which day?"] });
    await say(id, "I fly to Oslo");
    await page.getByRole("article", { name: "Clerk" }).getByText("Which day?").waitFor();
    await isIdle(id);
    provider.willReply({ kind: "stream", text: ["# A trip to Oslo"] });
    await summarise.click();
    const messages = messagesOn(page);
    const fold = messages.getByRole("group").filter({ hasText: "Summary of the conversation up to here" });
    const content = fold.getByRole("heading", { name: "A trip to Oslo" });
    const seeSummary = async () => {
      await fold.waitFor();
      await expect.poll(() => content.isVisible()).toBe(false);
      await fold.locator("summary").focus();
      await page.keyboard.press("Enter");
      await content.waitFor();
      await expect.poll(() => fold.getByRole("button").count()).toBe(0);
      await expect.poll(() => messages.getByRole("article", { name: "Clerk" }).count()).toBe(1);
      const again = messages.getByRole("button", { name: "Send again" });
      await expect.poll(async () => (await again.count()) - (await summarise.count())).toBe(0);
    };
    await seeSummary();
    await gone(page.getByText("A summary is requested."));
    await page.goto(`${address}?at=${await newestPlace(id)}`);
    await gone(summarise);
    await page.reload();
    await seeSummary();
  });

  test("a requested summary that is not written ends with the reason, in the page's language", async () => {
    const { id, page } = await openMade(open, makeSession("clerk"), { locale: "zh-CN" });
    provider.willReply({ kind: "stream", text: ["Which day?"] });
    await say(id, "I fly to Oslo");
    await page.getByText("Which day?").first().waitFor();
    await isIdle(id);
    const ask = page.getByRole("button", { name: "生成摘要", exact: true });
    const alert = page.getByRole("alert");
    const requested = page.getByText("已请求摘要", { exact: false });
    provider.willReply({ kind: "refusal", status: 403 });
    await ask.click();
    await alert.getByText("未能生成摘要：").waitFor();
    await expect.poll(() => requested.count()).toBe(0);
    provider.willReply({ kind: "stream", text: ["A trip"] });
    await ask.click();
    await page.locator("details", { hasText: "A trip" }).waitFor({ state: "attached" });
    await gone(alert);
    await ask.click();
    await alert.getByText("自上次摘要以来没有新内容。").waitFor();
    await expect.poll(() => requested.count()).toBe(0);
    provider.willReply({ kind: "stream", text: ["Ok."] }, { kind: "stream", text: [] });
    await say(id, "On Friday");
    await page.getByText("Ok.").first().waitFor();
    await isIdle(id);
    await ask.click();
    await alert.getByText(/未能生成摘要：.+ 将于 .*\d.* 重试。/).waitFor();
    await expect.poll(() => requested.count()).toBe(0);
  });

  test("the session view sets the mode, follows other clients' choices, and shows the mode of a past moment; of a refused mode it shows the server's reason, and not the choice", async () => {
    const { id, address, page } = await openMade(open, makeSession("clerk"), { expected: /400/ });
    const begun = await newestPlace(id);
    const mode = page.getByLabel("Mode");
    await expect.poll(() => mode.inputValue()).toBe("talk");
    await page.route(`**/session/${id}`, (route) =>
      route.request().method() === "PATCH"
        ? route.continue({ postData: JSON.stringify({ mode: "play" }) })
        : route.continue(),
    );
    await mode.selectOption("work");
    await page.getByRole("alert").getByText("the agent has no mode play").waitFor();
    await expect.poll(() => mode.inputValue()).toBe("talk");
    expect((await node.get(`/session/${id}`)).body.session.mode).toBeUndefined();
    await page.unroute(`**/session/${id}`);
    await mode.selectOption("work");
    await expect.poll(async () => (await node.get(`/session/${id}`)).body.session.mode).toBe("work");
    const worked = await newestPlace(id);
    await node.post(`/session/${id}/mode`, { mode: "talk" });
    await expect.poll(() => mode.inputValue()).toBe("talk");
    for (const [then, place] of Object.entries({ work: worked, talk: begun })) {
      await page.goto(`${address}?at=${place}`);
      await expect.poll(() => mode.inputValue()).toBe(then);
      await expect.poll(() => mode.isDisabled()).toBe(true);
    }
    await page.goto(address);
    await node.post(`/session/${id}/archive`);
    await expect.poll(() => mode.isDisabled()).toBe(true);
  });

  test("the view of an external agent's session shows the end of its lease, of a long one in days, and why it lost the floor", async () => {
    const { id, address } = await makeSession("radio");
    const program = keepLease(createClient({ baseUrl: node.url }), id, true);
    onTestFinished(() => program.stop());
    program.note({ state: "active", leaseMs: LEASE_MS });
    const page = await open(address);
    await page.getByText("Its agent is external: it takes no messages.").waitFor();
    await expect.poll(() => page.getByLabel("Say something").count()).toBe(0);
    const left = page.locator("time", { hasText: "of its lease left" });
    const first = await left.getAttribute("datetime");
    await expect.poll(() => left.getAttribute("datetime")).not.toBe(first);
    program.stop();
    await page.getByText("gave the floor up: its program sent no more heartbeats.").waitFor();
    await page.getByText("It stays paused until it is resumed or spoken to.").waitFor();
    await gone(page.getByText(/of its lease left|its lease has lapsed/));
    await page.getByRole("navigation").getByRole("link", { name: "Floor" }).click();
    await page.getByRole("article").getByText("gave the floor up: its program sent no more heartbeats").waitFor();
    await page.goto((await makeSession("podcast")).address);
    await page.getByText("1d of its lease left", { exact: true }).waitFor();
    await page.getByRole("button", { name: "中文" }).click();
    await page.getByText("租约剩余 1 天", { exact: true }).waitFor();
  });

  test("a session that waits for its time says when it asks and takes no messages, and asks while the page is open; one that was asked for in all zones names them", async () => {
    const user = new E2eClient(node);
    const morning = { every: "0 7 * * mon-fri", timezone: "Europe/Berlin", content: "Good morning!" };
    const series = (await accepted(user.askToCreate({ agentId: "general", title: "Briefing", ...morning }))).session;
    const page = await open(addressOf(node, "session", series), { viewport: { width: 1920, height: 1080 } });
    await page.getByText(/^It waits until .*:00:00, and takes no messages before\.$/).waitFor();
    expect(await page.getByLabel("Say something").count()).toBe(0);
    const facts = page.getByRole("region", { name: "Facts" });
    await facts.getByText("0 7 * * mon-fri").waitFor();
    await facts.getByText("Good morning!").waitFor();
    const list = page.getByRole("region", { name: "Sessions" }).first();
    await list.getByRole("link", { name: /Briefing.* asks at / }).waitFor();
    await page.getByRole("button", { name: "中文" }).click();
    await page.getByText(/^它等到 .*，在此之前不接收消息。$/).waitFor();
    await page.getByRole("button", { name: "English" }).click();
    // It is no series any more, and its time comes.
    await accepted(node.post(`/session/${series.id}/schedule`, { in: "1s" }));
    await messagesOn(page).getByText("You said: Good morning!").waitFor();
    await page.getByLabel("Say something").waitFor();
    await facts.getByText("0 7 * * mon-fri").waitFor({ state: "detached" });
    const house = new E2eClient(node);
    await house.hold("general");
    await house.hold("general", { zone: "attic" });
    await page.goto(addressOf(node, "session", await house.create("phone", { zone: "*" })));
    await facts.getByText("Asked in zones").waitFor();
    await facts.getByText("—, attic", { exact: true }).waitFor();
  });

  test("a session is renamed, archived, and found again by its words, in the archive too; without modes it shows none, and a series that is archived asks no more", async () => {
    const user = new E2eClient(node);
    const series = await user.create("general", { title: "Years", every: "0 0 1 1 *", timezone: "UTC" });
    const page = await open(addressOf(node, "session", series));
    await page.getByRole("button", { name: "Rename", exact: true }).click();
    await page.getByLabel("New title").fill("Holidays in Xi'an");
    await page.getByRole("button", { name: "Save", exact: true }).click();
    await page.getByRole("heading", { name: "Holidays in Xi'an" }).waitFor();
    expect(await page.getByLabel("Mode").count()).toBe(0);
    await page.getByRole("button", { name: "Archive", exact: true }).click();
    await page.getByText("This session is archived: it can be read, and takes no more messages.").waitFor();
    const session = await user.see(series.id);
    expect(session).toMatchObject({ state: "archived" });
    expect(session).not.toHaveProperty("schedule");
    const list = page.getByRole("region", { name: "Sessions" }).first();
    await list.getByLabel("Search titles and messages").fill("holidays");
    await list.getByText("No session matches “holidays”.").waitFor();
    await list.getByLabel("Archived too").check();
    await list.getByRole("link", { name: /Holidays in Xi'an/ }).waitFor();
  });

  test("the session view shows state, agent, tokens, origin and log beside the conversation, now and at a past moment, on a narrow screen in a sheet that returns the focus", async () => {
    const ann = new E2eClient(node);
    const first = await ann.hold("general");
    await ann.talk(first.id, "hello");
    const { session: copy } = (await node.post(`/session/${first.id}/fork`)).body;
    await node.post(`/session/${first.id}/archive`);
    const page = await open(addressOf(node, "session", copy), {
      viewport: { width: 1920, height: 1080 },
    });
    const facts = page.getByRole("region", { name: "Facts" });
    await facts.getByText(copy.id, { exact: true }).waitFor();
    await facts.getByText("answers whatever is asked").waitFor();
    await facts.getByText("created · idle").waitFor();
    await facts.getByRole("link", { name: first.id }).click();
    await facts.getByText("archived · idle").waitFor();
    await facts.getByText("5", { exact: true }).first().waitFor();
    await facts.getByRole("button", { name: /created → active\.idle/ }).click();
    await facts.getByText("active · idle").waitFor();
    await page.waitForURL(/at=\d+/);
    const { x, width } = (await facts.boundingBox())!;
    expect(x + width).toBeGreaterThan(1850);
    // In the narrowest window that has room for the facts, nothing is cut off at their side.
    await page.setViewportSize({ width: 1200, height: 720 });
    await expect.poll(async () => (await facts.boundingBox())!.width).toBeLessThan(320);
    const cutOff = `(({ scrollWidth, clientWidth }) => scrollWidth - clientWidth)(document.querySelector("[aria-label=Facts]"))`;
    expect(await page.evaluate<number>(cutOff)).toBe(0);
    await page.setViewportSize({ width: 390, height: 844 });
    const opener = page.getByRole("button", { name: "Facts", exact: true });
    await opener.waitFor();
    await gone(facts);
    const sheet = page.getByRole("dialog", { name: "Facts" });
    await opener.click();
    await sheet.getByText("active · idle").waitFor();
    await page.keyboard.press("Escape");
    await sheet.waitFor({ state: "hidden" });
    await hasFocus(opener);
  });

  test("a saved log shows conversations and floors at every moment, from the file alone", async () => {
    const ann = new E2eClient(node);
    const { id, floorId } = await ann.hold("music");
    await ann.talk(id, "hello");
    const page = await open(addressOf(node, "session", { floorId, id }));
    await messagesOn(page).getByText("Hello there.").waitFor();
    const { events } = await createClient({ baseUrl: node.url }).readFloorLog(floorId, { limit: 2_000 });
    expect(events.length).toBeGreaterThan(9);
    await page.getByText(`${events.length} of ${events.length} events`, { exact: true }).waitFor();
    const [download] = await Promise.all([
      page.waitForEvent("download"),
      page.getByRole("button", { name: "Save the log", exact: true }).click(),
    ]);
    const saved = await download.path();
    const other = await startPageNode({}, onTestFinished);
    const elsewhere = await open(other.url);
    const pickFile = async (path: string) => elsewhere.locator("input[type=file]").first().setInputFiles(path);
    const wrong = await writeTemporary("wrong.json", "{}", onTestFinished);
    await pickFile(wrong);
    await elsewhere.getByText("Not opened: The file is not a floor's log.").waitFor();
    await writeFile(wrong, "no json");
    await pickFile(wrong);
    await elsewhere.getByText(/Not opened: .*JSON/).waitFor();
    await pickFile(saved);
    await elsewhere.getByRole("link", { name: "Music hello" }).waitFor();
    await elsewhere.getByRole("navigation").getByRole("link", { name: "Floor" }).click();
    await elsewhere
      .getByRole("article", { name: /Music|music/ })
      .getByRole("link")
      .first()
      .click();
    await elsewhere.getByRole("region", { name: "Messages" }).getByText("Hello there.").waitFor();
    await expect.poll(() => elsewhere.getByLabel("Say something").count()).toBe(0);
  });
});
