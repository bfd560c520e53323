import { expect, test } from "vitest";
import { lengthText } from "../../../page/moment/time-text.ts";
import { foldedAxis, gapIndex } from "../../../page/timeline/folding.ts";
import { logEvent } from "../../support/documents/log-event.ts";

/** A log with an event at each of these seconds. */
const gapsOf = (...seconds: number[]) =>
  gapIndex().of(seconds.map((second, index) => logEvent(index, "usage", {}, undefined, second * 1_000)));

const gaps = gapsOf(100, 105, 205, 206, 7_406, 7_410);
const axis = foldedAxis(gaps);

test("a gap of more than ten seconds takes a twentieth of the busy time, a shorter one its own length", () => {
  const places = [100, 105, 205, 206, 7_406, 7_410].map((second) => axis.pointOf(second * 1_000));
  const steps = places.slice(1).map((place, index) => place - places[index]!);
  expect(steps).toEqual([5_000, 500, 1_000, 500, 4_000]);
});

test("every place maps back to its time, within gaps too, before the log and after it", () => {
  for (const second of [0, 99, 100, 103, 105, 155, 205, 205.5, 206, 3_806, 7_406, 7_408, 9_000]) {
    expect(axis.timeAt(axis.pointOf(second * 1_000))).toBeCloseTo(second * 1_000, 3);
  }
});

test("the gaps of a part are listed with their lengths", () => {
  const whole = { from: axis.pointOf(100_000), to: axis.pointOf(7_410_000) };
  expect(axis.gapsIn(whole).map(({ ms }) => ms)).toEqual([100_000, 7_200_000]);
  expect(axis.gapsIn({ from: axis.pointOf(206_000) - 1, to: whole.to }).map(({ ms }) => ms)).toEqual([7_200_000]);
  expect(axis.gapsIn({ from: axis.pointOf(7_407_000), to: whole.to })).toEqual([]);
  const many = gapsOf(...Array.from({ length: 100 }, (_, index) => index * 20));
  expect(foldedAxis(many).gapsIn({ from: 0, to: 1e9 })).toEqual([]);
});

test("a fold takes at most one second, and is visible even in an almost empty log", () => {
  const takes = (...seconds: number[]) => foldedAxis(gapsOf(...seconds)).gapsIn({ from: 0, to: 1e9 })[0]!.width;
  expect(takes(0, 9, 18, 27, 100)).toBe(1_000);
  expect(takes(0, 100)).toBe(20);
});

test("events at the same time, or with times that go back, make no gap", () => {
  expect(gapsOf(100, 100, 90, 101).starts).toEqual([]);
});

test("a duration is shown in its largest unit, in the reader's language", () => {
  const lengths = [12_000, 120_000, 7_200_000, 200_000_000].map((ms) => lengthText(ms, "en"));
  expect(lengths).toEqual(["12s", "2m", "2h", "2d"]);
  expect(lengthText(7_200_000, "zh")).toBe("2小时");
});
