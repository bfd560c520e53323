import { afterAll, expect, test } from "vitest";
import { accepted, E2eClient, refused, typesOf } from "../../../support/clients/e2e-client.ts";
import { connect, create, hold } from "../../../support/clients/e2e-states.ts";
import type { SseReader } from "../../../support/clients/sse-reader.ts";
import { NodeUnderTest } from "../../../support/nodes/node-under-test.ts";

const node = await NodeUnderTest.start();
afterAll(() => node.stop());

const isListFor = (agentId: string) => (event: { type: string; data: Record<string, unknown> }) =>
  event.type === "agent_list" && event.data["currentAgentId"] === agentId;

/** All events up to the echo of a change made now: an event that has not arrived by then does not arrive. */
async function untilEcho(ann: E2eClient, stream: SseReader, sessionId: string) {
  const title = `echo ${Math.random()}`;
  await accepted(ann.node.patch(`/session/${sessionId}`, { title }));
  return stream.until(({ data }) => data["title"] === title);
}

test("a connection begins with connected and at once agent_list, which names the default agent", async () => {
  const stream = await node.stream("/events");
  const connected = await stream.next();
  const connectionId = expect.stringMatching(/^[A-Za-z0-9_-]{1,12}$/);
  expect(connected).toMatchObject({ type: "connected", data: { connectionId } });
  const list = await stream.next();
  expect(list).toMatchObject({ type: "agent_list", data: { currentAgentId: "general" } });
  const agents = list.data["agents"] as { id: string }[];
  expect(agents[0]).toEqual({ id: "general", name: "General", description: "answers whatever is asked" });
  expect(agents.map(({ id }) => id)).not.toContain("off");
  expect(stream.frames[0]).toEqual({ kind: "retry", ms: 2000 });
});

test("a connection with a zone and no user is refused at once, and not the sessions that are made through it", async () => {
  const refusal = await refused(node.get("/events?zone=left"));
  expect([refusal.errorCode, refusal.error]).toEqual(["bad_request", expect.stringContaining("zone without a userId")]);
});

test("a connection has a position before the first event, so that a client that is cut off early can return to it", async () => {
  const ann = new E2eClient(node);
  const session = await ann.create("music", { activate: false });
  const stream = await node.stream(`/events?sessionId=${session.id}`);
  const connected = await stream.next();
  for (const type of ["agent_list", "agent_list"]) expect((await stream.next()).type).toBe(type);
  await expect.poll(() => stream.lastEventId).toMatch(/\.0_1\.1$/);
  await stream.close();
  const again = await node.stream(`/events?lastEventId=${stream.lastEventId}`);
  expect((await again.next()).data).toEqual(connected.data);
  expect((await again.next()).type).toBe("agent_list");
  await ann.on(session.id, "activate");
  await again.findState(session.id, "active.idle");
});

test("a connection is bound by a create, and carries the session from its first event", async () => {
  const { ann, stream, connectionId } = await connect(node);
  const { id } = await ann.hold("music", { connectionId });
  const events = await stream.until(isListFor("music"));
  const logged = [...events, ...(await untilEcho(ann, stream, id))].filter(({ seq }) => seq !== undefined);
  expect(logged.map(({ seq, sessionId }) => [sessionId, seq])).toEqual([1, 2, 3, 4].map((seq) => [id, seq]));
  expect(typesOf(logged).slice(0, 3)).toEqual(["session_created", "arbitration", "session_transition"]);
});

test("a connection is bound by a load, and carries the session from the answer's position", async () => {
  const { ann, id } = await hold(node, "music");
  const { stream, connectionId } = await ann.connect();
  const { position } = await accepted(node.post("/session/load", { sessionId: id, connectionId }));
  const head = Number(position.split(".")[1]);
  const events = await untilEcho(ann, stream, id);
  expect(typesOf(events)).toEqual(["agent_list", "session_updated"]);
  expect(events[0]!.data["currentAgentId"]).toBe("music");
  expect(events[1]!.seq).toBe(head + 1);
});

test("a connection may have many sessions, and a session many connections", async () => {
  const ann = new E2eClient(node);
  const [one, other] = [await ann.connect(), await ann.connect()];
  const { id } = await ann.create("music", { connectionId: one.connectionId });
  await accepted(node.post("/session/load", { sessionId: id, connectionId: other.connectionId }));
  const second = await ann.create("chat", { connectionId: other.connectionId });
  await other.stream.find(({ sessionId }) => sessionId === second.id);
  for (const { stream } of [one, other]) {
    expect((await untilEcho(ann, stream, id)).at(-1)!.sessionId).toBe(id);
  }
  expect(one.stream.events.some(({ sessionId }) => sessionId === second.id)).toBe(false);
});

test("a connection gives its user and zone to sessions created through it, unless the request has others", async () => {
  const ann = new E2eClient(node);
  const { connectionId } = await ann.connect("&zone=driver");
  const make = async (fields: object) =>
    (await accepted(node.post("/session/create", { connectionId, ...fields }))).session;
  expect(await make({})).toMatchObject({ userId: ann.userId, zone: "driver" });
  expect(await make({ zone: "rear" })).toMatchObject({ userId: ann.userId, zone: "rear" });
  const other = await make({ userId: "somebody" });
  expect(other.userId).toBe("somebody");
  expect(other).not.toHaveProperty("zone");
  const second = await ann.connect();
  const chat = await accepted(ann.send({ type: "chat", content: "nod", connectionId: second.connectionId }));
  expect((await ann.see(chat.sessionId)).userId).toBe(ann.userId);
});

test("a connection that does not exist is not found by any route, and nothing is created", async () => {
  const { ann, id: sessionId } = await create(node, "music");
  const connectionId = "nobody";
  const asked = [
    ann.askToCreate({ agentId: "chat", connectionId }),
    node.post("/session/load", { sessionId, connectionId }),
    ann.send({ type: "chat", content: "hello", connectionId }),
    ann.send({ type: "abort", sessionId, connectionId }),
    ann.send({ type: "switch_agent", sessionId, connectionId, agentId: "chat" }),
  ];
  for (const answer of asked) expect((await refused(answer)).errorCode).toBe("connection_not_found");
  expect((await accepted(node.get(`/session/list?userId=${ann.userId}`))).total).toBe(1);
});

test("?sessionId= binds the first eight sessions, reports each that it cannot bind, and the stream opens", async () => {
  const ann = new E2eClient(node);
  const bad = ["nowhere", "not%20an%20id", "x".repeat(300)];
  const good: string[] = [];
  for (let made = 0; made < 10; made += 1) good.push((await ann.create("music")).id);
  const { stream } = await ann.connect([...bad, ...good].map((each) => `&sessionId=${each}`).join(""));
  expect(stream.status).toBe(200);
  for (const code of [...Array(3).fill("session_not_found"), ...Array(2).fill("too_many_bindings")]) {
    expect((await stream.find("error")).data).toMatchObject({ errorCode: code });
  }
  for (const id of [good[0]!, good[7]!]) expect((await untilEcho(ann, stream, id)).at(-1)!.sessionId).toBe(id);
  // Each from its present position.
  expect(typesOf(stream.events)).not.toContain("session_created");
});
