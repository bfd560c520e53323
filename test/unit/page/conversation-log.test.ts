import { expect, test } from "vitest";
import {
  type CallNode,
  callTree,
  itemsOf,
  lastPauseOf,
  lastWordsOf,
  messageKeyOf,
  transcriptOf,
} from "../../../page/log/conversation-log.ts";
import { PictureBook } from "../../../page/log/floor-picture.ts";
import { countUpTo, type LogEvent } from "../../../page/log/log-event.ts";
import { eventIndices } from "../../../page/log/log-index.ts";
import { AT, logEvent } from "../../support/documents/log-event.ts";

type Entry = { type: string; data: object; sessionId?: string; requestId?: string };

/** Events at the places 1, 2, 3 … of a floor's log, one second apart. */
const logOf = (...entries: Entry[]) =>
  entries.map((entry, index) => ({ ...logEvent(index, entry.type, entry.data), ...entry }) as LogEvent);

const inLog = <Data extends object>(type: string, data: Data) => ({ type, sessionId: "s", data });

const message = (id: string, path: string[], at: number, content = id, calls?: string[]) => {
  const kind = path.length > 1 ? "sub" : "master";
  const agent = { kind, name: path.at(-1), depth: path.length - 1, path, ...(calls && { calls }) };
  const about = { id, sessionId: "s", role: "assistant", content, status: "success", streaming: false };
  return inLog("message", { ...about, createdAt: AT + at, agent });
};

const said = (id: string, path: string[], calls: string[], at: number) => message(id, path, at, id, calls);

const transcriptIn = (log: readonly LogEvent[], count?: number) =>
  transcriptOf(log, eventIndices().of(log).get("s"), count);

const treeOf = (...entries: Parameters<typeof logOf>) => callTree(itemsOf(transcriptIn(logOf(...entries))));

/** The same log, and the number of events that were read of it since the last call. */
function counted(log: LogEvent[]): { log: LogEvent[]; reads: () => number } {
  let read = 0;
  const watched = new Proxy(log, {
    get(events, key) {
      if (typeof key === "string" && /^\d+$/.test(key)) read += 1;
      return Reflect.get(events, key);
    },
  });
  return {
    log: watched,
    reads: () => {
      const count = read;
      read = 0;
      return count;
    },
  };
}

/** A user's message; `queued` ones wait for their turn. */
const input = (id: string, status: "queued" | "success" = "queued") => {
  const about = { id, sessionId: "s", role: "user", content: id, status, streaming: false };
  return inLog("message", { ...about, runId: `run of ${id}`, createdAt: AT });
};
const ended = (id: string, how: { cancelled?: true; withdrawn?: true } = {}) =>
  inLog("complete", { sessionId: "s", runId: `run of ${id}`, tokenCount: 0, usage: {}, ...how });
const begun = (id: string) => move("s", "active.idle", "active.running", "turn", { runId: `run of ${id}` });
const CANCELLED = { cancelled: true } as const;

/** The tree, with names of calls and ids of messages. */
const brief = (nodes: readonly CallNode[]): unknown[] =>
  nodes.map((node) => {
    if (node.kind === "call") return { [node.name]: brief(node.nodes) };
    return node.item.kind === "message" ? node.item.message.id : "tool";
  });

const move = (sessionId: string, from: string, to: string, event: string, more: object = {}) => ({
  type: "session_transition",
  sessionId,
  data: { from, to, event, ...more },
});
/** The message with other data. */
const changed = (id: string, at: number, more: object) => {
  const { data, ...rest } = message(id, ["a"], at);
  return { ...rest, data: { ...data, ...more } };
};

test("a transcript has the messages of one session up to a moment, and no other session's", () => {
  const other = { ...message("x", ["a"], 3), sessionId: "other" };
  const log = logOf(message("one", ["a"], 1), other, message("two", ["a"], 2));
  expect(transcriptIn(log).messages.map(({ id }) => id)).toEqual(["one", "two"]);
  expect(transcriptIn(log, 2).messages.map(({ id }) => id)).toEqual(["one"]);
});

