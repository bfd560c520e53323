import { expect, test } from "vitest";
import { type Hours, isDuring, nextChange } from "../../../src/config/catalog/hours.ts";
import { clockIn } from "../../../src/shared/wall-clock.ts";

const at = (text: string) => Date.parse(text);
const hours = (fromMinute: number, toMinute: number, rest: Partial<Hours> = {}): Hours => ({
  between: { fromMinute, toMinute },
  timezone: "UTC",
  ...rest,
});
const NIGHT = hours(22 * 60, 7 * 60, { days: ["fri"] });

test.each<[string, boolean]>([
  ["2026-01-02T21:59:59Z", false],
  ["2026-01-02T22:00:00Z", true],
  ["2026-01-03T06:59:59Z", true],
  ["2026-01-03T07:00:00Z", false],
  ["2026-01-03T22:30:00Z", false],
  ["2026-01-02T06:00:00Z", false],
])("hours over midnight belong to the day on which they begin: at %s %s", (text, isOn) => {
  expect(isDuring(NIGHT, at(text))).toBe(isOn);
});

test("days without hours are whole days of their time zone", () => {
  const weekend: Hours = { days: ["sat", "sun"], timezone: "Asia/Shanghai" };
  expect(isDuring(weekend, at("2026-01-02T15:59:00Z"))).toBe(false);
  expect(isDuring(weekend, at("2026-01-02T16:00:00Z"))).toBe(true);
  expect(nextChange([weekend], at("2026-01-02T12:00:00Z"))).toBe(at("2026-01-02T16:00:00Z"));
});

test("hours change at their first and at their last minute, and nothing changes without hours", () => {
  expect(nextChange([NIGHT, hours(600, 720)], at("2026-01-02T11:59:30Z"))).toBe(at("2026-01-02T12:00:00Z"));
  expect(nextChange([NIGHT], at("2026-01-02T22:00:00Z"))).toBe(at("2026-01-03T07:00:00Z"));
  expect(nextChange([{ timezone: "UTC" }], at("2026-01-02T22:00:00Z"))).toBeUndefined();
});

test("hours that begin in the hour which summer time leaves out begin when the clocks are changed", () => {
  const early = hours(150, 240, { timezone: "Europe/Berlin" });
  const changed = at("2026-03-29T01:00:00Z");
  const found: number[] = [];
  let last = false;
  for (let now = at("2026-03-28T12:00:00Z"); now < at("2026-03-29T12:00:00Z"); now = nextChange([early], now)!) {
    if (isDuring(early, now) !== last) found.push(now);
    last = isDuring(early, now);
  }
  expect(found).toEqual([changed, at("2026-03-29T02:00:00Z")]);
});

test("hours in the hour that the clocks show twice begin and end twice, and no change lies in the past", () => {
  const early = hours(75, 90, { timezone: "America/New_York" });
  const found: number[] = [];
  for (let now = at("2026-11-01T03:00:00Z"); now < at("2026-11-01T06:30:00Z"); ) {
    const next = nextChange([early], now)!;
    expect(next).toBeGreaterThan(now);
    if (isDuring(early, next) !== isDuring(early, now)) found.push(next);
    now = next;
  }
  expect(found).toEqual(["05:15", "05:30", "06:15", "06:30"].map((time) => at(`2026-11-01T${time}:00Z`)));
});

test.each([
  ["2026-11-01T05:45:00Z", "2026-11-01T06:15:00Z"],
  ["2026-11-01T06:00:00.001Z", "2026-11-01T06:15:00Z"],
  ["2026-11-01T06:15:00.001Z", "2026-11-02T06:15:00Z"],
])("after %s a clock that was set back shows 01:15 next at %s", (now, next) => {
  expect(clockIn("America/New_York").next(at(now), 75 * 60_000)).toBe(at(next));
});
