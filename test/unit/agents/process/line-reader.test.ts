import { expect, test } from "vitest";
import { type Line, readLines } from "../../../../src/agents/process/line-reader.ts";

async function* chunksOf(bytes: Buffer, size: number): AsyncGenerator<Buffer> {
  for (let offset = 0; offset < bytes.length; offset += size) yield bytes.subarray(offset, offset + size);
}

async function linesOf(text: string, size: number, maxUnits = 100): Promise<Line[]> {
  return Array.fromAsync(readLines(chunksOf(Buffer.from(text), size), maxUnits));
}

const LINES = ["grüße", "你好", "🚗🚙", "e\u0301"];

/** More than is read in one turn of the event loop. */
const LONG_LINES = ["€".repeat(5_000), "ü😀".repeat(3_000)];

test.each([...[1, 2, 3, 5, 7].map((size) => [size, LINES] as const), [100_000, LONG_LINES] as const])(
  "characters and lines in chunks of %i bytes are put together",
  async (size, lines) => {
    expect(await linesOf(lines.join("\n"), size, 100_000)).toEqual(lines.map((text) => ({ text, isEnd: true })));
  },
);

test.each([2, 3, 4, 5])("no piece of at most %i units ends within a character", async (maxUnits) => {
  for (const size of [1, 3, 64]) {
    const lines = await linesOf("a🚗🚙🚌b🚗\n🚗", size, maxUnits);
    const pieces = lines.map(({ text }) => text);
    expect(lines.map(({ text, isEnd }) => (isEnd ? `${text}\n` : text)).join("")).toBe("a🚗🚙🚌b🚗\n🚗\n");
    expect(pieces.filter((text) => !text.isWellFormed() || text.length > maxUnits)).toEqual([]);
  }
});

test("bytes that are not UTF-8 become U+FFFD, and the following bytes are read", async () => {
  const bytes = Buffer.concat([Buffer.from([0xf0, 0x9f]), Buffer.from("a\nb"), Buffer.from([0xe4, 0xbd])]);
  const lines = await Array.fromAsync(readLines(chunksOf(bytes, 1), 100));
  expect(lines.map(({ text }) => text)).toEqual(["\uFFFDa", "b\uFFFD"]);
});

test("lines are put together from chunks, with either line end, and the last line without one", async () => {
  const textsOf = async (text: string) => (await linesOf(text, 3)).map((line) => line.text);
  expect(await textsOf("one\ntwo\r\n\nthree")).toEqual(["one", "two", "", "three"]);
  expect([await textsOf(""), await textsOf("\n")]).toEqual([[], [""]]);
});

test("a line of many chunks is searched once: twenty million characters without a line end are read quickly", async () => {
  const text = "x".repeat(20_000_000);
  const lines = await linesOf(`${text}\n`, 10_000, 30_000_000);
  expect(lines.map((line) => line.text.length)).toEqual([20_000_000]);
});
