import { expect, test } from "vitest";
import { DraftBoard, streamingMessage } from "../../../src/gateway/streams/draft-board.ts";
import type { Delta } from "../../../src/protocol/event.ts";
import type { MessageId, RunId, SessionId } from "../../../src/protocol/ids.ts";
import { type Message, masterRef } from "../../../src/protocol/message.ts";
import { makeMessage, NOON } from "../../support/stores/floor-writer.ts";

const A = "a" as SessionId;
const M = "m" as MessageId;
const RUN = "run" as RunId;
const agent = masterRef("music");

function delta(offset: number, text: string, of: Partial<Record<keyof Delta, unknown>> = {}): Delta {
  return { messageId: M, runId: RUN, attempt: 1, kind: "text", offset, text, agent, ...of } as Delta;
}

function stored(content: string, of: Partial<Message> = {}): Message {
  return makeMessage("a", "m", { role: "assistant", status: "running", agent, runId: RUN, content, ...of });
}

const textOf = (board: DraftBoard) => board.of(A).map(({ text }) => text);

test("a draft grows only by deltas that continue its text", () => {
  const board = new DraftBoard();
  expect(board.add(A, delta(0, "la "), NOON)).toBe(true);
  expect(board.add(A, delta(3, "li "), NOON)).toBe(true);
  expect(board.add(A, delta(3, "li "), NOON)).toBe(false);
  expect(board.add(A, delta(0, "la "), NOON)).toBe(false);
  expect(board.add(A, delta(9, "lu "), NOON)).toBe(false);
  expect(textOf(board)).toEqual(["la li "]);
});

test("a draft's text is counted in UTF-16 units", () => {
  const board = new DraftBoard();
  board.add(A, delta(0, "🎷"), NOON);
  expect(board.add(A, delta(1, "x"), NOON)).toBe(false);
  expect(board.add(A, delta(2, "x"), NOON)).toBe(true);
  expect(textOf(board)).toEqual(["🎷x"]);
});

test("a draft takes a checkpoint's additional text, and then the deltas that waited for it", () => {
  const board = new DraftBoard();
  expect(board.add(A, delta(6, "lu "), NOON)).toBe(false);
  expect(board.add(A, delta(9, "lo "), NOON)).toBe(false);
  expect(board.lacks(M, RUN, 6)).toBe(true);
  expect(board.restore(stored("la li "))).toBe(true);
  expect(textOf(board)).toEqual(["la li lu lo "]);
  expect(board.add(A, delta(12, "le"), NOON)).toBe(true);
  expect(board.lacks(M, RUN, 12)).toBe(false);
});

test("waiting deltas are put in order, and those beyond a further gap keep waiting", () => {
  const board = new DraftBoard();
  for (const [offset, text] of [
    [12, "e"],
    [4, "b"],
    [3, "a"],
    [10, "d"],
  ] as const)
    board.add(A, delta(offset, text), NOON);
  board.restore(stored("---"));
  expect(textOf(board)).toEqual(["---ab"]);
  board.restore(stored("---ab12345"));
  expect(textOf(board)).toEqual(["---ab12345d"]);
  board.restore(stored("---ab12345d1"));
  expect(textOf(board)).toEqual(["---ab12345d1e"]);
});

test("the amount of waiting text is limited", () => {
  const board = new DraftBoard();
  for (let n = 0; n < 100; n++) board.add(A, delta(10 + n * 1_000, "x".repeat(1_000)), NOON);
  board.restore(stored("0123456789"));
  const [text] = textOf(board);
  expect(text!.length).toBeLessThan(65_536);
  expect(board.restore(stored("y".repeat(200_000)))).toBe(true);
});

test("a draft keeps its text when a checkpoint is older", () => {
  const board = new DraftBoard();
  board.add(A, delta(0, "la li lu"), NOON);
  expect(board.restore(stored("la li"))).toBe(false);
  expect(textOf(board)).toEqual(["la li lu"]);
});

test("a newer attempt's text from the store stays when the attempt's first delta arrives late", () => {
  const board = new DraftBoard();
  board.add(A, delta(0, "la "), NOON);
  board.finish(M);
  const again = { messageId: "m2", attempt: 2 };
  expect(board.restore(stored("li lu ", { id: "m2" as MessageId }))).toBe(true);
  expect(board.add(A, delta(0, "li ", again), NOON)).toBe(false);
  expect(board.add(A, delta(6, "lo", again), NOON)).toBe(true);
  expect(textOf(board)).toEqual(["li lu lo"]);
});

test("an older attempt stays excluded when its message is finished", () => {
  const board = new DraftBoard();
  board.add(A, delta(0, "old"), NOON);
  board.add(A, delta(0, "new", { messageId: "m2", attempt: 2 }), NOON);
  board.finish("m2" as MessageId);
  expect(board.add(A, delta(0, "another", { messageId: "m3" }), NOON)).toBe(false);
  expect(board.add(A, delta(0, "more", { messageId: "m4", attempt: 2 }), NOON)).toBe(true);
});

test("a finished message does not reappear by a late delta, checkpoint or row", () => {
  const board = new DraftBoard();
  board.add(A, delta(0, "la"), NOON);
  board.finish(M);
  expect(board.add(A, delta(2, "li"), NOON)).toBe(false);
  expect(board.add(A, delta(0, "la"), NOON)).toBe(false);
  expect(board.lacks(M, RUN, 4)).toBe(false);
  expect(board.restore(stored("lali"))).toBe(false);
  expect(textOf(board)).toEqual([]);
});

test("nothing is kept of a session that has ended", () => {
  const board = new DraftBoard();
  board.add(A, delta(0, "la"), NOON);
  board.forget(A);
  expect(textOf(board)).toEqual([]);
  expect(board.add(A, delta(2, "li"), NOON)).toBe(false);
});

test("a draft is shown as a streaming message, with separate reasoning", () => {
  const board = new DraftBoard();
  board.add(A, delta(0, "hm", { kind: "reasoning" }), NOON);
  board.add(A, delta(0, "yes"), NOON);
  expect(streamingMessage(board.of(A)[0]!)).toMatchObject({
    id: "m",
    content: "yes",
    parts: [{ type: "reasoning", text: "hm" }],
    status: "running",
    streaming: true,
    runId: "run",
    createdAt: NOON,
  });
});
