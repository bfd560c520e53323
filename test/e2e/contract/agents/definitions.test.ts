import { afterAll, expect, onTestFinished, test } from "vitest";
import { scripted } from "../../../support/catalogs/e2e-catalog.ts";
import { startGuarded } from "../../../support/clients/callers.ts";
import { accepted, E2eClient, refused } from "../../../support/clients/e2e-client.ts";
import { type AnswerBody, NodeUnderTest } from "../../../support/nodes/node-under-test.ts";

const delegate = { name: "helper", task: "hello" };
const AGENTS = [
  scripted("general", { priority: 40, tools: ["clock", "ask-user"], instructions: "The file's." }),
  scripted("music", { priority: 20 }),
  scripted(
    "caller",
    {},
    { replies: [{ match: "call", delegate, say: ["It says: {result}"], otherwise: ["No one."] }] },
  ),
  scripted("limited", { tools: ["clock"], max_steps: 3, max_depth: 2, sub_agents: ["music"] }),
  { name: "formatter", adapter: { kind: "command", command: "fmt" } },
  { name: "coder", adapter: { kind: "acp", profile: "codex" } },
];
const node = await NodeUnderTest.start({ agents: AGENTS });
afterAll(() => node.stop());

type Definition = Record<string, unknown> & { id: string };
const definitionOf = (body: AnswerBody) => (body as unknown as { definition: Definition }).definition;
const listOf = (body: AnswerBody) => (body as unknown as { definitions: Definition[] }).definitions;

let workspaces = 0;
const newWorkspace = () => `w${++workspaces}`;
const define = async (fields: object) =>
  definitionOf(await accepted(node.post("/agents/definitions", { name: "helper", basedOn: "general", ...fields })));
const agentsOf = async (workspaceId?: string) => {
  const query = workspaceId === undefined ? "" : `?workspaceId=${workspaceId}`;
  return (await accepted(node.get(`/agents${query}`))).agents;
};

test("a defined agent answers in its workspace's sessions, by its name or its id, and in no others", async () => {
  const [ann, workspaceId] = [new E2eClient(node), newWorkspace()];
  const { id } = await define({ workspaceId, description: "helps", priority: 30 });
  expect(id).toMatch(/^helper-[0-9a-f]{10}$/);
  for (const agentId of ["helper", id]) {
    const session = await ann.hold(agentId, { workspaceId });
    expect(session).toMatchObject({ agentId: id, priority: 30, workspaceId });
    await ann.talk(session.id, "hello");
    expect((await ann.messages(session.id)).at(-1)).toMatchObject({ content: "Hello there.", agent: { name: id } });
    await accepted(ann.on(session.id, "stop"));
  }
  // One of the same name in another workspace is another agent.
  const other = newWorkspace();
  await define({ workspaceId: other, priority: 90 });
  expect((await ann.create("helper", { workspaceId })).priority).toBe(30);
  expect((await ann.create("helper", { workspaceId: other })).priority).toBe(90);
  for (const fields of [{}, { workspaceId: newWorkspace() }]) {
    for (const agentId of ["helper", id]) {
      const refusal = await refused(ann.askToCreate({ agentId, ...fields }));
      expect(refusal.errorCode).toBe("agent_not_found");
      expect(refusal.availableAgents.map((agent) => agent.id)).not.toContain(id);
    }
  }
});

test("a defined agent is asked for in all zones within its workspace, and nothing begins for another's", async () => {
  const [ann, workspaceId] = [new E2eClient(node), newWorkspace()];
  const { id } = await define({ workspaceId, priority: 60 });
  // The floors are the user's, whatever the workspace of what they hold.
  await ann.hold("music", { zone: "attic", workspaceId: newWorkspace() });
  await ann.hold("music", { zone: "kitchen" });
  for (const fields of [{}, { workspaceId: newWorkspace() }]) {
    for (const agentId of ["helper", id])
      expect((await refused(ann.askToCreate({ agentId, zone: "*", ...fields }))).errorCode).toBe("agent_not_found");
  }
  const { session } = await accepted(ann.askToCreate({ agentId: "helper", zone: "*", workspaceId, content: "hello" }));
  for (const { sessionId } of session.group!.sessions)
    expect(await ann.see(sessionId)).toMatchObject({ agentId: id, workspaceId, state: "active" });
  await accepted(node.post(`/session/${session.id}/stop`, { group: true }));
  const { sessions } = await accepted(node.get(`/session/list?userId=${ann.userId}&includeArchived=true`));
  expect(sessions.filter(({ agentId }) => agentId === id).map(({ state }) => state)).toEqual(["archived", "archived"]);
});

