import { cutText, toOneLine } from "../../shared/text.ts";

/** The longest title taken from a message, in UTF-16 units, ellipsis included. */
const TITLE_UNITS = 60;
/** How much of a message is examined: more than a title holds, because a message may begin with white space. */
const LOOKED_AT_UNITS = 1_024;

/** A title from a message's first words, cut between words; undefined if the message has none. */
export function titleOf(content: string): string | undefined {
  const line = toOneLine(cutText(content, LOOKED_AT_UNITS));
  if (line === "") return undefined;
  if (line.length <= TITLE_UNITS) return line;
  const cut = cutText(line, TITLE_UNITS - 1);
  // Text without spaces, and very long words, are cut at the limit.
  const word = line[cut.length] === " " ? cut.length : cut.lastIndexOf(" ");
  return `${word > TITLE_UNITS / 2 ? cut.slice(0, word) : cut}…`;
}
