import OpenAI, { NotFoundError } from "openai";
import { afterAll, expect, test } from "vitest";
import { E2E_AGENTS } from "../../support/catalogs/e2e-catalog.ts";
import { accepted } from "../../support/clients/e2e-client.ts";
import { HeadlessChat } from "../../support/clients/headless-chat.ts";
import { NodeUnderTest } from "../../support/nodes/node-under-test.ts";

/** An agent that operators have defined for a workspace. Its clients name it by its name. */
const node = await NodeUnderTest.start({ agents: E2E_AGENTS }, afterAll);
const workspaceId = "kitchen";
await accepted(node.post("/agents/definitions", { name: "helper", workspaceId, basedOn: "stacker" }));

const openai = new OpenAI({ baseURL: `${node.url}/v1`, apiKey: "none" });
const messages = [{ role: "user" as const, content: "hello" }];

test("an agent of a workspace is a model of OpenAI's API in this workspace, and in no other", async () => {
  const ask = (workspace: string) =>
    openai.chat.completions.create({ model: "helper", messages, metadata: { workspace } });
  expect((await ask(workspaceId)).choices[0]!.message.content).toBe("Hello there.");
  await expect(ask("garage")).rejects.toThrow(NotFoundError);
  const response = await openai.responses.create({
    ...{ model: "helper", input: "hello" },
    metadata: { workspace: workspaceId },
  });
  expect(response.output_text).toBe("Hello there.");
});

test("a chat that names its agent of a workspace again is not refused as if it switched to another", async () => {
  const id = node.newId("named");
  const open = (messages: HeadlessChat["messages"] = []) =>
    new HeadlessChat(node.url, id, { body: { agentId: "helper", workspaceId }, messages });
  const playing = open();
  const played = playing.sendMessage({ text: "play" });
  await expect.poll(() => playing.text).toBe("♪ ");
  // Another page of the same chat.
  const next = open(playing.messages);
  const said = next.sendMessage({ text: "nod" });
  await expect.poll(async () => (await accepted(node.get(`/session/${id}/queue`))).messages.length).toBe(1);
  await accepted(node.post("/message", { type: "abort", sessionId: id }));
  await Promise.all([played, said]);
  expect([next.text, next.errors]).toEqual(["Yes.", []]);
});
