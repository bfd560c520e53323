import { readFile } from "node:fs/promises";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { type RunningChat, startChat } from "../../examples/chat/start-chat.ts";
import { describeInChromium } from "../support/browsers/chromium.ts";
import { describeInFirefox, type FirefoxPage, findInPage } from "../support/browsers/firefox.ts";
import { writeTemporary } from "../support/clients/callers.ts";
import { atEndOfSuite } from "../support/runner/at-end-of-suite.ts";

const CATALOGUE = new URL("../../examples/chat/catalogue.yaml", import.meta.url);
const atEnd = atEndOfSuite();
let chat: RunningChat;
beforeAll(async () => {
  // The guide speaks so slowly that it is not done before the desk interrupts it, however busy the machine is.
  const slow = (await readFile(CATALOGUE, "utf8")).replace("delay: 350ms", "delay: 1s");
  expect(slow).toContain("delay: 1s");
  // The production build of React, regardless of the tests' environment.
  const mode = process.env["NODE_ENV"];
  process.env["NODE_ENV"] = "production";
  chat = await startChat({ catalogue: await writeTemporary("catalogue.yaml", slow, atEnd) });
  process.env["NODE_ENV"] = mode;
});
afterAll(() => chat[Symbol.asyncDispose]());

const post = (path: string, body: object, headers: Record<string, string> = {}) =>
  fetch(`${chat.url}${path}`, {
    method: "POST",
    headers: { "Content-Type": "application/json", ...headers },
    body: JSON.stringify(body),
  });

describe("the backend of the chat", () => {
  test("a user gets tokens for the node that name no other user; others get none", async () => {
    expect((await fetch(`${chat.url}/token`)).status).toBe(204);
    expect((await post("/sign-in", { user: "ann", password: "canal" })).status).toBe(401);
    expect((await post("/sign-in", { user: "__proto__", password: "tulip" })).status).toBe(401);
    expect((await post("/sign-in", {}, { "Content-Type": "text/plain" })).status).toBe(400);
    const signedIn = await post("/sign-in", { user: "ann", password: "tulip" });
    const cookie = signedIn.headers.get("set-cookie")!;
    expect(cookie).toMatch(/^chat_user=[^;]+; Max-Age=86400; HttpOnly; SameSite=Strict; Path=\/$/);
    const answer = await fetch(`${chat.url}/token`, { headers: { Cookie: cookie.split(";")[0]! } });
    const { user, token, node } = (await answer.json()) as { user: string; token: string; node: string };
    expect(user).toBe("ann");
    const create = (userId: string, bearer: string) =>
      fetch(`${node}/session/create`, {
        method: "POST",
        headers: { "Content-Type": "application/json", Authorization: `Bearer ${bearer}` },
        body: JSON.stringify({ userId, agentId: "guide" }),
      });
    expect((await create("bob", token)).status).toBe(403);
    // The backend's own cookie is no token for the node.
    expect((await create("ann", /=([^;]+)/.exec(cookie)![1]!)).status).toBe(401);
    for (const path of ["/../server.ts", "/%2e%2e/server.ts", "/server.ts"])
      expect((await fetch(`${chat.url}${path}`)).status, path).toBe(404);
  });
});

async function signIn(page: Page, user: string, password: string): Promise<void> {
  await page.getByLabel("Name").fill(user);
  await page.getByLabel("Password").fill(password);
  await page.getByRole("button", { name: "Sign in" }).click();
}

const agent = (page: Page, name: RegExp) => page.getByRole("navigation").getByRole("button", { name });
const say = async (page: Page, words: string) => {
  await page.getByLabel("Your message").fill(words);
  await page.getByLabel("Your message").press("Enter");
};

