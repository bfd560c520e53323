import fc from "fast-check";
import { expect, test } from "vitest";
import { meets, readValue } from "../../../../src/cli/mqtt/values.ts";
import { isSameVolume, volumeAt } from "../../../../src/cli/mqtt/volumes.ts";

const bytes = (text: string) => Buffer.from(text);

test.each([
  ['{"value":-1}', { path: "value", is: -1 }, true],
  ['{"value":3}', { path: "value", is: -1 }, false],
  ['{"a":{"b":[5]}}', { path: "a.b.0", above: 4 }, true],
  ["-1", { is: -1 }, true],
  ["-1", { is: "-1" }, true],
  ["false", { is: false }, true],
  ["true", { is: false }, false],
  ["playing", { is: "playing" }, true],
  ['"playing"', { is: "playing" }, true],
  ["idle", { is: ["playing", "buffering"] }, false],
  ["6.5", { above: 6 }, true],
  ["6", { below: 6 }, false],
  ['{"value":"x"}', { path: "value", is: -1 }, "wrong_type"],
  ['{"value":{}}', { path: "value", is: -1 }, "wrong_type"],
  ['{"value":null}', { path: "value", is: -1 }, "no_value"],
  ['{"value":1}', { path: "other", is: -1 }, "no_value"],
  ['{"value":1}', { path: "constructor", is: -1 }, "no_value"],
  ["{value", { path: "value", is: -1 }, "no_json"],
  ["fast", { above: 5 }, "wrong_type"],
  ["on", { is: true }, "wrong_type"],
  ["", { is: true }, "wrong_type"],
] as const)("the message %s, asked for %o, is %s", (payload, condition, expected) => {
  expect(meets(bytes(payload), condition)).toBe(expected);
});

test("a message of 1 MB is not read", () => {
  expect(readValue(Buffer.alloc(1_000_000, "1"), {})).toEqual({ ok: false, misfit: "too_long" });
});

test("no bytes make the reading fail", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 40 }), fc.option(fc.string(), { nil: undefined }), (payload, path) => {
      expect(["boolean", "string"]).toContain(typeof meets(Buffer.from(payload), { path, is: 1 }));
    }),
  );
});

test("a volume below the own one is linear, never above it, and silent at the lowest level alone", () => {
  expect([volumeAt(60, -14, "percent"), volumeAt(1, -14, "fraction"), volumeAt(3, -40, "percent")]).toEqual([
    12, 0.2, 1,
  ]);
  expect([volumeAt(60, 0, "percent"), volumeAt(60, -60, "percent"), volumeAt(0, -6, "percent")]).toEqual([60, 0, 0]);
  fc.assert(
    fc.property(fc.double({ min: 0, max: 100, noNaN: true }), fc.integer({ min: -60, max: 0 }), (own, level) => {
      const volume = volumeAt(own, level, "percent");
      expect(volume).toBeGreaterThanOrEqual(0);
      expect(volume).toBeLessThanOrEqual(own);
    }),
  );
  expect([isSameVolume(12, 13, "percent"), isSameVolume(12, 14, "percent")]).toEqual([true, false]);
});
