import { afterAll, expect, test } from "vitest";
import { accepted, E2eClient, refused } from "../../../support/clients/e2e-client.ts";
import { NodeUnderTest } from "../../../support/nodes/node-under-test.ts";

const node = await NodeUnderTest.start();
afterAll(() => node.stop());

test.each([undefined, {}])(
  "a session created without any field (%j) has the default agent, a floor of its own, no messages and no field without a value",
  async (body) => {
    // The server's clock runs independently, and may differ from this process's by milliseconds.
    const before = Date.now() - 10_000;
    const { session, decision, position } = await accepted(node.post("/session/create", body));
    expect(JSON.stringify(session)).not.toContain("null");
    expect(session).not.toHaveProperty("userId");
    expect(session).toMatchObject({
      ...{ title: "New Session", agentId: "general", floorId: `s:${session.id}`, state: "created", activity: "idle" },
      ...{ priority: 40, interruptible: true, messageCount: 0 },
      tokenUsage: { used: 0, breakdown: { input: 0, output: 0, cacheRead: 0, cacheCreation: 0 } },
      agentSessions: {},
    });
    expect(decision).toBeUndefined();
    expect(position).toMatch(/^[a-z0-9]{1,6}\.1\.\w+$/);
    for (const at of [session.createdAt, session.updatedAt, session.lastActivityAt]) {
      expect(Number.isInteger(at) && at >= before).toBe(true);
    }
  },
);

test("a created session has the given id, title and workspace; ids that differ in case are different", async () => {
  const fields = { id: "my-Session_1", title: "Trip to Rome", workspaceId: "kitchen" };
  const { session } = await accepted(node.post("/session/create", fields));
  expect(session).toMatchObject(fields);
  await accepted(node.post("/session/create", { id: "MY-sESSION_1", title: "upper" }));
  expect((await accepted(node.get("/session/my-Session_1"))).session).toEqual(session);
});

test("a create repeated with the same id and content returns the existing session, and logs nothing", async () => {
  const ann = new E2eClient(node);
  const fields = { id: node.newId("again"), agentId: "music", workspaceId: "w" };
  const first = await accepted(ann.askToCreate(fields));
  const second = await accepted(ann.askToCreate(fields));
  expect(second.session).toEqual(first.session);
  expect(second.position).toBe(first.position);
});

test.each([
  ["agent", { agentId: "chat" }],
  ["user", { userId: "somebody-else" }],
  ["zone", { zone: "rear" }],
  ["workspace", { workspaceId: "other" }],
])("a create with the same id and another %s is refused", async (what, other) => {
  const ann = new E2eClient(node);
  const fields = { id: node.newId(`taken-${what}`), agentId: "music", workspaceId: "w" };
  const { session } = await accepted(ann.askToCreate(fields));
  expect((await refused(ann.askToCreate({ ...fields, ...other }))).errorCode).toBe("idempotency_mismatch");
  expect(await ann.see(session.id)).toEqual(session);
});

test("two creates with one id for two users make one session, and the other gets a mismatch", async () => {
  const users = [new E2eClient(node), new E2eClient(node)];
  for (let round = 0; round < 5; round += 1) {
    const id = node.newId("contested");
    const answers = await Promise.all(users.map((user) => user.askToCreate({ id, agentId: "music" })));
    expect(answers.map(({ status }) => status).toSorted()).toEqual([200, 409]);
    const { body: refusal } = answers.find(({ status }) => status === 409)!;
    expect(refusal.errorCode).toBe("idempotency_mismatch");
    const { body } = answers.find(({ status }) => status === 200)!;
    expect((await accepted(node.get(`/session/${id}`))).session).toEqual(body.session);
  }
});

test("a deleted session's id cannot be used again at the same moment either", async () => {
  const ann = new E2eClient(node);
  const other = await ann.create("music");
  for (let round = 0; round < 5; round += 1) {
    const { id } = await ann.create("music", { id: node.newId("deleted") });
    // The first command keeps the floor busy, so that the other two are in one batch.
    const [, gone, again] = await Promise.all([
      node.patch(`/session/${other.id}`, { title: "Once" }),
      node.delete(`/session/${id}`),
      ann.askToCreate({ id, agentId: "music" }),
    ]);
    expect(gone.body).toEqual({ success: true, deleted: true });
    expect((await refused(node.get(`/session/${id}`))).errorCode).toBe("session_not_found");
    // It was executed before the deletion and found the session, or after it.
    if (again.status !== 200) expect(again.body.errorCode).toBe("idempotency_mismatch");
  }
});

