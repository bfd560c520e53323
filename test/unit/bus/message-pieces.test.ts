import { expect, test } from "vitest";
import { MAX_BUS_MESSAGE } from "../../../src/bus/bus.ts";
import { Reassembler, toPieces } from "../../../src/bus/message-pieces.ts";
import { collectGarbage } from "../../support/runner/heap.ts";

/** What a listener gets: a part of the buffer that the socket was read into. */
function received(text: string): Uint8Array {
  const read = Buffer.alloc(MAX_BUS_MESSAGE);
  read.write(text);
  return read.subarray(0, Buffer.byteLength(text));
}

const memory = () => {
  collectGarbage();
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return heapUsed + arrayBuffers;
};

test("a message is put together from its pieces in any order", () => {
  const message = Buffer.from("五ab".repeat(50_000));
  const pieces = toPieces(message, () => "id");
  expect(pieces.length).toBeGreaterThan(2);
  const reassembler = new Reassembler();
  const whole = pieces.toReversed().map((piece) => reassembler.add(piece));
  expect(whole.slice(0, -1)).toEqual(pieces.slice(1).map(() => undefined));
  expect(Buffer.from(whole.at(-1)!).equals(message)).toBe(true);
});

test("pieces of a few bytes whose messages never end take bounded memory", async () => {
  const reassembler = new Reassembler();
  const before = memory();
  for (let n = 0; n < 20_000; n++) reassembler.add(received(`#message-${n} 0/64\nx`));
  // Node.js frees what its collector found in a thread beside this one.
  await expect.poll(() => memory() - before).toBeLessThan(32 * 1_048_576);
  expect(reassembler.add(received("#message-19999 1/64\nx"))).toBeUndefined();
});

test("a message is put together beside others that never end, unless a thousand began after it", () => {
  const reassembler = new Reassembler();
  reassembler.add(received("#lost 0/2\na"));
  for (let n = 0; n < 1_023; n++) reassembler.add(received(`#message-${n} 0/2\nx`));
  expect(reassembler.add(received("#message-0 1/2\ny"))).toEqual(Buffer.from("xy"));
  expect(reassembler.add(received("#late 0/2\nb"))).toBeUndefined();
  expect(reassembler.add(received("#later 0/2\nb"))).toBeUndefined();
  expect(reassembler.add(received("#lost 1/2\nb"))).toBeUndefined();
  expect(reassembler.add(received("#later 1/2\nc"))).toEqual(Buffer.from("bc"));
});
