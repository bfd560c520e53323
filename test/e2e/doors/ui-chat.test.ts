import { lastAssistantMessageIsCompleteWithApprovalResponses, lastAssistantMessageIsCompleteWithToolCalls } from "ai";
import { afterAll, beforeEach, expect, test } from "vitest";
import { E2E_AGENTS, scripted } from "../../support/catalogs/e2e-catalog.ts";
import { accepted, E2eClient } from "../../support/clients/e2e-client.ts";
import { hold } from "../../support/clients/e2e-states.ts";
import { HeadlessChat } from "../../support/clients/headless-chat.ts";
import { NodeUnderTest } from "../../support/nodes/node-under-test.ts";
import { startProviderServer } from "../../support/servers/provider-server.ts";

/** The AI SDK's own chat and transport with a real node. */
const provider = await startProviderServer();
const asking = (name: string, ...replies: object[]) => scripted(name, {}, { replies });
const confirm = { tool: "delete_file", arguments: {} };
const node = await NodeUnderTest.start({
  agents: [
    ...E2E_AGENTS,
    asking(
      "asker",
      { match: "^delete", confirm, say: ["Deleted."], otherwise: ["Kept."] },
      { ask: { question: "Which one?", options: ["a", "b"] }, say: ["{answer}, "], delay: "20ms", repeat: 20 },
    ),
    ...["ask", "delete"].flatMap((task) => [
      asking(`helper-${task}`, { delegate: { name: "asker", task }, say: ["Helper: {result}"] }),
      asking(`master-${task}`, { delegate: { name: `helper-${task}`, task }, say: ["Master: {result}"] }),
    ]),
    asking("slow", { confirm, say: ["tick "], delay: "20ms", repeat: 40 }),
    {
      name: "model",
      tools: [{ name: "clock", confirm: true }, "ask-user"],
      adapter: { kind: "ai-sdk", provider: "openai-compatible", model: "m", base_url: provider.baseUrl },
    },
  ],
});
afterAll(() => Promise.all([node.stop(), provider.close()]));
beforeEach(() => provider.replyBy(() => undefined));

const WHOLE = "tick ".repeat(40);

type Rest = ConstructorParameters<typeof HeadlessChat>[2];
/** A page that sends the user's answers by itself. `fields`: of the body of its requests. */
const openAs = (id: string, fields: object = {}, rest: Rest = {}) =>
  new HeadlessChat(node.url, id, {
    body: fields,
    sendAutomaticallyWhen: (chat) =>
      lastAssistantMessageIsCompleteWithApprovalResponses(chat) || lastAssistantMessageIsCompleteWithToolCalls(chat),
    ...rest,
  });
/** The same of a new chat, whose id begins with this name. */
const open = (name: string, fields: object = {}, rest: Rest = {}) => openAs(node.newId(name), fields, rest);

/** A new chat whose first message is answered. */
async function talk(name: string, text: string, fields: object = {}, rest: Rest = {}): Promise<HeadlessChat> {
  const chat = open(name, fields, rest);
  await chat.sendMessage({ text });
  return chat;
}

async function until(isSo: () => boolean): Promise<void> {
  while (!isSo()) await new Promise((resolve) => setImmediate(resolve));
}

/** A new chat whose first message is being answered. */
async function begin(name: string, text: string, fields: object = {}) {
  const chat = open(name, fields);
  const sending = chat.sendMessage({ text });
  await until(() => chat.text !== "");
  return { chat, sending };
}

const conversation = async (id: string) => (await node.messages(id)).map(({ content }) => content);
const see = async (id: string) => (await accepted(node.get(`/session/${id}`))).session;

