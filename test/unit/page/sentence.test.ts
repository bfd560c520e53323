import { expect, test } from "vitest";
import { fill, joined, spaced } from "../../../page/words/sentence.ts";

test("a sentence contains its values, and the names of missing values", () => {
  expect(fill("{who} has {p} of {p}, {other}", { who: "Music", p: 20 })).toBe("Music has 20 of 20, {other}");
});

test("a sentence has the singular for one, and the plural for every other count", () => {
  const sentence = "{count} of {all} {all|event|events}";
  expect(fill(sentence, { count: 1, all: "1" })).toBe("1 of 1 event");
  expect(fill(sentence, { count: 0, all: 0 })).toBe("0 of 0 events");
  expect(fill(sentence, { count: 1, all: "1,001" })).toBe("1 of 1,001 events");
  expect(fill(sentence, { count: 1 })).toBe(`1 of {all} {all|event|events}`);
});

test("two sentences are separated by a space, but not after Chinese punctuation", () => {
  expect(joined("It is free.", "It goes on.")).toBe("It is free. It goes on.");
  expect(joined("电话（90）获得发言权：", "发言席空闲。")).toBe("电话（90）获得发言权：发言席空闲。");
  expect(joined("", "It goes on.")).toBe("It goes on.");
});

test("Chinese and Latin letters are separated by one space, but not next to punctuation", () => {
  expect(spaced("80 低于Phone的 90。")).toBe("80 低于 Phone 的 90。");
  expect(spaced("音乐（20）被导航打断")).toBe("音乐（20）被导航打断");
  expect(spaced("Phone（90）获得发言权：90 对 20，Music被暂停。")).toBe(
    "Phone（90）获得发言权：90 对 20，Music 被暂停。",
  );
});