test("a transcript shows a question until it is settled or its run ends", () => {
  const ask = { ...inLog("user_question_request", { question: "?", options: [] }), requestId: "q" };
  const settled = { ...inLog("interaction_resolved", { by: "client" }), requestId: "q" };
  const over = inLog("complete", { sessionId: "s", runId: "r" });
  expect(transcriptIn(logOf(ask)).interactions).toHaveLength(1);
  expect(transcriptIn(logOf(ask, settled)).interactions).toEqual([]);
  expect(transcriptIn(logOf(ask, over)).interactions).toEqual([]);
});

test("a transcript places each sub-agent's messages beneath its call", () => {
  const tree = treeOf(
    message("m1", ["main"], 1),
    message("w1", ["main", "weather"], 2),
    message("d1", ["main", "weather", "radar"], 3),
    message("w2", ["main", "weather"], 4),
    message("m2", ["main"], 5),
    message("w3", ["main", "weather"], 6),
  );
  expect(brief(tree)).toEqual(["m1", { weather: ["w1", { radar: ["d1"] }, "w2"] }, "m2", { weather: ["w3"] }]);
});

test("a transcript keeps a call's key when an earlier line arrives late", () => {
  const path = ["main", "weather", "radar"];
  const known = [
    message("m1", ["main"], 1),
    said("w2", path.slice(0, 2), ["c1"], 4),
    said("d2", path, ["c1", "c2"], 5),
  ];
  const late = [said("w1", path.slice(0, 2), ["c1"], 2), said("d1", path, ["c1", "c2"], 3)];
  const keysOf = (nodes: readonly CallNode[]): string[] =>
    nodes.flatMap((node) => (node.kind === "call" ? [node.key, ...keysOf(node.nodes)] : []));
  const keys = keysOf(treeOf(...known));
  expect(keys).toHaveLength(2);
  expect(keysOf(treeOf(...known, ...late))).toEqual(keys);
  expect(brief(treeOf(...known, ...late))).toEqual(["m1", { weather: ["w1", { radar: ["d1", "d2"] }, "w2"] }]);
});

test("a transcript separates the alternating messages of two sub-agents of one name", () => {
  const path = ["main", "weather"];
  const tree = treeOf(
    said("a1", path, ["a"], 1),
    said("b1", path, ["b"], 2),
    said("a2", path, ["a"], 3),
    message("m1", ["main"], 4),
    said("b2", path, ["b"], 5),
  );
  expect(brief(tree)).toEqual([{ weather: ["a1", "a2"] }, { weather: ["b1", "b2"] }, "m1"]);
});

test("a transcript does not confuse calls of two runs that have the same id", () => {
  const asked = (id: string, at: number) => changed(id, at, { role: "user", agent: undefined });
  const path = ["main", "weather"];
  const tree = treeOf(asked("u1", 1), said("w1", path, ["0"], 2), asked("u2", 3), said("w2", path, ["0"], 4));
  expect(brief(tree)).toEqual(["u1", { weather: ["w1"] }, "u2", { weather: ["w2"] }]);
  const keys = tree.flatMap((node) => (node.kind === "call" ? [node.key] : []));
  expect(new Set(keys).size).toBe(2);
});

test("a transcript has the tool calls of two runs that have the same id, each with its result", () => {
  const agent = { kind: "master", name: "a", depth: 0, path: ["a"] };
  const called = (name: string) => [
    inLog("tool_call", { toolCallId: "0", function: { name, arguments: "{}" }, agent }),
    inLog("tool_result", { toolCallId: "0", toolName: name, content: name, status: "success", agent }),
  ];
  const { toolUses } = transcriptIn(logOf(...called("play"), ...called("stop")));
  expect(toolUses.map(({ data, result }) => [data.function.name, result?.content])).toEqual([
    ["play", "play"],
    ["stop", "stop"],
  ]);
  expect(new Set(itemsOf({ messages: [], toolUses }).map(messageKeyOf)).size).toBe(2);
});

