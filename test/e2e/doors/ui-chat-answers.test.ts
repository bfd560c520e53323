import { lastAssistantMessageIsCompleteWithApprovalResponses, lastAssistantMessageIsCompleteWithToolCalls } from "ai";
import { afterAll, beforeEach, expect, test } from "vitest";
import { scripted } from "../../support/catalogs/e2e-catalog.ts";
import { accepted, E2eClient } from "../../support/clients/e2e-client.ts";
import { HeadlessChat } from "../../support/clients/headless-chat.ts";
import { NodeUnderTest } from "../../support/nodes/node-under-test.ts";
import { startProviderServer } from "../../support/servers/provider-server.ts";

const provider = await startProviderServer();
const asking = (name: string, ...replies: object[]) => ({ name, adapter: { kind: "scripted", replies } });
const confirm = { tool: "delete_file", arguments: {} };
const node = await NodeUnderTest.start({
  agents: [
    scripted("general"),
    asking(
      "asker",
      { match: "^delete", confirm, say: ["Deleted."], otherwise: ["Kept."] },
      { ask: { question: "Which one?", options: ["a", "b"] }, say: ["{answer}, "], delay: "20ms", repeat: 20 },
    ),
    ...["ask", "delete"].flatMap((task) => [
      asking(`helper-${task}`, { delegate: { name: "asker", task }, say: ["Helper: {result}"] }),
      asking(`master-${task}`, { delegate: { name: `helper-${task}`, task }, say: ["Master: {result}"] }),
    ]),
    asking("slow", { confirm, say: ["tick "], delay: "20ms", repeat: 40 }),
    {
      name: "model",
      tools: [{ name: "clock", confirm: true }, "ask-user"],
      adapter: { kind: "ai-sdk", provider: "openai-compatible", model: "m", base_url: provider.baseUrl },
    },
  ],
});
afterAll(() => Promise.all([node.stop(), provider.close()]));
beforeEach(() => provider.replyBy(() => undefined));

/** A page that sends the user's answers by itself. */
const open = (name: string, agentId: string, id = node.newId(name)) =>
  new HeadlessChat(node.url, id, {
    body: { agentId },
    sendAutomaticallyWhen: (chat) =>
      lastAssistantMessageIsCompleteWithApprovalResponses(chat) || lastAssistantMessageIsCompleteWithToolCalls(chat),
  });

const toolsOf = (chat: HeadlessChat) => chat.lastMessage!.parts.filter((part) => part.type === "dynamic-tool");
const waiting = (chat: HeadlessChat) => toolsOf(chat).find(({ state }) => state === "approval-requested");
const question = (chat: HeadlessChat) =>
  toolsOf(chat).find(({ toolName, state }) => toolName === "user_question" && state === "input-available");

/** Answer, and wait for the end of the reply that the page requests. */
async function answered(chat: HeadlessChat, answer: () => unknown): Promise<void> {
  const { length } = chat.lastMessage!.parts;
  await answer();
  await expect.poll(() => chat.lastMessage!.parts.length, { timeout: 10_000 }).toBeGreaterThan(length);
  while (chat.status !== "ready" && chat.status !== "error") await new Promise((resolve) => setImmediate(resolve));
}
const approve = (chat: HeadlessChat) =>
  answered(chat, () => chat.addToolApprovalResponse({ id: waiting(chat)!.approval!.id, approved: true }));

const calledBySubs = (chat: HeadlessChat) =>
  chat.lastMessage!.parts.flatMap((part) => (part.type === "data-tool-call" ? [part.data] : []));

test("a question of a sub-agent's sub-agent is answered, and the reply continues with the results of all calls", async () => {
  const chat = open("nested", "master-ask");
  await chat.sendMessage({ text: "hello" });
  const { toolCallId } = question(chat)!;
  await answered(chat, () => chat.addToolOutput({ tool: "user_question" as never, toolCallId, output: "b" as never }));
  expect(chat.errors).toEqual([]);
  expect(chat.text).toBe(`Master: Helper: ${"b, ".repeat(20)}`);
  expect(toolsOf(chat).map(({ state }) => state)).toEqual(["output-available", "output-available"]);
  expect(calledBySubs(chat)).toMatchObject([{ function: { name: "sub-agent" }, status: "success" }]);
});

test("a call of a sub-agent is approved although the call of that sub-agent is unfinished", async () => {
  const chat = open("consent", "master-delete");
  await chat.sendMessage({ text: "hello" });
  await approve(chat);
  expect(chat.errors).toEqual([]);
  expect(chat.text).toBe("Master: Helper: Deleted.");
  expect(toolsOf(chat).map(({ state }) => state)).toEqual(["output-available", "output-available"]);
  expect(calledBySubs(chat).map(({ status }) => status)).toEqual(["success", "success"]);
});

test("calls that run side by side are approved one after the other, each in a step of its own", async () => {
  const call = (id: string) => ({ id, name: "clock", arguments: "{}" });
  provider.willReply({ kind: "stream", calls: [call("1"), call("2"), call("3")] }, { kind: "stream", text: ["Late."] });
  const chat = open("parallel", "model");
  await chat.sendMessage({ text: "hello" });
  for (let count = 1; count <= 3; count++) {
    expect(toolsOf(chat).filter(({ state }) => state === "approval-requested")).toHaveLength(1);
    await approve(chat);
  }
  expect(chat.errors).toEqual([]);
  expect(chat.text).toBe("Late.");
  expect(new Set(toolsOf(chat).map(({ state }) => state))).toEqual(new Set(["output-available"]));
  const ids = toolsOf(chat).map(({ toolCallId }) => toolCallId);
  expect(new Set(ids).size).toBe(ids.length);
});

test("a continued reply is streamed while it is written", async () => {
  const chat = open("streamed", "slow");
  await chat.sendMessage({ text: "hello" });
  const answering = approve(chat);
  while (chat.text === "") await new Promise((resolve) => setImmediate(resolve));
  expect(chat.text.length).toBeLessThan("tick ".length * 40);
  await answering;
  expect(chat.text).toBe("tick ".repeat(40));
});

test("a question that was answered elsewhere is not answered again by a page that reads the reply", async () => {
  const id = node.newId("elsewhere");
  const first = open("elsewhere", "asker", id);
  await first.sendMessage({ text: "hello" });
  const { toolCallId: requestId } = question(first)!;
  const log = await node.stream(`/session/${id}/events`);
  await accepted(new E2eClient(node).send({ type: "user_question_response", sessionId: id, requestId, response: "a" }));
  const page = open("elsewhere", "asker", id);
  await page.resumeStream();
  expect(page.text).toBe("a, ".repeat(20));
  await log.find("complete");
  expect([page.status, page.errors]).toEqual(["ready", []]);
});