test("a chat has a session with its id, and sends only the new message", async () => {
  const chat = await talk("first", "hello", { agentId: "general" });
  expect(chat.text).toBe("Hello there.");
  await chat.sendMessage({ text: "nod" });
  expect(chat.text).toBe("Yes.");
  expect(chat.lastMessage!.metadata).toMatchObject({ sessionId: chat.id, usage: { total_tokens: 0 } });
  expect(chat.messages.map(({ role }) => role)).toEqual(["user", "assistant", "user", "assistant"]);
  expect(await conversation(chat.id)).toEqual(["hello", "Hello there.", "nod", "Yes."]);
  expect(chat.errors).toEqual([]);
});

test("a chat talks to another agent once it names one", async () => {
  const id = node.newId("other");
  let chat = openAs(id, { agentId: "general" });
  await chat.sendMessage({ text: "hello" });
  chat = openAs(id, { agentId: "weather" }, { messages: chat.messages });
  await chat.sendMessage({ text: "hello" });
  expect((await see(id)).agentId).toBe("weather");
});

test("a chat says in the metadata of a message what was heard of the reply before, and is told which position counts", async () => {
  const chat = open("spoken", { agentId: "general" });
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
  const replies = await node.messages(chat.id, "assistant");
  expect(replies.map(({ playedUpTo }) => playedUpTo)).toEqual([5, undefined]);
});

test("a chat whose message is posted twice has one turn, and the same reply", async () => {
  const id = node.newId("twice");
  const body = { id, messages: [{ id: "m1", role: "user", parts: [{ type: "text", text: "hello" }] }] };
  const post = async () => (await node.post("/api/chat", body)).text;
  const first = await post();
  expect(first).toMatch(/^data: \{"type":"start".*\n\ndata: \[DONE\]\n\n$/s);
  expect(await post()).toContain(/"messageId":"([^"]+)"/.exec(first)![1]);
  expect(await conversation(id)).toEqual(["hello", "Hello there."]);
});

/** The messages of the chat's newest session: the one with its id, or the copy that replaced it last. */
async function kept(id: string) {
  let session = await see(id);
  while (session.replacedBy) session = await see(session.replacedBy);
  return { session, said: await conversation(session.id) };
}

/** The messages on the page. */
const shown = (chat: HeadlessChat) =>
  chat.messages.map(({ parts }) => parts.map((part) => (part.type === "text" ? part.text : "")).join(""));

test("a regenerated or edited message replaces its former reply: the session has what the page shows", async () => {
  const chat = await talk("again", "hello");
  const first = chat.lastMessage!;
  await chat.regenerate();
  expect(chat.lastMessage!.id).not.toBe(first.id);
  expect(shown(chat)).toEqual(["hello", "Hello there."]);
  const { session, said } = await kept(chat.id);
  expect(said).toEqual(shown(chat));
  expect(chat.lastMessage!.metadata).toMatchObject({ sessionId: session.id });
  expect(session).toMatchObject({ state: "active", origin: { by: "edit", sessionId: chat.id } });
  expect((await see(chat.id)).state).toBe("archived");
  await chat.sendMessage({ text: "nod" });
  await chat.regenerate({ messageId: chat.messages[1]!.id });
  expect((await kept(chat.id)).said).toEqual(shown(chat));
  expect(shown(chat)).toEqual(["hello", "Hello there."]);
});

test("a regenerated or edited message may be any message of the chat, even one from before an earlier edit", async () => {
  const chat = open("edited");
  const edit = (index: number, text: string) => chat.sendMessage({ text, messageId: chat.messages[index]!.id });
  const expectSaid = async (...texts: string[]) => {
    const all = texts.flatMap((text) => [text, `You said: ${text}`]);
    expect([(await kept(chat.id)).said, shown(chat)]).toEqual([all, all]);
  };
  for (const text of ["one", "two", "three"]) await chat.sendMessage({ text });
  await edit(2, "deux");
  await expectSaid("one", "deux");
  await chat.sendMessage({ text: "four" });
  await edit(2, "zwei");
  await expectSaid("one", "zwei");
  await chat.sendMessage({ text: "drei" });
  await edit(4, "trois");
  await expectSaid("one", "zwei", "trois");
  await edit(0, "un");
  await expectSaid("un");
});

