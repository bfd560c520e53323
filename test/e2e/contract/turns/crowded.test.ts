import { expect, onTestFinished, test } from "vitest";
import { type Caller, startGuarded } from "../../../support/clients/callers.ts";
import { accepted } from "../../../support/clients/e2e-client.ts";
import { metricOf } from "../../../support/clients/node-client.ts";
import { NodeUnderTest } from "../../../support/nodes/node-under-test.ts";

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

async function findEnd(by: Pick<Caller, "stream">, sessionId: string): Promise<void> {
  const stream = await by.stream(`/session/${sessionId}/events?after=0`);
  await stream.find("complete");
  await stream.close();
}

test("one owner's 280 chats that speak without end do not delay another owner's answer", async () => {
  const { ann, bob } = await startGuarded({}, onTestFinished);
  await crowd(ann, "play");
  await findEnd(bob, await chat(bob, "hello"));
});

test("without authentication, 280 unanswered questions do not block a chat", async () => {
  const node = await NodeUnderTest.start();
  onTestFinished(() => node.stop());
  await crowd(node, "ask");
  await findEnd(node, await chat(node, "hello"));
  // The answer overtakes questions that are still on their way.
  await expect.poll(() => metricOf(node, 'interlock_runs{state="waiting"}')).toBe(CROWD);
});
