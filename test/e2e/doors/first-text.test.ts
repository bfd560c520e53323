import OpenAI from "openai";
import { afterAll, expect, test } from "vitest";
import { scripted } from "../../support/catalogs/e2e-catalog.ts";
import { NodeUnderTest } from "../../support/nodes/node-under-test.ts";

/** An agent that speaks as soon as it has its answer, a piece before each report of its worker. */
const replies = [
  { match: "ask", ask: { question: "Which one?", options: ["a"] }, say: ["one ", "two ", "three "], delay: "200ms" },
];
const node = await NodeUnderTest.start({ agents: [scripted("general", {}, { replies })] });
afterAll(() => node.stop());

test("the first text after an answer comes at once, and not with the worker's next report", async () => {
  const openai = new OpenAI({ baseURL: `${node.url}/v1`, apiKey: "none" });
  const metadata = { session: node.newId("asking") };
  const messages: OpenAI.ChatCompletionMessageParam[] = [{ role: "user", content: "ask" }];
  const asked = await openai.chat.completions.create({ model: "general", messages, metadata });
  const { message } = asked.choices[0]!;
  messages.push(message, { role: "tool", tool_call_id: message.tool_calls![0]!.id, content: "a" });
  const pieces: string[] = [];
  for await (const { choices } of await openai.chat.completions.create({
    model: "general",
    messages,
    metadata,
    stream: true,
  })) {
    const text = choices[0]?.delta.content;
    if (text) pieces.push(text);
  }
  // Text that came late would come together with what was said meanwhile.
  expect(pieces).toEqual(["one ", "two ", "three "]);
});
