// Rules C5 and C28 of docs/inside/correctness.md.
/**
 * Clean text at the system's edges. SQLite, PostgreSQL, JSON and SSE treat NUL and lone surrogates differently, so
 * neither may enter.
 */

const NUL = /\0/g;

/** Replace NUL and lone surrogates by U+FFFD. Rule C5. */
export function cleanText(text: string): string {
  const wellFormed = text.isWellFormed() ? text : text.toWellFormed();
  return wellFormed.includes("\0") ? wellFormed.replace(NUL, "\uFFFD") : wellFormed;
}

/**
 * Characters that are not seen and change how the text around them looks or reads: controls, marks and overrides of
 * direction, separators of lines, fillers and tags. Joiners are not among them, because scripts and emoji need them.
 */
const UNSEEN = /(?![\u{200c}\u{200d}])[\p{Cf}\u{7f}-\u{9f}\u{2028}\u{2029}\u{2065}\u{e0000}-\u{e007f}]/gu;

/** JSON in which such characters are escapes: the same value, and a person sees that they are there. */
export function visibleJson(json: string): string {
  return json.replace(UNSEEN, (character) =>
    Array.from({ length: character.length }, (_, at) => escapeOf(character.charCodeAt(at))).join(""),
  );
}

/** Characters at which some readers of lines split a text, and which `JSON.stringify` does not escape: NEL, LS, PS. */
const LINE_ENDS = /[\u0085\u2028\u2029]/g;

/** JSON that all readers take for one line. The value is the same. */
export const jsonInOneLine = (json: string): string => json.replace(LINE_ENDS, (end) => escapeOf(end.charCodeAt(0)));

const escapeOf = (unit: number): string => `\\u${unit.toString(16).padStart(4, "0")}`;

export const withoutUnseen = (text: string): string => text.replace(UNSEEN, "");

/** A name in one line, without such characters, so that it looks like no other name than its own. */
export function visibleName(name: string): string {
  return withoutUnseen(name)
    .replace(/[\s\p{Cc}\u{200c}\u{200d}]+/gu, " ")
    .trim();
}

/** The beginning of a text that comes from outside, clean and of at most `units` UTF-16 units. */
export const textWithin = (text: string, units: number): string => cutText(cleanText(text), units);

/** The longest prefix of at most `units` UTF-16 units that does not cut a surrogate pair. */
export function cutText(text: string, units: number): string {
  if (text.length <= units) return text;
  const last = text.charCodeAt(units - 1);
  const cutsPair = last >= 0xd800 && last <= 0xdbff;
  const cut = text.slice(0, cutsPair ? units - 1 : units);
  return text.length > 2 * units ? copyText(cut) : cut;
}

/** A text of at most `units` UTF-16 units: the whole, or its beginning and an ellipsis. */
export const shortened = (text: string, units: number): string =>
  text.length > units ? `${cutText(text, units - 1)}…` : text;

/** The text in one line, without white space around it. */
export const toOneLine = (text: string): string => text.trim().replace(/\s+/g, " ");

/** The same text in memory of its own: engines keep the whole of a text as long as any slice of it. */
export const copyText = (text: string): string => JSON.parse(JSON.stringify(text));