test("a transcript knows why the session was last paused before a moment", () => {
  const paused = (sessionId: string, event: "yield" | "preempt", reason: string) =>
    move(sessionId, "active.idle", "paused", event, { reason });
  const log = logOf(
    paused("s", "yield", "after_turn"),
    paused("s", "preempt", "restricted"),
    paused("other", "yield", "max_hold"),
  );
  expect(lastPauseOf(log, "s", 3)).toBe("restricted");
  expect(lastPauseOf(log, "s", 1)).toBe("after_turn");
  expect(lastPauseOf(log, "s", 0)).toBeUndefined();
});

test("a transcript finds the last message before a moment within a thousand events", () => {
  const words = (sessionId: string, content: string) => ({ ...message(content, ["a"], 0), sessionId });
  const log = logOf(words("s", "u1"), words("other", "u2"), words("s", "u3"));
  expect(lastWordsOf(log, "s", 3)).toBe("u3");
  expect(lastWordsOf(log, "s", 2)).toBe("u1");
  expect(lastWordsOf(log, "none", 3)).toBeUndefined();
  const long = logOf(words("s", "u1"), ...Array.from({ length: 1_000 }, (_, index) => words("other", `o${index}`)));
  expect(lastWordsOf(long, "s", 1_000)).toBe("u1");
  expect(lastWordsOf(long, "s", 1_001)).toBeUndefined();
  const summary = changed("sum", 9, { summary: { upTo: "u1" } });
  expect(lastWordsOf(logOf(words("s", "u1"), summary), "s", 2)).toBe("u1");
});

const by = (role: string, id: string, at: number, more: object = {}) => changed(id, at, { role, ...more });
const idsOf = (...entries: Parameters<typeof logOf>) => brief(treeOf(...entries));

test("a summary is shown where its covered messages end, though it was written during a later turn", () => {
  const log = [
    by("user", "u1", 0),
    by("assistant", "a1", 1),
    by("user", "u2", 2),
    by("assistant", "a2", 3),
    by("user", "u3", 4),
    by("system", "first", 5, { summary: { upTo: "a1" } }),
    by("assistant", "a3", 6),
    by("system", "second", 7, { summary: { upTo: "a3" } }),
  ];
  expect(idsOf(...log)).toEqual(["u1", "a1", "first", "u2", "a2", "u3", "a3", "second"]);
});

test("at a moment a waiting message is shown until it was withdrawn, and as begun after its turn began", () => {
  const ask = { ...inLog("user_question_request", { requestId: "q", question: "Which?" }), requestId: "q" };
  const log = logOf(
    input("one", "success"),
    begun("one"),
    ask,
    input("two"),
    input("gone"),
    input("three"),
    ended("gone", { ...CANCELLED, withdrawn: true }),
    ended("one"),
    move("s", "active.running", "active.idle", "done"),
    begun("two"),
    ended("two", CANCELLED),
    ended("three", CANCELLED),
    move("s", "active.running", "archived", "archive"),
  );
  const shown = (count: number) => transcriptIn(log, count).messages.map(({ id, status }) => `${id} ${status}`);
  expect(shown(6)).toEqual(["one success", "two queued", "gone queued", "three queued"]);
  expect(shown(7)).toEqual(["one success", "two queued", "three queued"]);
  // The question is of the run that goes on.
  expect(transcriptIn(log, 7).interactions).toHaveLength(1);
  expect(transcriptIn(log, 8).interactions).toEqual([]);
  expect(shown(10)).toEqual(["one success", "two success", "three queued"]);
  expect(shown(log.length)).toEqual(["one success", "two success", "three interrupted"]);
  expect(shown(6)).toContain("gone queued");
});