test("a defined agent is listed in its workspace after those of the file, and can be switched to only there", async () => {
  const [ann, workspaceId] = [new E2eClient(node), newWorkspace()];
  const { id } = await define({ workspaceId, label: "Helper" });
  expect((await agentsOf()).map((agent) => agent.id)).toEqual(AGENTS.map(({ name }) => name));
  expect((await agentsOf(workspaceId)).at(-1)).toMatchObject({ id, name: "Helper", workspaceId, available: true });
  const inside = await ann.create("general", { workspaceId });
  const outside = await ann.create("general");
  const change = async (sessionId: string, agentId: string) =>
    (await accepted(ann.send({ type: "switch_agent", sessionId, agentId }))).outcome;
  expect(await change(inside.id, "helper")).toMatchObject({ currentAgentId: id, agentName: "Helper" });
  expect(await change(outside.id, "helper")).toMatchObject({ errorCode: "agent_not_found" });
  expect(await change(outside.id, id)).toMatchObject({ errorCode: "agent_not_found" });
});

test("a defined agent takes tasks from agents of its workspace's sessions, and from no others", async () => {
  const [ann, workspaceId] = [new E2eClient(node), newWorkspace()];
  await define({ workspaceId });
  const inside = await ann.hold("caller", { workspaceId });
  await ann.talk(inside.id, "call");
  expect((await ann.messages(inside.id)).at(-1)?.content).toBe("It says: Hello there.");
  await accepted(ann.on(inside.id, "stop"));
  const outside = await ann.hold("caller");
  await ann.talk(outside.id, "call");
  expect((await ann.messages(outside.id)).at(-1)?.content).toBe("No one.");
});

test("what-if finds a defined agent by its name within its workspace only", async () => {
  const [ann, workspaceId] = [new E2eClient(node), newWorkspace()];
  await define({ workspaceId });
  await ann.hold("music");
  const whatIf = async (fields: object) =>
    (await accepted(node.post(`${ann.floorPath}/what-if`, { agentId: "helper", ...fields }))).decision;
  expect(await whatIf({ workspaceId })).toMatchObject({ outcome: "granted", reason: "preempted" });
  expect(await whatIf({})).toMatchObject({ outcome: "rejected", reason: "unknown_agent" });
});

test("a defined agent can be changed, disabled and enabled, and its sessions follow", async () => {
  const [ann, workspaceId] = [new E2eClient(node), newWorkspace()];
  const { id } = await define({ workspaceId, priority: 10, description: "one" });
  const patch = async (fields: object) => definitionOf(await accepted(node.patch(`/agents/definitions/${id}`, fields)));
  const changed = await patch({ priority: 70, description: null });
  expect(changed).toMatchObject({ priority: 70, workspaceId, enabled: true });
  expect((await ann.create("helper", { workspaceId })).priority).toBe(70);
  expect((await agentsOf(workspaceId)).at(-1)).toMatchObject({ id, description: "" });
  await patch({ enabled: false });
  expect((await refused(ann.askToCreate({ agentId: "helper", workspaceId }))).errorCode).toBe("agent_not_found");
  expect((await agentsOf(workspaceId)).map((agent) => agent.id)).not.toContain(id);
  await patch({ enabled: true });
  expect((await ann.create("helper", { workspaceId })).agentId).toBe(id);
});

test("a deleted defined agent leaves its sessions, which then need another agent", async () => {
  const [ann, workspaceId] = [new E2eClient(node), newWorkspace()];
  const { id } = await define({ workspaceId });
  const session = await ann.create("helper", { workspaceId });
  const remove = (key?: string) => node.delete(`/agents/definitions/${id}`, key === undefined ? {} : { key });
  expect((await accepted(remove(`gone-${id}`))).deleted).toBe(true);
  expect((await accepted(remove(`gone-${id}`))).deleted).toBe(true);
  expect((await accepted(remove())).deleted).toBe(false);
  const refusal = await refused(ann.on(session.id, "activate"));
  expect(refusal).toMatchObject({ errorCode: "rejected", decision: { reason: "unknown_agent" } });
  await accepted(ann.send({ type: "switch_agent", sessionId: session.id, agentId: "general" }));
  expect((await accepted(ann.on(session.id, "activate"))).session.state).toBe("active");
  expect((await refused(node.get(`/agents/definitions/${id}`))).errorCode).toBe("agent_not_found");
});

