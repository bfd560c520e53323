import { expect, test } from "vitest";
import { Cluster, describeClusters } from "../../support/nodes/cluster.ts";

const CATALOG = {
  agents: [
    { name: "general", priority: 40, adapter: { kind: "scripted", replies: [{ say: ["Here."], delay: "0ms" }] } },
  ],
};

describeClusters("agents in the database, and copies of sessions, on several nodes", (servers) => {
  test("an agent defined at one gateway answers at others, also after a restart, until it is deleted", async () => {
    const cluster = await Cluster.make(servers, { catalog: CATALOG });
    const [here, there] = await cluster.startAll(["gateway"], ["gateway"], ["orchestrator"], ["worker"]);
    const body = { name: "helper", basedOn: "general", workspaceId: "w" };
    expect((await here.post("/agents/definitions", body)).status).toBe(200);
    const create = (at: typeof here) =>
      at.post("/session/create", { agentId: "helper", workspaceId: "w", activate: true });
    // The other nodes learn of the agent over the bus; until then it does not exist for them.
    await expect.poll(async () => (await create(there)).status, { timeout: 20_000 }).toBe(200);
    const session = (await create(there)).body.session as unknown as { id: string; agentId: string };
    const messages = async () => (await there.ask("GET", `/session/${session.id}/messages`)).body.messages;
    expect((await there.post("/message", { type: "chat", sessionId: session.id, content: "hello" })).status).toBe(200);
    const isSaid = async () => (await messages()).at(-1)?.content;
    await expect.poll(isSaid, { timeout: 20_000 }).toBe("Here.");

    const third = await cluster.start(["gateway", "orchestrator", "worker"]);
    const shown = (await third.ask("GET", "/agents?workspaceId=w")).body as unknown as { agents: object[] };
    expect(shown.agents.at(-1)).toMatchObject({ id: session.agentId, workspaceId: "w" });

    // A copy made at one gateway is complete at another, and continues there.
    const fork = await here.post(`/session/${session.id}/fork`, { activate: true });
    expect(fork.body.session).toMatchObject({ state: "active", messageCount: 2, agentId: session.agentId });
    const copied = (await there.ask("GET", `/session/${fork.body.session.id}/messages`)).body.messages;
    expect(copied.map(({ content }: { content: string }) => content)).toEqual(["hello", "Here."]);
    const back = await there.post(`/session/${fork.body.session.id}/rollback`);
    expect(back.body.session).toMatchObject({ state: "active", messageCount: 0 });
    const old = (await here.ask("GET", `/session/${fork.body.session.id}`)).body.session;
    expect(old.state).toBe("archived");

    expect((await there.ask("DELETE", `/agents/definitions/${session.agentId}`)).status).toBe(200);
    await expect.poll(async () => (await create(here)).status, { timeout: 20_000 }).toBe(404);
  }, 90_000);
});
