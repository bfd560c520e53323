import { afterAll, describe, expect, test } from "vitest";
import { E2E_AGENTS, scripted } from "../../../support/catalogs/e2e-catalog.ts";
import { accepted, E2eClient, refused } from "../../../support/clients/e2e-client.ts";
import { hold } from "../../../support/clients/e2e-states.ts";
import type { StreamEvent } from "../../../support/clients/frame-reader.ts";
import type { SseReader } from "../../../support/clients/sse-reader.ts";
import { NodeUnderTest } from "../../../support/nodes/node-under-test.ts";

/** Writes without a pause until it is stopped. */
const FLOOD = { match: "^flood", say: ["whale "], delay: "0ms", repeat: 100_000 };
/** A hundred megabytes. */
const SEA = { match: "^sea", say: ["~".repeat(10_000)], delay: "0ms", repeat: 10_000 };

/** Writes every 20 ms, so that its last text is never reported when it is stopped. */
const talker = scripted("talker", { when_busy: "interrupt", priority: 20 });
const writer = scripted("writer", { priority: 40 }, { replies: [FLOOD, SEA] });
const breaker = scripted("breaker", { priority: 40 }, { yields: "abort", replies: [FLOOD, SEA] });
const node = await NodeUnderTest.start({ agents: [...E2E_AGENTS, talker, writer, breaker] });
afterAll(() => node.stop());

/** A session whose run is writing. */
async function writing(agentId: string) {
  const { ann, id } = await hold(node, agentId);
  const stream = await ann.follow(id);
  await accepted(ann.say(id, "flood"));
  await stream.until("delta");
  return { ann, id, stream };
}

/** Resolves when the node has run a complete turn of another session: earlier work has arrived by then. */
async function aWholeTurnLater() {
  const other = new E2eClient(node);
  await other.talk((await other.hold("general")).id, "count");
}

describe("a session whose run writes", () => {
  test("a deleted session whose run writes stays deleted: no message, event or text is written later", async () => {
    const { ann, id, stream } = await writing("writer");
    expect((await accepted(node.delete(`/session/${id}`))).deleted).toBe(true);
    const end = await stream.end();
    expect(end.at(-1)).toMatchObject({ type: "bye", data: { reason: "ended" } });
    const last = end.findLast(({ seq }) => seq !== undefined)!;
    expect(last.data).toMatchObject({ event: "delete", to: "deleted" });
    await aWholeTurnLater();
    expect((await refused(node.get(`/session/${id}`))).errorCode).toBe("session_not_found");
    expect((await refused(node.get(`/session/${id}/messages`))).errorCode).toBe("session_not_found");
    for (const query of [`userId=${ann.userId}&includeArchived=true`, "q=whale&includeArchived=true"]) {
      expect((await accepted(node.get(`/session/list?${query}`))).sessions.map((each) => each.id)).not.toContain(id);
    }
    const { holder, paused, queued } = await ann.floor();
    expect([holder, paused, queued]).toEqual([null, [], []]);
    const { status } = await node.send("GET", `/session/${id}/events?lastEventId=${last.id}`);
    expect(status).toBe(204);
    expect((await refused(ann.askToCreate({ id, agentId: "general" }))).errorCode).toBe("idempotency_mismatch");
  });

  test.each([
    ["archive", "breaker"],
    ["stop", "writer"],
  ] as const)("a session whose run writes ends at %s: nothing follows (%s)", async (verb, agentId) => {
    const { ann, id, stream } = await writing(agentId);
    const { position } = await accepted(ann.on(id, verb));
    const end = await stream.end();
    expect(end.findLast(({ seq }) => seq !== undefined)?.id).toBe(position);
    // The run's last report may arrive after the answer. It completes the stored message without an event.
    await aWholeTurnLater();
    const before = [await ann.see(id), await ann.messages(id)];
    await aWholeTurnLater();
    expect([await ann.see(id), await ann.messages(id)]).toEqual(before);
    expect((await ann.messages(id)).map(({ status }) => status)).not.toContain("running");
    expect((await accepted(node.get(`/session/${id}`))).position).toBe(position);
  });

  test("a rollback replaces a session whose run writes without any part of the run", async () => {
    const { ann, id } = await writing("breaker");
    const { session } = await accepted(node.post(`/session/${id}/rollback`));
    await aWholeTurnLater();
    expect(await ann.messages(session.id)).toEqual([]);
    expect(await ann.see(session.id)).toMatchObject({ state: "active", activity: "idle", messageCount: 0 });
    expect((await ann.see(id)).state).toBe("archived");
  });
});

