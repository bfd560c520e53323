import { once } from "node:events";
import { readFile } from "node:fs/promises";
import type { ServerResponse } from "node:http";
import { describe, expect, test } from "vitest";
import { createHttpAgent } from "../../examples/adapter/http-agent.ts";
import type { AgentId } from "../../src/protocol/ids.ts";
import { type AgentSubject, agentContract, SPOKEN } from "../contract/agents/agent-contract.ts";
import { play, playToFailure, textOf, turnOf } from "../support/agents/run-stage.ts";
import { type Answer, SmallServer } from "../support/servers/small-server.ts";
import { readPage } from "./page.ts";

const AGENT = "subject" as AgentId;

test("docs/use/agents.md shows the example's adapter unchanged, in at most thirty lines", async () => {
  const { text } = readPage("docs/use/agents.md").blocks.find(({ info }) => info === "ts adapter")!;
  expect(text).toBe(await readFile("examples/adapter/http-agent.ts", "utf8"));
  expect(text.trimEnd().split("\n").length).toBeLessThanOrEqual(30);
});

/** Each piece is a separate chunk. */
function speak(response: ServerResponse): void {
  for (const text of SPOKEN) response.write(text);
  response.end();
}

agentContract("the example of docs/use/agents.md", async (): Promise<AgentSubject> => {
  const closed: Promise<unknown>[] = [];
  const server = await SmallServer.start((response, { body }) => {
    closed.push(once(response, "close"));
    if (body === "speak") speak(response);
    else if (body === "stall") response.write(SPOKEN[0]);
    else response.writeHead(429).end();
  });
  return {
    agent: createHttpAgent(AGENT, server.url),
    isPlain: true,
    speaks: () => "speak",
    stalls: () => "stall",
    fails: () => "fail",
    released: () => Promise.all(closed),
    close: () => server[Symbol.asyncDispose](),
  };
});

describe("the example of docs/use/agents.md", () => {
  test("the adapter of docs/use/agents.md sends the message, and streams text whose characters are split between chunks", async () => {
    const bytes = Buffer.from("晴，22 度。");
    await using server = await SmallServer.start((response) => {
      response.write(bytes.subarray(0, 2));
      response.end(bytes.subarray(2));
    });
    expect(textOf(await play(createHttpAgent(AGENT, server.url), turnOf("天气")))).toBe("晴，22 度。");
    expect(server.heard).toMatchObject([{ method: "POST", body: "天气" }]);
  });

  test.each<[name: string, answer: Answer, code: string, said: string]>([
    ["refuses", (response) => response.writeHead(400).end(), "provider_refused", ""],
    ["hangs up", (response) => response.destroy(), "provider_unreachable", ""],
    ["breaks off", breakOff, "provider_unreachable", SPOKEN[0]!],
  ])(
    "the adapter of docs/use/agents.md fails with a code for the user if the server %s, and keeps its text",
    async (_, answer, code, said) => {
      await using server = await SmallServer.start(answer);
      const { parts, failure } = await playToFailure(createHttpAgent(AGENT, server.url), turnOf("hello"));
      expect(failure).toMatchObject({ code });
      expect(textOf(parts)).toBe(said);
    },
  );
});

function breakOff(response: ServerResponse): void {
  response.write(SPOKEN[0], () => response.destroy());
}
