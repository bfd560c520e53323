import { afterAll, describe, expect, test } from "vitest";
import { E2E_AGENTS, scripted } from "../../../support/catalogs/e2e-catalog.ts";
import { accepted, type E2eClient } from "../../../support/clients/e2e-client.ts";
import { hold } from "../../../support/clients/e2e-states.ts";
import type { SseReader, StreamEvent } from "../../../support/clients/sse-reader.ts";
import { NodeUnderTest } from "../../../support/nodes/node-under-test.ts";

/** Writes every 20 ms, so that its last text is never reported when it is stopped. */
const talker = scripted("talker", { when_busy: "interrupt", priority: 20 });
const node = await NodeUnderTest.start({ agents: [...E2E_AGENTS, talker] });
afterAll(() => node.stop());

/** A session whose agent writes, and the text that its reader received: less than one report. */
async function listen() {
  const { ann, id } = await hold(node, "talker");
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

describe("text that readers received", () => {
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

  test("text that readers received is kept after an interrupt, before the next turn begins", async () => {
    const { ann, id, stream, messageId } = await listen();
    const { runId } = await accepted(ann.say(id, "hello"));
    const { data } = await keptMessage(stream, messageId);
    await stream.until((event) => event.type === "complete" && event.data["runId"] === runId);
    expect(data["status"]).toBe("interrupted");
    const contents = (await ann.messages(id)).map(({ content }) => content);
    expect(contents).toContain("Hello there.");
    expect(contents.filter((content) => content.startsWith("tick "))).toEqual([data["content"]]);
  });

  test("text that readers received is kept after a preemption of an agent that does not hold", async () => {
    const { ann, id } = await hold(node, "restless");
    const stream = await ann.follow(id);
    await accepted(ann.say(id, "count"));
    const first = await stream.find("delta");
    const messageId = String(first.data["messageId"]);
    while (textOf(stream, messageId).length < "tick ".length * 4) await stream.find("delta");
    await ann.hold("phone");
    const { data } = await keptMessage(stream, messageId);
    expect(data["status"]).toBe("interrupted");
    expect((await ann.see(id)).state).toBe("paused");
  });
});
