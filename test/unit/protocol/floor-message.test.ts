import fc from "fast-check";
import { expect, test } from "vitest";
import type { LogEntry, LoggedType, Subject } from "../../../src/protocol/event.ts";
import { dataFrame, parseFrame, positionedFrame, toWire } from "../../../src/protocol/frames.ts";
import type { FloorId, MessageId, RunId, SessionId } from "../../../src/protocol/ids.ts";
import {
  decodeFloorMessage,
  encodeFloorMessage,
  type FloorMessage,
} from "../../../src/protocol/internal/floor-message.ts";

const floorId = "u:ann" as FloorId;
const sessionId = "s1" as SessionId;

/** As received from another process: the same bytes in another buffer. */
const travelled = (bytes: Uint8Array): Uint8Array => new Uint8Array(bytes);

const text = fc.string({ unit: "grapheme", maxLength: 40 });
const entry = fc
  .record({ floorSeq: fc.nat(), seq: fc.nat(), at: fc.nat(), title: text, isSessions: fc.boolean() })
  .map(({ floorSeq, seq, at, title, isSessions }) => {
    const json = JSON.stringify({ title });
    return toWire({ floorSeq, type: "session_updated", at, json, ...(isSessions && { sessionId, seq }) });
  });
const message: fc.Arbitrary<FloorMessage> = fc.oneof(
  fc
    .record({ entries: fc.array(entry, { maxLength: 5 }), prev: fc.nat(), last: fc.nat(), at: fc.nat() })
    .map((commit) => ({ kind: "commit" as const, floorId, ...commit })),
  fc
    .record({ prev: fc.nat(), last: fc.nat(), at: fc.nat() })
    .map((commit) => ({ kind: "commit" as const, floorId, ...commit })),
  fc
    .tuple(fc.constantFrom("delta" as const, "live" as const), text)
    .map(([kind, said]) => ({ kind, floorId, sessionId, frame: dataFrame(JSON.stringify({ said })) })),
  fc.nat().map((length) => {
    const [messageId, runId] = ["m" as MessageId, "r" as RunId];
    return { kind: "checkpoint" as const, floorId, sessionId, messageId, runId, length };
  }),
);

/** With bytes as text, because a part of a buffer is otherwise compared with its whole. */
const plain = (value: FloorMessage) =>
  JSON.parse(JSON.stringify(value, (_, part) => (part?.type === "Buffer" ? Buffer.from(part.data).toString() : part)));

test("a message on a floor's topic decodes in another process to the same content", () => {
  fc.assert(
    fc.property(message, (sent) => {
      expect(plain(decodeFloorMessage(travelled(encodeFloorMessage(sent))))).toEqual(plain(sent));
    }),
  );
});

test("a message that stays in its process is neither encoded nor parsed", () => {
  fc.assert(fc.property(message, (sent) => decodeFloorMessage(encodeFloorMessage(sent, true)) === sent));
});

test("a message on a floor's topic contains the frames that readers receive", () => {
  const frame = dataFrame('{"type":"delta","text":"你好\\n"}');
  const decoded = decodeFloorMessage(travelled(encodeFloorMessage({ kind: "delta", floorId, sessionId, frame })));
  if (decoded.kind !== "delta") throw new Error("it was a delta");
  expect(Buffer.from(decoded.frame).toString()).toBe('data: {"type":"delta","text":"你好\\n"}\n\n');
  expect(parseFrame(decoded.frame)).toEqual({ type: "delta", text: "你好\n" });
});

test("a frame has the same position and content as text and as bytes", () => {
  fc.assert(
    fc.property(text, (said) => {
      const frame = dataFrame(JSON.stringify({ said }));
      const bytes = Buffer.from(frame);
      expect(Buffer.from(positionedFrame("e.7", bytes)).toString()).toBe(positionedFrame("e.7", frame));
      expect(positionedFrame("e.7", frame)).toBe(dataFrame(JSON.stringify({ said }), "e.7"));
      expect([parseFrame(frame), parseFrame(bytes)]).toEqual([{ said }, { said }]);
    }),
  );
});

test("a message on a floor's topic names each event's subject, regardless of the order of keys in its data", () => {
  const about = { floorSeq: 1, sessionId, seq: 1, at: 0 };
  const stored = (type: LoggedType, data: object): LogEntry => ({ ...about, type, json: JSON.stringify(data) });
  const cases: [LogEntry, Subject | undefined][] = [
    [stored("message", { content: '{"id":"forged"', id: "m1" }), { message: "m1" as MessageId }],
    [stored("complete", { usage: { runId: "forged" }, runId: "r1" }), { run: "r1" as RunId }],
    [stored("session_transition", { by: { to: "forged" }, to: "paused", from: "active.idle" }), { state: "paused" }],
    [stored("session_updated", { id: "m1", runId: "r1", to: "paused" }), undefined],
  ];
  for (const [entry, subject] of cases) {
    const sent: FloorMessage = { kind: "commit", floorId, prev: 0, last: 1, entries: [toWire(entry)], at: 0 };
    const decoded = decodeFloorMessage(travelled(encodeFloorMessage(sent)));
    expect(decoded.kind === "commit" && decoded.entries![0]!.subject, entry.type).toEqual(subject);
  }
});

test("a malformed message on a floor's topic is refused", () => {
  for (const nonsense of ["", "no line", "not json\n", "{\n"]) {
    expect(() => decodeFloorMessage(Buffer.from(nonsense)), nonsense).toThrow(SyntaxError);
  }
});
