import { expect, test } from "vitest";
import { fill, spaced } from "../../../page/words/sentence.ts";

test("a sentence contains its values, and the names of missing values", () => {
  expect(fill("{who} has {p} of {p}, {other}", { who: "Music", p: 20 })).toBe("Music has 20 of 20, {other}");
});

test("Chinese and Latin letters are separated by one space, but not next to punctuation", () => {
  expect(spaced("80 低于Phone的 90。")).toBe("80 低于 Phone 的 90。");
  expect(spaced("音乐（20）被导航打断")).toBe("音乐（20）被导航打断");
  expect(spaced("Phone（90）获得发言权：90 对 20，Music被暂停。")).toBe(
    "Phone（90）获得发言权：90 对 20，Music 被暂停。",
  );
});
