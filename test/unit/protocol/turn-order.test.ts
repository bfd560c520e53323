import { expect, test } from "vitest";
import type { MessageId, RunId, SessionId } from "../../../src/protocol/ids.ts";
import type { Message } from "../../../src/protocol/message.ts";
import { inTurnOrder, TurnOrder } from "../../../src/protocol/turn-order.ts";

/** `u1` is the message of the user that begins run 1, `a1` a reply of it, `s` a summary, `i` one without a run. */
function messageOf(name: string): Message {
  const [kind, run] = [name[0], name[1]];
  return {
    id: name as MessageId,
    sessionId: "s" as SessionId,
    role: kind === "u" ? "user" : kind === "s" ? "system" : "assistant",
    content: name,
    status: "success",
    createdAt: 0,
    ...(kind === "s" && { summary: { upTo: "a0" as MessageId } }),
    ...((kind === "u" || kind === "a") && { runId: run as RunId }),
  };
}

const ordered = (names: string) =>
  inTurnOrder(names.split(" ").map(messageOf))
    .map(({ id }) => id)
    .join(" ");

test.each([
  ["turns that waited for the first one", "u0 u1 u2 a0 a1 a2", "u0 a0 u1 a1 u2 a2"],
  ["a turn that came during the first reply", "u0 a0 u1 a0' a1", "u0 a0 a0' u1 a1"],
  ["turns one after the other", "u0 a0 u1 a1", "u0 a0 u1 a1"],
  ["a turn that was dropped without a reply", "u0 u1 u2 a0 a2", "u0 a0 u1 u2 a2"],
  ["a summary between turns that waited", "u0 u1 a0 s a1", "u0 a0 s u1 a1"],
  ["the last turns have no reply yet", "u0 u1 u2 a0", "u0 a0 u1 u2"],
  ["a reply whose question is not there", "a0 u1 a1", "a0 u1 a1"],
  ["messages without a run keep their places", "u0 u1 i a0 a1", "u0 u1 i a0 a1"],
])("messages are in the order of their turns: %s", (_, listed, expected) => {
  expect(ordered(listed)).toBe(expected);
});

test("a message that is read again while it is held takes its own place", () => {
  const order = new TurnOrder();
  const waiting: Message = { ...messageOf("u1"), status: "queued" };
  for (const message of [messageOf("u0"), waiting, messageOf("u1")]) expect(order.take(message)).toEqual([]);
  expect(order.rest()).toEqual([messageOf("u0"), messageOf("u1")]);
});

test("questions without replies are held up to a bound", () => {
  const order = new TurnOrder();
  const given = Array.from({ length: 1_000 }, (_, n): Message => {
    return { ...messageOf("u0"), id: `u${n}` as MessageId, runId: `${n}` as RunId };
  });
  const early = given.flatMap((message) => order.take(message));
  const late = order.rest();
  expect(late).toHaveLength(64);
  expect([...early, ...late]).toEqual(given);
});
