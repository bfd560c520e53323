import { StringDecoder } from "node:string_decoder";
import { cutText } from "../../shared/text.ts";
import { pacedPieces } from "./output-pace.ts";

/** A line, or a piece of a long line. */
export interface Line {
  readonly text: string;
  /** Whether the line ends with this piece. */
  readonly isEnd: boolean;
}

/**
 * The lines of a program's output, as they arrive. Reads no faster than the caller pulls, and shares the time with
 * other programs. Never splits a character, even if its bytes arrive in two chunks. Replaces invalid UTF-8 by U+FFFD,
 * and drops a carriage return at the end of a line.
 *
 * @param maxUnits the longest piece, in UTF-16 units, at least 2; also the memory limit
 */
export async function* readLines(chunks: AsyncIterable<Buffer>, maxUnits: number): AsyncGenerator<Line> {
  const decoder = new StringDecoder("utf8");
  // Kept in parts, and only new text is searched, so that a long line is not searched again for each chunk.
  let parts: string[] = [];
  let units = 0;
  const joinParts = (more: string): string => {
    const text = parts.length > 0 ? parts.join("") + more : more;
    parts = [];
    units = 0;
    return text;
  };
  for await (const piece of inPieces(chunks)) {
    const text = decoder.write(piece);
    let first = 0;
    for (let end = text.indexOf("\n"); end >= 0; end = text.indexOf("\n", first)) {
      yield* piecesOf(withoutReturn(joinParts(text.slice(first, end))), maxUnits);
      first = end + 1;
    }
    if (first < text.length) parts.push(text.slice(first));
    units += text.length - first;
    if (units <= maxUnits) continue;
    let long = joinParts("");
    while (long.length > maxUnits) {
      const beginning = cutText(long, maxUnits);
      yield { text: beginning, isEnd: false };
      long = long.slice(beginning.length);
    }
    parts = [long];
    units = long.length;
  }
  const rest = joinParts(decoder.end());
  if (rest !== "") yield* piecesOf(withoutReturn(rest), maxUnits);
}

async function* inPieces(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  for await (const chunk of chunks) yield* pacedPieces(chunk);
}

/** The line is complete. */
function* piecesOf(line: string, maxUnits: number): Generator<Line> {
  let rest = line;
  while (rest.length > maxUnits) {
    const text = cutText(rest, maxUnits);
    yield { text, isEnd: false };
    rest = rest.slice(text.length);
  }
  yield { text: rest, isEnd: true };
}

function withoutReturn(text: string): string {
  return text.endsWith("\r") ? text.slice(0, -1) : text;
}
