import { expect, it } from "vitest";
import { cutToWidth, fitToWidth, widthOf, wrapToWidth } from "../../../src/cli/text-width.ts";

it("a text's width counts two columns for Chinese and its punctuation, full-width forms and emoji", () => {
  for (const [text, width] of [
    ["", 0],
    ["abc é", 5],
    ["导航中，暂时无法闲聊", 20],
    ["《茉莉花》", 10],
    ["ＡＢ。", 6],
    ["한국 か", 7],
    ["𠮷", 2],
    ["🚗 👩‍👩‍👧", 5],
    ["❤️", 2],
    ["♪ “x” …", 7],
  ] as const) {
    expect(widthOf(text), text).toBe(width);
  }
});

it("a text's width counts no column for combining marks", () => {
  expect(widthOf("e\u0301")).toBe(1);
  expect(widthOf("\u200b")).toBe(0);
});

it("a text is cut with an ellipsis, never in the middle of a character", () => {
  expect(cutToWidth("导航中", 6)).toBe("导航中");
  expect(cutToWidth("导航中", 5)).toBe("导航…");
  expect(cutToWidth("导航中", 4)).toBe("导…");
  expect(cutToWidth("👩‍👩‍👧👩‍👩‍👧", 3)).toBe("👩‍👩‍👧…");
  expect(cutToWidth("abc", 0)).toBe("");
});

it("a text is padded or cut to the width of its column", () => {
  expect(fitToWidth("音乐", 6)).toBe("音乐  ");
  expect(fitToWidth("电话通信", 5)).toBe("电话…");
  expect(fitToWidth("电话通信", 6)).toBe("电话… ");
});

it("a text is wrapped at spaces, or between characters if it has no spaces", () => {
  expect(wrapToWidth("one two three", 7)).toEqual(["one two", "three"]);
  expect(wrapToWidth("one two three", 8)).toEqual(["one two", "three"]);
  expect(wrapToWidth("导航中暂时无法闲聊", 9)).toEqual(["导航中暂", "时无法闲", "聊"]);
  expect(wrapToWidth("abcdefgh", 3)).toEqual(["abc", "def", "gh"]);
  expect(wrapToWidth("", 3)).toEqual([]);
  for (const line of wrapToWidth("说 one 导航 two-three 🚗🚗🚗 and more", 6))
    expect(widthOf(line)).toBeLessThanOrEqual(6);
});
