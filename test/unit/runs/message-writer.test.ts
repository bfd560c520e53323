import { expect, test } from "vitest";
import { MAX_BUS_MESSAGE } from "../../../src/bus/bus.ts";
import type { Delta } from "../../../src/protocol/event.ts";
import type { RunId } from "../../../src/protocol/ids.ts";
import type { ReportPart } from "../../../src/protocol/internal/run.ts";
import { type AgentRef, masterRef } from "../../../src/protocol/message.ts";
import { MessageWriter } from "../../../src/runs/message-writer.ts";

const MASTER = masterRef("music");
const SUB: AgentRef = { kind: "sub", name: "browser", depth: 1, path: ["music", "browser"] };
const USAGE = { prompt_tokens: 1, completion_tokens: 2, total_tokens: 3 };
const MAX_MESSAGE_UNITS = 131_072;
const MAX_REASONING_UNITS = 32_768;

/** A writer, and the parts that it passed on. */
function makeWriter() {
  const parts: ReportPart[] = [];
  const deltas: Delta[] = [];
  const writer = new MessageWriter({
    runId: "run" as RunId,
    attempt: 1,
    master: MASTER,
    report: (part) => void parts.push(part),
    stream: (delta) => void deltas.push(delta),
  });
  const kinds = () => parts.map((part) => ("messageId" in part ? `${part.kind} ${part.messageId}` : part.kind));
  const appended = () => parts.flatMap((part) => (part.kind === "append" ? [part.text] : []));
  return { writer, parts, deltas, kinds, appended };
}

test("a message of an attempt begins with its first word, and its pieces have offsets in UTF-16 units", () => {
  const { writer, parts, deltas } = makeWriter();
  writer.write("text", "la 🎵");
  writer.write("text", "li");
  writer.close();
  expect(parts).toEqual([
    { kind: "open", messageId: "run-1-0", agent: MASTER },
    { kind: "append", messageId: "run-1-0", offset: 0, text: "la 🎵" },
    { kind: "append", messageId: "run-1-0", offset: 5, text: "li" },
    { kind: "close", messageId: "run-1-0", status: "success" },
  ]);
  const about = { messageId: "run-1-0", runId: "run", attempt: 1, kind: "text", agent: MASTER };
  expect(deltas).toEqual([
    { ...about, offset: 0, text: "la 🎵" },
    { ...about, offset: 5, text: "li" },
  ]);
});

test("a character whose halves arrived in two pieces is put together", () => {
  const { writer, appended, deltas } = makeWriter();
  for (const unit of "la 🎵 li 🎷".split("")) writer.write("text", unit);
  writer.close();
  expect(appended().join("")).toBe("la 🎵 li 🎷");
  let length = 0;
  for (const { offset, text } of deltas) {
    expect(offset).toBe(length);
    expect(text.isWellFormed()).toBe(true);
    length += text.length;
  }
});

test("NUL and half a character without its other half become U+FFFD", () => {
  const { writer, appended, deltas } = makeWriter();
  writer.write("text", "a\0\uD83C");
  writer.write("reasoning", "hm \uD83C");
  writer.write("text", "b\uD83C", SUB);
  writer.closeAll({ status: "success" });
  expect(appended()).toEqual(["a\uFFFD", "\uFFFD", "b", "\uFFFD"]);
  const streamed = deltas.map(({ kind, text }) => `${kind} ${text}`);
  expect(streamed).toEqual(expect.arrayContaining(["text a\uFFFD", "reasoning \uFFFD"]));
});

test("the messages of concurrent speakers grow independently, even if two speakers have the same name", () => {
  const { writer, kinds, parts } = makeWriter();
  writer.write("text", "I ask.");
  writer.write("text", "I look.", { ...SUB, calls: ["a"] });
  writer.write("text", "So do I.", { ...SUB, calls: ["b"] });
  writer.write("text", "I found it.", { ...SUB, calls: ["a"] });
  writer.closeCall("a");
  writer.write("text", "So it is.");
  expect(kinds()).toEqual([
    ...[0, 1, 2].flatMap((n) => [`open run-1-${n}`, `append run-1-${n}`]),
    ...["append run-1-1", "close run-1-1", "append run-1-0"],
  ]);
  expect(parts[2]).toMatchObject({ agent: { ...SUB, calls: ["a"] } });
});

test("the messages of an attempt carry the token counts of their speakers, each once", () => {
  const { writer, parts } = makeWriter();
  writer.write("text", "I ask.");
  writer.write("text", "I look.", SUB);
  writer.count(USAGE, SUB);
  writer.count(USAGE, SUB);
  writer.closeAll({ status: "success" });
  const counted = parts.flatMap((part) => (part.kind === "close" ? [part.usage?.total_tokens] : []));
  expect(counted).toEqual([undefined, 6]);
});

test("a message of an attempt is not begun without content, and not closed twice", () => {
  const { writer, parts } = makeWriter();
  writer.close();
  writer.write("text", "");
  expect(parts).toEqual([]);
  writer.write("text", "la");
  writer.close();
  writer.close();
  expect(parts).toHaveLength(3);
});

