import { once } from "node:events";
import { afterAll, expect, test } from "vitest";
import { describeDeployments, Talk } from "../../support/nodes/deployments.ts";
import { startProviderServer } from "../../support/servers/provider-server.ts";
import { WIRES } from "../../support/servers/provider-wire.ts";
import { SmallServer } from "../../support/servers/small-server.ts";

const MEGABYTE = 1_048_576;
const LIMIT = 4_194_304;
const PIECE = "~".repeat(65_536);

/** A provider that sends a hundred megabytes as fast as they are read. */
let sent = 0;
let hungUp: Promise<unknown>;
const sea = await SmallServer.start(async (response) => {
  sent = 0;
  const closed = once(response, "close");
  hungUp = closed;
  const wire = WIRES["openai-compatible"];
  response.writeHead(200, { "content-type": "text/event-stream" });
  response.write(wire.open());
  const frame = wire.text([PIECE]);
  while (sent < 100 * MEGABYTE && !response.destroyed) {
    sent += PIECE.length;
    if (!response.write(frame)) await Promise.race([once(response, "drain"), closed]);
  }
  response.end(wire.close({ input: 1, output: 1 }, "whole"));
});
const provider = await startProviderServer();
afterAll(async () => {
  await provider.close();
  await sea[Symbol.asyncDispose]();
});

const model = { kind: "ai-sdk", provider: "openai-compatible", model: "m" };
const CATALOG = {
  agents: [
    { name: "model", adapter: { ...model, base_url: provider.baseUrl } },
    { name: "sea", adapter: { ...model, base_url: `${sea.url}/v1` } },
    { name: "general" },
  ],
};

describeDeployments("a provider", { catalog: () => CATALOG }, (deployment) => {
  test("a reply of a hundred megabytes is cut at the limit with an error and not read further, while others are answered", async () => {
    const [talk, other] = [await Talk.open(deployment, "sea"), await Talk.open(deployment, "general")];
    const runId = await talk.say("speak");
    await other.ask("hello");
    expect((await other.messages()).at(-1)!.content).toBe("You said: hello");
    await talk.ended(runId);
    expect(talk.eventsOf("error").map(({ data }) => [data.errorCode, data["message"]])).toEqual([
      ["too_large", "The reply is longer than 4,194,304 characters, and was cut there."],
    ]);
    const said = talk.eventsOf("message").filter(({ data }) => data["role"] === "assistant" && !data.streaming);
    const length = said.reduce((sum, { data }) => sum + data.content.length, 0);
    expect(length).toBeGreaterThan(LIMIT - PIECE.length);
    expect(length).toBeLessThanOrEqual(LIMIT);
    await hungUp;
    expect(sent).toBeLessThan(50 * MEGABYTE);
    await other.ask("again");
    expect((await other.messages()).at(-1)!.content).toBe("You said: again");
  });

  test("a provider that answers 429 fails each of twenty turns after one request, and delays no other session", async () => {
    const refusal = { kind: "refusal", status: 429, headers: { "retry-after": "3" } } as const;
    provider.replyBy(() => refusal);
    const asked = provider.requests.length;
    const talks = await Promise.all(Array.from({ length: 5 }, () => Talk.open(deployment, "model")));
    const other = await Talk.open(deployment, "general");
    const failing = talks.map(async (talk) => {
      for (let turn = 0; turn < 4; turn += 1) await talk.ask(`turn ${turn}`);
    });
    await other.ask("hello");
    await Promise.all(failing);
    expect(provider.requests).toHaveLength(asked + 20);
    for (const talk of talks) {
      expect(talk.eventsOf("error").map(({ data }) => [data.errorCode, data["retryAfterMs"]])).toEqual(
        Array(4).fill(["provider_rate_limited", 3_000]),
      );
      expect(talk.eventsOf("complete")).toHaveLength(4);
      await talk.until(() => talk.state === "active.failed");
    }
    provider.replyBy(() => ({ kind: "stream", text: ["Better."] }));
    await talks[0]!.ask("and now?");
    expect((await talks[0]!.messages()).at(-1)!.content).toBe("Better.");
  });
});
