import fc from "fast-check";
import { expect, test } from "vitest";
import { Narrator } from "../../../src/cli/narration.ts";
import { MessageTexts } from "../../../src/client/message-texts.ts";
import { parseServerEvent, type ServerEvent } from "../../../src/client/server-event.ts";
import { RunReader } from "../../../src/doors/run-reader.ts";
import { DraftBoard } from "../../../src/gateway/streams/draft-board.ts";
import type { Follower } from "../../../src/gateway/streams/follower.ts";
import type { Delta } from "../../../src/protocol/event.ts";
import type { MessageId, RunId, SessionId } from "../../../src/protocol/ids.ts";
import { masterRef } from "../../../src/protocol/message.ts";
import { makeMessage, NOON } from "../../support/stores/floor-writer.ts";

const A = "a" as SessionId;
const RUN = "run" as RunId;
const agent = masterRef("music");
const WHOLE = "导航🚗，右转。 Turn right 🎷 after the bridge.";

/** A part of the text as a delta, or the text up to there as a checkpoint. */
type Arrival = { does: "piece"; from: number; to: number } | { does: "checkpoint"; to: number };

const place = fc.integer({ min: 0, max: WHOLE.length });
const arrival: fc.Arbitrary<Arrival> = fc.oneof(
  { weight: 4, arbitrary: fc.tuple(place, place).map(([one, other]) => pieceOf(one, other)) },
  { weight: 1, arbitrary: place.map((to) => ({ does: "checkpoint" as const, to })) },
);
const pieceOf = (one: number, other: number) => ({
  does: "piece" as const,
  from: Math.min(one, other),
  to: Math.max(one, other),
});

const deltaOf = (from: number, to: number): Delta => ({
  messageId: "m" as MessageId,
  runId: RUN,
  attempt: 1,
  kind: "text",
  offset: from,
  text: WHOLE.slice(from, to),
  agent,
});

const eventOf = (type: string, data: object): ServerEvent =>
  parseServerEvent(JSON.stringify({ type, data, timestamp: "2026-01-01T00:00:00.000Z", sessionId: A }))!;

/** What a reader passes on of a run, whose text it gets from deltas and from a node's drafts. */
function runReader(drafts: DraftBoard) {
  let said = "";
  const listener = {
    isFull: false,
    onPiece: ({ text }: { text: string }) => (said += text),
    onEvent: () => "go" as const,
    onLost: () => expect.unreachable(),
  };
  const reader = new RunReader({
    follower: { drafts, listen() {} } as unknown as Follower,
    log: undefined as never,
    sessionId: A,
    runId: RUN,
    after: 0,
    hasBegun: true,
    earlierCalls: [],
    listener: listener as never,
    clock: undefined as never,
  });
  return { reader, said: () => said };
}

test("every reader has the text without a gap or a repeat, however its pieces repeat, overlap or run ahead", () => {
  fc.assert(
    fc.property(fc.array(arrival, { minLength: 1, maxLength: 30 }), (arrivals) => {
      const texts = new MessageTexts();
      const narrator = new Narrator((id) => id);
      const board = new DraftBoard();
      const run = runReader(board);
      let [read, told] = ["", ""];
      /** How much a client knows, and a node, which joins pieces that ran ahead. */
      let [known, restored] = [0, 0];
      let ahead: { from: number; to: number }[] = [];
      for (const each of arrivals) {
        const isPiece = each.does === "piece";
        const { to } = each;
        const event = isPiece
          ? eventOf("delta", deltaOf(each.from, to))
          : eventOf("message", makeMessage("a", "m", streamed(to)));
        const grown = texts.take(event)?.text;
        read = grown ?? read;
        told += narrator
          .describe(event)
          .map(({ text }) => text)
          .join("");
        if (!isPiece || each.from <= known) known = Math.max(known, to);
        expect([read, told]).toEqual([WHOLE.slice(0, known), WHOLE.slice(0, known)]);
        if (isPiece) {
          const delta = deltaOf(each.from, to);
          const isNew = each.from <= restored && to > restored;
          expect(board.add(A, delta, NOON)).toBe(isNew);
          if (isNew) run.reader.receiveDelta(delta);
          if (each.from > restored) ahead.push(each);
          else restored = Math.max(restored, to);
        } else {
          const isLonger = to > restored || board.of(A).length === 0;
          expect(board.restore(makeMessage("a", "m", streamed(to)))).toBe(isLonger);
          if (isLonger) {
            restored = to;
            const waiting = ahead.toSorted((one, other) => one.from - other.from);
            ahead = [];
            for (const piece of waiting) {
              if (piece.from > restored) ahead.push(piece);
              else restored = Math.max(restored, piece.to);
            }
            run.reader.receiveDraft(board.of(A)[0]!);
          }
        }
        expect([board.of(A)[0]?.text ?? "", run.said()]).toEqual([WHOLE.slice(0, restored), WHOLE.slice(0, restored)]);
      }
    }),
    { numRuns: 400 },
  );
});

/** The text up to there, as the store has it. */
const streamed = (to: number) => ({
  role: "assistant" as const,
  status: "running" as const,
  agent,
  runId: RUN,
  content: WHOLE.slice(0, to),
  streaming: true,
});
