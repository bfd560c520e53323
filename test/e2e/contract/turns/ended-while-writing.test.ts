import { afterAll, describe, expect, test } from "vitest";
import { scripted } from "../../../support/catalogs/e2e-catalog.ts";
import { accepted, E2eClient, refused } from "../../../support/clients/e2e-client.ts";
import { NodeUnderTest } from "../../../support/nodes/node-under-test.ts";

/** Writes without a pause until it is stopped. */
const FLOOD = { match: "^flood", say: ["whale "], delay: "0ms", repeat: 100_000 };
/** A hundred megabytes. */
const SEA = { match: "^sea", say: ["~".repeat(10_000)], delay: "0ms", repeat: 10_000 };

const node = await NodeUnderTest.start({
  agents: [
    scripted("general", { priority: 40 }),
    { name: "writer", priority: 40, adapter: { kind: "scripted", replies: [FLOOD, SEA] } },
    { name: "breaker", priority: 40, adapter: { kind: "scripted", yields: "abort", replies: [FLOOD, SEA] } },
  ],
});
afterAll(() => node.stop());

/** A session whose run is writing. */
async function writing(client: E2eClient, agentId: string) {
  const session = await client.hold(agentId);
  const stream = await client.follow(session.id);
  await accepted(client.say(session.id, "flood"));
  await stream.until("delta");
  return { id: session.id, stream };
}

/** Resolves when the node has run a complete turn of another session: earlier work has arrived by then. */
async function aWholeTurnLater() {
  const other = new E2eClient(node);
  await other.talk((await other.hold("general")).id, "count");
}

describe.each([
  ["holds", "writer"],
  ["aborts", "breaker"],
])("a session whose run writes, and whose agent %s its run in a pause", (_, agentId) => {
  test("a deleted session whose run writes stays deleted: no message, event or text is written later", async () => {
    const ann = new E2eClient(node);
    const { id, stream } = await writing(ann, agentId);
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

  test.each(["archive", "stop"] as const)(
    "a session whose run writes ends at %s: no event follows, and its message stays as its last report left it",
    async (verb) => {
      const ann = new E2eClient(node);
      const { id, stream } = await writing(ann, agentId);
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
    },
  );

  test("a rollback replaces a session whose run writes without any part of the run", async () => {
    const ann = new E2eClient(node);
    const { id } = await writing(ann, agentId);
    const { session } = await accepted(node.post(`/session/${id}/rollback`));
    await aWholeTurnLater();
    expect(await ann.messages(session.id)).toEqual([]);
    expect(await ann.see(session.id)).toMatchObject({ state: "active", activity: "idle", messageCount: 0 });
    expect((await ann.see(id)).state).toBe("archived");
  });
});

test("a reply of a hundred megabytes is cut at its limit, with a sentence, while another session is answered", async () => {
  const [ann, bob] = [new E2eClient(node), new E2eClient(node)];
  const { id } = await ann.hold("writer");
  const stream = await ann.follow(id);
  await accepted(ann.say(id, "sea"));
  await stream.until("delta");
  const other = await bob.hold("general");
  await bob.talk(other.id, "hello");
  expect((await bob.messages(other.id)).at(-1)?.content).toBe("Hello there.");
  const events = await stream.until("complete");
  expect(events.find(({ type }) => type === "error")?.data).toMatchObject({
    errorCode: "too_large",
    message: "The reply is longer than 4,194,304 characters, and was cut there.",
  });
  let units = 0;
  for (let before = ""; ; ) {
    const page = await accepted(node.get(`/session/${id}/messages?limit=500${before}`));
    for (const message of page.messages) units += message.role === "assistant" ? message.content.length : 0;
    if (!page.hasMore) break;
    before = `&before=${page.messages[0]!.id}`;
  }
  expect(units).toBeGreaterThan(4_000_000);
  expect(units).toBeLessThanOrEqual(4_194_304);
  await ann.talk(id, "nothing that matches");
  expect((await ann.see(id)).activity).toBe("idle");
}, 60_000);