/** A session whose agent writes, and the text that its reader received: less than one report. */
async function listen(agentId = "talker") {
  const { ann, id } = await hold(node, agentId);
  const stream = await ann.follow(id);
  const { runId } = await accepted(ann.say(id, "count"));
  const deltas: StreamEvent[] = [];
  while (deltas.length < 4) deltas.push(await stream.find("delta"));
  const messageId = String(deltas[0]!.data["messageId"]);
  return { ann, id, stream, runId, messageId };
}

const textOf = (stream: SseReader, messageId: string) =>
  stream.events
    .filter(({ type, data }) => type === "delta" && data["messageId"] === messageId)
    .map(({ data }) => String(data["text"]))
    .join("");

/** The message in its last event, once it has all the received text. */
async function keptMessage(stream: SseReader, messageId: string): Promise<StreamEvent> {
  const heard = textOf(stream, messageId);
  expect(heard.length).toBeGreaterThanOrEqual("tick ".length * 4);
  const isWhole = ({ type, data }: StreamEvent) =>
    type === "message" && data["id"] === messageId && String(data["content"]).startsWith(heard);
  return stream.events.find(isWhole) ?? (await stream.find(isWhole));
}

test("text that readers received is kept after an abort, whose answer does not wait for it", async () => {
  const { ann, id, stream, runId, messageId } = await listen();
  await accepted(ann.send({ type: "abort", sessionId: id }));
  const { data } = await keptMessage(stream, messageId);
  expect(data).toMatchObject({ status: "interrupted", runId, streaming: false });
  const stored = (await ann.messages(id)).find((message) => message.id === messageId)!;
  expect(stored.content).toBe(data["content"]);
  // Its log contains the same at every read.
  const events = (await ann.log(id)).filter((event) => event.data["id"] === messageId);
  expect(events.at(-1)!.data["content"]).toBe(stored.content);
  expect((await ann.see(id)).messageCount).toBe(2);
});

test.each<[string, (ann: E2eClient, id: string) => Promise<unknown>]>([
  ["archive", (ann, id) => accepted(ann.on(id, "archive"))],
  ["stop", (ann, id) => accepted(ann.on(id, "stop"))],
  ["stop of the floor", (ann) => accepted(node.post(`${ann.floorPath}/stop`))],
  ["stop of all", (ann) => accepted(node.post(`${ann.floorPath}/stop-all`))],
])("text that readers received is in the stored message after %s, although the log has ended", async (_, end) => {
  const { ann, id, stream, messageId } = await listen();
  await end(ann, id);
  await stream.until(({ type, data }) => type === "session_transition" && data["to"] === "archived");
  const heard = textOf(stream, messageId);
  await expect
    .poll(async () => (await ann.messages(id)).find((message) => message.id === messageId)!.content)
    .toMatch(new RegExp(`^${heard}`));
  expect((await ann.log(id)).at(-1)!.data["to"]).toBe("archived");
});

test("text that readers received is kept after a preemption of an agent that does not hold, whose turn then begins again", async () => {
  const { ann, id, stream, runId, messageId } = await listen("restless");
  const phone = await ann.hold("phone");
  const { data } = await keptMessage(stream, messageId);
  expect(data).toMatchObject({ status: "interrupted", runId });
  expect((await ann.see(id)).state).toBe("paused");
  await accepted(ann.on(phone.id, "archive"));
  const again = await stream.find(({ type, data }) => type === "delta" && data["attempt"] === 2);
  expect(again.data).toMatchObject({ runId, offset: 0, text: "tick " });
  expect(again.data["messageId"]).not.toBe(messageId);
});