test("a regenerated or edited message ends the reply in progress, and can be resumed and aborted by the chat's id", async () => {
  const ann = new E2eClient(node);
  const { chat, sending } = await begin("under-way", "play", { userId: ann.userId });
  await chat.stop();
  await sending;
  const former = chat.lastMessage!.id;
  const editing = chat.sendMessage({ text: "play on", messageId: chat.messages[0]!.id });
  await until(() => chat.text !== "" && chat.lastMessage!.id !== former);
  const { session, said } = await kept(chat.id);
  expect(said[0]).toBe("play on");
  expect((await ann.floor()).holder?.id).toBe(session.id);
  expect((await see(chat.id)).state).toBe("archived");
  const other = openAs(chat.id);
  const resuming = other.resumeStream();
  await until(() => other.text !== "");
  expect(other.lastMessage!.id).toBe(chat.lastMessage!.id);
  expect(await accepted(node.delete(`/api/chat/${chat.id}/stream`))).toEqual({ success: true, aborted: true });
  await Promise.all([editing, resuming]);
  expect((await ann.floor()).holder?.id).toBe(session.id);
});

test("a regenerated or edited message may have an id of any kind", async () => {
  const chat = await talk("own-ids", "hello", {}, { generateId: () => "a page's own / id" });
  await chat.regenerate();
  expect((await kept(chat.id)).said).toEqual(["hello", "Hello there."]);
});

test("a regenerated message that failed is answered again in the same place", async () => {
  const chat = await talk("failed-again", "offline");
  expect(chat.status).toBe("error");
  await chat.regenerate();
  expect((await kept(chat.id)).said.filter((content) => content !== "")).toEqual(["offline"]);
});

test("a regenerated message is a new message if the floor refused it before", async () => {
  const { ann, id } = await hold(node, "phone");
  const chat = await talk("refused-again", "hello", { agentId: "weather", userId: ann.userId });
  expect(chat.status).toBe("error");
  await accepted(ann.on(id, "archive"));
  await chat.regenerate();
  expect(chat.text).toBe("Hello there.");
  expect((await kept(chat.id)).said).toEqual(["hello", "Hello there."]);
});

/** A chat with three turns. */
async function openThree(name: string): Promise<HeadlessChat> {
  const chat = open(name);
  for (const text of ["one", "two", "three"]) await chat.sendMessage({ text });
  return chat;
}
const turns = (...texts: string[]) => texts.flatMap((text) => [text, `You said: ${text}`]);

test.each([
  ["an edit is a shorter list and a new message", 2, ["one", "next"]],
  ["an edit of the first message, or a page that was cleared", 0, ["next"]],
  ["a deleted last exchange was taken back", 4, ["one", "two", "next"]],
  ["a deleted last reply was not: its page may not have got it", 5, ["one", "two", "three", "next"]],
  ["a message after the whole list is added to it", 6, ["one", "two", "three", "next"]],
])("without a messageId the page's list tells what it took back: %s", async (_, kept_, texts) => {
  const chat = await openThree("listed");
  chat.messages = chat.messages.slice(0, kept_);
  await chat.sendMessage({ text: "next" });
  expect((await kept(chat.id)).said).toEqual(turns(...texts));
  expect((await see(chat.id)).messageCount).toBe(texts.length === 4 ? 8 : 6);
  await chat.sendMessage({ text: "last" });
  expect((await kept(chat.id)).said).toEqual(turns(...texts, "last"));
  expect(chat.errors).toEqual([]);
});

test("what was taken back is found in a chat with edits, and after an edit whose reply the page did not get", async () => {
  const chat = await openThree("listed-twice");
  await chat.sendMessage({ text: "zwei", messageId: chat.messages[2]!.id });
  await chat.sendMessage({ text: "drei" });
  // The page lost the reply to its edit.
  chat.messages = chat.messages.slice(0, 3);
  await chat.sendMessage({ text: "more" });
  expect((await kept(chat.id)).said).toEqual(turns("one", "zwei", "more"));
  chat.messages = chat.messages.slice(0, 2);
  await chat.sendMessage({ text: "end" });
  expect((await kept(chat.id)).said).toEqual(turns("one", "end"));
});

