import { expect, test } from "vitest";
import {
  columnOf,
  columnsOf,
  type Exchange,
  exchangeIndex,
  firstFrom,
  type Party,
} from "../../../page/sequence/exchanges.ts";
import { AT, logEvent } from "../../support/documents/log-event.ts";

const written = ({ role, sessionId }: Party) => (sessionId === undefined ? role : `${role} ${sessionId}`);
const read = (...parts: [type: string, data: unknown, sessionId?: string][]) =>
  exchangeIndex().of(parts.map(([type, data, id], index) => logEvent(index, type, data, id))).all;
const ways = (...parts: Parameters<typeof read>) =>
  read(...parts).map(({ from, to }) => `${written(from)} > ${written(to)}`);

test("a decision is shown as two messages, the request and the answer", () => {
  const challenger = { sessionId: "a", agentId: "music", priority: 20 };
  expect(ways(["session_created", { id: "a" }, "a"], ["arbitration", { outcome: "granted", challenger }, "a"])).toEqual(
    ["client > session a", "session a > arbiter", "arbiter > session a"],
  );
});

test("the refusal of a session that was never created is shown at the client", () => {
  const challenger = { sessionId: "b", agentId: "chat", priority: 10 };
  expect(ways(["arbitration", { outcome: "rejected", challenger }])).toEqual(["client > arbiter", "arbiter > client"]);
});

test("a transition is shown with its cause", () => {
  const by = { sessionId: "b", agentId: "phone" };
  const of = (data: object) => ways(["session_transition", data, "a"])[0];
  expect(of({ event: "preempt", by })).toBe("arbiter > session a");
  expect(of({ event: "turn" })).toBe("session a > run a");
  expect(of({ event: "done" })).toBe("run a > session a");
  expect(of({ event: "yield", reason: "after_turn" })).toBe("session a > arbiter");
  expect(of({ event: "pause" })).toBe("client > session a");
  expect(of({ event: "archive" })).toBe("client > session a");
  expect(of({ event: "archive", reason: "stop" })).toBe("arbiter > session a");
  expect(of({ event: "archive", reason: "after_turn" })).toBe("session a > arbiter");
});

test("a user's message is shown once, and an agent's message when it is complete", () => {
  const said = { id: "m1", role: "user", streaming: false };
  expect(
    ways(
      ["message", said, "a"],
      ["message", { ...said, status: "success" }, "a"],
      ["message", { id: "m2", role: "assistant", streaming: true }, "a"],
      ["message", { id: "m2", role: "assistant", streaming: false }, "a"],
      ["usage", {}, "a"],
    ),
  ).toEqual(["client > session a", "run a > client"]);
});

test("exchanges are extended as the log grows, and read again when older events are added", () => {
  const index = exchangeIndex();
  const events = [logEvent(5, "floor_updated", { flags: {} })];
  const first = index.of(events);
  expect(first.all).toHaveLength(1);
  events.push(logEvent(6, "floor_updated", { flags: {} }));
  expect(index.of(events)).toBe(first);
  expect(first.all.map(({ index }) => index)).toEqual([0, 1]);
  events.unshift(logEvent(4, "floor_updated", { flags: {} }));
  expect(index.of(events).all.map(({ index }) => index)).toEqual([0, 1, 2]);
});

const turns = (ids: string[]) =>
  ids.map((id) => ["session_transition", { event: "turn" }, id] as [string, unknown, string]);
const columns = (shown: Exchange[], maxSessions: number, chosen?: string, part = { first: 0, end: shown.length }) =>
  columnsOf(shown, part, maxSessions, chosen);
const names = (...given: Parameters<typeof columns>) =>
  columns(...given)
    .map((each) => (each ? written(each) : "others"))
    .join(", ");

test("the columns are the newest sessions, and one for all others", () => {
  const shown = read(...turns(["a", "b", "c", "a"]));
  expect(names(shown, 3)).toBe("client, arbiter, session a, run a, session b, run b, session c, run c");
  expect(names(shown, 2)).toBe("client, arbiter, session a, run a, session c, run c, others");
  expect(names(shown, 1, "b")).toBe("client, arbiter, session b, run b, others");
  expect(columnOf(columns(shown, 1, "b"), { role: "run", sessionId: "c" })).toBe(4);
});

test("the columns are those of the shown part alone", () => {
  const shown = read(...turns(["a", "b", "c", "a"]));
  expect(names(shown, 3, undefined, { first: 1, end: 3 })).toBe("client, arbiter, session b, run b, session c, run c");
  expect(names(shown, 1, "a", { first: 1, end: 3 })).toBe("client, arbiter, session c, run c, others");
});

test("the number of columns is limited for a log with ten thousand sessions", () => {
  const shown = read(...turns(Array.from({ length: 10_000 }, (_, index) => `s${index}`)));
  expect(columns(shown, 6, "s1")).toHaveLength(2 + 6 * 2 + 1);
});

test("a span is found by its times, and a moment by its place", () => {
  const shown = read(["floor_updated", { flags: {} }], ["usage", {}], ["floor_updated", { flags: {} }]);
  expect(firstFrom(shown, "at", AT + 1)).toBe(1);
  expect(firstFrom(shown, "index", 2)).toBe(1);
  expect(firstFrom(shown, "index", 3)).toBe(2);
});
