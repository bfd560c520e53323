import { lastAssistantMessageIsCompleteWithApprovalResponses, lastAssistantMessageIsCompleteWithToolCalls } from "ai";
import { afterAll, describe, expect, test } from "vitest";
import { accepted, E2eClient } from "../../support/clients/e2e-client.ts";
import { hold } from "../../support/clients/e2e-states.ts";
import { HeadlessChat } from "../../support/clients/headless-chat.ts";
import { NodeUnderTest } from "../../support/nodes/node-under-test.ts";

/** The AI SDK's own chat and transport with a real node. */
const node = await NodeUnderTest.start();
afterAll(() => node.stop());

const conversation = async (id: string) =>
  (await accepted(node.get(`/session/${id}/messages`))).messages.map(({ content }) => content);

describe("a chat", () => {
  test("a chat has a session with its id, and sends only the new message", async () => {
    const chatId = node.newId("first");
    const chat = new HeadlessChat(node.url, chatId, { body: { agentId: "general" } });
    await chat.sendMessage({ text: "hello" });
    expect(chat.text).toBe("Hello there.");
    await chat.sendMessage({ text: "nod" });
    expect(chat.text).toBe("Yes.");
    expect(chat.messages.map(({ role }) => role)).toEqual(["user", "assistant", "user", "assistant"]);
    expect(await conversation(chatId)).toEqual(["hello", "Hello there.", "nod", "Yes."]);
    expect(chat.errors).toEqual([]);
  });

  test("a chat gets a long answer in pieces, with its usage and session as metadata", async () => {
    const chatId = node.newId("long");
    const chat = new HeadlessChat(node.url, chatId);
    await chat.sendMessage({ text: "count" });
    expect(chat.text).toBe("tick ".repeat(40));
    expect(chat.lastMessage!.metadata).toMatchObject({ sessionId: chatId, usage: { total_tokens: 0 } });
  });

  test("a chat talks to another agent once it names one", async () => {
    const chatId = node.newId("other");
    await new HeadlessChat(node.url, chatId, { body: { agentId: "general" } }).sendMessage({ text: "hello" });
    await new HeadlessChat(node.url, chatId, { body: { agentId: "weather" } }).sendMessage({ text: "hello" });
    expect((await accepted(node.get(`/session/${chatId}`))).session.agentId).toBe("weather");
  });

  test("a chat says in the metadata of a message what was heard of the reply before, and is told which position counts", async () => {
    const chatId = node.newId("spoken");
    const chat = new HeadlessChat(node.url, chatId, { body: { agentId: "general" } });
    for (const played of [undefined, 5, 99, -1, "3"]) {
      await chat.sendMessage({ text: "hello", ...(played !== undefined && { metadata: { played } }) });
    }
    const said = chat.messages.filter(({ role }) => role === "assistant");
    expect(said.map(({ metadata }) => (metadata as { played?: number }).played)).toEqual([undefined, 5]);
    // Beyond the end of the reply, and what is no position, are errors of the request.
    expect(chat.errors.map(({ message }) => message)).toEqual([
      expect.stringContaining("The reply ends at 12, before 99."),
      expect.stringContaining("body.messages.-1.metadata.played"),
      expect.stringContaining("body.messages.-1.metadata.played"),
    ]);
    const { messages } = await accepted(node.get(`/session/${chatId}/messages`));
    expect(messages.flatMap(({ role, playedUpTo }) => (role === "assistant" ? [playedUpTo] : []))).toEqual([
      5,
      undefined,
    ]);
  });

  test("a chat whose message is posted twice has one turn, and the same reply", async () => {
    const body = { id: "twice", messages: [{ id: "m1", role: "user", parts: [{ type: "text", text: "hello" }] }] };
    const post = async () => (await node.post("/api/chat", body)).text;
    const first = await post();
    expect(first).toMatch(/^data: \{"type":"start".*\n\ndata: \[DONE\]\n\n$/s);
    expect(await post()).toContain(/"messageId":"([^"]+)"/.exec(first)![1]);
    expect(await conversation("twice")).toEqual(["hello", "Hello there."]);
  });
});

