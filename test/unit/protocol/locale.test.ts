import { expect, test } from "vitest";
import { localeOf, textIn } from "../../../src/protocol/locale.ts";

test.each([
  ["zh", "二"],
  ["zh-CN", "二"],
  ["ZH-hant-TW", "三"],
  ["en-GB", "one"],
  ["de", "one"],
  [undefined, "one"],
])(
  "the text for %s is that of the language, else of the language without its region, else the first",
  (locale, text) => {
    expect(textIn({ en: "one", zh: "二", "zh-Hant": "三" }, locale)).toBe(text);
    expect(textIn("only", locale)).toBe("only");
  },
);

test.each([
  ["zh-CN,zh;q=0.9,en;q=0.8", "zh-CN"],
  ["en;q=0.1, zh;q=0.7", "zh"],
  ["*", undefined],
  ["*, en;q=0.5", "en"],
  ["en;q=0", undefined],
  ["<script>, ;q=, en;q=x", undefined],
  ["", undefined],
  [undefined, undefined],
])("the preferred language of the header %j is %s", (header, locale) => {
  expect(localeOf(header)).toBe(locale);
});
