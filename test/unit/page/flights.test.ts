import { expect, test } from "vitest";
import { eventsInFlight, flightIndex, sessionsInFlight } from "../../../page/timeline/flights.ts";
import { kindIndex, kindOf } from "../../../page/timeline/kinds.ts";
import { logEvent } from "../../support/documents/log-event.ts";

const log = (...parts: [sessionId: string, type: string, data: object][]) =>
  parts.map(([sessionId, type, data], index) => logEvent(index, type, data, sessionId));
type Part = Parameters<typeof log>[number];
const move = (id: string, to: string, more: object = {}): Part => [
  id,
  "session_transition",
  { event: "turn", to, ...more },
];
const decide = (id: string, outcome: string, reason = ""): Part => {
  return [id, "arbitration", { outcome, reason, challenger: { sessionId: id } }];
};

const EVENTS = log(
  ["a", "session_created", { id: "a" }],
  move("a", "active.idle"),
  move("a", "active.running"),
  ["b", "session_created", { id: "b" }],
  decide("b", "queued"),
  move("a", "paused"),
  decide("b", "granted"),
  move("b", "active.idle"),
  move("a", "paused", { activity: { from: "running", to: "idle" } }),
  ["a", "message", {}],
);
const inFlight = (count: number) => [...sessionsInFlight(flightIndex().of(EVENTS), count)];

test("a session is in flight while it has a turn, even a held one, or waits for the floor", () => {
  const flights = [2, 3, 5, 6, 7, 9].map(inFlight);
  expect(flights).toEqual([[], ["a"], ["a", "b"], ["a", "b"], ["a"], []]);
});

test("the events of a session's work range from its beginning to its end", () => {
  const flights = flightIndex().of(EVENTS);
  expect(eventsInFlight(flights, 3)).toEqual([2, 5, 8]);
  expect(eventsInFlight(flights, 5)).toEqual([2, 4, 5, 6, 8]);
  expect(eventsInFlight(flights, 10)).toEqual([]);
});

test("each kind of event lists its places, and the sessions concerned", () => {
  const index = kindIndex().of(
    log(
      decide("a", "granted"),
      decide("b", "rejected"),
      ["a", "session_transition", { event: "fail", to: "active.failed" }],
      ["c", "error", {}],
    ),
  );
  const of = (kind: keyof typeof index) => [index[kind].indices, [...index[kind].sessions]];
  expect(of("all")).toEqual([
    [0, 1, 2, 3],
    ["a", "b", "c"],
  ]);
  expect(of("decisions")).toEqual([
    [0, 1],
    ["a", "b"],
  ]);
  expect(of("refused")).toEqual([[1], ["b"]]);
  expect(of("failed")).toEqual([
    [2, 3],
    ["a", "c"],
  ]);
  expect(of("transitions")).toEqual([[2], ["a"]]);
  expect(kindOf("refused")).toBe("refused");
  expect(kindOf("nonsense")).toBe("all");
});