test("a page that sends the message alone, or a list with ids of its own, adds to the chat; and a repeat adds nothing", async () => {
  const chat = await openThree("alone");
  const next = (id: string, text: string) => ({ id, role: "user", parts: [{ type: "text", text }] });
  const own = [next("own-1", "one"), { ...next("own-2", "You said: one"), role: "assistant" }, next("own-3", "five")];
  const post = async (messages: object[], more: object = {}) =>
    expect((await node.post("/api/chat", { id: chat.id, messages, ...more })).status).toBe(200);
  await post([next("m4", "four")]);
  await post(own, { trigger: "submit-message" });
  await post(own, { trigger: "submit-message" });
  await post([next("m4", "four")], { trigger: "submit-message" });
  expect((await kept(chat.id)).said).toEqual(turns("one", "two", "three", "four", "five"));
});

test("a list whose beginning was too large to be read is no list without it", async () => {
  const chat = await openThree("large");
  const large = { id: "x", role: "assistant", parts: [{ type: "text", text: "x".repeat(3_000_000) }] };
  const last = { id: "m4", role: "user", parts: [{ type: "text", text: "four" }] };
  await node.post("/api/chat", { id: chat.id, messages: [large, last], trigger: "submit-message" });
  expect((await kept(chat.id)).said).toEqual(turns("one", "two", "three", "four"));
});

test("a regenerated or edited message that the floor refuses leaves the chat unchanged", async () => {
  const ann = new E2eClient(node);
  const chat = await talk("kept", "hello", { agentId: "weather", userId: ann.userId });
  await ann.hold("phone");
  await chat.regenerate();
  expect(chat.status).toBe("error");
  expect(chat.partTypes).toContain("data-arbitration");
  const { session, said } = await kept(chat.id);
  expect([session.id, said]).toEqual([chat.id, ["hello", "Hello there."]]);
});

test("a regenerated or edited message keeps its agent, or goes to the named agent", async () => {
  const generateId = () => "m1";
  const first = await talk("agents", "hello", { agentId: "music" }, { generateId });
  for (const [fields, agentId] of [
    [{}, "music"],
    [{ agentId: "weather" }, "weather"],
  ] as const) {
    const again = openAs(first.id, fields, { generateId });
    again.messages = [{ id: "m1", role: "user", parts: [{ type: "text", text: "hello" }] }];
    await again.regenerate();
    expect((await kept(first.id)).session.agentId).toBe(agentId);
  }
});

const toolsOf = (chat: HeadlessChat) => chat.lastMessage!.parts.filter((part) => part.type === "dynamic-tool");
const statesOf = (chat: HeadlessChat) => toolsOf(chat).map(({ state }) => state);

/** Answer, and wait for the end of the reply that the page requests. */
async function answered(chat: HeadlessChat, answer: () => unknown): Promise<void> {
  const { length } = chat.lastMessage!.parts;
  await answer();
  await expect.poll(() => chat.lastMessage!.parts.length).toBeGreaterThan(length);
  await until(() => chat.status === "ready" || chat.status === "error");
}

const waiting = (chat: HeadlessChat) => toolsOf(chat).find(({ state }) => state === "approval-requested");
const consent = (chat: HeadlessChat, verdict: { approved: boolean; reason?: string } = { approved: true }) =>
  answered(chat, () => chat.addToolApprovalResponse({ id: waiting(chat)!.approval!.id, ...verdict }));

const question = (chat: HeadlessChat) =>
  toolsOf(chat).find(({ toolName, state }) => toolName === "user_question" && state === "input-available")!;
const choose = (chat: HeadlessChat, output: string) => {
  const { toolCallId } = question(chat);
  return answered(chat, () =>
    chat.addToolOutput({ tool: "user_question" as never, toolCallId, output: output as never }),
  );
};

