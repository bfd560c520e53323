/** A machine's chart. Coordinates are computed while the page is built; they are in px. */
export interface Chart {
  id: string;
  /** Events that the machine handles in every state. */
  anywhere: readonly string[];
  regions: readonly RegionLayout[];
}

export interface RegionLayout {
  name: string;
  states: readonly StateLayout[];
  arrows: readonly ArrowLayout[];
  /** States whose common ways out start at a frame around them; empty if there are none. */
  framed: readonly string[];
  /** From left to right, and upright for narrow screens. */
  wide: Layout;
  tall: Layout;
}

export interface StateLayout {
  name: string;
  /** Events that the state handles without a change of state. */
  stays: readonly string[];
  refuses: readonly { event: string; code: string }[];
}

/** All transitions from one state, or from each of several, to another. */
export interface ArrowLayout {
  /** Empty for the arrow to the initial state. */
  from: readonly string[];
  to: string;
  words: readonly ChartWord[];
}

/** An event, a guard, or an event with its guard. */
export interface ChartWord {
  event?: string;
  guard?: string;
}

export interface Layout {
  width: number;
  height: number;
  /** By the name of the state. */
  states: Readonly<Record<string, Box>>;
  frame?: Box;
  /** The start of the arrow to the initial state. */
  start: Point;
  /** In the order of the region's arrows. */
  arrows: readonly { points: readonly Point[]; label?: Box }[];
}

export interface Point {
  x: number;
  y: number;
}

export interface Box extends Point {
  width: number;
  height: number;
}

/** A label has at most this many words; the rest are counted. */
const MAX_WORDS = 3;

export function arrowLabelOf(words: readonly ChartWord[]): string[] {
  const all = words.map(wordText);
  return all.length <= MAX_WORDS ? all : [...all.slice(0, MAX_WORDS), `+${all.length - MAX_WORDS}`];
}

export const wordText = ({ event, guard }: ChartWord): string =>
  [event, guard === undefined ? undefined : `[${guard}]`].filter((part) => part !== undefined).join(" ");
