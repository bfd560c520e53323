import { afterEach, beforeEach, expect, test } from "vitest";
import type { Agent, Part, RunControl } from "../../../src/agents/agent.ts";
import { createAiSdkAgent } from "../../../src/agents/ai-sdk.ts";
import { Semaphore } from "../../../src/agents/semaphore.ts";
import { createDelegate } from "../../../src/agents/sub-agent.ts";
import type { AgentId } from "../../../src/protocol/ids.ts";
import { driveAgent } from "../../support/agents/driver-stage.ts";
import { makeCatalog } from "../../support/catalogs/catalog.ts";
import { type ProviderServer, startProviderServer } from "../../support/servers/provider-server.ts";

let server: ProviderServer;
beforeEach(async () => {
  server = await startProviderServer();
});
afterEach(() => server.close());

const CALL = { toolCallId: "act", function: { name: "send_mail", arguments: "{}" } };
const PROGRAM: Part = { type: "start", command: ["send-mail"], cwd: "/" };

/** A model that delegates to the next agent of the chain, and so on; the last one acts once it may. */
function chainOf(names: readonly string[], act: Agent["run"]): Agent {
  const model = { kind: "ai-sdk", provider: "openai-compatible", model: "m", base_url: server.baseUrl };
  const catalog = makeCatalog([
    ...names.map((name) => ({ name, tools: ["sub-agent"], adapter: { ...model, model: name } })),
    { name: "actor" },
  ]);
  const next = (name: string) => names[names.indexOf(name) + 1] ?? "actor";
  server.replyBy(({ body }) => {
    const caller = (JSON.parse(body) as { model: string }).model;
    const input = JSON.stringify({ name: next(caller), task: "act" });
    const isAnswered = body.includes('"role":"tool"');
    return isAnswered
      ? { kind: "stream", text: ["Done."] }
      : { kind: "stream", calls: [{ id: "c1", name: "sub-agent", arguments: input }] };
  });
  const find = (id: AgentId): Agent => {
    if (id === "actor") return { id, yields: "hold", restartable: false, run: act };
    const entry = catalog.agents.get(id)!;
    if (entry.adapter.kind !== "ai-sdk") throw new Error("a caller is a model");
    const delegate = createDelegate(entry, { catalog: () => catalog, find, onFault: () => {} });
    return createAiSdkAgent(entry, entry.adapter, {
      env: {},
      random: Math.random,
      tools: { catalog: () => catalog, delegate, programs: () => expect.fail("no program is started") },
      requests: new Semaphore(64),
      onFault: () => {},
    });
  };
  return find(names[0] as AgentId);
}

/** A floor that withholds its acknowledgement of the act, until the test releases it. */
async function acting(names: readonly string[], announced: Part) {
  const order: string[] = [];
  const over = Promise.withResolvers<void>();
  const begun = Promise.withResolvers<RunControl>();
  const leave = Promise.withResolvers<void>();
  const stage = await driveAgent(
    chainOf(names, async function* (_, control) {
      begun.resolve(control);
      await leave.promise;
      yield { type: "text", text: "I send it." };
      yield announced;
      try {
        await control.untilMayAct();
        order.push("acts");
      } catch (error) {
        order.push("gives up");
        throw error;
      } finally {
        over.resolve();
      }
    }),
  );
  // The calls that led to the actor are acknowledged by now.
  await begun.promise;
  const { floor } = stage;
  floor.hold();
  leave.resolve();
  const isReported = () =>
    floor.parts.some((part) =>
      announced.type === "start" ? part.kind === "data" : part.kind === "tool_call" && part.call.toolCallId === "act",
    );
  // The floor takes one report at a time: the text, and then the act.
  while (!isReported()) {
    await stage.clock.advance(250);
    if (floor.parts.length > 0 && !isReported()) {
      floor.release();
      floor.hold();
    }
    if (order.length > 0) break;
  }
  order.push("is reported");
  return { stage, order, over: over.promise };
}

const CHAINS: [string, readonly string[], Part][] = [
  ["a tool of a sub-agent", ["caller"], { type: "tool-call", call: CALL }],
  ["a tool of a sub-agent's sub-agent", ["caller", "helper"], { type: "tool-call", call: CALL }],
  ["a sub-agent's program", ["caller"], PROGRAM],
  ["a program of a sub-agent's sub-agent", ["caller", "helper"], PROGRAM],
];

test.each(CHAINS)("%s starts when the floor has acknowledged it", async (_, names, announced) => {
  const { stage, order, over } = await acting(names, announced);
  order.push("is acknowledged");
  stage.floor.release();
  await stage.clock.advance(0);
  await over;
  expect(order).toEqual(["is reported", "is acknowledged", "acts"]);
});

test.each(CHAINS)("%s does not start if the run is another attempt's by then", async (_, names, announced) => {
  const { stage, order, over } = await acting(names, announced);
  stage.floor.directive = { verdict: "stop", answers: [] };
  stage.floor.release();
  await stage.clock.advance(0);
  await over;
  expect(order).toEqual(["is reported", "gives up"]);
});
