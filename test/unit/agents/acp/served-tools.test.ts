import { describe, expect, onTestFinished, test } from "vitest";
import type { Part } from "../../../../src/agents/agent.ts";
import { createRegistry } from "../../../../src/agents/registry.ts";
import { ToolServers } from "../../../../src/agents/tools/tool-server.ts";
import type { AgentId } from "../../../../src/protocol/ids.ts";
import { acpAdapter, talking } from "../../../support/agents/programs.ts";
import { createRunStage, play, textOf, turnOf } from "../../../support/agents/run-stage.ts";
import { makeCatalog } from "../../../support/catalogs/catalog.ts";
import { headOf, RawSocket } from "../../../support/networks/raw-socket.ts";

const ofType = <T extends Part["type"]>(parts: readonly Part[], type: T) =>
  parts.filter((part): part is Extract<Part, { type: T }> => part.type === type);

/** A coding agent with these tools. */
const withTools = (...tools: unknown[]) => talking(acpAdapter(), { tools });
const calls = (...list: [name: string, input: object][]) => turnOf(`calls ${JSON.stringify(list)}`);

describe("the tools that Interlock serves to a coding agent", () => {
  test("a coding agent is served the tools of its catalogue entry, for its program alone", async () => {
    const parts = await play(withTools("clock", "ask-user").agent, turnOf("lists"));
    expect(JSON.parse(textOf(parts))).toEqual({ tools: ["clock", "ask-user"], stranger: { refused: 401 } });
  });

  test("a coding agent is served no tools if its entry names none", async () => {
    const parts = await play(talking().agent, turnOf("lists"));
    expect(JSON.parse(textOf(parts))).toEqual({ stranger: { refused: "no server" } });
  });

  test("a served tool asks the user after the log has shown the call", async () => {
    const stage = createRunStage();
    stage.willAnswer({ kind: "question", selected: ["b"] });
    const parts = await play(
      withTools("ask-user").agent,
      calls(["ask-user", { question: "Which?", options: ["a", "b"] }]),
      stage,
    );
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
    const { agent } = withTools({ name: "clock", confirm: true });
    const parts = await play(agent, calls(clock, clock), stage);
    expect(stage.asked).toHaveLength(1);
    expect(ofType(parts, "tool-result").map(({ status }) => status)).toEqual(["success", "success"]);
    const strict = createRunStage();
    strict.willAnswer({ kind: "confirmation", verdict: "reject", reason: "not now" });
    const rejected = await play(withTools({ name: "clock", confirm: true }).agent, calls(clock), strict);
    expect(textOf(rejected)).toBe("The user rejected this call: not now ");
  });

  test("a served tool starts sub-agents, whose messages have their place in the tree", async () => {
    const catalog = makeCatalog([
      { name: "subject", tools: ["sub-agent"], adapter: acpAdapter() },
      { name: "helper", adapter: { kind: "scripted", replies: [{ say: ["It is ", "noon."] }] } },
    ]);
    const registry = createRegistry({ catalog: () => catalog, env: { PATH: process.env["PATH"] } });
    try {
      const agent = registry.find("subject" as AgentId)!;
      const parts = await play(agent, calls(["sub-agent", { name: "helper", task: "the time" }]));
      const [call] = ofType(parts, "tool-call");
      const said = parts.flatMap((part) => (part.type === "text" && part.agent ? [part] : []));
      expect(said.map(({ text }) => text).join("")).toBe("It is noon.");
      expect(said[0]!.agent).toMatchObject({
        kind: "sub",
        path: ["subject", "helper"],
        calls: [call!.call.toolCallId],
      });
      expect(textOf(parts.filter(({ agent: author }) => author === undefined))).toBe(
        '{"ok":true,"result":"It is noon."} ',
      );
    } finally {
      await registry.close();
    }
  });

  test("the served tools end with the run: its token is refused afterwards", async () => {
    const parts = await play(withTools("clock").agent, turnOf("keeps"));
    const [server] = JSON.parse(textOf(parts)) as { url: string; headers: { name: string; value: string }[] }[];
    const headers = Object.fromEntries(server!.headers.map(({ name, value }) => [name, value]));
    const { status } = await fetch(server!.url, { method: "POST", headers, body: "{}" });
    expect(status).toBe(401);
    expect(new URL(server!.url).hostname).toBe("127.0.0.1");
  });

  test("the served tools end with an abort, in the middle of a question", async () => {
    const stage = createRunStage();
    const playing = play(withTools("ask-user").agent, calls(["ask-user", { question: "Which?" }]), stage);
    await stage.next("question");
    stage.abort();
    await playing.catch(() => {});
    expect(stage.leftovers()).toEqual({ sleepers: 0, listeners: 0 });
  });

  test("a served tool that fails or does not exist is answered with an error", async () => {
    const parts = await play(withTools("clock").agent, calls(["nothing", {}], ["clock", { zone: 7 }]));
    expect(ofType(parts, "tool-result").map(({ status }) => status)).toEqual(["error", "error"]);
    expect(textOf(parts)).toContain("There is no tool nothing.");
  });
});

test("a program that holds many requests for its tools leaves room for another run's program", async () => {
  const servers = new ToolServers();
  onTestFinished(() => servers.close());
  const tools = { tools: [], call: async () => ({ content: "", isError: false }) };
  const [hoarder, other] = [await servers.serve(tools), await servers.serve(tools)];
  const ask = ({ url, headers }: typeof other) =>
    fetch(url, {
      method: "POST",
      headers: { ...headers, "content-type": "application/json", accept: "application/json, text/event-stream" },
      body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/list", params: {} }),
    });
  const held = await Promise.all(
    Array.from({ length: 64 }, async () => {
      const socket = await RawSocket.open(hoarder.url);
      await socket.send(headOf("POST", "/mcp", { ...hoarder.headers, Expect: "100-continue", "Content-Length": 9 }));
      await socket.until(/100 Continue/);
      return socket;
    }),
  );
  expect((await ask(hoarder)).status).toBe(503);
  expect((await ask(other)).status).toBe(200);
  for (const socket of held) socket.destroy();
  await expect.poll(async () => (await ask(hoarder)).status).toBe(200);
});
