import { expect, test } from "vitest";
import { firstAbove, laneIndex, lanesWithin, moved, pinched, zoomed } from "../../../page/timeline/lanes/lanes.ts";
import { AT, logEvent } from "../../support/documents/log-event.ts";

test("lanes show the states of each session over time, and its end", () => {
  const { lanes, marks, from, to } = laneIndex().of([
    logEvent(0, "session_created", { id: "a", title: "A", agentId: "music" }, "a"),
    logEvent(1, "arbitration", { outcome: "queued", reason: "lower_priority", challenger: { sessionId: "a" } }, "a"),
    logEvent(2, "session_transition", { from: "created", to: "active.idle", event: "activate" }, "a"),
    logEvent(3, "session_transition", { from: "active.idle", to: "active.running", event: "turn" }, "a"),
    logEvent(4, "session_transition", { from: "active.running", to: "ducked.running", event: "duck", level: -14 }, "a"),
    logEvent(5, "arbitration", {
      outcome: "rejected",
      reason: "lower_priority",
      challenger: { sessionId: "never made" },
    }),
    logEvent(6, "session_transition", { from: "ducked.running", to: "paused", event: "preempt" }, "a"),
    logEvent(7, "session_updated", { title: "B" }, "a"),
    logEvent(8, "session_transition", { from: "paused", to: "archived", event: "archive" }, "a"),
  ]);
  expect(lanes).toEqual([
    {
      sessionId: "a",
      title: "B",
      agentId: "music",
      starts: [0, 1, 2, 3, 4, 6, 8].map((second) => AT + second * 1_000),
      looks: ["created", "queued", "idle", "running", "ducked", "paused", "archived"],
      endsAt: AT + 8_000,
      state: "archived",
      isQueued: false,
      isBusy: false,
    },
  ]);
  expect(marks.map(({ sessionId, outcome, index }) => [sessionId, outcome, index])).toEqual([
    ["a", "queued", 1],
    [undefined, "rejected", 5],
  ]);
  expect([from, to]).toEqual([AT, AT + 8_000]);
});

test("the lanes of a span are those of the sessions that existed at some time in it", () => {
  const lane = (sessionId: string, start: number, endsAt?: number) => ({
    sessionId,
    title: sessionId,
    agentId: "",
    starts: [start],
    looks: ["idle" as const],
    endsAt,
    state: "idle" as const,
    isQueued: false,
    isBusy: false,
  });
  const all = [
    lane("over", 0, 999),
    lane("ends", 0, 1_000),
    lane("stays", 500),
    lane("begins", 2_000),
    lane("later", 2_001),
    { ...lane("unknown", 0), starts: [], looks: [] },
  ];
  const names = lanesWithin(all, { from: 1_000, to: 2_000 }).map(({ sessionId }) => sessionId);
  expect(names).toEqual(["ends", "stays", "begins"]);
});

test("lanes of an empty log are empty, over a span that is not zero", () => {
  const { lanes, from, to } = laneIndex().of([]);
  expect(lanes).toEqual([]);
  expect(to).toBeGreaterThan(from);
});

const whole = { from: 0, to: 10_000 };

test("a span zooms around a moment, which stays in place, and never beyond the log", () => {
  const near = zoomed(whole, 0.5, 2_000, whole);
  expect(near).toEqual({ from: 1_000, to: 6_000 });
  expect(zoomed(near, 100, 2_000, whole)).toEqual(whole);
  const { from, to } = zoomed(whole, 1e-9, 5_000, whole);
  expect(to - from).toBeCloseTo(10);
});

test("a pinch moves two places to two parts of the span, and never beyond the log", () => {
  const spread = pinched([4_000, 6_000], [0.25, 0.75], whole);
  expect(spread).toEqual({ from: 3_000, to: 7_000 });
  expect(pinched([6_000, 4_000], [0.25, 0.75], whole)).toEqual(spread);
  expect(pinched([4_000, 6_000], [0.45, 0.55], whole)).toEqual(whole);
  expect(pinched([4_000, 6_000], [0.5, 0.5], whole)).toEqual(whole);
  const { from, to } = pinched([4_999, 5_000], [0, 1], whole);
  expect(to - from).toBe(10);
});

test("a span moves by a part of itself and stops at the log's ends", () => {
  expect(moved({ from: 1_000, to: 3_000 }, 0.5, whole)).toEqual({ from: 2_000, to: 4_000 });
  expect(moved({ from: 1_000, to: 3_000 }, -9, whole)).toEqual({ from: 0, to: 2_000 });
  expect(moved({ from: 1_000, to: 3_000 }, 9, whole)).toEqual({ from: 8_000, to: 10_000 });
});

test("a search in a span finds the first value above another", () => {
  expect([0, 1, 2, 3, 9].map((value) => firstAbove([1, 2, 2, 3], value))).toEqual([0, 1, 3, 4, 4]);
});