describe("a regenerated or edited message", () => {
  /** The messages of the chat's newest session: the one with its id, or the copy that replaced it last. */
  async function kept(id: string) {
    let { session } = await accepted(node.get(`/session/${id}`));
    while (session.replacedBy) ({ session } = await accepted(node.get(`/session/${session.replacedBy}`)));
    return { session, said: await conversation(session.id) };
  }

  /** The messages on the page. */
  const shown = (chat: HeadlessChat) =>
    chat.messages.map(({ parts }) => parts.map((part) => (part.type === "text" ? part.text : "")).join(""));

  test("a regenerated or edited message replaces its former reply: the session has what the page shows", async () => {
    const chatId = node.newId("again");
    const chat = new HeadlessChat(node.url, chatId);
    await chat.sendMessage({ text: "hello" });
    const first = chat.lastMessage!;
    await chat.regenerate();
    expect(chat.lastMessage!.id).not.toBe(first.id);
    expect(shown(chat)).toEqual(["hello", "Hello there."]);
    const { session, said } = await kept(chatId);
    expect(said).toEqual(shown(chat));
    expect(chat.lastMessage!.metadata).toMatchObject({ sessionId: session.id });
    expect(session).toMatchObject({ state: "active", origin: { by: "edit", sessionId: chatId } });
    expect((await accepted(node.get(`/session/${chatId}`))).session.state).toBe("archived");
    await chat.sendMessage({ text: "nod" });
    await chat.regenerate({ messageId: chat.messages[1]!.id });
    expect((await kept(chatId)).said).toEqual(shown(chat));
    expect(shown(chat)).toEqual(["hello", "Hello there."]);
  });

  test("a regenerated or edited message may be any message of the chat, even one from before an earlier edit", async () => {
    const chatId = node.newId("edited");
    const chat = new HeadlessChat(node.url, chatId);
    const edit = (index: number, text: string) => chat.sendMessage({ text, messageId: chat.messages[index]!.id });
    for (const text of ["one", "two", "three"]) await chat.sendMessage({ text });
    await edit(2, "deux");
    expect((await kept(chatId)).said).toEqual(["one", "You said: one", "deux", "You said: deux"]);
    await chat.sendMessage({ text: "four" });
    await edit(2, "zwei");
    expect((await kept(chatId)).said).toEqual(["one", "You said: one", "zwei", "You said: zwei"]);
    await chat.sendMessage({ text: "drei" });
    await edit(4, "trois");
    const all = ["one", "You said: one", "zwei", "You said: zwei", "trois", "You said: trois"];
    expect((await kept(chatId)).said).toEqual(all);
    expect(shown(chat)).toEqual(all);
    await edit(0, "un");
    expect((await kept(chatId)).said).toEqual(["un", "You said: un"]);
    expect(shown(chat)).toEqual(["un", "You said: un"]);
  });

  test("a regenerated or edited message ends the reply in progress, and can be resumed and aborted by the chat's id", async () => {
    const chatId = node.newId("under-way");
    const ann = new E2eClient(node);
    const chat = new HeadlessChat(node.url, chatId, { body: { userId: ann.userId } });
    const sending = chat.sendMessage({ text: "play" });
    while (chat.text === "") await new Promise((resolve) => setImmediate(resolve));
    await chat.stop();
    await sending;
    const former = chat.lastMessage!.id;
    const editing = chat.sendMessage({ text: "play on", messageId: chat.messages[0]!.id });
    while (chat.text === "" || chat.lastMessage!.id === former) await new Promise((resolve) => setImmediate(resolve));
    const { session, said } = await kept(chatId);
    expect(said[0]).toBe("play on");
    expect((await ann.floor()).holder?.id).toBe(session.id);
    expect((await accepted(node.get(`/session/${chatId}`))).session.state).toBe("archived");
    const other = new HeadlessChat(node.url, chatId);
    const resuming = other.resumeStream();
    while (other.text === "") await new Promise((resolve) => setImmediate(resolve));
    expect(other.lastMessage!.id).toBe(chat.lastMessage!.id);
    expect(await accepted(node.delete(`/api/chat/${chatId}/stream`))).toEqual({ success: true, aborted: true });
    await Promise.all([editing, resuming]);
    expect((await ann.floor()).holder?.id).toBe(session.id);
  });

  test("a regenerated or edited message may have an id of any kind", async () => {
    const chatId = node.newId("own-ids");
    const id = "a page's own / id";
    const chat = new HeadlessChat(node.url, chatId, { generateId: () => id });
    await chat.sendMessage({ text: "hello" });
    await chat.regenerate();
    expect((await kept(chatId)).said).toEqual(["hello", "Hello there."]);
  });

  test("a regenerated message that failed is answered again in the same place", async () => {
    const chatId = node.newId("failed-again");
    const chat = new HeadlessChat(node.url, chatId);
    await chat.sendMessage({ text: "offline" });
    expect(chat.status).toBe("error");
    await chat.regenerate();
    expect((await kept(chatId)).said.filter((content) => content !== "")).toEqual(["offline"]);
  });

  test("a regenerated message is a new message if the floor refused it before", async () => {
    const chatId = node.newId("refused-again");
    const { ann, id } = await hold(node, "phone");
    const chat = new HeadlessChat(node.url, chatId, { body: { agentId: "weather", userId: ann.userId } });
    await chat.sendMessage({ text: "hello" });
    expect(chat.status).toBe("error");
    await accepted(ann.on(id, "archive"));
    await chat.regenerate();
    expect(chat.text).toBe("Hello there.");
    expect((await kept(chatId)).said).toEqual(["hello", "Hello there."]);
  });

  test("a regenerated or edited message that the floor refuses leaves the chat unchanged", async () => {
    const chatId = node.newId("kept");
    const ann = new E2eClient(node);
    const chat = new HeadlessChat(node.url, chatId, { body: { agentId: "weather", userId: ann.userId } });
    await chat.sendMessage({ text: "hello" });
    await ann.hold("phone");
    await chat.regenerate();
    expect(chat.status).toBe("error");
    expect(chat.partTypes).toContain("data-arbitration");
    const { session, said } = await kept(chatId);
    expect([session.id, said]).toEqual([chatId, ["hello", "Hello there."]]);
  });

  test("a regenerated or edited message keeps its agent, or goes to the named agent", async () => {
    const chatId = node.newId("agents");
    const ask = (body: object) => new HeadlessChat(node.url, chatId, { body, generateId: () => "m1" });
    await ask({ agentId: "music" }).sendMessage({ text: "hello" });
    const again = ask({});
    again.messages = [{ id: "m1", role: "user", parts: [{ type: "text", text: "hello" }] }];
    await again.regenerate();
    expect((await kept(chatId)).session.agentId).toBe("music");
    const other = ask({ agentId: "weather" });
    other.messages = [{ id: "m1", role: "user", parts: [{ type: "text", text: "hello" }] }];
    await other.regenerate();
    expect((await kept(chatId)).session.agentId).toBe("weather");
  });
});