test("a waiting message whose wait was refused stays, with its error", () => {
  const refused = inLog("error", { errorCode: "rejected", message: "No.", runId: "run of one" });
  const { messages } = transcriptIn(logOf(input("one"), refused, ended("one", CANCELLED)));
  expect(messages.map(({ id, status }) => `${id} ${status}`)).toEqual(["one error"]);
});

test("a summary of messages that are not loaded is shown before the loaded ones", () => {
  const log = [by("user", "u2", 2), by("assistant", "a2", 3), by("system", "sum", 5, { summary: { upTo: "a1" } })];
  expect(idsOf(...log)).toEqual(["sum", "u2", "a2"]);
});

const created = (id: string) => ({
  type: "session_created",
  sessionId: id,
  data: { id, agentId: "a", state: "created", activity: "idle", title: id },
});

test("a floor's picture at a moment does not depend on how it was reached: forwards, backwards or in leaps", () => {
  const ids = Array.from({ length: 40 }, (_, index) => `s${index}`);
  const life = ids.flatMap((id) => [
    created(id),
    move(id, "created", "active.idle", "activate"),
    ...Array.from({ length: 60 }, () => [
      move(id, "active.idle", "active.running", "turn"),
      move(id, "active.running", "active.idle", "done"),
    ]).flat(),
    move(id, "active.idle", "paused", "preempt"),
  ]);
  const log = logOf(...life);
  expect(log.length).toBeGreaterThan(4_000);
  const book = new PictureBook(log);
  for (const count of [log.length, 4_500, 17, 2_000, 2_001, 0, 1, log.length - 1, 3_999]) {
    expect(book.at(count), `${count}`).toEqual(new PictureBook(log.slice(0, count)).at(count));
  }
  expect(book.at(log.length).paused.map(({ id }) => id)).toEqual(ids.toReversed());
});

test("a step of the moment reads no event of the log again, and a session's conversation only the session's own", () => {
  const ids = Array.from({ length: 100 }, (_, index) => `s${index}`);
  const life = ids.flatMap((id) => [created(id), { ...message(`${id} says`, ["a"], 0), sessionId: id }]);
  const { log, reads } = counted(logOf(...life));
  const book = new PictureBook(log);
  book.at(log.length);
  expect(reads()).toBe(log.length);
  for (const count of [150, 149, 3, 100]) book.at(count);
  expect(reads()).toBe(0);
  const index = eventIndices();
  index.of(log);
  reads();
  expect(transcriptOf(log, index.of(log).get("s70")).messages.map(({ id }) => id)).toEqual(["s70 says"]);
  // The first event's position says whether the index is of this log.
  expect(reads()).toBe(1 + 2);
});

test("a floor's picture drops the mode of a session whose agent was switched", () => {
  const log = logOf(
    created("s"),
    inLog("session_updated", { mode: "work" }),
    inLog("agent_switched", { previousAgentId: "a", currentAgentId: "b", agentName: "B" }),
  );
  const book = new PictureBook(log);
  expect(book.sessionAt(2, "s")).toMatchObject({ agentId: "a", mode: "work" });
  expect(book.sessionAt(3, "s")).toMatchObject({ agentId: "b", mode: undefined });
});

test("a floor's picture names a session whose first events are no longer kept", () => {
  const { holder } = new PictureBook(logOf(move("late", "active.running", "active.idle", "done"))).at(1);
  expect(holder).toMatchObject({ id: "late", title: "late", state: "active", activity: "idle" });
});

test("a floor's picture counts events by their place, although earlier ones are missing", () => {
  const log = logOf(move("a", "created", "active.idle", "activate"), move("a", "active.idle", "archived", "archive"));
  expect([0, 1, 2, 9].map((place) => countUpTo(log, place))).toEqual([0, 1, 2, 2]);
  expect(countUpTo(log.slice(1), 1)).toBe(0);
});
