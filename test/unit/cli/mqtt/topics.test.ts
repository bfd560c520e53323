import fc from "fast-check";
import { expect, test } from "vitest";
import {
  decodeLevel,
  encodeLevel,
  faultOfPattern,
  faultOfTopic,
  floorOfLevels,
  levelsOfFloor,
  TopicPattern,
} from "../../../../src/cli/mqtt/topics.ts";

test("a pattern matches level by level, names levels, and is subscribed to without their names", () => {
  const pattern = new TopicPattern("vss/Seat/+row/+/IsBelted");
  expect([pattern.filter, pattern.names]).toEqual(["vss/Seat/+/+/IsBelted", ["row"]]);
  expect(pattern.match("vss/Seat/Row1/Left/IsBelted")).toEqual({ row: "Row1" });
  for (const other of ["vss/Seat/Row1/IsBelted", "vss/Seat/Row1/Left/IsBelted/x", "vss/Seat/Row1/Left/Other", "vss"]) {
    expect(pattern.match(other), other).toBeUndefined();
  }
  expect(new TopicPattern("a/#").match("a/b/c")).toEqual({});
  expect(pattern.withLastLevel("end").filter).toBe("vss/Seat/+/+/end");
});

test("a level that is named is decoded, and one that is no name does not match", () => {
  const pattern = new TopicPattern("in/+user/request");
  expect(pattern.match("in/a%2Fb%23/request")).toEqual({ user: "a/b#" });
  for (const level of ["", "%zz", "%E0%A4%A"]) expect(pattern.match(`in/${level}/request`), level).toBeUndefined();
});

test("what is no topic is said", () => {
  for (const pattern of ["", "a+/b", "a/#/b", "a/+Row/b", "+a/+a", "a\0"])
    expect(faultOfPattern(pattern), pattern).toBeDefined();
  for (const topic of ["", "a/+/b", "#", "a\0b"]) expect(faultOfTopic(topic), topic).toBeDefined();
  expect([faultOfPattern("+/+a/#"), faultOfTopic("a//b")]).toEqual([undefined, undefined]);
});

test("every name is one level, and comes back from it; no two floors have the same topics", () => {
  const names = fc.string({ minLength: 1, maxLength: 20, unit: "grapheme" }).filter((name) => name.isWellFormed());
  fc.assert(
    fc.property(names, (name) => {
      const level = encodeLevel(name);
      expect(level).not.toMatch(/[/+#\0]/);
      expect(decodeLevel(level)).toBe(name);
    }),
  );
  const zones = fc.option(fc.oneof(names, fc.constantFrom("-", "%2D", "a/b")), { nil: undefined });
  fc.assert(
    fc.property(names, zones, (userId, zone) => {
      const [user, level] = levelsOfFloor(userId, zone).split("/");
      expect(floorOfLevels(user!, level!)).toEqual({ userId, zone });
    }),
  );
});