describe("a tool", () => {
  test("a tool is a part with its input and output, and a sub-agent's text is data", async () => {
    const chatId = node.newId("tools");
    const chat = new HeadlessChat(node.url, chatId, {
      sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithToolCalls,
    });
    await chat.sendMessage({ text: "browse" });
    expect(chat.text).toBe("It says: Hello there.");
    const { parts } = chat.lastMessage!;
    expect(parts.find(({ type }) => type === "dynamic-tool")).toMatchObject({
      toolName: "sub-agent",
      state: "output-available",
      input: { name: "weather", task: "hello" },
      output: JSON.stringify({ ok: true, result: "Hello there." }),
    });
    expect(parts.find(({ type }) => type === "data-message")).toMatchObject({
      data: { content: "Hello there.", agent: { kind: "sub", name: "weather" } },
    });
    // The page does not answer for a tool that runs on the server.
    expect(chat.messages).toHaveLength(2);
  });

  test("a tool that needs consent is approved, and the reply continues in the same message", async () => {
    const chatId = node.newId("consent");
    const chat = new HeadlessChat(node.url, chatId, {
      sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
    });
    await chat.sendMessage({ text: "delete" });
    const part = chat.lastMessage!.parts.find((each) => each.type === "dynamic-tool")!;
    expect(part).toMatchObject({ state: "approval-requested", toolName: "delete_file", input: { path: "a.txt" } });
    expect(chat.status).toBe("ready");
    await answered(chat, () => chat.addToolApprovalResponse({ id: part.approval!.id, approved: true }));
    expect(chat.text).toBe("Deleted.");
    expect(chat.messages).toHaveLength(2);
    expect(chat.lastMessage!.parts.find(({ type }) => type === "dynamic-tool")).toMatchObject({
      state: "output-available",
      output: "Approved.",
    });
  });

  test("a tool that is rejected with a reason passes the reason to the agent", async () => {
    const chatId = node.newId("rejected");
    const chat = new HeadlessChat(node.url, chatId, {
      sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
    });
    await chat.sendMessage({ text: "delete" });
    const part = chat.lastMessage!.parts.find((each) => each.type === "dynamic-tool")!;
    await answered(chat, () =>
      chat.addToolApprovalResponse({ id: part.approval!.id, approved: false, reason: "too dear" }),
    );
    expect(chat.text).toBe("Kept it.");
    expect(chat.lastMessage!.parts.find(({ type }) => type === "dynamic-tool")).toMatchObject({
      state: "output-error",
      errorText: "Rejected: too dear",
    });
  });
});

