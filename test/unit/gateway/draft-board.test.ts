import { beforeEach, expect, test } from "vitest";
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

let board: DraftBoard;
beforeEach(() => {
  board = new DraftBoard();
});

/** Whether the board takes a delta. */
const add = (...given: Parameters<typeof delta>) => board.add(A, delta(...given), NOON);
const texts = () => board.of(A).map(({ text }) => text);

test("a draft takes a checkpoint's additional text, and then the deltas that waited for it", () => {
  expect([add(6, "lu "), add(9, "lo "), board.lacks(M, RUN, 6)]).toEqual([false, false, true]);
  expect([board.restore(stored("la li ")), texts()]).toEqual([true, ["la li lu lo "]]);
  expect([add(12, "le"), board.lacks(M, RUN, 12)]).toEqual([true, false]);
});

test("the amount of waiting text is limited", () => {
  for (let n = 0; n < 100; n++) add(10 + n * 1_000, "x".repeat(1_000));
  board.restore(stored("0123456789"));
  expect(texts()[0]!.length).toBeLessThan(65_536);
  expect(board.restore(stored("y".repeat(200_000)))).toBe(true);
});

test("a newer attempt's text from the store stays when the attempt's first delta arrives late", () => {
  add(0, "la ");
  board.finish(M);
  const again = { messageId: "m2", attempt: 2 };
  expect(board.restore(stored("li lu ", { id: "m2" as MessageId }))).toBe(true);
  expect([add(0, "li ", again), add(6, "lo", again), texts()]).toEqual([false, true, ["li lu lo"]]);
});

test("an older attempt stays excluded when its message is finished", () => {
  add(0, "old");
  add(0, "new", { messageId: "m2", attempt: 2 });
  board.finish("m2" as MessageId);
  expect(add(0, "another", { messageId: "m3" })).toBe(false);
  expect(add(0, "more", { messageId: "m4", attempt: 2 })).toBe(true);
});

test("a finished message does not reappear by a late delta, checkpoint or row", () => {
  add(0, "la");
  board.finish(M);
  expect([add(2, "li"), add(0, "la"), board.lacks(M, RUN, 4)]).toEqual([false, false, false]);
  expect([board.restore(stored("lali")), texts()]).toEqual([false, []]);
});

test("nothing is kept of a session that has ended", () => {
  add(0, "la");
  board.forget(A);
  expect([texts(), add(2, "li")]).toEqual([[], false]);
});

test("a draft is shown as a streaming message, with separate reasoning", () => {
  add(0, "hm", { kind: "reasoning" });
  add(0, "yes");
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