test("a message that gets too long continues in another, and no character is split", () => {
  const { writer, parts, deltas } = makeWriter();
  const text = `x${"🎵".repeat(MAX_MESSAGE_UNITS)}`;
  writer.write("text", text);
  writer.close();
  const texts = new Map<string, string>();
  for (const { messageId, offset, text: piece } of deltas) {
    expect(offset).toBe(texts.get(messageId)?.length ?? 0);
    expect(piece.isWellFormed()).toBe(true);
    texts.set(messageId, (texts.get(messageId) ?? "") + piece);
  }
  expect([...texts.values()].join("")).toBe(text);
  expect(texts.size).toBe(2);
  for (const whole of texts.values()) expect(whole.length).toBeLessThanOrEqual(MAX_MESSAGE_UNITS + 1);
  expect(parts.filter(({ kind }) => kind === "close")).toHaveLength(2);
});

test.each(["x", "说", "🎵", '"', "\u0001"])(
  "the messages of an attempt are streamed in pieces small enough for the bus: %j",
  (character) => {
    const { writer, deltas } = makeWriter();
    const text = character.repeat(50_000);
    writer.write("text", text);
    writer.write("reasoning", text);
    expect(deltas.map((delta) => delta.text).join("")).toBe(text + text);
    const heaviest = Math.max(...deltas.map((delta) => Buffer.byteLength(JSON.stringify(delta))));
    // The envelope of a part takes a few hundred.
    expect(heaviest).toBeLessThan(MAX_BUS_MESSAGE - 4_096);
  },
);

test("a message of an attempt is begun for lines of a log before the first word", () => {
  const { writer, kinds } = makeWriter();
  expect(writer.newest()).toBe("run-1-0");
  expect(writer.newest()).toBe("run-1-0");
  writer.noteCall("c1");
  writer.write("text", "la");
  expect(kinds()).toEqual(["open run-1-0", "append run-1-0"]);
});

test("a whole message of an attempt has what comes with its end: log lines, and the reason of a failure", () => {
  const { writer, kinds, parts } = makeWriter();
  writer.writeWhole("Done.", { output: "ok" });
  expect(writer.newest()).toBe("run-1-0");
  const failed = { status: "error", errorCode: "provider_unreachable", errorMessage: "code 3" } as const;
  writer.closeAll(failed);
  expect(kinds()).toEqual(["open run-1-0", "append run-1-0", "close run-1-0"]);
  expect(parts.at(-1)).toMatchObject({ ...failed, output: "ok" });
  expect(writer.newest()).toBe("run-1-0");
});

test("reasoning is streamed with its own offsets, and kept with its message when that is complete", () => {
  const { writer, parts, deltas } = makeWriter();
  writer.write("reasoning", "hm ");
  writer.write("text", "la");
  writer.write("reasoning", "so");
  writer.close();
  expect(deltas.map(({ kind, offset, text }) => [kind, offset, text])).toEqual([
    ["reasoning", 0, "hm "],
    ["text", 0, "la"],
    ["reasoning", 3, "so"],
  ]);
  expect(parts.map(({ kind }) => kind)).toEqual(["open", "append", "close"]);
  expect(parts.at(-1)).toMatchObject({ parts: [{ type: "reasoning", text: "hm so" }] });
});

test("reasoning is streamed to its end, and kept up to a limit", () => {
  const { writer, parts, deltas } = makeWriter();
  writer.write("reasoning", "x".repeat(MAX_REASONING_UNITS));
  writer.write("reasoning", "y");
  writer.close();
  expect(deltas.at(-1)).toMatchObject({ offset: MAX_REASONING_UNITS, text: "y" });
  const kept = (parts.at(-1) as Extract<ReportPart, { kind: "close" }>).parts as { text: string }[];
  expect(kept[0]!.text).toBe("x".repeat(MAX_REASONING_UNITS));
});

test("the summary is empty before the first message", () => {
  const { writer } = makeWriter();
  expect(writer.summary).toBeUndefined();
  writer.write("reasoning", "hm");
  writer.write("text", " \n ");
  expect(writer.summary).toBeUndefined();
});

test("the summary is the beginning of the last message, on one line", () => {
  const { writer } = makeWriter();
  writer.write("text", "first");
  writer.close();
  writer.write("text", " so\n it ");
  writer.write("text", "is ");
  expect(writer.summary).toBe("so it is");
  writer.write("reasoning", "hm");
  expect(writer.summary).toBe("so it is");
});

test("the summary has at most 120 units, the last one an ellipsis if text was cut", () => {
  const { writer } = makeWriter();
  writer.write("text", "x".repeat(120));
  expect(writer.summary).toBe("x".repeat(120));
  writer.write("text", "y".repeat(10_000));
  expect(writer.summary).toBe(`${"x".repeat(119)}…`);
  const odd = makeWriter().writer;
  odd.write("text", `${"x".repeat(118)}🎵🎵`);
  expect(odd.summary).toBe(`${"x".repeat(118)}…`);
});
