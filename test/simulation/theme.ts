import type { Chance } from "../support/runner/chance.ts";
import type { Kind } from "./clients/commands.ts";
import type { BlowKind } from "./weather.ts";

/** The main subject of a history. */
export interface Theme {
  /** The time during which faults happen, in ms. */
  stormMs: [from: number, to: number];
  /** The interval between a client's commands, in ms. */
  paceMs: number[];
  commandKinds: Kind[];
  /** The interval between faults, in ms. */
  strikeMs: number[];
  blows: BlowKind[];
  /** The chance that a fault hits a node that drives a run, in percent. */
  hitsDrivers: number;
  /** The longest pause before a cut-off reader reconnects during the storm, in ms. */
  awayMs: number;
  /** The chance that a disturbed reader is cut off, in percent; otherwise it stops reading. */
  cuts: number;
  /** The longest time for which it stops reading, in ms. */
  stuffMs: number;
  /** The chance that its gateway notices later, in percent. */
  vanishes: number;
  /** The chance that a new session is bound to a connection, in percent; the others have separate readers. */
  binds: number;
  /** After the storm one orchestrator stays cut off from the store for a while. */
  isolates?: true;
  /** All nodes follow the database's clock, which errs occasionally, and once more after the storm. */
  errs?: true;
  /** Agents can be heard together, replaced and restricted in every history, not only in some. */
  shares?: true;
}

/** What most themes share. */
const USUAL = { hitsDrivers: 20, awayMs: 400, cuts: 70, stuffMs: 2_000, vanishes: 0, binds: 50 };

/** Everything at once. */
const BUSY: Theme = {
  ...USUAL,
  stormMs: [1_500, 4_000],
  paceMs: [150, 300, 600],
  commandKinds: ["chat", "chat", "chat", "verb", "verb", "verb", "rename", "ofFloor", "look", "other", "other"],
  strikeMs: [700, 1_500, 4_000],
  blows: ["crash", "crash", "sleep", "sleep", "breakBus", "breakBus", "split", "storeGoes", "forgetJobs"],
  hitsDrivers: 50,
};

/** Long runs, and workers that stall and continue. */
const WORKING: Theme = {
  ...USUAL,
  stormMs: [5_000, 9_000],
  paceMs: [900, 1_500],
  commandKinds: ["chat", "chat", "chat", "chat", "verb", "other"],
  strikeMs: [500, 1_000],
  blows: ["sleep", "sleep", "sleep", "sleep", "breakBus", "breakBus", "crash", "split"],
  hitsDrivers: 85,
};

/** Several nodes that believe that they own a floor, with different states of it. */
const PARTED: Theme = {
  ...USUAL,
  stormMs: [2_000, 4_000],
  paceMs: [150, 300],
  commandKinds: ["verb", "verb", "verb", "look", "look", "look", "chat", "ofFloor"],
  strikeMs: [500, 1_000],
  blows: ["split", "split", "split", "split", "breakBus", "sleep"],
};

/** Readers that are away while sessions are bound to their connections, used, and ended. */
const ABSENT: Theme = {
  ...USUAL,
  stormMs: [4_000, 7_000],
  paceMs: [150, 300],
  commandKinds: ["verb", "verb", "verb", "verb", "rename", "chat", "ofFloor", "other"],
  strikeMs: [1_500, 4_000],
  blows: ["crash", "breakBus", "storeGoes", "sleep"],
  awayMs: 4_000,
  vanishes: 60,
  binds: 90,
};

/** Nodes that cannot reach the store while their bus works. */
const ISOLATED: Theme = {
  ...BUSY,
  paceMs: [300, 600],
  strikeMs: [1_500, 4_000],
  blows: ["cutFromStore", "cutFromStore", "crash", "sleep", "breakBus"],
  isolates: true,
};

/** Readers that do not read for so long that their gateway has to cut them off. */
const SLOW: Theme = {
  ...USUAL,
  stormMs: [4_000, 7_000],
  paceMs: [150],
  commandKinds: ["chat", "verb", "rename", "rename", "ofFloor", "other"],
  strikeMs: [1_500, 4_000],
  blows: ["crash", "breakBus", "sleep"],
  cuts: 20,
  stuffMs: 60_000,
};

/** A database's clock that is wrong for a moment. */
const ERRING: Theme = {
  ...BUSY,
  stormMs: [11_000, 15_000],
  paceMs: [600, 1_200],
  strikeMs: [2_000, 4_000],
  blows: ["clockErrs", "clockErrs", "clockErrs", "crash", "sleep", "breakBus", "storeGoes"],
  errs: true,
};

/** Messages so large that pages of logs and conversations end after one or two of them. */
const HEAVY: Theme = {
  ...USUAL,
  stormMs: [3_000, 5_000],
  paceMs: [300, 600],
  commandKinds: ["heavy", "heavy", "chat", "verb", "ofFloor", "other"],
  strikeMs: [1_500, 4_000],
  blows: ["crash", "breakBus", "storeGoes", "sleep"],
  awayMs: 3_000,
  cuts: 80,
  vanishes: 30,
  binds: 40,
};

/** Sessions that are heard together, replace one another, and are restricted by flags from several sides. */
const TOGETHER: Theme = {
  ...BUSY,
  paceMs: [150, 300],
  commandKinds: ["chat", "chat", "verb", "verb", "verb", "ofFloor", "ofFloor", "ofFloor", "look", "other"],
  shares: true,
};

export const THEMES = {
  busy: BUSY,
  working: WORKING,
  parted: PARTED,
  absent: ABSENT,
  slow: SLOW,
  isolated: ISOLATED,
  erring: ERRING,
  heavy: HEAVY,
  together: TOGETHER,
} as const satisfies Record<string, Theme>;
export type ThemeName = keyof typeof THEMES;

/** A busy history has the most kinds of faults, so it is drawn twice as often. */
const DRAWN: readonly ThemeName[] = ["busy", ...(Object.keys(THEMES) as ThemeName[])];

export const drawTheme = (chance: Chance): ThemeName => chance.pick(DRAWN);
