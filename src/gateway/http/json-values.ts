const [QUOTE, COMMA, BACKSLASH] = [0x22, 0x2c, 0x5c];
const [OPEN_BRACKET, CLOSE_BRACKET, OPEN_BRACE, CLOSE_BRACE] = [0x5b, 0x5d, 0x7b, 0x7d];
const SPACE = 0x20;

/**
 * Whether a JSON text has more than `max` values, nested ones included. It only reads bytes: parsing a body of a
 * hundred thousand values first would take many times its size. For a text that is not JSON the answer means nothing.
 */
export function hasMoreValues(json: Uint8Array, max: number): boolean {
  // A value takes at least a digit and a comma.
  if (json.length < max * 2) return false;
  let count = 1;
  let isOpened = false;
  for (let at = 0; at < json.length && count <= max; at++) {
    const byte = json[at]!;
    if (byte <= SPACE) continue;
    // The first value of an array or object has no comma before it.
    if (isOpened && byte !== CLOSE_BRACKET && byte !== CLOSE_BRACE) count++;
    isOpened = byte === OPEN_BRACKET || byte === OPEN_BRACE;
    if (byte === QUOTE) at = endOfString(json, at);
    else if (byte === COMMA) count++;
  }
  return count > max;
}

/** The offset of the quote that ends the string; the length of the text if none does. */
function endOfString(json: Uint8Array, start: number): number {
  let at = start + 1;
  while (at < json.length && json[at] !== QUOTE) at += json[at] === BACKSLASH ? 2 : 1;
  return at;
}
