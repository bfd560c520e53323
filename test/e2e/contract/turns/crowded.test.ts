import { afterAll, describe, expect, test } from "vitest";
import { Caller, keysFile, writeTemporary } from "../../../support/clients/callers.ts";
import { accepted } from "../../../support/clients/e2e-client.ts";
import { NodeUnderTest } from "../../../support/nodes/node-under-test.ts";

const KEYS = [
  { owner: "ann", key: "ann-key-0123456789abcdef0123456789" },
  { owner: "bob", key: "bob-key-0123456789abcdef0123456789" },
];
/** More than a worker runs at a time. */
const CROWD = 280;

/** A session with its own floor, and its turn. */
async function chat(by: Pick<Caller, "post">, content: string): Promise<string> {
  const { session } = await accepted(by.post("/session/create", { agentId: "general", activate: true }));
  await accepted(by.post("/message", { type: "chat", sessionId: session.id, content }));
  return session.id;
}

const crowd = (by: Pick<Caller, "post">, content: string) =>
  Promise.all(Array.from({ length: CROWD }, () => chat(by, content)));

describe("one owner's 280 chats", async () => {
  const keys = await writeTemporary("keys.yaml", keysFile(KEYS), afterAll);
  const settings = { INTERLOCK_AUTH: `keys:${keys}`, INTERLOCK_RATE_LIMITS: "off" };

  test.each([
    ["wait for an answer", "ask"],
    ["speak without end", "play"],
  ])("one owner's 280 chats that %s do not delay another owner's answer", async (_, content) => {
    const node = await NodeUnderTest.start({ settings });
    try {
      const [ann, bob] = KEYS.map(({ key }) => new Caller(node, key)) as [Caller, Caller];
      await crowd(ann, content);
      const sessionId = await chat(bob, "hello");
      const stream = await bob.stream(`/session/${sessionId}/events?after=0`);
      await stream.find(({ type }) => type === "complete");
    } finally {
      await node.stop();
    }
  });

  test("one owner's 280 chats are all answered in turn", async () => {
    const node = await NodeUnderTest.start({ settings });
    try {
      const ann = new Caller(node, KEYS[0]!.key);
      const ids = await crowd(ann, "hello");
      for (const id of ids) {
        const stream = await ann.stream(`/session/${id}/events?after=0`);
        await stream.find(({ type }) => type === "complete");
        await stream.close();
      }
    } finally {
      await node.stop();
    }
  });
});

test("without authentication, 280 unanswered questions do not block a chat", async () => {
  const node = await NodeUnderTest.start();
  try {
    await crowd(node, "ask");
    const sessionId = await chat(node, "hello");
    const stream = await node.stream(`/session/${sessionId}/events?after=0`);
    await stream.find(({ type }) => type === "complete");
    expect((await node.get("/metrics")).text).toContain(`interlock_runs{state="waiting"} ${CROWD}`);
  } finally {
    await node.stop();
  }
});