test("a defined agent that is deleted during a turn finishes the turn unchanged", async () => {
  const [ann, workspaceId] = [new E2eClient(node), newWorkspace()];
  const { id } = await define({ workspaceId });
  const session = await ann.hold("helper", { workspaceId });
  const stream = await ann.follow(session.id);
  await accepted(ann.say(session.id, "count"));
  await stream.find("delta");
  await accepted(node.delete(`/agents/definitions/${id}`));
  const events = await stream.until("complete");
  expect(events.at(-1)!.data["cancelled"]).toBeUndefined();
  expect((await ann.messages(session.id)).at(-1)).toMatchObject({ status: "success" });
});

const limited = { basedOn: "limited" };
test.each<[what: string, fields: object, path: string, message: RegExp]>([
  ["has the name of an agent of the file", { name: "music" }, "body.name", /already has an agent music/],
  ["is based on no agent", { basedOn: "nobody" }, "body.basedOn", /has no agent nobody/],
  ["is based on a program", { basedOn: "formatter" }, "body.basedOn", /of kind command/],
  ["is based on a coding agent", { basedOn: "coder" }, "body.basedOn", /of kind acp/],
  ["has a tool that its base lacks", { tools: ["clock", "web-fetch"] }, "body.tools", /web-fetch is not a tool of/],
  ["has a tool twice", { tools: ["clock", "clock"] }, "body.tools", /twice/],
  ["is its own sub-agent", { subAgents: ["helper"] }, "body.subAgents", /not its own/],
  ["has more steps than its base", { ...limited, maxSteps: 4 }, "body.maxSteps", /limited has 3/],
  ["has more depth than its base", { ...limited, maxDepth: 3 }, "body.maxDepth", /limited has 2/],
  [
    "has a sub-agent that its base lacks",
    { ...limited, subAgents: ["music", "general"] },
    "body.subAgents",
    /general is not/,
  ],
  ["may call every agent, and its base may not", { ...limited, subAgents: [] }, "body.subAgents", /means every agent/],
  ["has an invalid priority", { priority: 101 }, "body.priority", /./],
  ["is bound to pages", { pageIds: ["start"] }, "body.pageIds", /Interlock has no pages/],
  ["has no workspace", { workspaceId: undefined }, "body.workspaceId", /./],
])("a definition that %s is refused with a sentence", async (_, fields, path, message) => {
  const body = { name: "helper", basedOn: "general", workspaceId: newWorkspace(), ...fields };
  const refusal = await refused(node.post("/agents/definitions", body));
  expect(refusal.errorCode).toBe("bad_request");
  expect(refusal.issues).toContainEqual({ path, message: expect.stringMatching(message) });
});

test("a definition may set no program, address or key: such fields are refused", async () => {
  const workspaceId = newWorkspace();
  const adapter = { kind: "command", command: "sh", args: ["-c", "true"] };
  const body = { name: "helper", basedOn: "general", workspaceId, pageIds: [] };
  const strays = { adapter, program: "sh", base_url: "http://x", api_key_env: "HOME" };
  const { issues } = await refused(node.post("/agents/definitions", { ...body, ...strays }));
  expect(issues.map(({ path }) => path)).toEqual(Object.keys(strays).map((field) => `body.${field}`));
  const definition = definitionOf(await accepted(node.post("/agents/definitions", body)));
  expect(Object.keys(definition).toSorted()).toEqual(["basedOn", "enabled", "id", "name", "workspaceId"]);
});