describeInChromium("the chat example", (open) => {
  test("agents compete, are refused, ask and are stopped, over a reload and in two tabs", async () => {
    const { page, faults } = await open(chat.url);
    await signIn(page, "ann", "canal");
    await page.getByRole("alert").getByText("the password is another one").waitFor();
    await signIn(page, "ann", "tulip");
    await say(page, "Where shall I walk?");
    await page
      .getByRole("log")
      .getByText(/^Begin at the harbour, where/)
      .waitFor();

    // A reload in the middle of the reply shows it as it is, and it goes on.
    await page.reload();
    await page
      .getByRole("log")
      .getByText(/^Begin at the harbour, where .* Follow the canal/)
      .waitFor();
    await agent(page, /City guide writing/).waitFor();
    await say(page, "And then?");
    await page.getByRole("alert").getByText("One moment: the answer before is still being written.").waitFor();

    // Another tab is the same user: it makes the desk interrupt the guide, and this one sees it.
    const tab = await page.context().newPage();
    await tab.goto(chat.url);
    await agent(tab, /Booking desk ready/).click();
    await say(tab, "A table for two, please");
    const asked = tab.getByRole("group", { name: "Shall I book this table?" });
    await asked.getByText("Café Jansen").waitFor();
    await page.getByText("goes on after the interruption").waitFor();
    await agent(page, /City guide interrupted/).waitFor();
    await agent(page, /Booking desk asks you/).click();
    await page
      .getByRole("group", { name: "Shall I book this table?" })
      .getByRole("button", { name: "Approve" })
      .click();
    for (const each of [page, tab])
      await each
        .getByRole("log")
        .getByText(/^Your table at .* today at 19:30\.$/)
        .waitFor();
    await asked.waitFor({ state: "detached" });
    await agent(tab, /City guide writing/).click();
    await tab.getByRole("button", { name: "Stop" }).click();
    await tab.getByText("stopped", { exact: true }).waitFor();
    await agent(page, /City guide ready/).waitFor();

    // While the desk asks, the arbiter refuses the guide, in a sentence, and the words stay in their place.
    await say(page, "One more table");
    await page.getByRole("group", { name: "Shall I book this table?" }).waitFor();
    await say(tab, "Thank you");
    await tab
      .getByRole("alert")
      .getByText(/Booking desk .*City guide/)
      .waitFor();
    expect(await tab.getByLabel("Your message").inputValue()).toBe("Thank you");
    await page.getByRole("button", { name: "Reject" }).click();
    await page.getByRole("log").getByText("All right, I have booked nothing.").waitFor();
    await tab.getByRole("button", { name: "Send" }).click();
    await tab.getByText("You are welcome. Enjoy the town!").waitFor();
    await tab.close();

    // Another user sees nothing of it.
    await page.getByRole("button", { name: "Sign out" }).click();
    await signIn(page, "bob", "canal");
    await page.getByText("Say something to the city guide.").waitFor();
    expect(await page.getByRole("log").getByRole("article").count()).toBe(0);
    // The refusals of the sign-in and of two requests, which browsers report.
    expect(faults.filter((fault) => !/status of (401|409)/.test(fault))).toEqual([]);
  });
});

/** Types into a field as a user does: React listens to the browser's own events. */
const type = ({ evaluate }: FirefoxPage, selector: string, text: string) =>
  evaluate(`(() => {
    const field = document.querySelector(${JSON.stringify(selector)});
    const { set } = Object.getOwnPropertyDescriptor(Object.getPrototypeOf(field), "value");
    set.call(field, ${JSON.stringify(text)});
    field.dispatchEvent(new Event("input", { bubbles: true }));
    return "";
  })()`);

describeInFirefox("the chat example in Firefox", (start) => {
  test("the chat example answers, and asks for consent in each tab, in Firefox", async () => {
    const firefox = await start();
    onTestFinished(() => firefox.stop());
    const page = await firefox.open(chat.url);
    await findInPage(page, "button", "Sign in");
    await type(page, "[name=user]", "bob");
    await type(page, "[name=password]", "canal");
    await findInPage(page, "button", "Sign in", true);
    await findInPage(page, "nav button", "Booking desk", true);
    await findInPage(page, "main", "Say something to the booking desk.");
    await type(page, "textarea", "A table, please");
    await findInPage(page, "button:enabled", "Send", true);
    await findInPage(page, "fieldset", "Café Jansen");
    const tab = await firefox.open(chat.url);
    await findInPage(tab, "nav button", "asks you", true);
    await findInPage(tab, "fieldset button", "Approve", true);
    await findInPage(tab, "[role=log] article", "today at 19:30.");
    expect(tab.faults).toEqual([]);
  });
});
