import { lastAssistantMessageIsCompleteWithApprovalResponses } from "ai";
import OpenAI from "openai";
import { expect, test } from "vitest";
import { scripted } from "../../support/catalogs/e2e-catalog.ts";
import { HeadlessChat } from "../../support/clients/headless-chat.ts";
import type { ChildServer } from "../../support/nodes/child-server.ts";
import { Cluster, describeClusters } from "../../support/nodes/cluster.ts";
import { atEndOfSuite } from "../../support/runner/at-end-of-suite.ts";
import { beforeTries } from "../../support/runner/before-tries.ts";

/** Replies for three seconds. */
const SLOW = { name: "slow", adapter: { kind: "scripted", replies: [{ say: ["tock "], delay: "50ms", repeat: 60 }] } };
const CATALOG = { agents: [scripted("general", { priority: 40 }), SLOW] };
const ALL = "tock ".repeat(60);

describeClusters("the doors of several gateways", (servers) => {
  const atEnd = atEndOfSuite();
  let cluster: Cluster;
  let here: ChildServer;
  let there: ChildServer;
  let count = 0;

  beforeTries(async () => {
    cluster = await Cluster.make(servers, { catalog: CATALOG, atEnd });
    [here, there] = await cluster.startAll(["gateway"], ["gateway"], ["orchestrator"], ["worker"]);
  });

  const newId = () => `door-${process.pid}-${count++}-${Date.now().toString(36)}`;
  const openai = (node: ChildServer) => new OpenAI({ baseURL: `${node.url}/v1`, apiKey: "none", maxRetries: 0 });
  const say = (content: string) => [{ role: "user" as const, content }];
  const contents = async (id: string) =>
    (await there.ask("GET", `/session/${id}/messages`)).body.messages.map(({ content }) => content);

  /** Waits for a condition that another node's work makes true. */
  async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
    while (!(await holds())) await new Promise((resolve) => setImmediate(resolve));
  }

  /** A chat whose reply has started, at its own gateway. */
  async function begin(id: string) {
    const gateway = await cluster.start(["gateway"]);
    const chat = new HeadlessChat(gateway.url, id, { body: { agentId: "slow" } });
    const sending = chat.sendMessage({ text: "speak" });
    await until(() => chat.text !== "");
    return { gateway, chat, sending };
  }

  test("useChat's reply is resumed at another gateway when its own is killed: nothing is lost, and nothing comes twice", async () => {
    const id = newId();
    const { gateway, chat, sending } = await begin(id);
    await gateway.kill();
    await sending;
    expect(chat.status).toBe("error");
    const other = new HeadlessChat(there.url, id, { messages: chat.messages });
    await other.resumeStream();
    expect(other.text).toBe(ALL);
    expect(other.messages.map(({ role }) => role)).toEqual(["user", "assistant"]);
    expect(other.lastMessage!.id).toBe(chat.lastMessage!.id);
    expect(await contents(id)).toEqual(["speak", ALL]);
  });

  test("a stream whose gateway is killed is an error for OpenAI's clients, and not a short reply", async () => {
    const gateway = await cluster.start(["gateway"]);
    const request = { model: "slow", messages: say("speak"), stream: true as const };
    const completion = await openai(gateway).chat.completions.create(request);
    const response = await openai(gateway).responses.create({ model: "slow", input: "speak", stream: true });
    const [reading, other] = [completion, response].map(async (stream) => {
      for await (const _ of stream as AsyncIterable<unknown>) isReading = true;
    });
    let isReading = false;
    await until(() => isReading);
    const ends = Promise.allSettled([reading, other]);
    await gateway.kill();
    expect((await ends).map(({ status }) => status)).toEqual(["rejected", "rejected"]);
  });

  test("a confirmation that useChat was asked for at one gateway is given at another, and the reply continues there", async () => {
    const id = newId();
    const chat = new HeadlessChat(here.url, id);
    await chat.sendMessage({ text: "delete" });
    const part = chat.lastMessage!.parts.find((each) => each.type === "dynamic-tool")!;
    const other = new HeadlessChat(there.url, id, {
      messages: chat.messages,
      sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
    });
    await other.addToolApprovalResponse({ id: part.approval!.id, approved: true });
    await until(() => other.text !== "");
    await until(() => other.status === "ready");
    expect(other.text).toBe("Deleted.");
    expect(other.messages).toHaveLength(2);
  });

  test("a chat completion without a key, whose gateway is killed, is the same run when it is repeated at another gateway", async () => {
    const id = newId();
    const gateway = await cluster.start(["gateway"]);
    const request = { model: "slow", messages: say("speak"), stream: true as const, metadata: { session: id } };
    const ask = (node: ChildServer) => openai(node).chat.completions.create(request).withResponse();
    const first = await ask(gateway);
    await first.data[Symbol.asyncIterator]().next();
    await gateway.kill();
    const again = await ask(there);
    let text = "";
    for await (const { choices } of again.data) text += choices[0]?.delta.content ?? "";
    const run = (answer: typeof first) => answer.response.headers.get("interlock-run");
    expect([run(again), text]).toEqual([run(first), ALL]);
    expect(await contents(id)).toEqual(["speak", ALL]);
  });

  test("a whole answer whose client hung up at one gateway is given at another, in one turn", async () => {
    const session = newId();
    const request = { model: "slow", messages: say("speak"), metadata: { session } };
    const leaving = new AbortController();
    const left = openai(here).chat.completions.create(request, { signal: leaving.signal });
    await until(async () => (await there.ask("GET", `/session/${session}`)).body.session?.activity === "running");
    leaving.abort();
    await expect(left).rejects.toThrow();
    const { choices } = await openai(there).chat.completions.create(request);
    expect(choices[0]!.message.content).toBe(ALL);
    expect(await contents(session)).toEqual(["speak", ALL]);
  });

  test("an MCP client cancels its call at another gateway than the one that has it, and no other client's call", async () => {
    const headers = { "Content-Type": "application/json", Accept: "application/json, text/event-stream" };
    const post = async (node: ChildServer, client: string, message: object) => {
      const body = JSON.stringify({ jsonrpc: "2.0", ...message });
      return fetch(`${node.url}/mcp`, { method: "POST", headers: { ...headers, "Mcp-Session-Id": client }, body });
    };
    /** A session that speaks without end, by call 1 of a client. */
    const speak = async (client: string) => {
      const sessionId = newId();
      await here.ask("POST", "/session/create", { id: sessionId, agentId: "general", activate: true });
      const input = { name: "speak", arguments: { sessionId, content: "play" } };
      const said = post(here, client, { id: 1, method: "tools/call", params: input }).then((answer) => answer.text());
      const activity = async () => (await there.ask("GET", `/session/${sessionId}`)).body.session.activity;
      await until(async () => (await activity()) === "running");
      return { said, sessionId, activity };
    };
    const [one, other] = [newId(), newId()];
    const first = await speak(one);
    const second = await speak(other);
    const cancel = { method: "notifications/cancelled", params: { requestId: 1 } };
    expect((await post(there, one, cancel)).status).toBe(202);
    expect(await first.said).not.toContain("data:");
    await until(async () => (await first.activity()) !== "running");
    expect(await second.activity()).toBe("running");
    await there.ask("POST", "/message", { type: "abort", sessionId: second.sessionId });
    expect(await second.said).toContain("isCancelled");
  });

  test("disconnecting a chat completion aborts its run, whichever worker drives it", async () => {
    const session = newId();
    const request = { model: "general", messages: say("play"), metadata: { session }, stream: true as const };
    for await (const { choices } of await openai(here).chat.completions.create(request)) {
      if (choices[0]?.delta.content) break;
    }
    await until(async () => (await there.ask("GET", `/session/${session}`)).body.session.activity === "idle");
    // The abort does not wait for the worker's last report (rule C12).
    await until(async () => (await contents(session)).at(-1) === "♪ ");
    expect(await contents(session)).toEqual(["play", "♪ "]);
  });
});
