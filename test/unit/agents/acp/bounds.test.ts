import { Writable } from "node:stream";
import { expect, test } from "vitest";
import { toStream } from "../../../../src/agents/acp/acp-stream.ts";
import { UpdateReader } from "../../../../src/agents/acp/updates.ts";
import type { Line } from "../../../../src/agents/process/line-reader.ts";
import { Redactor } from "../../../../src/agents/process/redactor.ts";
import { heapBytes } from "../../../support/runner/heap.ts";

const MIB = 1_048_576;

test("tool calls that an agent begins and never ends do not fill the memory", () => {
  const reader = new UpdateReader(false, new Redactor([]));
  const before = heapBytes();
  for (let call = 0; call < 100; call += 1) {
    // Parsed, as it comes from the program: otherwise the copies would share their text.
    const text = JSON.parse(`"${"x".repeat(MIB)}${call}"`) as string;
    const update = { sessionUpdate: "tool_call", toolCallId: `${call}${text}`, rawInput: { text } };
    expect(reader.read(update)[0]).toMatchObject({ type: "tool-call" });
  }
  expect(heapBytes() - before).toBeLessThan(40 * MIB);
  // The newest ones are remembered: such a call is not reported again.
  expect(reader.read({ sessionUpdate: "tool_call_update", toolCallId: "new", rawInput: { a: 1 } })).not.toEqual([]);
  const end = { sessionUpdate: "tool_call_update", toolCallId: "new", status: "completed" };
  expect(reader.read(end)).toMatchObject([{ type: "tool-result" }]);
});

test("a call that has ended is shown with the arguments for which permission is requested", () => {
  const reader = new UpdateReader(false, new Redactor([]));
  reader.read({ sessionUpdate: "tool_call", toolCallId: "t", status: "completed", rawInput: { command: "ls" } });
  const update = { toolCallId: "t", rawInput: { command: "rm" } };
  expect(reader.tool(update, true)).toEqual([]);
  expect(reader.callOf(update).function.arguments).toBe('{"command":"rm"}');
});

test("large requests that wait for their answers are read no further, until they are answered", async () => {
  let read = 0;
  async function* requests(): AsyncGenerator<Line> {
    for (;;) {
      read += 1;
      // Two of them have one id.
      const id = Math.floor(read / 2);
      const params = { text: "x".repeat(6 * MIB) };
      yield { text: JSON.stringify({ jsonrpc: "2.0", id, method: "session/request_permission", params }), isEnd: true };
    }
  }
  const stdin = new Writable({ write: (_, __, done) => done() });
  const seen = { onUpdate: () => {}, onAnswer: () => {}, onStrayLine: () => {} };
  const stream = toStream(requests(), stdin, seen, () => new Error("too long"));
  const [reader, writer] = [stream.readable.getReader(), stream.writable.getWriter()];
  const ids: unknown[] = [];
  const reading = (async () => {
    for (;;) {
      const { value } = await reader.read();
      ids.push((value as { id: unknown }).id);
    }
  })();
  reading.catch(() => {});
  const settle = async () => {
    for (let turns = 0; turns < 20; turns += 1) await new Promise(setImmediate);
  };
  await settle();
  expect(read).toBe(3);
  for (const id of [0, 1, 1]) await writer.write({ jsonrpc: "2.0", id, result: {} });
  await settle();
  expect(read).toBe(6);
  expect(ids).toEqual([0, 1, 1, 2, 2, 3]);
});

test("what waits to be reported of large messages keeps none of them in memory", () => {
  const reader = new UpdateReader(false, new Redactor([]));
  const before = heapBytes();
  const waiting = Array.from({ length: 50 }, (_, index) => {
    const text = JSON.parse(`"${"x".repeat(MIB)}${index}"`) as string;
    const content = [
      { type: "content", content: { type: "text", text } },
      { type: "diff", path: text, oldText: text, newText: text },
    ];
    const update = { sessionUpdate: "tool_call_update", toolCallId: `${index}` };
    return [
      { sessionUpdate: "tool_call", toolCallId: text, title: text, rawInput: { path: text } },
      { ...update, status: "in_progress", content, rawInput: { index } },
      { ...update, status: "completed", content },
      { sessionUpdate: "plan", entries: [{ content: text, status: text }] },
      { sessionUpdate: "session_info_update", title: text },
      { sessionUpdate: "current_mode_update", currentModeId: text },
    ].map((each) => reader.read(each));
  });
  expect(waiting.flat(2).length).toBeGreaterThan(250);
  expect(heapBytes() - before).toBeLessThan(25 * MIB);
});
