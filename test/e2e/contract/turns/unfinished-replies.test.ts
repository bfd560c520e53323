import { describe, expect, test } from "vitest";
import type { Message } from "../../../../src/protocol/message.ts";
import { commandAdapter } from "../../../support/agents/programs.ts";
import { type ChildServer, type Installation, makeInstallation } from "../../../support/nodes/child-server.ts";
import { atEndOfSuite } from "../../../support/runner/at-end-of-suite.ts";
import { beforeTries } from "../../../support/runner/before-tries.ts";
import { type ProviderServer, startProviderServer } from "../../../support/servers/provider-server.ts";

type Shown = Pick<Message, "content" | "status" | "finishReason" | "errorCode" | "errorMessage">;

const shownOf = ({ content, status, finishReason }: Shown): Shown => ({ content, status, finishReason });

/** A session with a message, after the end of its run. */
async function ask(node: ChildServer, agentId: string) {
  const { session } = (await node.post("/session/create", { agentId, activate: true })).body;
  const { runId } = (await node.post("/message", { type: "chat", sessionId: session.id, content: "hello" })).body;
  const events = await node.follow(session.id, ({ type }) => type === "complete");
  const [, ...streamed] = events.filter(({ type, data }) => type === "message" && !data["streaming"]);
  const shown = streamed.map(({ data }) => data as unknown as Shown);
  return { sessionId: session.id, runId, streamed: shown, types: events.map(({ type }) => type) };
}

async function keptOf(node: ChildServer, sessionId: string): Promise<Shown[]> {
  const { body } = await node.ask("GET", `/session/${sessionId}/messages`);
  return body.messages.slice(1);
}

/** Replies of a provider, and what is kept of them: the content, and the reason why it is not whole. */
const REPLIES = [
  [{ text: ["Once upon a "], ending: "length" }, "Once upon a ", "length"],
  [{ text: ["I would "], ending: "filtered" }, "I would ", "content_filter"],
  [{}, "", "empty"],
  [{ reasoning: ["Hm"], ending: "length" }, "", "length"],
  [{ text: ["Hello."] }, "Hello.", undefined],
] as const;

const FAILING = [
  { name: "missing", adapter: { kind: "command", command: "no-such-program-here" } },
  { name: "exits", adapter: { kind: "command", command: "sh", args: ["-c", "echo half; exit 3"] } },
  { name: "whole", adapter: { ...commandAdapter("whole-then-fails"), format: "jsonl" } },
  { name: "scripted", adapter: { kind: "scripted", replies: [{ match: ".", fail: { code: "provider_refused" } }] } },
];

let provider: ProviderServer;
let installation: Installation;
let node: ChildServer;

describe("a reply", () => {
  const atEnd = atEndOfSuite();
  beforeTries(async () => {
    provider = await startProviderServer();
    atEnd(() => provider.close());
    const adapter = { kind: "ai-sdk", provider: "openai-compatible", model: "m", base_url: provider.baseUrl };
    const agents = [
      { name: "model", adapter },
      { name: "mute", adapter: commandAdapter("mute") },
      { name: "short", adapter: { ...commandAdapter("short"), format: "jsonl" } },
      ...FAILING,
    ];
    installation = await makeInstallation({ agents }, {}, atEnd);
    node = await installation.start();
  });

  test("replies that are cut by the model or its provider, empty, or only reasoning are reported as such, to readers, after a restart and in the log; a whole one is not", async () => {
    const asked: { sessionId: string; runId: string; shown: object }[] = [];
    for (const [reply, content, finishReason] of REPLIES) {
      provider.willReply({ kind: "stream", ...reply });
      const { sessionId, runId, streamed, types } = await ask(node, "model");
      const shown = { content, status: "success", finishReason };
      expect(streamed.map(shownOf), `${JSON.stringify(reply)}: ${types.join()}`).toEqual([shown]);
      expect(types.filter((type) => type === "error")).toEqual([]);
      asked.push({ sessionId, runId, shown });
    }
    const lines = () => node.log.filter(({ msg }) => msg === "a reply is incomplete");
    const expected = asked
      .map(({ sessionId, runId }, index) => ({ agentId: "model", sessionId, runId, finishReason: REPLIES[index]![2] }))
      .filter(({ finishReason }) => finishReason !== undefined);
    // The log arrives through a separate pipe, so it may be read after the events.
    await expect.poll(lines).toEqual(expected.map((line) => expect.objectContaining(line)));
    await node.kill();
    node = await installation.start();
    for (const { sessionId, shown } of asked) expect((await keptOf(node, sessionId)).map(shownOf)).toEqual([shown]);
  });

  test("a silent program's reply is an empty message marked as such, and a JSON reply reports its model's finish", async () => {
    const mute = await ask(node, "mute");
    expect(mute.streamed).toMatchObject([{ content: "", status: "success", finishReason: "empty" }]);
    const short = await ask(node, "short");
    expect(short.streamed).toMatchObject([{ content: "Once upon a ", status: "success", finishReason: "length" }]);
    expect(await keptOf(node, short.sessionId)).toMatchObject([{ finishReason: "length" }]);
  });

  test("why a run failed is in one message, the session, its export and the node's report, also after a restart", async () => {
    provider.willReply({ kind: "stream", text: ["half"], ending: "cut" }, { kind: "refusal", status: 400 });
    const sessions: { id: string; reason: object; content: string }[] = [];
    for (const [agentId, content] of [
      ["model", "half"],
      ["model", ""],
      ["missing", ""],
      ["exits", "half"],
      ["whole", "Done."],
      ["scripted", ""],
    ] as const) {
      const { sessionId, streamed } = await ask(node, agentId);
      expect(streamed).toMatchObject([{ content, status: "error", errorMessage: expect.any(String) }]);
      const { errorCode, errorMessage } = streamed[0]!;
      sessions.push({ id: sessionId, content, reason: { errorCode, errorMessage } });
      // The worker reports a failure once it knows that the end of its run was committed.
      const nodes = async () => (await node.ask("GET", "/nodes")).body;
      await expect.poll(nodes).toMatchObject({ nodes: [{ lastFailure: { agentId, errorCode } }] });
    }
    await node.kill();
    node = await installation.start();
    for (const { id, content, reason } of sessions) {
      const { errorCode, errorMessage } = reason as { errorCode: string; errorMessage: string };
      expect(await keptOf(node, id)).toMatchObject([{ content, status: "error", ...reason }]);
      const { session } = (await node.ask("GET", `/session/${id}`)).body;
      expect(session).toMatchObject({ activity: "failed", failure: { errorCode, message: errorMessage } });
      const exported = await (await fetch(`${node.url}/session/${id}/export`)).text();
      expect(exported).toContain(`_failed: ${errorMessage}_`);
    }
  });
});
