import { cutText } from "../protocol/text.ts";

/**
 * Text as words to index, the same for every store. Latin words stay whole, in lower case and without accents. Chinese,
 * Japanese and Korean have no words to a machine: a run of them becomes its overlapping pairs, and its last character
 * alone, so that every part of it is a sequence of words (正在导航 = 正在 在导 导航 航).
 */

/** What is indexed of a text, in UTF-16 units. */
const MAX_TEXT = 65_536;
/** Longer words (encoded data, as a rule) are cut, in texts and queries alike. */
const MAX_WORD = 64;
/** What a query may hold, in UTF-16 units and in terms; the rest of it is ignored. */
const MAX_QUERY = 1_024;
const MAX_TERMS = 16;
/** The last place a `tsvector` can name. */
const MAX_POSITION = 16_383;

const RUNS =
  /(?<cjk>[[\p{scx=Hani}\p{scx=Hira}\p{scx=Kana}\p{scx=Bopo}\p{scx=Hang}]&&[\p{L}\p{N}\p{M}]]+)|[[\p{L}\p{N}\p{M}]--[\p{scx=Hani}\p{scx=Hira}\p{scx=Kana}\p{scx=Bopo}\p{scx=Hang}]]+/gv;
const ACCENTS = /(?<=\p{sc=Latn})\p{M}+/gu;
// biome-ignore lint/suspicious/noControlCharactersInRegex: it says what ASCII is
const ASCII = /^[\x00-\x7f]*$/;

/** Words that must stand side by side, in this order. */
export interface SearchTerm {
  words: string[];
  /** The last word may be the beginning of a longer one. */
  isPrefix: boolean;
}

/** The words of a text, separated by spaces; empty when it has none. */
export function wordsOf(text: string): string {
  const words: string[] = [];
  for (const { run, isCjk } of runsOf(cutText(text, MAX_TEXT))) {
    if (!isCjk) words.push(cutText(run, MAX_WORD));
    else {
      const characters = [...run];
      words.push(...pairsOf(characters), characters.at(-1)!);
    }
  }
  return words.join(" ");
}

/** What a query asks for: all of these. Empty when it has no words. */
export function termsOf(query: string): SearchTerm[] {
  const terms: SearchTerm[] = [];
  for (const { run, isCjk } of runsOf(cutText(query, MAX_QUERY))) {
    if (terms.length === MAX_TERMS) break;
    const characters = isCjk ? [...run] : [];
    if (characters.length === 1) terms.push({ words: characters, isPrefix: true });
    else terms.push({ words: isCjk ? pairsOf(characters) : [cutText(run, MAX_WORD)], isPrefix: false });
  }
  return terms;
}

/** The terms in SQLite's FTS5 language. Words hold letters, digits and marks only, so there is nothing to escape. */
export function fts5Query(terms: readonly SearchTerm[]): string {
  return terms.map(({ words, isPrefix }) => `"${words.join(" ")}"${isPrefix ? "*" : ""}`).join(" AND ");
}

/**
 * Words as a PostgreSQL `tsvector`, each with its places. Its positions end at 16,383 and it keeps 255 of each word: in
 * what is longer, single words are found and phrases of Chinese, Japanese and Korean only before that.
 */
export function tsVector(words: string): string {
  if (words === "") return "";
  return words
    .split(" ")
    .map((word, index) => (index < MAX_POSITION ? `'${word}':${index + 1}` : `'${word}'`))
    .join(" ");
}

/** The terms as a PostgreSQL `tsquery`. */
export function tsQuery(terms: readonly SearchTerm[]): string {
  return terms
    .map(({ words, isPrefix }) => words.map((word) => `'${word}'${isPrefix ? ":*" : ""}`).join(" <-> "))
    .join(" & ");
}

function* runsOf(text: string): Generator<{ run: string; isCjk: boolean }> {
  for (const match of fold(text).matchAll(RUNS)) {
    yield { run: match[0], isCjk: match.groups?.["cjk"] !== undefined };
  }
}

function fold(text: string): string {
  if (ASCII.test(text)) return text.toLowerCase();
  // Compatibility forms may be many times longer than what they stand for.
  const folded = cutText(text.normalize("NFKC"), MAX_TEXT).toLowerCase();
  return folded.normalize("NFD").replace(ACCENTS, "").normalize("NFC");
}

function pairsOf(characters: readonly string[]): string[] {
  return characters.slice(1).map((character, index) => characters[index]! + character);
}
