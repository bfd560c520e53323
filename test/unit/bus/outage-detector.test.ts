import { beforeEach, expect, test } from "vitest";
import { OutageDetector } from "../../../src/bus/outage-detector.ts";
import { VirtualClock } from "../../support/runner/virtual-clock.ts";

const BEAT_MS = 500;

let clock: VirtualClock;
let pulse: OutageDetector;
let told: string[];
/** Beats that were sent and have not come back yet. */
let sent: [line: number, beat: string][];
/** Whether beats come back on a connection. */
let comesBack: (line: number) => boolean;

beforeEach(() => {
  clock = new VirtualClock();
  told = [];
  sent = [];
  comesBack = () => true;
  pulse = new OutageDetector({
    clock,
    connections: 2,
    send: (line, beat) => (comesBack(line) ? pulse.receive(line, beat) : sent.push([line, beat])),
    onAway: () => told.push("away"),
    onBack: () => told.push("back"),
    onDead: (lines) => told.push(`dead ${lines}`),
  });
  pulse.start();
});

test("a beat that comes back reports nothing", async () => {
  await clock.advance(100 * BEAT_MS);
  expect([told, pulse.isAway]).toEqual([[], false]);
});

test("a beat that is missed once reports nothing, since a busy process reads late", async () => {
  for (let round = 0; round < 10; round++) {
    comesBack = () => false;
    await clock.advance(BEAT_MS);
    comesBack = () => true;
    await clock.advance(BEAT_MS);
  }
  expect(told).toEqual([]);
});

test("a beat that is missed twice reports the bus as away, within 1.5 s of the outage", async () => {
  await clock.advance(10);
  comesBack = () => false;
  await clock.advance(3 * BEAT_MS - 11);
  expect(told).toEqual([]);
  await clock.advance(1);
  expect([told, pulse.isAway]).toEqual([["away"], true]);
});

test("a beat that is missing on only one connection reports the bus as away", async () => {
  comesBack = (line) => line === 0;
  await clock.advance(3 * BEAT_MS);
  expect([told, pulse.isAway]).toEqual([["away"], true]);
});

test("the bus is reported as back at once when the newest beat is back on every connection", async () => {
  comesBack = () => false;
  await clock.advance(4 * BEAT_MS);
  const newest = sent.splice(-2);
  for (const [line, beat] of sent) pulse.receive(line, beat);
  expect(pulse.isAway).toBe(true);
  pulse.receive(...newest[0]!);
  expect(pulse.isAway).toBe(true);
  pulse.receive(...newest[1]!);
  expect([told, pulse.isAway]).toEqual([["away", "back"], false]);
  comesBack = () => true;
  await clock.advance(10 * BEAT_MS);
  expect(told).toEqual(["away", "back"]);
});

test("a connection without beats is reported as dead again and again, each connection separately", async () => {
  comesBack = (line) => line === 0;
  await clock.advance(11 * BEAT_MS);
  expect(told).toEqual(["away", "dead 1"]);
  comesBack = () => false;
  await clock.advance(11 * BEAT_MS);
  expect(told).toEqual(["away", "dead 1", "dead 1", "dead 0"]);
});

test("malformed beats are ignored", async () => {
  comesBack = () => false;
  await clock.advance(3 * BEAT_MS);
  for (const text of ["", "nonsense", "-1", "NaN", "0"]) for (const line of [0, 1]) pulse.receive(line, text);
  expect(pulse.isAway).toBe(true);
});

test("beats that were not sent yet do not hide an outage", async () => {
  await clock.advance(BEAT_MS);
  for (const text of ["100", "1e300", "Infinity"]) for (const line of [0, 1]) pulse.receive(line, text);
  comesBack = () => false;
  await clock.advance(3 * BEAT_MS);
  expect([told, pulse.isAway]).toEqual([["away"], true]);
  comesBack = () => true;
  await clock.advance(BEAT_MS);
  expect([told, pulse.isAway]).toEqual([["away", "back"], false]);
});

test("a stopped detector leaves no timer", () => {
  pulse.stop();
  expect(clock.timerCount).toBe(0);
});
