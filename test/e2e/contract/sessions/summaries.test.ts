import { describe, expect, test } from "vitest";
import type { StreamEvent } from "../../../support/clients/frame-reader.ts";
import { makeInstallation } from "../../../support/nodes/child-server.ts";
import { atEndOfSuite } from "../../../support/runner/at-end-of-suite.ts";
import { beforeTries } from "../../../support/runner/before-tries.ts";
import { type ProviderReply, startProviderServer } from "../../../support/servers/provider-server.ts";

const SUMMARY = "A trip to Oslo\n\nThe user flies to Oslo on Friday.";

const isSummary = ({ type, data }: StreamEvent) => type === "message" && data["summary"] !== undefined;

/** A provider, and an installation whose model summarises after two turns, and keeps one of them. */
async function install(atEnd: (close: () => Promise<void>) => void) {
  const provider = await startProviderServer();
  atEnd(() => provider.close());
  const adapter = { kind: "ai-sdk", provider: "openai-compatible", model: "large", base_url: provider.baseUrl };
  const agents = [
    { name: "by-request", adapter: { ...adapter, summary: { model: "small" } } },
    { name: "model", adapter: { ...adapter, summary: { after: 2, keep: 1 } } },
  ];
  const installation = await makeInstallation({ agents, default_agent: "model" }, {}, atEnd);
  let node = await installation.start();
  return {
    provider,
    get node() {
      return node;
    },
    async restart() {
      await node.kill();
      node = await installation.start();
    },
  };
}
type Installed = Awaited<ReturnType<typeof install>>;

/** A session of an agent on an installation. */
async function open(installed: Installed, agentId = "model") {
  const { provider } = installed;
  const earlier = provider.requests.length;
  const requests = () => provider.requests.slice(earlier);
  const { id } = (await installed.node.post("/session/create", { agentId, activate: true })).body.session;

  /** Send a message to the session, for which the provider has these replies. */
  const say = async (content: string, ...replies: ProviderReply[]) => {
    provider.willReply(...replies);
    return (await installed.node.post("/message", { type: "chat", sessionId: id, content })).body;
  };
  const talk = async (content: string) => {
    const { runId } = await say(content, { kind: "stream", text: [`Heard ${content}.`] });
    await installed.node.follow(id, ({ type, data }) => type === "complete" && data["runId"] === runId);
  };
  /** Send two messages to the session; `text` is the model's reply to the request for a summary. */
  const summarised = async (...text: string[]) => {
    await talk("one");
    await say("two", { kind: "stream", text: ["Heard two."] }, { kind: "stream", text });
    await installed.node.follow(id, isSummary);
  };
  return {
    ...{ provider, requests, id, say, talk, summarised },
    get node() {
      return installed.node;
    },
    restart: () => installed.restart(),
    see: async () => (await installed.node.ask("GET", `/session/${id}`)).body.session,
    messages: async (of = id) => (await installed.node.ask("GET", `/session/${of}/messages`)).body.messages,
    asked: (index: number): { model: string; messages: { role: string; content: string }[] } =>
      JSON.parse(requests().at(index)!.body),
  };
}

const said = (messages: readonly { role: string; content: string }[]) =>
  messages.map(({ role, content }) => `${role}: ${content}`);

const NOTE = `What was said before, in short:\n<summary>\n${SUMMARY}\n</summary>`;

let shared: Installed;

