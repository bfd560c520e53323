// Rule C30 of docs/inside/correctness.md.
/**
 * The size at which a page of an answer (messages, lines of a log) ends, in bytes. One row always fits, regardless of
 * its size.
 */
export const ANSWER_BYTES = 1_048_576;
/** The same for a page of events. A slow reader keeps the rest of its page in memory. */
export const LOG_BYTES = 262_144;

/** The first rows, up to and including the one that reaches `maxBytes`. Takes no further row from the source. */
export function rowsWithin<Row>(rows: Iterable<Row>, maxBytes: number, weightOf: (row: Row) => number): Row[] {
  const kept: Row[] = [];
  let weight = 0;
  for (const row of rows) {
    kept.push(row);
    weight += weightOf(row);
    if (weight >= maxBytes) break;
  }
  return kept;
}

/** The same for at most `limit` rows, and whether more exist. */
export function readPage<Row>(
  rows: Iterable<Row>,
  limit: number,
  weightOf: (row: Row) => number,
): { page: Row[]; hasMore: boolean } {
  const page: Row[] = [];
  let weight = 0;
  for (const row of rows) {
    if (page.length >= limit || weight >= ANSWER_BYTES) return { page, hasMore: true };
    page.push(row);
    weight += weightOf(row);
  }
  return { page, hasMore: false };
}

/** The approximate size of a row in an answer, in bytes. */
export const weightOfMessage = ({ details, content }: { details: string; content: string }): number =>
  details.length + Buffer.byteLength(content);
export const weightOfView = ({ view }: { view: string }): number => Buffer.byteLength(view);
export const weightOfBody = ({ body }: { body: string }): number => Buffer.byteLength(body);
/** Names and counts besides the texts weigh about this much. */
const FLOOR_BYTES = 200;
export const weightOfFloor = ({ floorId, flags }: { floorId: string; flags: string }): number =>
  FLOOR_BYTES + floorId.length + flags.length;
export const weightOfLine = ({ text }: { text: string }): number => Buffer.byteLength(text);
export const weightOfEvent = ({ json, text }: { json: string; text?: string | null }): number =>
  json.length + Buffer.byteLength(text ?? "");