/** Answer a question as another client does. */
const answerElsewhere = (sessionId: string, requestId: string) =>
  accepted(node.post("/message", { type: "user_question_response", sessionId, requestId, response: "a" }));

const calledBySubs = (chat: HeadlessChat) =>
  chat.lastMessage!.parts.flatMap((part) => (part.type === "data-tool-call" ? [part.data] : []));

test("a tool is a part with its input and output, and a sub-agent's text is data", async () => {
  const chat = await talk("tools", "browse");
  expect(chat.text).toBe("It says: Hello there.");
  expect(toolsOf(chat)[0]).toMatchObject({
    toolName: "sub-agent",
    state: "output-available",
    input: { name: "weather", task: "hello" },
    output: JSON.stringify({ ok: true, result: "Hello there." }),
  });
  expect(chat.lastMessage!.parts.find(({ type }) => type === "data-message")).toMatchObject({
    data: { content: "Hello there.", agent: { kind: "sub", name: "weather" } },
  });
  // The page does not answer for a tool that runs on the server.
  expect(chat.messages).toHaveLength(2);
});

test("a tool that needs consent is approved, and the reply continues in the same message", async () => {
  const chat = await talk("consent", "delete");
  const asked = { state: "approval-requested", toolName: "delete_file", input: { path: "a.txt" } };
  expect(toolsOf(chat)[0]).toMatchObject(asked);
  expect(chat.status).toBe("ready");
  await consent(chat);
  expect(chat.text).toBe("Deleted.");
  expect(chat.messages).toHaveLength(2);
  expect(toolsOf(chat)[0]).toMatchObject({ state: "output-available", output: "Approved." });
});

test("a tool that is rejected with a reason passes the reason to the agent", async () => {
  const chat = await talk("rejected", "delete");
  await consent(chat, { approved: false, reason: "too dear" });
  expect(chat.text).toBe("Kept it.");
  expect(toolsOf(chat)[0]).toMatchObject({ state: "output-error", errorText: "Rejected: too dear" });
});

test("a call of a sub-agent is approved although the call of that sub-agent is unfinished", async () => {
  const chat = await talk("consent", "hello", { agentId: "master-delete" });
  await consent(chat);
  expect(chat.errors).toEqual([]);
  expect(chat.text).toBe("Master: Helper: Deleted.");
  expect(statesOf(chat)).toEqual(["output-available", "output-available"]);
  expect(calledBySubs(chat).map(({ status }) => status)).toEqual(["success", "success"]);
});

test("calls that run side by side are approved one after the other, each in a step of its own", async () => {
  const calls = ["1", "2", "3"].map((id) => ({ id, name: "clock", arguments: "{}" }));
  provider.willReply({ kind: "stream", calls }, { kind: "stream", text: ["Late."] });
  const chat = await talk("parallel", "hello", { agentId: "model" });
  for (let count = 1; count <= 3; count++) {
    expect(statesOf(chat).filter((state) => state === "approval-requested")).toHaveLength(1);
    await consent(chat);
  }
  expect(chat.errors).toEqual([]);
  expect(chat.text).toBe("Late.");
  expect(new Set(statesOf(chat))).toEqual(new Set(["output-available"]));
  const ids = toolsOf(chat).map(({ toolCallId }) => toolCallId);
  expect(new Set(ids).size).toBe(ids.length);
});

test("a continued reply is streamed while it is written", async () => {
  const chat = await talk("streamed", "hello", { agentId: "slow" });
  const answering = consent(chat);
  await until(() => chat.text !== "");
  expect(chat.text.length).toBeLessThan(WHOLE.length);
  await answering;
  expect(chat.text).toBe(WHOLE);
});

test("a question is a tool without an output, and the page's output is the answer", async () => {
  const chat = await talk("question", "ask");
  expect(question(chat)).toMatchObject({ input: { question: "Which one?", options: ["a", "b"] } });
  await choose(chat, "b");
  expect([chat.text, chat.messages.length, chat.status]).toEqual(["You chose b.", 2, "ready"]);
});

