import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { type Serving, ToolServers } from "../../../../src/agents/tools/tool-server.ts";
import type { Clock } from "../../../../src/shared/ports/clock.ts";
import { acpAdapter, talking } from "../../../support/agents/programs.ts";
import { createRunStage, ofType, play, textOf, turnOf } from "../../../support/agents/run-stage.ts";
import { headOf, RawSocket } from "../../../support/networks/raw-socket.ts";
import { VirtualClock } from "../../../support/runner/virtual-clock.ts";
import { makeFolder } from "../../../support/stores/sqlite-place.ts";

/** A coding agent with these tools. */
const withTools = (...tools: unknown[]) => talking(acpAdapter(), { tools }).agent;
const calls = (...list: [name: string, input: object][]) => turnOf(`calls ${JSON.stringify(list)}`);

describe("the tools that Interlock serves to a coding agent", () => {
  test.each([
    ["the tools of its entry, for its program alone", ["clock", "ask-user"], { refused: 401 }],
    ["no tools if its entry names none", undefined, { refused: "no server" }],
  ])("a coding agent is served %s", async (_, tools, stranger) => {
    const parts = await play(withTools(...(tools ?? [])), turnOf("lists"));
    expect(JSON.parse(textOf(parts))).toEqual({ ...(tools && { tools }), stranger });
  });

  test("a served tool asks the user after the log has shown the call", async () => {
    const stage = createRunStage();
    stage.willAnswer({ kind: "question", selected: ["b"] });
    const turn = calls(["ask-user", { question: "Which?", options: ["a", "b"] }]);
    const parts = await play(withTools("ask-user"), turn, stage);
    expect(stage.asked).toEqual([{ kind: "question", question: "Which?", options: ["a", "b"], multiSelect: false }]);
    expect(textOf(parts)).toBe('{"selected":["b"]} ');
    const [call] = ofType(parts, "tool-call");
    expect(call!.call.function).toEqual({ name: "ask-user", arguments: '{"question":"Which?","options":["a","b"]}' });
    expect(ofType(parts, "tool-result")).toMatchObject([
      { toolCallId: call!.call.toolCallId, toolName: "ask-user", content: '{"selected":["b"]}', status: "success" },
    ]);
  });

  test("a served tool waits for the user's consent if the entry requires it, and a rejection is its result", async () => {
    const stage = createRunStage();
    stage.willAnswer({ kind: "confirmation", verdict: "approve_always" });
    const clock = ["clock", {}] as [string, object];
    const agent = withTools({ name: "clock", confirm: true });
    const parts = await play(agent, calls(clock, clock), stage);
    expect(stage.asked).toHaveLength(1);
    expect(ofType(parts, "tool-result").map(({ status }) => status)).toEqual(["success", "success"]);
    const strict = createRunStage();
    strict.willAnswer({ kind: "confirmation", verdict: "reject", reason: "not now" });
    const rejected = await play(agent, calls(clock), strict);
    expect(textOf(rejected)).toBe("The user rejected this call: not now ");
  });

  test("a served tool starts sub-agents, whose messages have their place in the tree", async () => {
    const helper = { name: "helper", adapter: { kind: "scripted", replies: [{ say: ["It is ", "noon."] }] } };
    const { agent } = talking(acpAdapter(), { tools: ["sub-agent"] }, {}, { others: [helper] });
    const parts = await play(agent, calls(["sub-agent", { name: "helper", task: "the time" }]));
    const [call] = ofType(parts, "tool-call");
    const said = ofType(parts, "text").filter((part) => part.agent);
    expect(said.map(({ text }) => text).join("")).toBe("It is noon.");
    const place = { kind: "sub", path: ["subject", "helper"], calls: [call!.call.toolCallId] };
    expect(said[0]!.agent).toMatchObject(place);
    expect(textOf(parts)).toBe('{"ok":true,"result":"It is noon."} ');
  });

  test("the served tools end with the run: its token is refused afterwards", async () => {
    const parts = await play(withTools("clock"), turnOf("keeps"));
    const [server] = JSON.parse(textOf(parts)) as { url: string; headers: { name: string; value: string }[] }[];
    const headers = Object.fromEntries(server!.headers.map(({ name, value }) => [name, value]));
    const { status } = await fetch(server!.url, { method: "POST", headers, body: "{}" });
    expect(status).toBe(401);
    expect(new URL(server!.url).hostname).toBe("127.0.0.1");
  });

  test("the served tools end with an abort, in the middle of a question", async () => {
    const stage = createRunStage();
    const playing = play(withTools("ask-user"), calls(["ask-user", { question: "Which?" }]), stage);
    await stage.next("question");
    stage.abort();
    await playing.catch(() => {});
    expect(stage.leftovers()).toEqual({ sleepers: 0, listeners: 0 });
  });

  test("a question of a call that the program has given up is withdrawn, and the run continues", async () => {
    const { folder, remove } = await makeFolder();
    onTestFinished(remove);
    const gate = join(folder, "go");
    const stage = createRunStage();
    const playing = play(withTools("ask-user", "clock"), turnOf(`abandons ${gate}`), stage);
    await stage.next("question");
    writeFileSync(gate, "");
    const parts = await playing;
    expect(stage.withdrawn).toMatchObject([{ question: "Which?" }]);
    expect(ofType(parts, "tool-result").map(({ toolName, status }) => [toolName, status])).toEqual([
      ["ask-user", "error"],
      ["clock", "success"],
    ]);
    expect(ofType(parts, "tool-result")[0]).toMatchObject({ content: "The agent has given up this call." });
    expect(textOf(parts)).toContain("utc");
  });

  test("a served tool that fails or does not exist is answered with an error", async () => {
    const parts = await play(withTools("clock"), calls(["nothing", {}], ["clock", { zone: 7 }]));
    expect(ofType(parts, "tool-result").map(({ status }) => status)).toEqual(["error", "error"]);
    expect(textOf(parts)).toContain("There is no tool nothing.");
  });

  test.each([129, 1_000])("a tool is not called with arguments that are nested %i levels deep", async (levels) => {
    const turn = turnOf(`calls [["clock",${'{"a":'.repeat(levels)}1${"}".repeat(levels)}]]`);
    const parts = await play(withTools("clock"), turn);
    expect(textOf(parts)).toBe("The arguments are nested too deeply. ");
    expect(ofType(parts, "tool-call")).toEqual([]);
  });
});

