import { expect, test } from "vitest";
import { isOfName, isOfProcess, matchesPlayer, matchesStream } from "../../../src/cli/players/bridged-player.ts";
import type { MprisPlayer } from "../../../src/cli/players/mpris.ts";
import type { SoundStream } from "../../../src/cli/players/sound-streams.ts";
import { fits, PlayersFile } from "../../../src/config/players-file.ts";
import { parseYamlFile } from "../../../src/config/yaml-file.ts";

const MPV: MprisPlayer = {
  owner: ":1.7",
  names: new Set(["mpv", "mpv.instance7"]),
  identity: "mpv",
  pid: 7,
  canPause: true,
  playback: "playing",
  title: undefined,
};
const STREAM: SoundStream = {
  index: 1,
  client: "5",
  pids: [9, 7],
  isCorked: false,
  node: undefined,
  volume: [65_536],
  role: "phone",
  application: "Teams",
  keptAs: undefined,
};

test("a pattern fits the whole text, in any case, and a star stands for any text", () => {
  for (const pattern of ["mpv", "MPV", "*", "m*", "*v", "m*v", "m**p*v"])
    expect(fits(pattern, "mpv"), pattern).toBe(true);
  for (const pattern of ["mp", "*m", "v*", "m*m", "mpv*mpv", "m.v"]) expect(fits(pattern, "mpv"), pattern).toBe(false);
  // Many stars take no longer than few.
  expect(fits("*a".repeat(128), `${"a".repeat(200)}b`)).toBe(false);
});

test("an entry recognises a player by all its keys, by any of its names, and no stream; and a stream, and no player", () => {
  expect(matchesPlayer({ mpris: "mpv.*" }, MPV)).toBe(true);
  expect(matchesPlayer({ mpris: "mpv*", identity: "VLC*" }, MPV)).toBe(false);
  expect(matchesPlayer({ role: "*" }, MPV)).toBe(false);
  expect(matchesStream({ role: "phone", application: "teams" }, STREAM)).toBe(true);
  expect(matchesStream({ role: "phone", application: "zoom" }, STREAM)).toBe(false);
  expect(matchesStream({ identity: "*" }, STREAM)).toBe(false);
});

test("a stream is that of a player if its process is the player's or a child of it, or by its name, in any case", () => {
  expect(isOfProcess(MPV, STREAM)).toBe(true);
  expect(isOfProcess(MPV, { ...STREAM, pids: [9] })).toBe(false);
  expect(isOfName(MPV, { ...STREAM, application: "MPV" })).toBe(true);
  expect(isOfName(MPV, STREAM)).toBe(false);
});

test("all faults of a file are named with their places", () => {
  const faults = (text: string) => {
    const reading = parseYamlFile(text, PlayersFile);
    return reading.ok ? [] : reading.faults.map(({ line, message }) => `${line} ${message}`);
  };
  expect(faults("players: [{ match: { mpris: mpv }, agent: music_agent }]")).toEqual([]);
  const wrong = [
    "players:",
    "  - { match: {}, agent: music_agent }",
    "  - { match: { mpris: mpv, role: phone }, agent: music_agent }",
    "  - { match: { mpris: '' }, agent: music_agent }",
    "  - { match: { mpris: mpv } }",
    "  - { match: { mpirs: mpv }, agent: music_agent }",
    "notify: maybe",
  ].join("\n");
  expect(faults(wrong)).toEqual([
    "2 must name at least one of mpris, identity, role and application",
    "3 names a player (mpris, identity) or a stream (role, application), not both",
    "4 must not be empty",
    "5 is missing; it must be text",
    "6 must name at least one of mpris, identity, role and application",
    "6 is not a known key; did you mean mpris?",
    '7 must be true or false, not the text "maybe"',
  ]);
  expect(faults("players: []")).toHaveLength(1);
  expect(faults("")).toHaveLength(1);
  expect(faults("players: [{")).not.toEqual([]);
});
