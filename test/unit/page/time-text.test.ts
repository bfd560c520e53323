import { expect, test } from "vitest";
import { clockOf, leftText, whenOf } from "../../../page/moment/time-text.ts";

test("a time of another day is shown with its date", () => {
  const now = Date.now();
  const lastYear = new Date(2_024, 10, 3, 8, 31, 2).getTime();
  expect(whenOf(now, "en")).toBe(clockOf(now, "en"));
  expect(whenOf(lastYear, "en")).toBe("11/3/24 08:31:02");
  expect(whenOf(lastYear, "zh", true)).toBe("2024/11/3 08:31:02.000");
});

test("the time that is left has its two largest units, rounded up", () => {
  const left = [0, 12_400, 60_000, 270_000, 3_599_500, 7_260_000, 86_340_000, 86_341_000, 100_000_000];
  const texts = left.map((ms) => leftText(ms, "en"));
  expect(texts.join(", ")).toBe("0s, 13s, 1m, 4m 30s, 1h, 2h 1m, 23h 59m, 1d, 1d 4h");
  expect(leftText(7_260_000, "zh")).toBe("2小时1分钟");
});