describe("a summary", () => {
  const atEnd = atEndOfSuite();
  beforeTries(async () => {
    shared = await install(atEnd);
  });

  test("a summary is written after the configured number of turns, summarises the session, and replaces the messages it covers", async () => {
    const stage = await open(shared);
    await stage.summarised("A trip to Oslo", "\n\nThe user flies to Oslo on Friday.");
    const request = stage.asked(2).messages;
    expect(request[0]).toMatchObject({ role: "system", content: expect.stringContaining("You summarise") });
    expect(request[1]!.content).toContain("User: one\n\nAssistant (model): Heard one.\n\nUser: two\n\nAssistant");

    const messages = await stage.messages();
    const summary = messages.at(-1)!;
    expect(summary).toMatchObject({ role: "system", content: SUMMARY, summary: { upTo: messages[3]!.id } });
    const session = await stage.see();
    expect(session).toMatchObject({ summary: "A trip to Oslo", summaryId: summary.id, messageCount: 5 });
    const listed = (await stage.node.ask("GET", "/session/list?q=Oslo")).body.sessions;
    expect(listed).toEqual([session]);

    await stage.talk("three");
    expect(said(stage.asked(-1).messages)).toEqual([`user: ${NOTE}\n\ntwo`, "assistant: Heard two.", "user: three"]);
    expect((await stage.see()).summary).toBe("A trip to Oslo");
  });

  test("a request to compress a session waits for its summary, and is answered with null, or with why there is none", async () => {
    const { node, id, talk, provider } = await open(shared);
    await talk("one");
    const compress = () => node.post("/context/compress", { sessionId: id });
    provider.willReply({ kind: "stream", text: [SUMMARY] });
    const usage = expect.objectContaining({ total_tokens: expect.any(Number) });
    expect(await compress()).toEqual({ status: 200, body: { success: true, result: { summary: SUMMARY, usage } } });
    expect(await compress()).toEqual({ status: 200, body: { success: true, result: null } });
    await talk("two");
    provider.willReply({ kind: "refusal", status: 401, error: { message: "no" } });
    expect(await compress()).toMatchObject({ status: 502, body: { errorCode: "provider_refused" } });
  });

  test("messages that a client sends are summarised in a session of their own, which is archived, and once for a repeated key", async () => {
    const { node, provider, requests } = await open(shared);
    const long = "word ".repeat(40_000);
    const messages = [
      { role: "system", content: "Be kind." },
      { role: "user", content: "I fly to Oslo." },
      { role: "assistant", content: null, tool_calls: [] },
      { role: "assistant", content: long },
      { role: "user", content: long },
      { role: "user", content: "On Friday." },
    ];
    provider.willReply({ kind: "stream", text: ["A trip\n\nTo Oslo."] }, { kind: "stream", text: [SUMMARY] });
    const compress = () => node.post("/context/compress", { messages, commandId: "once" });
    const { body } = await compress();
    expect(body).toMatchObject({ success: true, result: { summary: SUMMARY } });
    expect((await compress()).body).toEqual(body);
    const asked = requests().map(({ body: sent }) => JSON.parse(sent).messages.at(-1).content);
    expect(asked).toHaveLength(2);
    expect(asked[0]).toContain("User: I fly to Oslo.");
    expect(asked[0]).not.toContain("Be kind.");
    expect(asked[1]).toContain("To Oslo.");
    expect(asked[1]).toContain("User: On Friday.");
    const listed = (await node.ask("GET", "/session/list?includeArchived=true&q=Oslo")).body.sessions;
    expect(listed[0]).toMatchObject({ agentId: "model", state: "archived", messageCount: 6 });

    expect((await node.post("/context/compress", { messages: [{ role: "tool", content: "4" }] })).body).toEqual({
      success: true,
      result: null,
    });
    expect((await node.post("/context/compress", {})).body).toMatchObject({ errorCode: "bad_request" });
    provider.willReply({ kind: "refusal", status: 401, error: { message: "no" } });
    expect((await node.post("/context/compress", { messages })).body).toMatchObject({ errorCode: "provider_refused" });
  });

  test("a summary is written at a client's request, by the entry's model for summaries", async () => {
    const stage = await open(shared, "by-request");
    await stage.talk("one");
    stage.provider.willReply({ kind: "stream", text: [SUMMARY] });
    const { status, body } = await stage.node.post(`/session/${stage.id}/summarize`);
    expect([status, body.session.id]).toEqual([200, stage.id]);
    await stage.node.follow(stage.id, isSummary);
    expect(stage.requests().map(({ body }) => JSON.parse(body).model)).toEqual(["large", "small"]);
  });

  // These come last: the tests above count what the node did from its start.
  test("after a kill the next node writes the summary that its predecessor was writing, uses those that were written, and continues them", async () => {
    const stage = await open(shared);
    await stage.summarised(SUMMARY);
    const cut = await open(shared);
    await cut.talk("one");
    await cut.say("two", { kind: "stream", text: ["Heard two."] }, { kind: "stream", text: ["A"], ending: "never" });
    while (cut.requests().length < 3) await cut.provider.nextRequest();
    cut.provider.willReply({ kind: "stream", text: [SUMMARY] });
    await cut.restart();
    await cut.node.follow(cut.id, isSummary);
    expect((await cut.messages()).filter(({ summary }) => summary)).toMatchObject([{ content: SUMMARY }]);

    await stage.talk("three");
    expect(stage.asked(-1).messages[0]!.content).toContain(NOTE);
    await stage.say("four", { kind: "stream", text: ["Heard four."] }, { kind: "stream", text: ["Oslo and Bergen"] });
    await stage.node.follow(stage.id, ({ data }) => data["summary"] === "Oslo and Bergen");
    const asked = stage.asked(-1).messages[1]!.content;
    expect(asked).toContain(`<summary>\n${SUMMARY}\n</summary>`);
    expect(asked).toContain("User: three");
    expect(asked).not.toContain("User: two");
    await stage.talk("five");
    expect(said(stage.asked(-1).messages)).toEqual([
      "user: What was said before, in short:\n<summary>\nOslo and Bergen\n</summary>\n\nfour",
      "assistant: Heard four.",
      "user: five",
    ]);
  });

  test("a summary is copied by a fork, and by an export that is imported, unless its messages are left out", async () => {
    const stage = await open(shared);
    await stage.summarised(SUMMARY);
    const { node, id, provider } = stage;
    const talkIn = async (sessionId: string) => {
      provider.willReply({ kind: "stream", text: ["Yes."] });
      await node.post(`/session/${sessionId}/activate`);
      await node.post("/message", { type: "chat", sessionId, content: "more" });
      await node.follow(sessionId, ({ type }) => type === "complete");
      return stage.asked(-1).messages[0]!.content;
    };
    const forked = (await node.post(`/session/${id}/fork`, {})).body.session;
    expect(forked).toMatchObject({ summary: "A trip to Oslo", summaryId: expect.any(String) });
    const copies = await stage.messages(forked.id);
    expect(copies.at(-1)).toMatchObject({ id: forked.summaryId, summary: { upTo: copies[3]!.id } });
    expect(await talkIn(forked.id)).toBe(`${NOTE}\n\ntwo`);

    const file = await (await fetch(`${node.url}/session/${id}/export?format=jsonl`)).text();
    const headers = { "Content-Type": "application/x-ndjson" };
    const answer = await fetch(`${node.url}/session/import`, { method: "POST", body: file, headers });
    const { session: imported } = (await answer.json()) as { session: { id: string } };
    expect(await talkIn(imported.id)).toBe(`${NOTE}\n\ntwo`);
    const forged = file.replace(/"summary":\{"upTo":"[^"]+"\}/, '"summary":{"upTo":"elsewhere"}');
    const refused = await fetch(`${node.url}/session/import`, { method: "POST", body: forged, headers });
    expect(await refused.json()).toMatchObject({ errorCode: "bad_request", error: expect.stringContaining("upTo") });
    expect(await (await fetch(`${node.url}/session/${id}/export?format=md`)).text()).toContain("## Summary, ");

    const [, first] = await stage.messages();
    const { session: short } = (await node.post(`/session/${id}/fork`, { messageId: first!.id })).body;
    expect(short.summaryId).toBeUndefined();
    expect(await talkIn(short.id)).toBe("one");
  });
});
