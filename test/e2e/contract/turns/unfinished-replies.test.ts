import { describe, expect, onTestFinished, test } from "vitest";
import type { Message } from "../../../../src/protocol/message.ts";
import { commandAdapter } from "../../../support/agents/programs.ts";
import { type ChildServer, makeInstallation } from "../../../support/nodes/child-server.ts";
import { describeWith } from "../../../support/programs/suites.ts";
import { makeDatabase, serverOf } from "../../../support/servers/postgres-place.ts";
import { POSTGRES } from "../../../support/servers/postgres-server.ts";
import { startProviderServer } from "../../../support/servers/provider-server.ts";

type Shown = Pick<Message, "content" | "status" | "finishReason">;

const shownOf = ({ content, status, finishReason }: Shown): Shown => ({ content, status, finishReason });

/** A session with a message, after the end of its run. */
async function ask(node: ChildServer, agentId: string) {
  const { session } = (await node.post("/session/create", { agentId, activate: true })).body;
  const { runId } = (await node.post("/message", { type: "chat", sessionId: session.id, content: "hello" })).body;
  const stream = await fetch(`${node.url}/session/${session.id}/events?lastEventId=`);
  let text = "";
  for await (const chunk of stream.body!.pipeThrough(new TextDecoderStream())) {
    text += chunk;
    if (text.includes('"type":"complete"')) break;
  }
  const events = text.split("\n").flatMap((line) => (line.startsWith("data: ") ? [JSON.parse(line.slice(6))] : []));
  const streamed: Shown[] = events
    .filter(({ type, data }) => type === "message" && !data.streaming)
    .map(({ data }) => data);
  return { sessionId: session.id, runId, streamed: streamed.slice(1), types: events.map(({ type }) => type) };
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

function suite(settings: () => Promise<Record<string, string>>): void {
  test("replies that are cut by the model or its provider, empty, or only reasoning are reported as such, to readers, after a restart and in the log; a whole one is not", async () => {
    const provider = await startProviderServer();
    onTestFinished(() => provider.close());
    const adapter = { kind: "ai-sdk", provider: "openai-compatible", model: "m", base_url: provider.baseUrl };
    const installation = await makeInstallation({ agents: [{ name: "model", adapter }] }, await settings());
    const node = await installation.start();
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
    await expect.poll(lines, { timeout: 15_000 }).toEqual(expected.map((line) => expect.objectContaining(line)));
    await node.kill();
    const next = await installation.start();
    for (const { sessionId, shown } of asked) expect((await keptOf(next, sessionId)).map(shownOf)).toEqual([shown]);
  });

  test("a silent program's reply is an empty message marked as such, and a JSON reply reports its model's finish", async () => {
    const agents = [
      { name: "mute", adapter: commandAdapter("mute") },
      { name: "short", adapter: { ...commandAdapter("short"), format: "jsonl" } },
    ];
    const node = await (await makeInstallation({ agents }, await settings())).start();
    const mute = await ask(node, "mute");
    expect(mute.streamed).toMatchObject([{ content: "", status: "success", finishReason: "empty" }]);
    const short = await ask(node, "short");
    expect(short.streamed).toMatchObject([{ content: "Once upon a ", status: "success", finishReason: "length" }]);
    expect(await keptOf(node, short.sessionId)).toMatchObject([{ finishReason: "length" }]);
  });
}

describe("a reply on SQLite", () => suite(async () => ({})));

describeWith([POSTGRES], "a reply on PostgreSQL", (start) => {
  const server = serverOf(start);
  suite(async () => ({ INTERLOCK_STORE: await makeDatabase(server()) }));
});