describe("a question", () => {
  test("a question is a tool without an output, and the page's output is the answer", async () => {
    const chatId = node.newId("question");
    const chat = new HeadlessChat(node.url, chatId, {
      sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithToolCalls,
    });
    await chat.sendMessage({ text: "ask" });
    const part = chat.lastMessage!.parts.find((each) => each.type === "dynamic-tool")!;
    expect(part).toMatchObject({
      toolName: "user_question",
      state: "input-available",
      input: { question: "Which one?", options: ["a", "b"] },
    });
    await answered(chat, () =>
      chat.addToolOutput({ tool: "user_question" as never, toolCallId: part.toolCallId, output: "b" as never }),
    );
    expect(chat.text).toBe("You chose b.");
    expect(chat.messages).toHaveLength(2);
    expect(chat.status).toBe("ready");
  });

  test("a reply that is read again does not end with a question that was answered elsewhere", async () => {
    const chatId = node.newId("elsewhere");
    const chat = new HeadlessChat(node.url, chatId, { body: { agentId: "music" } });
    await accepted(node.post("/session/create", { id: chatId, agentId: "music" }));
    const log = await node.stream(`/session/${chatId}/events`);
    await chat.sendMessage({ text: "ask" });
    const { requestId } = await log.find("user_question_request");
    const ann = new E2eClient(node);
    const resumed = new HeadlessChat(node.url, chatId);
    const resuming = resumed.resumeStream();
    await resuming;
    expect(resumed.partTypes).toContain("dynamic-tool");
    await accepted(ann.send({ type: "user_question_response", sessionId: chatId, requestId, response: "a" }));
    await log.find("complete");
    expect((await node.get(`/api/chat/${chatId}/stream`)).status).toBe(204);
  });
});

/** Wait for the reply that continues after an answer. */
async function answered(chat: HeadlessChat, answer: () => unknown): Promise<void> {
  await answer();
  while (chat.status !== "ready" && chat.status !== "error") await new Promise((resolve) => setImmediate(resolve));
}

describe("a lost connection", () => {
  test("a reply whose connection was lost is resumed: nothing is lost, and nothing arrives twice", async () => {
    const chatId = node.newId("resumed");
    const chat = new HeadlessChat(node.url, chatId);
    const sending = chat.sendMessage({ text: "count" });
    while (chat.text.length < 20) await new Promise((resolve) => setImmediate(resolve));
    // Closing the stream does not abort the run.
    await chat.stop();
    await sending;
    const before = chat.text;
    expect(before.length).toBeLessThan("tick ".length * 40);
    await chat.resumeStream();
    expect(chat.text).toBe("tick ".repeat(40));
    expect(chat.messages).toHaveLength(2);
    expect(await conversation(chatId)).toEqual(["count", "tick ".repeat(40)]);
  });

  test("a reply whose connection was lost is resumed by another page, which has no part of it", async () => {
    const chatId = node.newId("page");
    const chat = new HeadlessChat(node.url, chatId);
    const sending = chat.sendMessage({ text: "count" });
    while (chat.text.length < 20) await new Promise((resolve) => setImmediate(resolve));
    const other = new HeadlessChat(node.url, chatId, { messages: chat.messages.slice(0, 1) });
    await Promise.all([other.resumeStream(), sending]);
    expect(other.text).toBe("tick ".repeat(40));
    expect(other.lastMessage!.id).toBe(chat.lastMessage!.id);
  });

  test("a lost connection without a reply in progress resumes nothing", async () => {
    const chatId = node.newId("nothing");
    const chat = new HeadlessChat(node.url, chatId);
    await chat.resumeStream();
    expect(chat.status).toBe("ready");
    expect(chat.messages).toEqual([]);
    await chat.sendMessage({ text: "hello" });
    expect((await node.get(`/api/chat/${chatId}/stream`)).status).toBe(204);
  });

  test("a lost connection does not end the reply; a request does", async () => {
    const chatId = node.newId("ended");
    const chat = new HeadlessChat(node.url, chatId);
    const sending = chat.sendMessage({ text: "play" });
    while (chat.text === "") await new Promise((resolve) => setImmediate(resolve));
    expect(await accepted(node.delete(`/api/chat/${chatId}/stream`))).toEqual({ success: true, aborted: true });
    await sending;
    expect(chat.text).toBe("♪ ");
    expect(await accepted(node.delete(`/api/chat/${chatId}/stream`))).toEqual({ success: true, aborted: false });
  });
});