test.each(["", "a b", "a/b", "ä", "x".repeat(65), "a.b"])("a create with the id %j is refused there", async (id) => {
  const { errorCode, issues } = await refused(node.post("/session/create", { id }));
  expect([errorCode, issues]).toEqual(["bad_request", [{ path: "body.id", message: expect.any(String) }]]);
});

test("a create accepts initialAgentId for agentId, which takes precedence if both are given", async () => {
  const old = await accepted(node.post("/session/create", { initialAgentId: "music" }));
  expect(old.session.agentId).toBe("music");
  const both = await accepted(node.post("/session/create", { initialAgentId: "music", agentId: "chat" }));
  expect(both.session.agentId).toBe("chat");
});

test.each(["nobody", "off"])(
  "a create or a quick chat with the unknown agent %s gets the list of agents",
  async (agentId) => {
    const ann = new E2eClient(node);
    for (const asked of [
      ann.askToCreate({ id: `no-${agentId}`, agentId }),
      ann.askToCreate({ id: `no-${agentId}`, agentId, activate: true }),
      ann.send({ type: "chat", content: "hello", userId: ann.userId, agentId }),
    ]) {
      const answer = await refused(asked);
      expect(answer.errorCode).toBe("agent_not_found");
      const ids = answer.availableAgents.map(({ id }): string => id);
      expect([ids.includes("general"), ids.includes("off")]).toEqual([true, false]);
    }
    expect((await refused(node.get(`/session/no-${agentId}`))).errorCode).toBe("session_not_found");
    expect((await accepted(node.get(`/session/list?userId=${ann.userId}`))).total).toBe(0);
  },
);

test("a user's session is created on the user's floor, and one of a zone on the zone's floor", async () => {
  const ann = new E2eClient(node);
  expect((await ann.create("music")).floorId).toBe(`u:${ann.userId}`);
  expect((await refused(node.post("/session/create", { zone: "rear" }))).errorCode).toBe("bad_request");
  const rear = await ann.create("music", { zone: "rear left" });
  expect(rear).toMatchObject({ zone: "rear left", floorId: `u:${ann.userId}/rear%20left` });
});

test("a create accepts any user and zone of 1 to 128 characters without control characters", async () => {
  const userId = "张三/u:%2F".padEnd(128, "ü");
  const { session } = await accepted(node.post("/session/create", { userId, zone: "后排" }));
  expect(session).toMatchObject({ userId, zone: "后排" });
  for (const wrong of ["", "x".repeat(129), "a\nb", "a\u0000", "a\u0085", "a\ud800", 7]) {
    const { issues } = await refused(node.post("/session/create", { userId: wrong }));
    expect(issues).toEqual([{ path: "body.userId", message: expect.any(String) }]);
  }
});

test("a created session's title is trimmed and has no NUL; a blank one or one longer than 256 is refused", async () => {
  const { session } = await accepted(node.post("/session/create", { title: "  a\u0000b  " }));
  expect(session.title).toBe("a\uFFFDb");
  for (const title of ["", "   ", "x".repeat(257)]) {
    expect((await refused(node.post("/session/create", { title }))).errorCode).toBe("bad_request");
  }
});

test("creating with activate requests the floor in the same command, and returns the decision", async () => {
  const ann = new E2eClient(node);
  const { session, decision } = await accepted(ann.askToCreate({ agentId: "music", activate: true }));
  expect(session).toMatchObject({ state: "active", activity: "idle" });
  expect(decision).toEqual({
    outcome: "granted",
    reason: "floor_free",
    rule: 4,
    challenger: { sessionId: session.id, agentId: "music", priority: 20, explained: [{ step: "agent", value: 20 }] },
    say: "Music starts.",
  });
  const log = await ann.log(session.id);
  expect(log).toMatchObject([
    { type: "session_created", data: { id: session.id, state: "created" } },
    { type: "arbitration", data: decision },
    {
      type: "session_transition",
      data: { from: "created", to: "active.idle", event: "activate", reason: "floor_free" },
    },
  ]);
});
