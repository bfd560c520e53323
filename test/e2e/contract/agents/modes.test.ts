import { describe, expect, test } from "vitest";
import { makeInstallation } from "../../../support/nodes/child-server.ts";
import { atEndOfSuite } from "../../../support/runner/at-end-of-suite.ts";
import { beforeTries } from "../../../support/runner/before-tries.ts";
import { startProviderServer } from "../../../support/servers/provider-server.ts";

interface Asked {
  tools?: { function: { name: string } }[];
  messages: { role: string; content: string }[];
}

const MODES = [
  { name: "talk", tools: ["sub-agent"] },
  { name: "work", tools: ["clock", "sub-agent"], instructions: "Look at the clock." },
];

/** A node whose agents are models: one with two modes, which its sub-agent has as well, and one without modes. */
async function open(atEnd: (close: () => Promise<void>) => void) {
  const provider = await startProviderServer();
  atEnd(() => provider.close());
  const adapter = { kind: "ai-sdk", provider: "openai-compatible", model: "m", base_url: provider.baseUrl };
  const agents = [
    { name: "model", instructions: "Be brief.", tools: ["clock", "sub-agent"], modes: MODES, adapter },
    {
      name: "helper",
      tools: ["clock", "ask-user"],
      modes: [{ name: "rest" }, { name: "work", tools: ["clock"] }],
      adapter,
    },
    { name: "plain", tools: ["clock"], adapter },
  ];
  const installation = await makeInstallation({ agents }, {}, atEnd);
  let node = await installation.start();
  const create = async (fields: object = {}) =>
    (await node.post("/session/create", { agentId: "model", activate: true, ...fields })).body;
  const asked = (index = -1): Asked => JSON.parse(provider.requests.at(index)!.body);
  return {
    provider,
    create,
    asked,
    get node() {
      return node;
    },
    async restart() {
      await node.kill();
      node = await installation.start();
    },
    /** The names of the agent's tools in a turn, and its instructions. */
    async turn(sessionId: string) {
      provider.willReply({ kind: "stream", text: ["Yes."] });
      const { runId } = (await node.post("/message", { type: "chat", sessionId, content: "go" })).body;
      await node.follow(sessionId, ({ type, data }) => type === "complete" && data["runId"] === runId);
      return { tools: toolsOf(asked()), instructions: asked().messages.find(({ role }) => role === "system")?.content };
    },
    toMode: (sessionId: string, mode: string) => node.post(`/session/${sessionId}/mode`, { mode }),
  };
}

const toolsOf = ({ tools = [] }: Asked) => tools.map((tool) => tool.function.name);

let stage: Awaited<ReturnType<typeof open>>;

describe("modes", () => {
  const atEnd = atEndOfSuite();
  beforeTries(async () => {
    stage = await open(atEnd);
  });

  test("a mode selects the tools of a turn; the first one applies until another is chosen, also after a restart", async () => {
    const { id } = (await stage.create()).session;
    expect(await stage.turn(id)).toEqual({ tools: ["sub-agent"], instructions: "Be brief." });
    const { status, body } = await stage.toMode(id, "work");
    expect([status, body.session.mode]).toEqual([200, "work"]);
    const inWork = { tools: ["clock", "sub-agent"], instructions: "Be brief.\n\nLook at the clock." };
    expect(await stage.turn(id)).toEqual(inWork);
    await stage.restart();
    expect(await stage.turn(id)).toEqual(inWork);
    const updated = await stage.node.follow(id, ({ data }) => data["mode"] === "work");
    expect(updated).toContainEqual(expect.objectContaining({ type: "session_updated", data: { mode: "work" } }));
  });

  test("a mode can be given when a session is created, goes with a move and a fork, and ends with the agent", async () => {
    const { id: first } = (await stage.create({ mode: "work", userId: "ann" })).session;
    const moved = await stage.node.post(`/session/${first}/move`, { zone: "rear" });
    expect(moved.body.session.mode).toBe("work");
    const { id } = moved.body.session;
    expect((await stage.turn(id)).tools).toEqual(["clock", "sub-agent"]);
    const fork = (fields: object) => stage.node.post(`/session/${id}/fork`, fields);
    expect((await fork({})).body.session.mode).toBe("work");
    expect((await fork({ agentId: "plain" })).body.session.mode).toBeUndefined();
    await stage.node.post("/message", { type: "switch_agent", sessionId: id, agentId: "plain" });
    expect((await stage.turn(id)).tools).toEqual(["clock"]);
    await stage.node.post("/message", { type: "switch_agent", sessionId: id, agentId: "model" });
    expect((await stage.turn(id)).tools).toEqual(["sub-agent"]);
  });

  test("a mode that the agent lacks is refused, and so is any mode of an archived session", async () => {
    const { id } = (await stage.create()).session;
    const message = "the agent has no mode play; its modes are talk, work";
    const refusal = { status: 400, body: { errorCode: "bad_request", issues: [{ path: "mode", message }] } };
    expect(await stage.toMode(id, "play")).toMatchObject(refusal);
    expect(await stage.node.post("/session/create", { agentId: "model", mode: "play" })).toMatchObject(refusal);
    expect(await stage.node.post("/session/create", { agentId: "plain", mode: "play" })).toMatchObject({ status: 400 });
    expect((await stage.turn(id)).tools).toEqual(["sub-agent"]);
    await stage.node.post(`/session/${id}/archive`);
    expect((await stage.toMode(id, "work")).body.errorCode).toBe("session_archived");
  });

  test("a mode applies to the sub-agents too, if they have one of that name", async () => {
    const toolsOfHelper = async (mode: string) => {
      const { id } = (await stage.create({ mode })).session;
      const task = JSON.stringify({ name: "helper", task: "look" });
      stage.provider.willReply(
        { kind: "stream", calls: [{ id: "c1", name: "sub-agent", arguments: task }] },
        { kind: "stream", text: ["Looked."] },
        { kind: "stream", text: ["Done."] },
      );
      await stage.node.post("/message", { type: "chat", sessionId: id, content: "go" });
      await stage.node.follow(id, ({ type }) => type === "complete");
      return toolsOf(stage.asked(-2));
    };
    expect(await toolsOfHelper("work")).toEqual(["clock"]);
    expect(await toolsOfHelper("talk")).toEqual([]);
  });

  test("an agent is listed with its modes", async () => {
    const { node } = stage;
    const { agents } = (await node.ask("GET", "/agents")).body as unknown as { agents: { modes?: string[] }[] };
    expect(agents.map(({ modes }) => modes)).toEqual([["talk", "work"], ["rest", "work"], undefined]);
  });
});
