import { afterAll, expect, test } from "vitest";
import { accepted, E2eClient, refused, typesOf } from "../../../support/clients/e2e-client.ts";
import { create, hold } from "../../../support/clients/e2e-states.ts";
import { NodeUnderTest } from "../../../support/nodes/node-under-test.ts";

const node = await NodeUnderTest.start();
afterAll(() => node.stop());

const switchTo = (sessionId: string, agentId: unknown, fields: Record<string, unknown> = {}) =>
  node.post("/message", { type: "switch_agent", sessionId, agentId, ...fields });

const INVALID = "agentId contains invalid characters. Allowed: [a-z0-9_-]";

test("switch_agent changes the agent of the session: in the answer, in the log, and in the next turn", async () => {
  const { ann, id } = await hold(node);
  await ann.talk(id, "hello");
  const { outcome } = await accepted(switchTo(id, " planner "));
  expect(outcome).toEqual({ previousAgentId: "general", currentAgentId: "planner", agentName: "Planner" });
  expect((await ann.log(id)).at(-1)).toMatchObject({ type: "agent_switched", data: outcome });
  expect(await ann.see(id)).toMatchObject({ agentId: "planner", priority: 60, state: "active" });
  await ann.talk(id, "hello");
  expect((await ann.messages(id)).flatMap(({ agent }) => agent?.name ?? [])).toEqual(["general", "planner"]);
});

test("switch_agent to the session's present agent succeeds", async () => {
  const { id } = await create(node, "general");
  const { outcome } = await accepted(switchTo(id, "general"));
  expect(outcome).toMatchObject({ previousAgentId: "general", currentAgentId: "general" });
  expect(outcome.errorCode).toBeUndefined();
});

test.each([
  ["", "invalid_agent_id", "agentId cannot be empty"],
  ["  ", "invalid_agent_id", "agentId cannot be empty"],
  ["No Such", "invalid_agent_id_format", INVALID],
  ["代理", "invalid_agent_id_format", INVALID],
  ["nobody", "agent_not_found", "Invalid agent ID: nobody"],
  ["__proto__", "agent_not_found", "Invalid agent ID: __proto__"],
  ["off", "agent_not_found", "Invalid agent ID: off"],
])("switch_agent to %j fails with %s: in a 200, and as an event", async (agentId, errorCode, message) => {
  const { ann, id } = await create(node, "general");
  const { stream, connectionId } = await ann.connect(`&sessionId=${id}`);
  const { outcome } = await accepted(switchTo(id, agentId, { connectionId }));
  expect(outcome).toMatchObject({ errorCode, message });
  const { availableAgents } = outcome;
  expect(availableAgents!.map((agent) => agent.id)).toEqual(expect.arrayContaining(["general", "music"]));
  expect(availableAgents![0]).toEqual({ id: "general", name: "General", description: "answers whatever is asked" });
  expect((await stream.find("error")).data).toEqual({ errorCode, message, availableAgents });
  expect((await ann.see(id)).agentId).toBe("general");
});

test.each([undefined, null, 7, ["music"]])("switch_agent with the agentId %j is malformed", async (agentId) => {
  const { id } = await new E2eClient(node).create("general");
  const malformed = { errorCode: "bad_request", issues: [{ path: "body.agentId" }] };
  expect(await refused(switchTo(id, agentId))).toMatchObject(malformed);
});

test("switch_agent reports its failure to the connection that sent it, and not to the session's other readers", async () => {
  const { ann, id } = await create(node, "general");
  const other = await ann.follow(id);
  await other.find("session_created");
  const { stream: mine, connectionId } = await ann.connect(`&sessionId=${id}`);
  await accepted(switchTo(id, "nobody", { connectionId }));
  expect((await mine.find("error")).data).toMatchObject({ errorCode: "agent_not_found" });
  await accepted(switchTo(id, "music", { connectionId }));
  expect(typesOf(await other.until("agent_switched"))).toEqual(["agent_switched"]);
  expect((await mine.find("agent_switched")).data).toMatchObject({ currentAgentId: "music" });
});

test("the list has the enabled agents, in the file's order, with their priorities and rules", async () => {
  const { agents, defaultAgentId } = await accepted(node.get("/agents"));
  expect(defaultAgentId).toBe("general");
  expect(agents[0]).toEqual({
    ...{ id: "general", name: "General", description: "answers whatever is asked" },
    ...{ priority: 40, interruptible: true, capabilities: [], available: true },
  });
  expect(agents.find(({ id }) => id === "phone")).toMatchObject({ priority: 90, interruptible: false });
  expect(agents.map(({ id }) => id)).not.toContain("off");
});
