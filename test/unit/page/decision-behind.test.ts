import { describe, expect, test } from "vitest";
import { decisionBehind } from "../../../page/floor/decision-behind.ts";
import type { Decision } from "../../../src/protocol/decision.ts";

const asked = (id: string, change: Partial<Decision> = {}): Decision =>
  ({
    outcome: "granted",
    reason: "floor_free",
    challenger: { sessionId: id, agentId: "a", priority: 1 },
    ...change,
  }) as Decision;
const holder = (id: string) =>
  ({ sessionId: id, agentId: "a", priority: 1, interruptible: true }) as Decision["holder"];
const standing = (state: string, pausedBy?: string) => ({ id: "s", state, ...(pausedBy && { pausedBy }) }) as never;

const began = asked("s");
const interrupted = asked("phone", { reason: "preempted", holder: holder("s") } as Partial<Decision>);
const refused = asked("s", {
  outcome: "rejected",
  reason: "lower_priority",
  holder: holder("phone"),
} as Partial<Decision>);
const ducked = asked("prompt", {
  reason: "preempted",
  holder: holder("s"),
  effects: [{ sessionId: "s", agentId: "a", becomes: "ducked", level: -14 }],
} as Partial<Decision>);

describe("the decision behind where a session stands", () => {
  test("the decision behind a paused session is the one that paused it, also after a refused resume", () => {
    expect(decisionBehind([began, interrupted, refused], standing("paused", "preemption"))).toBe(interrupted);
  });

  test("a session that its user paused, that yielded or that is archived has no decision behind it", () => {
    for (const pausedBy of ["user", "yield"]) {
      expect(decisionBehind([began], standing("paused", pausedBy))).toBeUndefined();
      expect(decisionBehind([began, interrupted], standing("paused", pausedBy))).toBeUndefined();
    }
    expect(decisionBehind([began], standing("archived"))).toBeUndefined();
  });

  test("a session that a restriction paused after a resume has no decision behind it", () => {
    const resumed = asked("s", { reason: "resumed" });
    expect(decisionBehind([began, interrupted, resumed], standing("paused", "preemption"))).toBeUndefined();
  });

  test("the decision behind a ducked session is the one that ducked it, and behind the holder the one that granted the floor", () => {
    expect(decisionBehind([began, ducked], standing("ducked"))).toBe(ducked);
    expect(decisionBehind([asked("s", { reason: "beneath" })], standing("ducked"))?.reason).toBe("beneath");
    expect(decisionBehind([refused, began, asked("s", { reason: "already_holder" })], standing("active"))).toBe(began);
  });

  test("the decision behind a session that never had the floor is its refusal or its queueing", () => {
    expect(decisionBehind([refused], standing("created"))).toBe(refused);
    const queued = asked("s", { outcome: "queued", reason: "lower_priority" });
    expect(decisionBehind([refused, queued, asked("other")], standing("created"))).toBe(queued);
  });
});