test("a definition whose name is in use in the workspace is refused, and a repeat of the first one gets its answer", async () => {
  const workspaceId = newWorkspace();
  const body = { name: "helper", basedOn: "general", workspaceId };
  const ask = (key: string, fields = {}) => node.post("/agents/definitions", { ...body, ...fields }, { key });
  const made = await Promise.all([ask(`k-${workspaceId}`), ask(`k-${workspaceId}`)]);
  expect(made.map(({ status }) => status)).toEqual([200, 200]);
  expect(made[0]!.body).toEqual(made[1]!.body);
  const clash = await refused(ask("another-key"));
  expect(clash.error).toBe("The workspace already has an agent helper.");
  expect((await refused(ask(`k-${workspaceId}`, { priority: 1 }))).errorCode).toBe("idempotency_mismatch");
  await accepted(node.delete(`/agents/definitions/${definitionOf(made[0]!.body).id}`));
  expect((await accepted(ask(`k-${workspaceId}`))).success).toBe(true);
  expect(listOf(await accepted(node.get(`/agents/definitions?workspaceId=${workspaceId}`)))).toEqual([]);
});

test("a definition can be read, and all of a workspace's are listed in pages", async () => {
  const workspaceId = newWorkspace();
  const made = await Promise.all(["b", "a", "c"].map((name) => define({ name, workspaceId })));
  const ids = made.map(({ id }) => id).toSorted();
  const page = (query: string) => accepted(node.get(`/agents/definitions?workspaceId=${workspaceId}&${query}`));
  const first = await page("limit=2");
  expect([listOf(first).map(({ id }) => id), first.hasMore]).toEqual([ids.slice(0, 2), true]);
  const rest = await page(`limit=2&after=${ids[1]}`);
  expect([listOf(rest).map(({ id }) => id), rest.hasMore]).toEqual([ids.slice(2), false]);
  expect(definitionOf(await accepted(node.get(`/agents/definitions/${ids[0]}`)))).toEqual(made[1]);
});

test("two concurrent changes of a definition are both kept", async () => {
  const workspaceId = newWorkspace();
  const { id } = await define({ workspaceId });
  const changes = [{ priority: 11 }, { label: "L" }, { description: "d" }];
  await Promise.all(changes.map((change) => accepted(node.patch(`/agents/definitions/${id}`, change))));
  const changed = definitionOf((await node.get(`/agents/definitions/${id}`)).body);
  expect(changed).toMatchObject({ priority: 11, label: "L", description: "d" });
});

test("the file takes precedence over the database: a new agent of the file hides the definition, which is marked", async () => {
  const own = await NodeUnderTest.start({ agents: AGENTS.slice(0, 2) });
  onTestFinished(() => own.stop());
  const body = { name: "helper", basedOn: "general", workspaceId: "w", priority: 99 };
  const { id } = definitionOf(await accepted(own.post("/agents/definitions", body)));
  const agents = [...AGENTS.slice(0, 2), scripted("helper", { priority: 33 })];
  await own.writeCatalog(JSON.stringify({ agents, default_agent: "general" }));
  const isThere = async () => (await accepted(own.get("/agents"))).agents.some((agent) => agent.id === "helper");
  await expect.poll(isThere).toBe(true);
  const ann = new E2eClient(own);
  expect(await ann.create("helper", { workspaceId: "w" })).toMatchObject({ agentId: "helper", priority: 33 });
  expect((await refused(ann.askToCreate({ agentId: id, workspaceId: "w" }))).errorCode).toBe("agent_not_found");
  const shown = definitionOf(await accepted(own.get(`/agents/definitions/${id}`)));
  expect(shown["fault"]).toBe("the catalogue already has an agent helper");
});

test("only operators define agents; all users see those of a workspace", async () => {
  const { ann, ops } = await startGuarded({ agents: AGENTS }, onTestFinished);
  const body = { name: "helper", basedOn: "general", workspaceId: "w" };
  const { id } = definitionOf(await accepted(ops.post("/agents/definitions", body)));
  for (const asked of [
    ann.post("/agents/definitions", { ...body, name: "mine" }),
    ann.get("/agents/definitions"),
    ann.get(`/agents/definitions/${id}`),
    ann.ask("PATCH", `/agents/definitions/${id}`, { priority: 100 }),
    ann.ask("DELETE", `/agents/definitions/${id}`),
  ]) {
    expect((await refused(asked)).errorCode).toBe("forbidden");
  }
  const { agents } = await accepted(ann.get("/agents?workspaceId=w"));
  expect(agents.at(-1)).toMatchObject({ id });
  const made = await accepted(ann.post("/session/create", { agentId: "helper", workspaceId: "w" }));
  expect(made.session.agentId).toBe(id);
});
