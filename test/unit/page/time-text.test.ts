import { expect, test } from "vitest";
import { clockOf, whenOf } from "../../../page/moment/time-text.ts";

test("a time of another day is shown with its date", () => {
  const now = Date.now();
  const lastYear = new Date(2_024, 10, 3, 8, 31, 2).getTime();
  expect(whenOf(now, "en")).toBe(clockOf(now, "en"));
  expect(whenOf(lastYear, "en")).toBe("11/3/24 08:31:02");
  expect(whenOf(lastYear, "zh", true)).toBe("2024/11/3 08:31:02.000");
});
