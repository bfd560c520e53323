import { expect, test } from "vitest";
import { LogThrottle } from "../../../src/shared/log-throttle.ts";

test("the first line is due, and a further one when the interval has passed since the last that was", () => {
  const notes = new LogThrottle();
  const due = [0, 1, 59_999, 60_000, 60_001, 120_000].filter((now) => notes.isDue(now));
  expect(due).toEqual([0, 60_000, 120_000]);
});
