// Rule C28 of docs/inside/correctness.md.
/**
 * Splits text into words for the search index, in the same way for every store. Latin words stay whole, in lower case
 * and without accents. Chinese, Japanese and Korean text has no separators: a run of it becomes its overlapping pairs
 * and its last character, so that every part of the run is a sequence of words (正在导航 = 正在 在导 导航 航).
 */

import { cutText } from "../shared/text.ts";

/** Indexed length of a text, in UTF-16 units. */
const MAX_TEXT = 65_536;
/** Longer words (usually encoded data) are cut, in texts and queries alike. */
const MAX_WORD = 64;
/** Longest query, in UTF-16 units and in terms; the rest is ignored. */
const MAX_QUERY = 1_024;
const MAX_TERMS = 16;
/**
 * Words of a query over all terms, and indexed occurrences of each word of a text. A phrase is matched at each
 * occurrence, so these limits together bound what one text can cost one search: a text of one character repeated 65,536
 * times would cost seconds.
 */
const MAX_QUERY_WORDS = 32;
const MAX_OCCURRENCES = 64;
/**
 * The maximum number of sessions, and of messages, that a search considers: the newest. A common word must not block
 * other readers.
 */
const MAX_HITS = 4_096;
/**
 * Replaces a word that has used up its occurrences. It contains no letter, digit or mark, so no query can contain it.
 */
const ELSEWHERE = "\uE000";
/** The last position that a `tsvector` can store. */
const MAX_POSITION = 16_383;

const RUNS =
  /(?<cjk>[[\p{scx=Hani}\p{scx=Hira}\p{scx=Kana}\p{scx=Bopo}\p{scx=Hang}]&&[\p{L}\p{N}\p{M}]]+)|[[\p{L}\p{N}\p{M}]--[\p{scx=Hani}\p{scx=Hira}\p{scx=Kana}\p{scx=Bopo}\p{scx=Hang}]]+/gv;
/**
 * A run of combining marks, including the two half-width ones that become marks by normalisation. Normalisation sorts
 * such a run in quadratic time, and no script uses more than a few, so the rest of a run is dropped.
 */
const LONG_RUN = /([\p{M}\uFF9E\uFF9F]{30})[\p{M}\uFF9E\uFF9F]+/gu;
const ACCENTS = /(?<=\p{sc=Latn})\p{M}+/gu;
// biome-ignore lint/suspicious/noControlCharactersInRegex: the range is ASCII
const ASCII = /^[\x00-\x7f]*$/;

/** Words that must be adjacent, in this order. */
export interface SearchTerm {
  words: string[];
  /** The last word may be the prefix of a longer one. */
  isPrefix: boolean;
}

/** The words of a text, separated by spaces; empty if it has none. */
export function wordsOf(text: string): string {
  const words: string[] = [];
  const counts = new Map<string, number>();
  const add = (word: string) => {
    const count = (counts.get(word) ?? 0) + 1;
    counts.set(word, count);
    words.push(count > MAX_OCCURRENCES ? ELSEWHERE : word);
  };
  for (const { run, isCjk } of runsOf(cutText(text, MAX_TEXT))) {
    if (!isCjk) add(cutText(run, MAX_WORD));
    else {
      const characters = [...run];
      for (const word of pairsOf(characters)) add(word);
      add(characters.at(-1)!);
    }
  }
  return words.join(" ");
}

/**
 * The terms of a query, all of which must match. Empty if it has no words. A word also finds those that begin with it;
 * a single letter does not, because it would match most texts.
 */
export function termsOf(query: string): SearchTerm[] {
  const terms: SearchTerm[] = [];
  let room = MAX_QUERY_WORDS;
  for (const { run, isCjk } of runsOf(cutText(query, MAX_QUERY))) {
    if (terms.length === MAX_TERMS || room === 0) break;
    const characters = [...run];
    if (!isCjk) terms.push({ words: [cutText(run, MAX_WORD)], isPrefix: characters.length > 1 });
    else if (characters.length === 1) terms.push({ words: characters, isPrefix: true });
    else terms.push({ words: pairsOf(characters).slice(0, room), isPrefix: false });
    room -= terms.at(-1)!.words.length;
  }
  return terms;
}

/** The terms in SQLite's FTS5 syntax. Words hold only letters, digits and marks, so nothing needs escaping. */
export function fts5Query(terms: readonly SearchTerm[]): string {
  return terms.map(({ words, isPrefix }) => `"${words.join(" ")}"${isPrefix ? "*" : ""}`).join(" AND ");
}

/**
 * Words as a PostgreSQL `tsvector` with their positions. Positions end at 16,383: beyond that, single words are found,
 * but phrases of Chinese, Japanese and Korean are not.
 */
export function tsVector(words: string): string {
  if (words === "") return "";
  return words
    .split(" ")
    .map((word, index) => (index < MAX_POSITION ? `'${word}':${index + 1}` : `'${word}'`))
    .filter((word) => !word.startsWith(`'${ELSEWHERE}`))
    .join(" ");
}

/** The terms as a PostgreSQL `tsquery`. */
export function tsQuery(terms: readonly SearchTerm[]): string {
  return terms
    .map(({ words, isPrefix }) => words.map((word) => `'${word}'${isPrefix ? ":*" : ""}`).join(" <-> "))
    .join(" & ");
}

/** SQL for the keys of the sessions that match by their own words or those of their messages. */
export type WordHits = (terms: readonly SearchTerm[], put: (value: string) => string) => string;

export const sqliteHits: WordHits = (terms, put) => {
  const newest = `WHERE words MATCH ${put(fts5Query(terms))} ORDER BY rowid DESC LIMIT ${MAX_HITS}`;
  return `
    SELECT rowid FROM (SELECT rowid FROM session_words ${newest})
    UNION SELECT session_key FROM messages WHERE message_key IN (SELECT rowid FROM message_words ${newest})`;
};

export const postgresHits: WordHits = (terms, put) => {
  const words = put(tsQuery(terms));
  const newest = (table: string, key: string) => `
    SELECT session_key FROM (
      SELECT session_key FROM ${table} WHERE words @@ ${words}::tsquery ORDER BY ${key} DESC LIMIT ${MAX_HITS}) ${table}`;
  return `${newest("session_words", "session_key")} UNION ${newest("messages", "message_key")}`;
};

function* runsOf(text: string): Generator<{ run: string; isCjk: boolean }> {
  for (const match of fold(text).matchAll(RUNS)) {
    yield { run: match[0], isCjk: match.groups?.["cjk"] !== undefined };
  }
}

function fold(text: string): string {
  if (ASCII.test(text)) return text.toLowerCase();
  // Normalised compatibility forms may be many times longer than the original.
  const folded = cutText(text.replace(LONG_RUN, "$1").normalize("NFKC"), MAX_TEXT).toLowerCase();
  return folded.normalize("NFD").replace(ACCENTS, "").normalize("NFC");
}

function pairsOf(characters: readonly string[]): string[] {
  return characters.slice(1).map((character, index) => characters[index]! + character);
}
