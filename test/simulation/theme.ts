import type { Chance } from "../support/chance.ts";
import type { Kind } from "./commands.ts";
import type { BlowKind } from "./weather.ts";

/** What a history is mostly about. */
export interface Theme {
  /** How long faults happen, in ms. */
  stormMs: [from: number, to: number];
  /** How often each client asks something, in ms. */
  paceMs: number[];
  wishes: Kind[];
  /** How often something breaks, in ms. */
  strikeMs: number[];
  blows: BlowKind[];
  /** How often it is a node that drives a run that is hit, in percent. */
  hitsDrivers: number;
}

/** Everything at once. */
const BUSY: Theme = {
  stormMs: [1_500, 4_000],
  paceMs: [150, 300, 600],
  wishes: ["chat", "chat", "chat", "verb", "verb", "verb", "rename", "ofFloor", "look", "other", "other"],
  strikeMs: [700, 1_500, 4_000],
  blows: ["crash", "crash", "sleep", "sleep", "breakBus", "breakBus", "split", "storeGoes", "forgetJobs"],
  hitsDrivers: 50,
};

/** Runs that go on for a while, and workers that fall silent and come back. */
const WORKING: Theme = {
  stormMs: [5_000, 9_000],
  paceMs: [900, 1_500],
  wishes: ["chat", "chat", "chat", "chat", "verb", "other"],
  strikeMs: [500, 1_000],
  blows: ["sleep", "sleep", "sleep", "sleep", "breakBus", "breakBus", "crash", "split"],
  hitsDrivers: 85,
};

/** Several nodes that believe a floor is theirs, and know different things of it. */
const PARTED: Theme = {
  stormMs: [2_000, 4_000],
  paceMs: [150, 300],
  wishes: ["verb", "verb", "verb", "look", "look", "look", "chat", "ofFloor"],
  strikeMs: [500, 1_000],
  blows: ["split", "split", "split", "split", "breakBus", "sleep"],
  hitsDrivers: 20,
};

export const drawTheme = (chance: Chance): Theme => chance.pick([BUSY, BUSY, WORKING, PARTED]);
