import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { Car } from "../../examples/car/car.ts";
import { playDrive } from "../../examples/car/drive.ts";
import { SONG_LEVEL } from "../../examples/car/sound/song.ts";
import { testWith } from "../support/programs/suites.ts";

/** Longer than the whole drive: it only ends a test that hangs. */
const TIMEOUT_MS = 180_000;
const SOUND = ["mpv", "mpvMpris", "dbus", "pulseaudio", "parec", "espeak", "flite", "pocketsphinx"] as const;
const MAIN = fileURLToPath(new URL("../../examples/car/main.ts", import.meta.url));

test("npm run car says what to install on a machine that lacks a program", async () => {
  const { promise, resolve } = Promise.withResolvers<{ code: unknown; output: string }>();
  execFile(process.execPath, [MAIN], { env: { PATH: "/nonexistent" } }, (error, stdout, stderr) =>
    resolve({ code: error?.code, output: stdout + stderr }),
  );
  const { code, output } = await promise;
  expect(code).toBe(1);
  expect(output).toMatch(/^The car lacks mpv, .*pulseaudio.*: apt-get install mpv .*pulseaudio pulseaudio-utils.*\n$/);
});

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

    // The player said its title; mpv itself knows no session.
    const { sessions } = await car.client.listSessions({ agentId: "music_agent", userId: car.userId });
    expect(sessions).toMatchObject([{ title: "song.wav", state: "active" }]);
    // The assistant reported that its reply was heard to its end.
    const spoken = { agentId: "dialog_agent", userId: car.userId, includeArchived: true };
    const [dialog] = (await car.client.listSessions(spoken)).sessions;
    const { messages } = await car.client.listMessages(dialog!.id);
    const reply = messages.find(({ role }) => role === "assistant");
    expect(reply).toMatchObject({ playedUpTo: reply!.content.length });

    // The prompt whose program was killed lost its place when its lease lapsed, before its `max_hold` was over.
    const { events } = await car.client.readFloorLog(`u:${car.userId}`);
    const lapses = events.filter(
      ({ type, data }) => type === "session_transition" && "reason" in data && data.reason === "lease_expired",
    );
    expect(lapses.map(({ data }) => data)).toMatchObject([{ from: "active.idle", to: "paused" }]);
  },
  TIMEOUT_MS,
);
