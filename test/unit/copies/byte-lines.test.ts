import { Readable } from "node:stream";
import { expect, test } from "vitest";
import { ByteLines } from "../../../src/copies/byte-lines.ts";

const MAX_LINE_BYTES = 5;
const loan = { growTo: () => true, keep() {}, close() {} };

/** The lines of a body that arrives in pieces of this length. */
async function linesOf(body: string, pieceLength: number): Promise<string[]> {
  const pieces = body.match(new RegExp(`[^]{1,${pieceLength}}`, "g")) ?? [];
  const source = Readable.from(pieces.map((piece) => Buffer.from(piece)));
  const lines: string[] = [];
  const reading = new ByteLines(source, { maxLineBytes: MAX_LINE_BYTES, maxBytes: 100, loan });
  for await (const line of reading) lines.push(line.toString());
  return lines;
}

test.each([1, 2, 3, 5, 6, 7, 100])("a line may be as long as the limit, in pieces of %i bytes", async (pieceLength) => {
  await expect(linesOf("12345\n\n1\n12345", pieceLength)).resolves.toEqual(["12345", "1", "12345"]);
  for (const body of ["123456\n1", "1\n123456"]) {
    await expect(linesOf(body, pieceLength)).rejects.toMatchObject({ code: "too_large" });
  }
});
