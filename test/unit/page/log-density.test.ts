import { expect, test } from "vitest";
import { densityIndex, heightsOf } from "../../../page/log/log-density.ts";
import type { LogEvent } from "../../../page/log/log-event.ts";
import { logEvent } from "../../support/documents/log-event.ts";

const logAt = (times: readonly number[]): LogEvent[] =>
  times.map((at, index) => logEvent(index, "message", {}, undefined, at));
const errorAt = (event: LogEvent) => ({ ...event, type: "error" }) as LogEvent;

test("an event soon after another is tall, and one after a long time is low", () => {
  const heights = heightsOf(densityIndex().of(logAt([0, 10, 20, 10_020, 10_030])));
  expect(heights).toEqual([0.1, 1, 1, expect.closeTo(0.4), 1]);
});

test("each power of ten in the rate is as high, down to a lowest bar", () => {
  const heights = heightsOf(densityIndex().of(logAt([0, 1, 11, 111, 100_000_111])));
  expect(heights).toEqual([0.1, 1, expect.closeTo(0.8), expect.closeTo(0.6), 0.1]);
});

test("a log of any length has a bounded number of stretches, which keep every event and every failure", () => {
  const events = logAt(Array.from({ length: 100_001 }, (_, index) => 10 * index));
  for (const place of [0, 50_000, 100_000]) events[place] = errorAt(events[place]!);
  const index = densityIndex();
  index.of(events.slice(0, 10));
  const { size, stretches } = index.of(events);
  expect(stretches.length).toBeLessThanOrEqual(4_096);
  expect(stretches.reduce((sum, { count }) => sum + count, 0)).toBe(100_001);
  const bad = stretches.flatMap(({ isBad }, at) => (isBad ? [at] : []));
  expect(bad).toEqual([0, Math.floor(50_000 / size), Math.floor(100_000 / size)]);
  const heights = heightsOf({ firstAt: -10, size, stretches }).slice(1, -1);
  expect(new Set(heights.map((height) => height.toFixed(3))).size).toBe(1);
});

test("a log without events has no stretches", () => {
  expect(heightsOf(densityIndex().of([]))).toEqual([]);
});
