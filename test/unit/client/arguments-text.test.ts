import { expect, test } from "vitest";
import { argumentsText } from "../../../src/client/arguments-text.ts";

test("arguments are indented, and a text that is not JSON stays as it is", () => {
  expect(argumentsText('{"path":"a.txt"}')).toBe('{\n  "path": "a.txt"\n}');
  expect(argumentsText('{"path":')).toBe('{"path":');
});

test.each([
  ["an override of direction", "\u202e", "\\u202e"],
  ["a tag", "\u{e0041}", "\\udb40\\udc41"],
  ["an annotation's anchor", "\ufff9", "\\ufff9"],
  ["a control", "\u009b", "\\u009b"],
])("%s is shown as an escape, also if it came as one", (_, character, escaped) => {
  expect(argumentsText(JSON.stringify(character))).toBe(`"${escaped}"`);
  expect(argumentsText(`"${escaped}"`)).toBe(`"${escaped}"`);
});

test("joiners, which scripts and emoji need, stay", () => {
  expect(argumentsText('"\u{1F468}\u200d\u{1F469}"')).toBe('"\u{1F468}\u200d\u{1F469}"');
});

test("a text that is nested too deeply to be indented stays as it is", () => {
  const deep = "[".repeat(10_000) + "]".repeat(10_000);
  expect(argumentsText(deep)).toBe(deep);
});
