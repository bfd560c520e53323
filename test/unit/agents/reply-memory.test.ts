import { expect, onTestFinished, test } from "vitest";
import { createRunStage, turnOf } from "../../support/agents/run-stage.ts";
import { subjectOf } from "../../support/agents/test-registry.ts";
import { heapBytes } from "../../support/runner/heap.ts";
import { startProviderServer } from "../../support/servers/provider-server.ts";

const TOKENS = 24_000;

test("a model's reply does not remain in memory while it is streamed", async () => {
  const server = await startProviderServer();
  onTestFinished(() => server.close());
  server.willReply({ kind: "stream", text: Array.from({ length: TOKENS }, (_, index) => `token ${index} `) });
  const adapter = { kind: "ai-sdk", provider: "openai-compatible", model: "model-x", base_url: server.baseUrl };
  const { agent } = subjectOf({ adapter });
  let tokens = 0;
  let before = 0;
  let after = 0;
  for await (const part of agent.run(turnOf("Talk."), createRunStage().control)) {
    if (part.type !== "text") continue;
    tokens += 1;
    if (tokens === TOKENS / 6) before = heapBytes();
    if (tokens === TOKENS - 1) after = heapBytes();
  }
  expect(tokens).toBe(TOKENS);
  // Each retained part would take some 200 bytes.
  expect(after - before).toBeLessThan(50 * TOKENS);
});
