import { afterAll, describe, expect, test } from "vitest";
import { accepted, E2eClient, refused } from "../../../support/clients/e2e-client.ts";
import { hold } from "../../../support/clients/e2e-states.ts";
import { type Answer, NodeUnderTest } from "../../../support/nodes/node-under-test.ts";

const node = await NodeUnderTest.start();
afterAll(() => node.stop());

let keys = 0;
const newKey = () => ({ key: `receipt-${++keys}` });

/** Accepted writes to an existing session. */
const WRITES: [name: string, ask: (ann: E2eClient, id: string, options: { key: string }) => Promise<Answer>][] = [
  ["chat", (ann, id, options) => ann.say(id, "hello", {}, options)],
  ["abort", (ann, sessionId, options) => ann.send({ type: "abort", sessionId }, options)],
  [
    "switch_agent",
    (ann, sessionId, options) => ann.send({ type: "switch_agent", sessionId, agentId: "chat" }, options),
  ],
  ["title", (_, id, options) => node.patch(`/session/${id}`, { title: "One" }, options)],
  ["pause", (ann, id, options) => ann.on(id, "pause", options)],
  ["archive", (ann, id, options) => ann.on(id, "archive", options)],
  ["stop", (ann, id, options) => ann.on(id, "stop", options)],
  ["delete", (_, id, options) => node.delete(`/session/${id}`, options)],
];

describe("a write whose session is deleted meanwhile", () => {
  test.each(WRITES)(
    "a write repeated with its key gets the same answer after its session was deleted: %s",
    async (_, ask) => {
      const { ann, id } = await hold(node, "music");
      const options = newKey();
      const first = await accepted(ask(ann, id, options));
      await node.delete(`/session/${id}`);
      expect(await accepted(ask(ann, id, options))).toEqual(first);
    },
  );

  test("a refused write repeated with its key gets the same answer after its session was deleted", async () => {
    const ann = new E2eClient(node);
    const { id } = await ann.create("music");
    const options = newKey();
    const first = await refused(ann.on(id, "pause", options));
    await node.delete(`/session/${id}`);
    const again = await refused(ann.on(id, "pause", options));
    expect([first.errorCode, again.errorCode]).toEqual(["illegal_command", "illegal_command"]);
  });
});

describe("a write that is refused before it reaches the floor", () => {
  test("a write that was refused before it reached the floor is decided again when repeated, until it succeeds", async () => {
    const ann = new E2eClient(node);
    const options = newKey();
    const id = `late-${options.key}`;
    expect((await refused(ann.on(id, "pause", options))).errorCode).toBe("session_not_found");
    await ann.hold("music", { id });
    const paused = await accepted(ann.on(id, "pause", options));
    expect(paused.session.state).toBe("paused");
    await accepted(ann.on(id, "resume"));
    expect(await accepted(ann.on(id, "pause", options))).toEqual(paused);
    expect((await ann.see(id)).state).toBe("active");
  });

  test("a write that was refused before it reached the floor leaves its key unused for a corrected request", async () => {
    const ann = new E2eClient(node);
    const options = newKey();
    const malformed = await refused(ann.askToCreate({ agentId: "music", title: 1 }, options));
    expect(malformed.errorCode).toBe("bad_request");
    const unbound = await refused(ann.askToCreate({ agentId: "music", connectionId: "gone" }, options));
    expect(unbound.errorCode).toBe("connection_not_found");
    const { session } = await accepted(ann.askToCreate({ agentId: "music", title: "One" }, options));
    expect(session.title).toBe("One");
  });
});

test("concurrent deletes with one key get the same answer", async () => {
  const ann = new E2eClient(node);
  for (let round = 0; round < 20; round += 1) {
    const { id } = await ann.create("music");
    const options = newKey();
    const asked = Array.from({ length: 4 }, () => accepted(node.delete(`/session/${id}`, options)));
    expect((await Promise.all(asked)).map(({ deleted }) => deleted)).toEqual([true, true, true, true]);
  }
});

describe("a connection with room for one more session", () => {
  async function almostFull(ann: E2eClient) {
    const { stream, connectionId } = await ann.connect();
    for (let bound = 0; bound < 7; bound += 1) await ann.create("music", { connectionId });
    return { stream, connectionId };
  }

  test("a connection with room for one session gets one of several concurrent ones; the others are refused, and not created", async () => {
    const ann = new E2eClient(node);
    const { stream, connectionId } = await almostFull(ann);
    const fields = { agentId: "chat", connectionId, activate: true };
    const answers = await Promise.all(["a", "b", "c"].map((title) => ann.askToCreate({ ...fields, title })));
    expect(answers.map(({ status }) => status).toSorted()).toEqual([200, 409, 409]);
    const refusals = answers.filter(({ status }) => status === 409);
    expect(refusals.map(({ body }) => body.errorCode)).toEqual(["too_many_bindings", "too_many_bindings"]);
    const { sessions, total } = await accepted(node.get(`/session/list?userId=${ann.userId}&agentId=chat`));
    expect([total, sessions[0]!.id]).toEqual([1, answers.find(({ status }) => status === 200)!.body.session.id]);
    expect((await ann.floor()).queued).toEqual([]);
    await stream.findState(sessions[0]!.id, "active.idle");
  });

  test("a repeated create is answered as before although the connection is full by then", async () => {
    const ann = new E2eClient(node);
    const { stream, connectionId } = await almostFull(ann);
    const options = newKey();
    const first = await accepted(ann.askToCreate({ agentId: "chat", connectionId }, options));
    await accepted(ann.on(first.session.id, "archive"));
    await stream.findState(first.session.id, "archived");
    await ann.create("music", { connectionId });
    expect(await accepted(ann.askToCreate({ agentId: "chat", connectionId }, options))).toEqual(first);
    // Also over another connection, and over one that no longer exists.
    expect(await accepted(ann.askToCreate({ agentId: "chat", connectionId: "gone" }, options))).toEqual(first);
  });

  test("a refused create leaves the connection's room unused", async () => {
    const ann = new E2eClient(node);
    const { connectionId } = await almostFull(ann);
    const unknown = await refused(ann.askToCreate({ agentId: "nobody", connectionId }));
    expect(unknown.errorCode).toBe("agent_not_found");
    await ann.create("chat", { connectionId });
    const ninth = await refused(ann.askToCreate({ agentId: "chat", connectionId }));
    expect(ninth.errorCode).toBe("too_many_bindings");
  });
});
