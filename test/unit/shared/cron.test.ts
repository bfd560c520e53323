import { describe, expect, test } from "vitest";
import { firstInstantOf, nextOf, parseCron } from "../../../src/shared/cron.ts";
import { minutesOf } from "../../support/schedules/minute-walk.ts";

const DAY_MS = 86_400_000;

function dueIn(text: string, timezone: string, from: number, to: number): string[] {
  const cron = parseCron(text);
  if (typeof cron === "string") throw new Error(cron);
  const found: string[] = [];
  for (let at = from; ; ) {
    const next = nextOf(cron, timezone, at, 3_000);
    if (next === undefined || next > to) return found;
    found.push(new Date(next).toISOString());
    at = next;
  }
}

describe("cron expressions", () => {
  // In these days the clocks are set forward and back: in Santiago at midnight, on Lord Howe Island by half an hour.
  const days = [
    ["Europe/Berlin", "2026-03-28", "2026-10-24"],
    ["America/New_York", "2026-03-07", "2026-10-31"],
    ["America/Santiago", "2026-09-05", "2026-04-04"],
    ["Australia/Lord_Howe", "2026-10-03", "2026-04-04"],
    ["Asia/Kathmandu", "2026-03-28", "2026-10-24"],
  ] as const;
  const texts = [
    "30 2 * * *",
    "15,30 2 * * *",
    "0 0,3 * * *",
    "30 0 * * *",
    "45 1 * * *",
    "*/20 1-3 * * *",
    "*/20 * * * *",
    "30 * * * *",
    "0 7 * * mon-fri",
    "0 7 29 3 sun",
  ];
  for (const [timezone, ...starts] of days) {
    test(`come at the minutes of a walk over every minute: ${timezone}`, () => {
      for (const start of starts) {
        const from = Date.parse(start);
        const to = from + 3 * DAY_MS;
        for (const text of texts)
          expect([text, ...dueIn(text, timezone, from, to)]).toEqual([text, ...minutesOf(text, timezone, from, to)]);
      }
    });
  }

  test("are due once at a time that comes twice, and when the clocks are set at those that do not come", () => {
    const berlin = (text: string, from: string) =>
      dueIn(text, "Europe/Berlin", Date.parse(from), Date.parse(from) + DAY_MS);
    expect(berlin("30 2 * * *", "2026-10-24T22:00Z")).toEqual(["2026-10-25T00:30:00.000Z"]);
    expect(berlin("15,30 2 * * *", "2026-03-28T23:00Z")).toEqual(["2026-03-29T01:00:00.000Z"]);
    expect(berlin("30 1-3 * * *", "2026-10-24T22:00Z")).toHaveLength(3);
    expect(berlin("30 * * * *", "2026-10-24T22:00Z")).toHaveLength(24);
  });

  test("may be years ahead, or never due", () => {
    expect(dueIn("0 12 29 2 *", "Europe/Berlin", Date.parse("2026-01-01"), Date.parse("2033-01-01"))).toEqual([
      "2028-02-29T11:00:00.000Z",
      "2032-02-29T11:00:00.000Z",
    ]);
    expect(dueIn("30 * 29 2 *", "Europe/Berlin", Date.parse("2026-01-01"), Date.parse("2028-02-28T23:31Z"))).toEqual([
      "2028-02-28T23:30:00.000Z",
    ]);
    expect(dueIn("0 12 30 2 *", "Europe/Berlin", Date.parse("2026-01-01"), Date.parse("2036-01-01"))).toEqual([]);
    expect(dueIn("* * 31 4,6 *", "Europe/Berlin", Date.parse("2026-01-01"), Date.parse("2036-01-01"))).toEqual([]);
  });

  test.each([
    "",
    "0 7 * *",
    "0 0 7 * * *",
    "60 7 * * *",
    "0 24 * * *",
    "0 7 0 * *",
    "0 7 * 13 *",
    "0 7 * * 8",
    "5-1 * * * *",
    "*/0 * * * *",
    "0 7 * * mo",
    "0 7 L * *",
    "@daily",
    "- 7 * * *",
    `0${",0".repeat(256)} 7 * * *`,
  ])("that are none are named: %s", (text) => {
    expect(parseCron(text)).toBeTypeOf("string");
  });

  test("take names, steps and both numbers of Sunday", () => {
    const two = (text: string) =>
      dueIn(text, "UTC", Date.parse("2026-01-01"), Date.parse("2026-02-01")).map((at) => at.slice(5, 10));
    expect(two("0 7 * JAN Sun")).toEqual(["01-04", "01-11", "01-18", "01-25"]);
    expect(two("0 7 * * 7")).toEqual(two("0 7 * * 0"));
    expect(two("0 7 5/10 * *")).toEqual(["01-05", "01-15", "01-25"]);
    expect(two("0 7 13 * fri")).toEqual(["01-02", "01-09", "01-13", "01-16", "01-23", "01-30"]);
    expect(two("0 7 */10 * *")).toEqual(["01-01", "01-11", "01-21", "01-31"]);
  });

  test("a local time that the clocks skip is the moment at which they are set", () => {
    const at = (shown: string) =>
      new Date(firstInstantOf(Date.parse(`${shown}Z`), "Europe/Berlin")).toISOString().slice(5, 16);
    expect(at("2026-03-29T02:30")).toBe("03-29T01:00");
    expect(at("2026-10-25T02:30")).toBe("10-25T00:30");
    expect(at("2026-10-25T03:00")).toBe("10-25T02:00");
    expect(at("2026-07-01T07:00")).toBe("07-01T05:00");
  });
});
