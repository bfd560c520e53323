import fc from "fast-check";
import { expect, onTestFinished, test, vi } from "vitest";
import { fts5Query, termsOf, tsQuery, tsVector, wordsOf } from "../../../src/store/search-words.ts";

const query = (text: string) => fts5Query(termsOf(text));

test.each([
  ["Hello, World!", "hello world"],
  ["Café crème, ĄĘ naïve", "cafe creme ae naive"],
  ["e\u0301te\u0301 İstanbul", "ete istanbul"],
  ["正在导航", "正在 在导 导航 航"],
  ["正在导航，请稍候。", "正在 在导 导航 航 请稍 稍候 候"],
  ["导", "导"],
  ["iPhone15导航app", "iphone15 导航 航 app"],
  ["ﾅﾋﾞ ナビ", "ナビ ビ ナビ ビ"],
  ["カー", "カー ー"],
  ["길안내", "길안 안내 내"],
  ["が\u3099か", "が\u3099 \u3099か か"],
  ["𠮷野家", "𠮷野 野家 家"],
  ["ＡＢＣ １２３ ㈱", "abc 123 株"],
  ["don't snake_case a-b", "don t snake case a b"],
  ["Привет, мир! Ёлка", "привет мир ёлка"],
  ["हिन्दी", "हिन्दी"],
  ["… 🎷 — ()", ""],
  ["", ""],
])("the words of %j are %j", (text, words) => {
  expect(wordsOf(text)).toBe(words);
});

test("a long word is cut, and so is a long text", () => {
  expect(wordsOf("x".repeat(1_000))).toHaveLength(64);
  expect(wordsOf("a ".repeat(100_000)).split(" ")).toHaveLength(32_768);
  expect(wordsOf("\uFDFA".repeat(65_536)).length).toBeLessThan(200_000);
});

/** Normalised text has no long run of combining marks. */
const sorted = /[\p{M}\uFF9E\uFF9F]{100}/u;
const marks = ["a", "\u0301", "\u0327", "\u0334", "\uFF9E", "\uFF9F", "か", "\u3099", "\u0E33", "\u1F82", "\u0344"];

test("normalising a text yields no long run of combining marks, for any input", () => {
  const normalize = vi.spyOn(String.prototype, "normalize");
  onTestFinished(() => normalize.mockRestore());
  const typed = fc.array(fc.tuple(fc.constantFrom(...marks), fc.nat({ max: 99 })), { minLength: 1, maxLength: 20 });
  fc.assert(
    fc.property(typed, (pieces) => {
      normalize.mockClear();
      const text = pieces.map(([piece, times]) => piece.repeat(times)).join("");
      wordsOf(text);
      termsOf(text);
      for (const normalized of normalize.mock.contexts) expect(String(normalized)).not.toMatch(sorted);
    }),
  );
  const { length } = normalize.mock.calls;
  wordsOf("a".concat("\u0301\u0327".repeat(30_000)));
  expect(normalize.mock.calls.length).toBeGreaterThan(length);
  for (const normalized of normalize.mock.contexts) expect(String(normalized)).not.toMatch(sorted);
});

test("every character that normalising turns into combining marks counts as one", () => {
  const isMark = /^\p{M}/u;
  const made: string[] = [];
  for (let code = 0; code < 0x110000; code++) {
    const character = String.fromCodePoint(code);
    // In canonical order a mark of a lower class comes before one of a higher class, in whichever order they are
    // typed.
    const isSorted =
      isMark.test(character.normalize("NFKD")) && `\u0345${character}\u0334`.normalize("NFKD").at(1) !== "\u0345";
    if (
      isSorted &&
      !isMark.test(character) &&
      !`a${character}\u0334`.normalize("NFKD").startsWith(`a${character.normalize("NFKD")}`)
    ) {
      made.push(character);
    }
  }
  expect(made).toEqual(["\uFF9E", "\uFF9F"]);
});

test("a word keeps only its first places in a text, and a query has a limited number of words", () => {
  const words = wordsOf("啊".repeat(65_536)).split(" ");
  expect(words).toHaveLength(65_536);
  expect(words.filter((word) => word === "啊啊")).toHaveLength(64);
  expect(tsVector(words.join(" ")).split(" ")).toHaveLength(65);
  const count = (query: string) => termsOf(query).reduce((sum, term) => sum + term.words.length, 0);
  expect(count("啊".repeat(1_024))).toBe(32);
  expect(count(`${"啊".repeat(63)} `.repeat(16))).toBe(32);
});

test.each([
  ["导航", '"导航"'],
  ["正在导航", '"正在 在导 导航"'],
  ["导", '"导"*'],
  ["Jazz 导航", '"jazz"* AND "导航"'],
  ['"a" OR b* NEAR(c)', '"a" AND "or"* AND "b" AND "near"* AND "c"'],
  ["x".repeat(99), `"${"x".repeat(64)}"*`],
])("the terms of %j are %s", (text, expected) => {
  expect(query(text)).toBe(expected);
});

test("an empty query has no terms", () => {
  expect(termsOf(" … '\" ")).toEqual([]);
});

test("a query has at most sixteen terms", () => {
  expect(termsOf("a ".repeat(500))).toHaveLength(16);
});

test("a query's terms contain only letters, digits and marks, for any input", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary" }), (text) => {
      for (const { words } of termsOf(text)) for (const word of words) expect(word).toMatch(/^[\p{L}\p{N}\p{M}]+$/u);
    }),
  );
});

test("every part of a run of Chinese is found in that run", () => {
  const run = fc.array(fc.constantFrom(..."正在导航中请稍候"), { minLength: 1, maxLength: 12 });
  fc.assert(
    fc.property(run, fc.nat(), fc.nat(), (characters, from, length) => {
      const start = from % characters.length;
      const part = characters.slice(start, start + 1 + (length % (characters.length - start))).join("");
      const [term] = termsOf(part);
      const text = ` ${wordsOf(characters.join(""))} `;
      expect(text).toContain(` ${term!.words.join(" ")}${term!.isPrefix ? "" : " "}`);
    }),
  );
});

test("a text is written as its words with their places", () => {
  expect(tsVector(wordsOf("Blue 导航"))).toBe("'blue':1 '导航':2 '航':3");
  expect(tsVector("")).toBe("");
});

test("words beyond the last possible place are written without one", () => {
  const words = tsVector(Array.from({ length: 16_385 }, (_, n) => `w${n}`).join(" ")).split(" ");
  expect(words.slice(-3)).toEqual(["'w16382':16383", "'w16383'", "'w16384'"]);
});

test("a query is written as all its terms: phrases in order, and a word as a prefix", () => {
  expect(tsQuery(termsOf("jazz 正在导航 港"))).toBe("'jazz':* & '正在' <-> '在导' <-> '导航' & '港':*");
});
