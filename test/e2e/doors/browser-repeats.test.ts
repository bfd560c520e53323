/** Browsers send a POST again by themselves, if a connection that they had used before breaks before the answer. */

import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { describeInChromium } from "../../support/browsers/chromium.ts";
import { describeInFirefox, type Firefox } from "../../support/browsers/firefox.ts";
import { accepted } from "../../support/clients/e2e-client.ts";
import { LosingProxy } from "../../support/networks/losing-proxy.ts";
import { NodeUnderTest } from "../../support/nodes/node-under-test.ts";

const folder = await mkdtemp(join(tmpdir(), "interlock-page-"));
await writeFile(join(folder, "index.html"), '<!doctype html><link rel="icon" href="data:,"><title>a page</title>');
const node = await NodeUnderTest.start({ pageFolder: folder });
afterAll(async () => {
  await node.stop();
  await rm(folder, { recursive: true });
});

type Evaluate = (expression: string) => Promise<string>;

const fetching = (path: string, body: object) =>
  `fetch("${path}", { method: "POST", headers: { "Content-Type": "application/json" }, body: ${JSON.stringify(JSON.stringify(body))} })
    .then((answer) => answer.text())`;

/** Send a request from a page whose connection breaks before the answer. */
async function sendAcross(openPage: (url: string) => Promise<Evaluate>, path: string, body: object): Promise<string> {
  const proxy = await LosingProxy.start(node.url);
  const evaluate = await openPage(proxy.url);
  await evaluate(`fetch("/health").then((answer) => answer.text())`);
  proxy.loseNextAnswer();
  const text = await evaluate(fetching(path, body));
  // The browser did send it twice.
  expect(proxy.lost).toBe(1);
  return text;
}

const turnsOf = async (session: string) => (await node.messages(session, "user")).length;

function browserTests(openPage: (url: string) => Promise<Evaluate>) {
  test.each([
    ["a message", "/message", (sessionId: string) => ({ type: "chat", sessionId, content: "nod" })],
    [
      "a completion",
      "/v1/chat/completions",
      (session: string) => ({ model: "general", messages: [{ role: "user", content: "nod" }], metadata: { session } }),
    ],
    [
      "a streamed completion",
      "/v1/chat/completions",
      (session: string) => ({
        model: "general",
        messages: [{ role: "user", content: "count" }],
        metadata: { session },
        stream: true,
      }),
    ],
  ])("%s that is sent twice is one turn", async (name, path, body) => {
    const { id } = (await accepted(node.post("/session/create"))).session;
    const text = await sendAcross(openPage, path, body(id));
    const answer = { "a message": '"success":true', "a completion": "Yes.", "a streamed completion": "[DONE]" }[name]!;
    expect(text).toContain(answer);
    expect(await turnsOf(id)).toBe(1);
  });

  test("a session that is created twice is one, and holds the floor", async () => {
    const userId = node.newId("ann");
    const body = { agentId: "phone", userId, activate: true };
    const { session } = JSON.parse(await sendAcross(openPage, "/session/create", body));
    const { sessions } = await accepted(node.get(`/session/list?userId=${userId}`));
    expect(sessions.map(({ id, state }) => [id, state])).toEqual([[session.id, "active"]]);
  });
}

describeInChromium("Chromium behind a connection that breaks", (open) => {
  browserTests(async (url) => {
    const { page } = await open(url);
    return (expression) => page.evaluate<string>(expression);
  });
});

describeInFirefox("Firefox behind a connection that breaks", (start) => {
  let firefox: Firefox;
  beforeAll(async () => {
    firefox = await start();
  }, 60_000);
  afterAll(() => firefox.stop());
  browserTests(async (url) => (await firefox.open(url)).evaluate);
});