describe("the server of the tools", () => {
  const NOTHING = { tools: [], call: async () => ({ content: "", isError: false }) };
  const LIST = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/list", params: {} });
  const CALL = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "n", arguments: {} } });
  const HEADERS = { "content-type": "application/json", accept: "application/json, text/event-stream" };

  function startServers(clock: Clock = new VirtualClock()): ToolServers {
    const servers = new ToolServers(clock);
    onTestFinished(() => servers.close());
    return servers;
  }

  const ask = ({ url, headers }: Serving, body = LIST) =>
    fetch(url, { method: "POST", headers: { ...headers, ...HEADERS, connection: "close" }, body });

  test("a program that holds many requests for its tools leaves room for another run's program", async () => {
    const servers = startServers();
    const [hoarder, other] = [await servers.serve(NOTHING), await servers.serve(NOTHING)];
    const held = await Promise.all(Array.from({ length: 64 }, () => RawSocket.open(hoarder.url)));
    const head = headOf("POST", "/mcp", { ...hoarder.headers, Expect: "100-continue", "Content-Length": 9 });
    for (const socket of held) await socket.send(head);
    for (const socket of held) await socket.until(/100 Continue/);
    expect((await ask(hoarder)).status).toBe(503);
    expect((await ask(other)).status).toBe(200);
    for (const socket of held) socket.destroy();
    await expect.poll(async () => (await ask(hoarder)).status).toBe(200);
  });

  test("a request for tools that has not arrived completely after 30 s is ended, and its place is free", async () => {
    const clock = new VirtualClock();
    const servers = startServers(clock);
    const serving = await servers.serve(NOTHING);
    const length = LIST.length;
    const head = headOf("POST", "/mcp", { ...serving.headers, ...HEADERS, "Content-Length": length });
    const sockets = await Promise.all(Array.from({ length: 66 }, () => RawSocket.open(serving.url)));
    const [silent, halfHead, ...halfBodies] = sockets as [RawSocket, RawSocket, ...RawSocket[]];
    await halfHead.send(head.slice(0, 20));
    for (const socket of halfBodies) await socket.send(head + LIST.slice(0, 5));
    await expect.poll(async () => (await ask(serving)).status).toBe(503);
    await clock.advance(29_000);
    expect(sockets.filter(({ socket }) => socket.destroyed)).toEqual([]);
    await clock.advance(1_000);
    await Promise.all(sockets.map(({ closed }) => closed));
    for (const { text } of [silent, halfHead, ...halfBodies]) expect(text).toMatch(/^HTTP\/1\.1 408 /);
    await expect.poll(async () => (await ask(serving)).status).toBe(200);
    await expect.poll(() => clock.timerCount).toBe(0);
  });

  test("a call that takes longer than a request may take to arrive is answered, and so is the next on its connection", async () => {
    const clock = new VirtualClock();
    const answers = Array.from({ length: 2 }, () => Promise.withResolvers<void>());
    let called = 0;
    const call = async () => {
      called += 1;
      await answers[called - 1]!.promise;
      return { content: `call ${called}`, isError: false };
    };
    const serving = await startServers(clock).serve({ tools: [], call });
    const socket = await RawSocket.open(serving.url);
    const head = headOf("POST", "/mcp", { ...serving.headers, ...HEADERS, "Content-Length": CALL.length });
    for (const [index, answer] of answers.entries()) {
      await socket.send(head + CALL);
      await expect.poll(() => called).toBe(index + 1);
      await clock.advance(60_000);
      answer.resolve();
      expect(await socket.until(new RegExp(`call ${index + 1}`))).toContain(`call ${index + 1}`);
    }
    await socket.send(head);
    await expect.poll(() => clock.timerCount).toBe(1);
    await clock.advance(30_000);
    await socket.closed;
  });

  test("a program that opens connections without end closes its own idle ones, and no request under way", async () => {
    const { serving, answer, called } = await startSlowTools();
    const busy = await RawSocket.open(serving.url);
    await busy.send(headOf("POST", "/mcp", { ...serving.headers, ...HEADERS, "Content-Length": CALL.length }) + CALL);
    await expect.poll(called).toBe(1);
    const idle: RawSocket[] = [];
    onTestFinished(() => {
      for (const socket of idle) socket.destroy();
    });
    for (let opened = 0; opened < 2_050; opened += 50) {
      idle.push(...(await Promise.all(Array.from({ length: 50 }, () => RawSocket.open(serving.url)))));
    }
    const closed = () => idle.filter(({ socket }) => socket.destroyed).length;
    await expect.poll(closed).toBe(3);
    expect(idle.slice(0, 3).every(({ socket }) => socket.destroyed)).toBe(true);
    answer.resolve();
    expect(await busy.until(/the answer of n/)).toContain("the answer of n");
  });

  /** Tools whose calls end when they are given up, or when the test lets them. */
  async function startSlowTools() {
    const givenUp: string[] = [];
    const answer = Promise.withResolvers<void>();
    let called = 0;
    const serving = await startServers().serve({
      tools: [],
      call: async (name, _, signal) => {
        called += 1;
        const left = new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
        await Promise.race([left, answer.promise]);
        if (signal.aborted) givenUp.push(name);
        return { content: `the answer of ${name}`, isError: false };
      },
    });
    const post = (message: object) => ask(serving, JSON.stringify(message));
    const begin = async (id: unknown, name: string) => {
      const before = called;
      const answered = post({ jsonrpc: "2.0", id, method: "tools/call", params: { name, arguments: {} } });
      await expect.poll(() => called).toBe(before + 1);
      return { text: answered.then((response) => response.text()) };
    };
    const cancel = async (requestId: unknown) =>
      (await post({ jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId } })).status;
    return { serving, givenUp, answer, post, begin, cancel, called: () => called };
  }

  test("a call that its program cancels is given up and not answered, and the other calls go on", async () => {
    const { givenUp, answer, begin, cancel } = await startSlowTools();
    const [first, second, named] = [await begin(1, "first"), await begin(2, "second"), await begin("1", "named")];
    expect(await cancel(1)).toBe(202);
    expect(await cancel(1)).toBe(202);
    expect(await first.text).not.toContain("data:");
    expect(givenUp).toEqual(["first"]);
    answer.resolve();
    expect(await second.text).toContain("the answer of second");
    expect(await named.text).toContain("the answer of named");
    expect(await cancel(2)).toBe(202);
    expect(givenUp).toEqual(["first"]);
  });

  test("a cancellation of an unknown call, of another run's call, or of one of two calls with one id ends no call", async () => {
    const { givenUp, answer, begin, cancel } = await startSlowTools();
    const other = await startSlowTools();
    const calls = [await begin(7, "one"), await begin(7, "two"), await begin(8, "three")];
    const statuses = await Promise.all([cancel(7), cancel(9), cancel("8"), cancel(undefined), other.cancel(8)]);
    expect(statuses).toEqual(Array(5).fill(202));
    answer.resolve();
    for (const { text } of calls) expect(await text).toContain("the answer of");
    expect(givenUp).toEqual([]);
  });

  test("a request for tools has one message, so that no batch passes the limit of requests", async () => {
    const { post } = await startSlowTools();
    expect((await post([JSON.parse(LIST)])).status).toBe(400);
    expect((await post(JSON.parse(LIST))).status).toBe(200);
  });
});
