import { expect } from "vitest";
import { Car } from "../../examples/car/car.ts";
import { playDrive } from "../../examples/car/drive.ts";
import { SONG_LEVEL } from "../../examples/car/sound/song.ts";
import { testWith } from "../support/programs/suites.ts";

/** Longer than the whole drive: it only ends a test that hangs. */
const TIMEOUT_MS = 180_000;
const SOUND = ["mpv", "pulseaudio", "parec", "espeak", "flite", "pocketsphinx"] as const;

testWith(
  SOUND,
  "every sound of the example's car has the volume of its session's state",
  async () => {
    await using car = await Car.open();
    const printed: string[] = [];
    const { heard, measurements } = await playDrive(car, (line) => printed.push(line));

    expect(heard, printed.join("\n")).toEqual(["call home", "hang up", "what is the weather like"]);
    const levelOf = (when: string, sink: string) =>
      measurements.find((measurement) => measurement.when === when && measurement.sink === sink)?.level;
    expect(levelOf("alone", "music")).toBeCloseTo(SONG_LEVEL, 0);
    expect(levelOf("under a prompt", "music")).toBeCloseTo(SONG_LEVEL - 14, 0);
    expect(levelOf("in a call", "music")).toBe(Number.NEGATIVE_INFINITY);
    expect(levelOf("under a prompt in the call", "music")).toBe(Number.NEGATIVE_INFINITY);
    expect(levelOf("in the call", "voice")).toBeGreaterThan(-45);
    expect(levelOf("after the call", "music")).toBeCloseTo(SONG_LEVEL, 0);

    // The prompt whose program was killed lost its place when its lease lapsed, before its `max_hold` was over.
    const { events } = await car.client.readFloorLog(`u:${car.userId}`);
    const lapses = events.filter(
      ({ type, data }) => type === "session_transition" && "reason" in data && data.reason === "lease_expired",
    );
    expect(lapses.map(({ data }) => data)).toMatchObject([{ from: "active.idle", to: "paused" }]);
  },
  TIMEOUT_MS,
);
