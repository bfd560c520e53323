import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { KeptLevels } from "../../../src/cli/players/kept-levels.ts";
import { Mixer } from "../../../src/cli/players/mixer.ts";
import { PULSEAUDIO_DIAL, type SoundDial } from "../../../src/cli/players/sound-dials.ts";
import type { SoundStream } from "../../../src/cli/players/sound-streams.ts";
import { makeFolder } from "../../support/stores/sqlite-place.ts";

const FULL = 65_536;
const DUCKED = PULSEAUDIO_DIAL.below([FULL], -14)[0]!;
const PROGRAM = "sink-input-by-media-role:music";

/** A sound server without sound, whose dials are in memory, and the file of a bridge. */
async function openServer() {
  const { folder } = await makeFolder(onTestFinished);
  const volumes = new Map<number, number>();
  const dial: SoundDial = {
    ...PULSEAUDIO_DIAL,
    read: async ({ index }) => (volumes.has(index) ? [volumes.get(index)!] : undefined),
    turn: async ({ index }, [value]) => void volumes.set(index, value!),
  };
  const log: string[] = [];
  /** A bridge that starts: it knows what the file says. */
  const startBridge = () => {
    const kept = new KeptLevels(join(folder, "players.json"));
    const mixer = new Mixer(kept, (why) => log.push(why));
    mixer.start(dial);
    const note = () => mixer.note([...volumes.keys()].map(stream));
    return { kept, mixer, note };
  };
  return { volumes, startBridge, log };
}

const stream = (index: number): SoundStream => ({
  index,
  client: undefined,
  pids: [index],
  isCorked: false,
  node: undefined,
  volume: [],
  role: "music",
  application: undefined,
  keptAs: PROGRAM,
});

/** Only the stream with this number is the player's. */
const owning = (index: number) => (each: SoundStream) => each.index === index;
const quieter = { level: -14, isSilent: false };

test("a bridge that is killed after a level was put back, and before it was forgotten, raises nothing", async () => {
  const { volumes, startBridge } = await openServer();
  const { kept } = startBridge();
  kept.put({ index: 1, pid: 1, keptAs: PROGRAM, own: [FULL], turned: [{ byDb: -14, values: [DUCKED] }] });
  for (const volume of [FULL, 52_428, 19_660]) {
    volumes.set(1, volume);
    const { mixer, note } = startBridge();
    note();
    await mixer.restore();
    expect(volumes.get(1)).toBe(volume);
  }
});

test("a bridge that is killed while a stream is quieter puts it back, or leaves it until the floor is known", async () => {
  const { volumes, startBridge } = await openServer();
  const { kept } = startBridge();
  kept.put({ index: 1, pid: 1, keptAs: PROGRAM, own: [FULL], turned: [{ byDb: -14, values: [DUCKED] }] });
  volumes.set(1, DUCKED);
  const { mixer, note } = startBridge();
  const player = {};
  mixer.set(player, owning(1), undefined);
  note();
  mixer.set(player, owning(1), quieter);
  expect(await mixer.isAt(player, -14)).toBe(true);
  expect(volumes.get(1)).toBe(DUCKED);
  mixer.release(player);
  await mixer.restore();
  expect(volumes.get(1)).toBe(FULL);
});

test("a program gets its own level if the sound server began it with that of another one of its role", async () => {
  const { volumes, startBridge } = await openServer();
  const { mixer, note } = startBridge();
  const player = {};
  volumes.set(1, FULL);
  mixer.set(player, owning(1), quieter);
  note();
  expect(await mixer.isAt(player, -14)).toBe(true);
  volumes.set(2, DUCKED);
  note();
  const other = {};
  mixer.set(other, owning(2), { level: 0, isSilent: false });
  expect(await mixer.isAt(other, 0)).toBe(true);
  expect([...volumes.values()]).toEqual([DUCKED, FULL]);
});

test("what its user has turned while it is quieter stays turned, and never above what they have chosen", async () => {
  const { volumes, startBridge } = await openServer();
  const { mixer, note } = startBridge();
  const player = {};
  const own = 52_428;
  for (const [turned, after] of [
    [DUCKED, own],
    [FULL, FULL],
    [own, own],
    [20_000, 34_227],
  ] as const) {
    volumes.set(1, own);
    mixer.set(player, owning(1), quieter);
    note();
    expect(await mixer.isAt(player, -14)).toBe(true);
    if (turned !== DUCKED) volumes.set(1, turned);
    mixer.set(player, owning(1), { level: 0, isSilent: false });
    expect(await mixer.isAt(player, 0)).toBe(true);
    expect(volumes.get(1)).toBe(after);
  }
});

test("a stream that its user has turned to 0 is left alone when it is no longer quieter, and may be raised", async () => {
  const { volumes, startBridge } = await openServer();
  const { mixer, note } = startBridge();
  const player = {};
  volumes.set(1, 0);
  mixer.set(player, owning(1), quieter);
  note();
  expect(await mixer.isAt(player, -14)).toBe(true);
  mixer.set(player, owning(1), { level: 0, isSilent: false });
  expect(await mixer.isAt(player, 0)).toBe(true);
  // The sound server tells of a change, and while the bridge looks at it, the user raises the volume.
  note();
  volumes.set(1, FULL);
  expect(await mixer.isAt(player, 0)).toBe(true);
  expect(volumes.get(1)).toBe(FULL);
});

test("a stream that sounds although its player is paused is silenced, and one that does not is left alone", async () => {
  const { volumes, startBridge, log } = await openServer();
  const { mixer } = startBridge();
  const player = {};
  volumes.set(1, FULL).set(2, FULL);
  mixer.note([stream(1), { ...stream(2), isCorked: true }]);
  mixer.set(player, () => true, { level: 0, isSilent: true });
  await mixer.isAt(player, 0);
  expect([...volumes.values()]).toEqual([1, FULL]);
  mixer.set(player, () => true, { level: 0, isSilent: false });
  await mixer.isAt(player, 0);
  expect([...volumes.values()]).toEqual([FULL, FULL]);
  // What has no stream is not quieter.
  expect(await mixer.isAt({}, -14)).toBe(false);
  expect(log).toEqual([]);
});
