import { describe, expect, test } from "vitest";
import { HourCombinations } from "../../../src/policy/hour-combinations.ts";
import { readScript } from "../../../src/policy/script.ts";
import { play, ScriptFault } from "../../../src/policy/simulation.ts";
import { makeCatalog } from "../../support/catalogs/catalog.ts";

const FROM = Date.UTC(2026, 0, 5, 12);
const QUARTER_MS = 15 * 60_000;

const hoursOf = (priority_rules: object[], restrictions: object[] = []) =>
  new HourCombinations(makeCatalog([{ name: "music", priority: 50 }], { priority_rules, restrictions } as never), FROM);

const rule = (between: string, timezone: string) => ({ name: `${between} ${timezone}`, between, timezone, adjust: 5 });

describe("the hours of a catalogue", () => {
  test.each([
    ["without rules", []],
    ["in one zone", [rule("22:00-07:00", "Europe/Berlin")]],
    // Half an hour of daylight saving; a change on a Thursday; none; and a zone that changes on other days than Berlin.
    [
      "in odd zones",
      [
        rule("12:00-13:00", "Europe/Berlin"),
        rule("06:30-07:30", "America/New_York"),
        rule("21:30-22:00", "Australia/Lord_Howe"),
        rule("15:45-17:15", "Asia/Kathmandu"),
        rule("13:00-13:30", "Africa/Cairo"),
      ],
    ],
  ])("are all combinations that a quarter of an hour of the year has: %s", (_, rules) => {
    const night = { name: "night", between: "22:00-06:00", days: ["fri", "sat"], timezone: "Asia/Tokyo" };
    const sundays = { name: "sundays", days: ["sun"], timezone: "America/Los_Angeles" };
    const hours = hoursOf(rules, [night, sundays]);
    const found = new Set<string>();
    for (let at = FROM; at < FROM + 366 * 86_400_000; at += QUARTER_MS) found.add(hours.at(at));
    expect(hours.all.sort()).toEqual([...found].sort());
  });

  test("meet in summer only, if two zones have it so, and the example is an instant of that", () => {
    const hours = hoursOf([rule("12:00-12:30", "Europe/Berlin"), rule("10:00-10:30", "UTC")]);
    expect(hours.all).toContain("11");
    const now = hours.next("11", FROM);
    expect(hours.at(now)).toBe("11");
    expect(new Date(now).toISOString().slice(0, 10) > "2026-03-28").toBe(true);
    // And again a year later, as often as one asks.
    expect(hours.at(hours.next("11", hours.next("11", now + 200 * 86_400_000)))).toBe("11");
  });
});

describe("a script's clock", () => {
  const catalog = makeCatalog([{ name: "music", priority: 50 }]);
  const playing = (clock: string) => {
    const read = readScript(
      `timezone: Europe/Berlin\nsteps:\n  - { at: "08:00", asks: music }\n  - { clock: "${clock}" }`,
    );
    if (!read.ok) throw new Error(read.faults[0]!.message);
    return new Date(play(read, { catalog }).endedAt).toISOString();
  };

  test("is set to a day and a time in its time zone", () => {
    expect(playing("2026-07-06 10:30")).toBe("2026-07-06T08:30:00.000Z");
    expect(playing("07:00")).toBe("2026-01-06T06:00:00.000Z");
  });

  test("never goes back", () => {
    expect(() => playing("2026-01-04 10:30")).toThrow(ScriptFault);
    expect(() => playing("2026-02-31 10:30")).toThrow("must be a time of day");
  });
});