test("a question of a sub-agent's sub-agent is answered, and the reply continues with the results of all calls", async () => {
  const chat = await talk("nested", "hello", { agentId: "master-ask" });
  await choose(chat, "b");
  expect(chat.errors).toEqual([]);
  expect(chat.text).toBe(`Master: Helper: ${"b, ".repeat(20)}`);
  expect(statesOf(chat)).toEqual(["output-available", "output-available"]);
  expect(calledBySubs(chat)).toMatchObject([{ function: { name: "sub-agent" }, status: "success" }]);
});

test("a reply that is read again does not end with a question that was answered elsewhere", async () => {
  const { id } = (await accepted(node.post("/session/create", { agentId: "music" }))).session;
  const log = await node.stream(`/session/${id}/events`);
  await openAs(id, { agentId: "music" }).sendMessage({ text: "ask" });
  const { requestId } = await log.find("user_question_request");
  const resumed = openAs(id);
  await resumed.resumeStream();
  expect(resumed.partTypes).toContain("dynamic-tool");
  await answerElsewhere(id, requestId!);
  await log.find("complete");
  expect((await node.get(`/api/chat/${id}/stream`)).status).toBe(204);
});

test("a question that was answered elsewhere is not answered again by a page that reads the reply", async () => {
  const first = await talk("elsewhere", "hello", { agentId: "asker" });
  const log = await node.stream(`/session/${first.id}/events`);
  await answerElsewhere(first.id, question(first).toolCallId);
  const page = openAs(first.id, { agentId: "asker" });
  await page.resumeStream();
  expect(page.text).toBe("a, ".repeat(20));
  await log.find("complete");
  expect([page.status, page.errors]).toEqual(["ready", []]);
});

test("of two questions the one that was answered elsewhere is not asked again after the answer to the other", async () => {
  const calls = ["1", "2"].map((id) => ({ id, name: "ask-user", arguments: `{"question":"Which ${id}?"}` }));
  provider.willReply({ kind: "stream", calls }, { kind: "stream", text: ["Both."] });
  const chat = await talk("both", "hello", { agentId: "model" });
  const log = await node.stream(`/session/${chat.id}/events`);
  const asked = [await log.find("user_question_request"), await log.find("user_question_request")];
  const other = asked.find(({ requestId }) => requestId !== question(chat).toolCallId);
  await answerElsewhere(chat.id, other!.requestId!);
  await choose(chat, "a");
  expect([chat.text, chat.errors]).toEqual(["Both.", []]);
});

test("a reply whose connection was lost is resumed: nothing is lost, and nothing arrives twice", async () => {
  const chat = open("resumed");
  const sending = chat.sendMessage({ text: "count" });
  await until(() => chat.text.length >= 20);
  // Closing the stream does not abort the run.
  await chat.stop();
  await sending;
  expect(chat.text.length).toBeLessThan(WHOLE.length);
  await chat.resumeStream();
  expect(chat.text).toBe(WHOLE);
  expect(chat.messages).toHaveLength(2);
  expect(await conversation(chat.id)).toEqual(["count", WHOLE]);
});

test("a reply whose connection was lost is resumed by another page, which has no part of it", async () => {
  const chat = open("page");
  const sending = chat.sendMessage({ text: "count" });
  await until(() => chat.text.length >= 20);
  const other = openAs(chat.id, {}, { messages: chat.messages.slice(0, 1) });
  await Promise.all([other.resumeStream(), sending]);
  expect(other.text).toBe(WHOLE);
  expect(other.lastMessage!.id).toBe(chat.lastMessage!.id);
});

test("a lost connection without a reply in progress resumes nothing", async () => {
  const chat = open("nothing");
  await chat.resumeStream();
  expect([chat.status, chat.messages]).toEqual(["ready", []]);
  await chat.sendMessage({ text: "hello" });
  expect((await node.get(`/api/chat/${chat.id}/stream`)).status).toBe(204);
});