describe("the floor", () => {
  test("a refused floor is a typed part with a sentence to speak, and the error of the chat", async () => {
    const chatId = node.newId("refused");
    const ann = new E2eClient(node);
    await ann.hold("phone");
    const chat = new HeadlessChat(node.url, chatId, { body: { agentId: "weather", userId: ann.userId } });
    await chat.sendMessage({ text: "hello" });
    expect(chat.status).toBe("error");
    const part = chat.lastMessage!.parts.find((each) => each.type === "data-arbitration")!;
    expect(part.data).toMatchObject({ outcome: "rejected", say: expect.any(String) });
    expect(chat.errors.map(({ message }) => message)).toEqual([part.data.say]);
    expect((await node.get(`/session/${chatId}`)).status).toBe(404);
  });

  test("a chat that is stopped goes on where its agent takes a turn while it works, and reads why it does not", async () => {
    const said = async (agentId: string) => {
      const chat = new HeadlessChat(node.url, node.newId("stopped"), { body: { agentId } });
      const sending = chat.sendMessage({ text: "count" });
      while (chat.text === "") await new Promise((resolve) => setImmediate(resolve));
      await chat.stop();
      await sending;
      await chat.sendMessage({ text: "nod" });
      return chat;
    };
    for (const taking of ["stacker", "hasty"]) {
      const { text, errors } = await said(taking);
      expect([taking, text, errors]).toEqual([taking, "Yes.", []]);
    }
    const busy = await said("general");
    expect(busy.errors.map(({ message }) => message)).toEqual(["The agent is busy with another turn."]);
    expect(busy.lastMessage!.parts).toContainEqual(
      expect.objectContaining({ type: "data-error", data: expect.objectContaining({ errorCode: "agent_busy" }) }),
    );
  });

  test("a floor that is waited for, lost and regained is shown, and no text is lost", async () => {
    const chatId = node.newId("waiting");
    const { ann, id } = await hold(node, "phone");
    const chat = new HeadlessChat(node.url, chatId, { body: { agentId: "patient", userId: ann.userId } });
    const sending = chat.sendMessage({ text: "count" });
    while (!chat.partTypes.includes("data-arbitration")) await new Promise((resolve) => setImmediate(resolve));
    await accepted(ann.on(id, "archive"));
    while (chat.text === "") await new Promise((resolve) => setImmediate(resolve));
    const { id: music } = await ann.hold("music");
    const shown = () => chat.lastMessage!.parts.find((each) => each.type === "data-session")?.data.to;
    while (shown() !== "paused") await new Promise((resolve) => setImmediate(resolve));
    await accepted(ann.on(music, "archive"));
    await sending;
    expect(chat.text).toBe("tick ".repeat(40));
    const decisions = chat.lastMessage!.parts.flatMap((part) => (part.type === "data-arbitration" ? [part.data] : []));
    expect(decisions.map(({ outcome }) => outcome)).toEqual(["queued", "granted", "granted"]);
  });
});

describe("a failure", () => {
  test("a failed run is typed data and the error of the chat; sending again retries", async () => {
    const chatId = node.newId("failing");
    const chat = new HeadlessChat(node.url, chatId);
    await chat.sendMessage({ text: "flaky" });
    expect(chat.status).toBe("error");
    expect(chat.lastMessage!.parts.find((each) => each.type === "data-error")).toMatchObject({
      data: { errorCode: "provider_rate_limited" },
    });
    await chat.sendMessage({ text: "flaky" });
    expect(chat.text).toBe("Better now.");
  });

  test("an invalid request is a problem as on any other route", async () => {
    const post = (body: object) => node.post("/api/chat", body);
    const user = (parts: unknown) => [{ id: "m", role: "user", parts }];
    expect((await post({ id: "a b", messages: user([]) })).status).toBe(400);
    expect((await post({ id: "x", messages: [] })).status).toBe(400);
    expect((await post({ id: "x", messages: user([]) })).status).toBe(400);
    expect(
      (await post({ id: "x", messages: user([{ type: "file", url: "http://a/b", mediaType: "image/png" }]) })).status,
    ).toBe(400);
    for (const [role, why] of [
      ["assistant", /^The last message is a reply without an answer of the user: send a user's message/],
      ["system", /^The last message is system: it has to be a user's message/],
    ] as const) {
      const { body } = await post({ id: "x", messages: [{ role, parts: [] }] });
      expect([body.errorCode, body.error]).toEqual(["bad_request", expect.stringMatching(why)]);
    }
    const unknown = await post({ id: "x", agentId: "nobody", messages: user([{ type: "text", text: "hello" }]) });
    expect(unknown.body.errorCode).toBe("agent_not_found");
  });
});
