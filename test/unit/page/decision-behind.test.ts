import { expect, test } from "vitest";
import { decisionBehind } from "../../../page/floor/decision-behind.ts";
import type { Decision } from "../../../src/protocol/decision.ts";

const asked = (id: string, change: Partial<Decision> = {}) => {
  const challenger = { sessionId: id, agentId: "a", priority: 1 };
  return { outcome: "granted", reason: "floor_free", challenger, ...change } as Decision;
};
const holder = (id: string) =>
  ({ sessionId: id, agentId: "a", priority: 1, interruptible: true }) as Decision["holder"];
const sessionState = (state: string, pausedBy?: string) => ({ id: "s", state, ...(pausedBy && { pausedBy }) }) as never;

const began = asked("s");
const interrupted = asked("phone", { reason: "preempted", holder: holder("s") } as Partial<Decision>);
const refused = asked("s", { outcome: "rejected", reason: "lower_priority", holder: holder("phone") });
const ducked = asked("prompt", {
  reason: "preempted",
  holder: holder("s"),
  effects: [{ sessionId: "s", agentId: "a", becomes: "ducked", level: -14 }],
} as Partial<Decision>);

test("a paused session is explained by the decision that paused it, also after a refused resume", () => {
  expect(decisionBehind([began, interrupted, refused], sessionState("paused", "preemption"))).toBe(interrupted);
});

test("no decision explains a session that its user paused, that yielded or that is archived", () => {
  for (const pausedBy of ["user", "yield"]) {
    expect(decisionBehind([began], sessionState("paused", pausedBy))).toBeUndefined();
    expect(decisionBehind([began, interrupted], sessionState("paused", pausedBy))).toBeUndefined();
  }
  expect(decisionBehind([began], sessionState("archived"))).toBeUndefined();
});

test("no decision explains a session that a restriction paused after a resume", () => {
  const resumed = asked("s", { reason: "resumed" });
  expect(decisionBehind([began, interrupted, resumed], sessionState("paused", "preemption"))).toBeUndefined();
});

test("a ducked session is explained by the decision that ducked it, and the holder by its grant", () => {
  expect(decisionBehind([began, ducked], sessionState("ducked"))).toBe(ducked);
  expect(decisionBehind([asked("s", { reason: "beneath" })], sessionState("ducked"))?.reason).toBe("beneath");
  expect(decisionBehind([refused, began, asked("s", { reason: "already_holder" })], sessionState("active"))).toBe(
    began,
  );
});

test("a session that never had the floor is explained by its refusal or its queueing", () => {
  expect(decisionBehind([refused], sessionState("created"))).toBe(refused);
  const queued = asked("s", { outcome: "queued", reason: "lower_priority" });
  const waiting = { id: "s", state: "created", queuedAt: 1 } as never;
  expect(decisionBehind([refused, queued, asked("other")], waiting)).toBe(queued);
  // Its turn was withdrawn.
  expect(decisionBehind([refused, queued], sessionState("created"))).toBeUndefined();
});