test("a lost connection does not end the reply; a request does", async () => {
  const { chat, sending } = await begin("ended", "play");
  expect(await accepted(node.delete(`/api/chat/${chat.id}/stream`))).toEqual({ success: true, aborted: true });
  await sending;
  expect(chat.text).toBe("♪ ");
  expect(await accepted(node.delete(`/api/chat/${chat.id}/stream`))).toEqual({ success: true, aborted: false });
});

test("a refused floor is a typed part with a sentence to speak, and the error of the chat", async () => {
  const { ann } = await hold(node, "phone");
  const chat = await talk("refused", "hello", { agentId: "weather", userId: ann.userId });
  expect(chat.status).toBe("error");
  const part = chat.lastMessage!.parts.find((each) => each.type === "data-arbitration")!;
  expect(part.data).toMatchObject({ outcome: "rejected", say: expect.any(String) });
  expect(chat.errors.map(({ message }) => message)).toEqual([part.data.say]);
  expect((await node.get(`/session/${chat.id}`)).status).toBe(404);
});

test("a chat that is stopped goes on where its agent takes a turn while it works, and reads why it does not", async () => {
  const said = async (agentId: string) => {
    const { chat, sending } = await begin("stopped", "count", { agentId });
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
  const { ann, id } = await hold(node, "phone");
  const chat = open("waiting", { agentId: "patient", userId: ann.userId });
  const sending = chat.sendMessage({ text: "count" });
  await until(() => chat.partTypes.includes("data-arbitration"));
  await accepted(ann.on(id, "archive"));
  await until(() => chat.text !== "");
  const { id: music } = await ann.hold("music");
  await until(() => chat.lastMessage!.parts.find((each) => each.type === "data-session")?.data.to === "paused");
  await accepted(ann.on(music, "archive"));
  await sending;
  expect(chat.text).toBe(WHOLE);
  const decisions = chat.lastMessage!.parts.flatMap((part) => (part.type === "data-arbitration" ? [part.data] : []));
  expect(decisions.map(({ outcome }) => outcome)).toEqual(["queued", "granted", "granted"]);
});

test("a failed run is typed data and the error of the chat; sending again retries", async () => {
  const chat = await talk("failing", "flaky");
  expect(chat.status).toBe("error");
  expect(chat.lastMessage!.parts.find((each) => each.type === "data-error")).toMatchObject({
    data: { errorCode: "provider_rate_limited" },
  });
  await chat.sendMessage({ text: "flaky" });
  expect(chat.text).toBe("Better now.");
});

const said = (role: string, ...parts: object[]) => [{ id: "m", role, parts }];
const hello = { type: "text", text: "hello" };
test.each<[what: string, body: object, errorCode: string, error?: RegExp]>([
  ["a malformed id", { id: "a b", messages: said("user", hello) }, "bad_request"],
  ["no messages", { messages: [] }, "bad_request"],
  ["a message without parts", { messages: said("user") }, "bad_request"],
  [
    "an image of another server",
    { messages: said("user", { type: "file", url: "http://a/b", mediaType: "image/png" }) },
    "bad_request",
  ],
  [
    "a reply as its last message",
    { messages: said("assistant") },
    "bad_request",
    /^The last message is a reply without an answer of the user: send a user's message/,
  ],
  [
    "a system's message as its last",
    { messages: said("system") },
    "bad_request",
    /^The last message is system: it has to be a user's message/,
  ],
  ["an unknown agent", { agentId: "nobody", messages: said("user", hello) }, "agent_not_found"],
])("an invalid request is a problem as on any other route: %s", async (_, fields, errorCode, error = /./) => {
  const { body } = await node.post("/api/chat", { id: "x", ...fields });
  expect([body.errorCode, body.error]).toEqual([errorCode, expect.stringMatching(error)]);
});
