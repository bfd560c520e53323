/** Clients of doors count what was heard in all text that they got for a run: a tool call makes two messages of it. */

import { afterAll, expect, test } from "vitest";
import { accepted } from "../../support/clients/e2e-client.ts";
import { NodeUnderTest } from "../../support/nodes/node-under-test.ts";
import { startProviderServer } from "../../support/servers/provider-server.ts";

const BEFORE = "Let me look at the clock. ";
const AFTER = "It is noon now.";

const provider = await startProviderServer();
const adapter = { kind: "ai-sdk", provider: "openai-compatible", model: "m", base_url: provider.baseUrl };
const node = await NodeUnderTest.start({
  agents: [{ name: "talker", tools: ["clock"], adapter }],
  catalog: { default_agent: "talker" },
});
afterAll(() => Promise.all([node.stop(), provider.close()]));

const MCP = { Accept: "application/json, text/event-stream" };
let calls = 0;

/** A turn through each door, in a named session. @returns the answer's text */
const DOORS: Record<string, (session: string, content: string, played?: number) => Promise<string>> = {
  "chat completions": async (session, content, played) => {
    const metadata = { session, ...(played !== undefined && { played: String(played) }) };
    return (
      await node.post("/v1/chat/completions", { model: "talker", messages: [{ role: "user", content }], metadata })
    ).text;
  },
  responses: async (session, input, played) => {
    const metadata = { session, ...(played !== undefined && { played: String(played) }) };
    return (await node.post("/v1/responses", { model: "talker", input, metadata })).text;
  },
  useChat: async (id, text, played) => {
    const message = { id: `m${calls++}`, role: "user", parts: [{ type: "text", text }], metadata: { played } };
    return (await node.post("/api/chat", { id, messages: [message] })).text;
  },
  MCP: async (sessionId, content, played) => {
    const params = { name: "speak", arguments: { sessionId, content, played } };
    const body = { jsonrpc: "2.0", id: calls++, method: "tools/call", params };
    return (await node.post("/mcp", body, { headers: MCP })).text;
  },
};

test.each(Object.entries(DOORS))("%s", async (_, turn) => {
  const id = node.newId("spoken");
  await accepted(node.post("/session/create", { id, agentId: "talker" }));
  provider.willReply(
    { kind: "stream", text: [BEFORE], calls: [{ id: "t1", name: "clock", arguments: "{}" }] },
    { kind: "stream", text: [AFTER] },
    { kind: "stream", text: ["Fine."] },
  );
  const first = await turn(id, "What time is it?");
  expect(first).toContain("noon now.");
  const second = await turn(id, "Stop!", BEFORE.length + "It is".length);
  expect(second).toContain("Fine.");
  expect(second).toMatch(/"played\\?":\\?"?31\b/);
  const replies = (await node.messages(id, "assistant")).filter(({ content }) => content !== "Fine.");
  expect(replies.map(({ content, playedUpTo }) => [content, playedUpTo])).toEqual([
    [BEFORE, undefined],
    [AFTER, 5],
  ]);
  const asked = JSON.stringify(JSON.parse(provider.requests.at(-1)!.body).messages);
  expect(asked).toContain("It is [The user interrupted here");
  expect(asked).not.toContain("noon now");
});
