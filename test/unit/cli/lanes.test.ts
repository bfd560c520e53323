import { expect, test } from "vitest";
import { PlayerLanes } from "../../../src/cli/playing/lanes.ts";

/** Lanes with a standing clock. @returns them, and what they printed */
function openLanes() {
  const lines: string[] = [];
  const lanes = new PlayerLanes(
    (line) => lines.push(line),
    (_, text) => text,
    () => new Date(2026, 0, 5, 16, 17, 44),
  );
  return { lanes, lines };
}

test("each player has a lane that keeps its place, and each line says which player changed and why", () => {
  const { lanes, lines } = openLanes();
  const [mpv, vlc] = [{}, {}];
  lanes.show(mpv, "mpv", "active", 0, "Music starts.");
  lanes.show(vlc, "VLC", "waits", 0, "");
  lanes.show(mpv, "mpv", "ducked", -14, "preempted by prompt_agent");
  lanes.show(vlc, "VLC", "ducked", -14, "preempted by prompt_agent", false);
  lanes.show(mpv, "mpv", "paused", 0, "preempted by phone_agent");
  lanes.deny("mpv", "Music will start when Phone is done.");
  lanes.show(mpv, "mpv", "none", 0, "the player has ended");
  lanes.leave(mpv);
  lanes.show(vlc, "VLC", "active", 0, "resumed");
  expect(lines).toEqual([
    "16:17:44  ▶  mpv plays (Music starts.)",
    "16:17:44  ▶ …  VLC waits for its turn",
    "16:17:44  ▁ …  mpv plays quieter, -14 dB (preempted by prompt_agent)",
    "16:17:44  ▁ ▁  VLC plays on, and could not be made quieter by 14 dB (preempted by prompt_agent)",
    "16:17:44  ‖ ▁  mpv is paused (preempted by phone_agent)",
    "16:17:44  ‖ ▁  mpv may not play: Music will start when Phone is done.",
    "16:17:44  · ▁  mpv no longer takes part (the player has ended)",
    "16:17:44  ▶  VLC plays (resumed)",
  ]);
});

test("of very many players twelve lanes are drawn, so that a line fits", () => {
  const { lanes, lines } = openLanes();
  for (let count = 0; count < 20; count += 1) lanes.show({}, `player ${count}`, "active", 0, "");
  expect(lines.at(-1)).toBe(`16:17:44  ${Array(12).fill("▶").join(" ")}  player 19 plays`);
});

test("what the node refuses is said once, however many it meets and whatever else succeeds meanwhile", () => {
  const { lanes, lines } = openLanes();
  const [mpv, vlc, kodi] = [{}, {}, {}];
  for (let n = 0; n < 3; n += 1) {
    lanes.fault(mpv, "the token has expired");
    lanes.fault(vlc, undefined);
    lanes.fault(kodi, "the token has expired");
  }
  lanes.fault(mpv, "there is no such agent");
  expect(lines.map((line) => line.slice(10))).toEqual(["the token has expired", "there is no such agent"]);
  for (const player of [mpv, kodi]) lanes.fault(player, undefined);
  lanes.fault(vlc, "the token has expired");
  expect(lines).toHaveLength(3);
});
