/**
 * Sets of moments that differ in how long things have taken, as timed automata have them (difference bounds). Entry
 * [i][j] bounds by how much moment i comes after moment j: twice the most ms, less 1 if it is less than that. The last
 * moment is the present.
 */
export type Bounds = readonly (readonly number[])[];

/** Moment `later` comes at most `most` ms after moment `earlier`; less than that if it is strict. */
export interface Constraint {
  readonly later: number;
  readonly earlier: number;
  readonly most: number;
  readonly isStrict?: boolean | undefined;
}

const NO_BOUND = Number.POSITIVE_INFINITY;

/** One moment: the present. */
export const ONLY_NOW: Bounds = [[0]];

/** The set with a further moment, of which nothing is known. */
export function withMoment(bounds: Bounds): Bounds {
  const rows = bounds.map((row) => [...row, NO_BOUND]);
  return [...rows, [...bounds.map(() => NO_BOUND), 0]];
}

const isOdd = (bound: number): boolean => Math.abs(bound % 2) === 1;

/** The bound of a way over another moment. */
function add(one: number, other: number): number {
  if (one === NO_BOUND || other === NO_BOUND) return NO_BOUND;
  return one + other + (isOdd(one) && isOdd(other) ? 1 : 0);
}

/** The moments of the set that meet the constraints too; undefined if there are none. */
export function tighten(bounds: Bounds, constraints: readonly Constraint[]): Bounds | undefined {
  let rows = bounds;
  for (const { later, earlier, most, isStrict } of constraints) {
    const bound = 2 * most - (isStrict ? 1 : 0);
    if (rows[later]![earlier]! <= bound) continue;
    if (add(bound, rows[earlier]![later]!) < 0) return undefined;
    const onward = rows[earlier]!;
    rows = rows.map((row) => {
      const detour = add(row[later]!, bound);
      return detour === NO_BOUND ? row : row.map((value, at) => Math.min(value, add(detour, onward[at]!)));
    });
  }
  return rows;
}

/** The set without the other moments. */
export const project = (bounds: Bounds, kept: readonly number[]): Bounds =>
  kept.map((i) => kept.map((j) => bounds[i]![j]!));

/** Whether every choice of moments of the second set is one of the first. */
export const includes = (all: Bounds, some: Bounds): boolean =>
  all.every((row, i) => row.every((value, j) => some[i]![j]! <= value));

/**
 * Forget by how much a moment is further back than the longest time that it is ever compared with. Without this a
 * session that is simply there for longer and longer would be in ever more states.
 * @param longest by moment, in ms; the present is compared with nothing
 */
export function forgetLong(bounds: Bounds, longest: readonly number[]): Bounds {
  let isSame = true;
  const rows = bounds.map((row, j) =>
    row.map((bound, i) => {
      const kept = i !== j && bound > 2 * longest[i]! ? NO_BOUND : Math.max(bound, -2 * longest[j]! - 1);
      if (kept !== bound) isSame = false;
      return kept;
    }),
  );
  return isSame ? bounds : close(rows);
}

function close(rows: number[][]): Bounds {
  for (const [via, middle] of rows.entries()) {
    for (const row of rows) {
      const first = row[via]!;
      if (first === NO_BOUND) continue;
      for (let at = 0; at < row.length; at++) row[at] = Math.min(row[at]!, add(first, middle[at]!));
    }
  }
  return rows;
}

/** Whether the moments are among those of the set. */
export const isAmong = (values: readonly number[], bounds: Bounds): boolean =>
  bounds.every((row, i) =>
    row.every((bound, j) => {
      const twice = 2 * (values[i]! - values[j]!);
      return isOdd(bound) ? twice < bound + 1 : twice <= bound;
    }),
  );

/**
 * Choose a moment that goes with others, unlike each of them where that is possible.
 * @param others by their index, in ms
 * @param share where it lies between the first and the last that there are
 * @returns undefined if there is none
 */
export function chooseBeside(
  bounds: Bounds,
  index: number,
  others: ReadonlyMap<number, number>,
  share = HALF,
): number | undefined {
  let [least, most] = [Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY];
  for (const [other, value] of others) {
    least = Math.max(least, value - Math.ceil(bounds[other]![index]! / 2));
    most = Math.min(most, value + Math.ceil(bounds[index]![other]! / 2));
  }
  if (least > most) return undefined;
  const values = new Set(others.values());
  let chosen = between(least, most, share);
  // Half the way to the end each time: at last one is unlike all.
  for (let count = 0; values.has(chosen) && chosen < most && count < others.size; count++) {
    chosen = between(chosen, most, HALF);
  }
  return chosen;
}

/** Far enough from any length of a catalogue that none is mistaken for the other. */
const FAR_MS = 1_009;

const HALF = 1 / 2;
/** Where else moments may lie, so that by chance no two of them are the same. */
const SHARES = [HALF, 3 / 8, 11 / 16, 5 / 32, 27 / 32, 13 / 64, 45 / 64, 29 / 128];

/** A moment between two, in whole ms if there is one. */
function between(least: number, most: number, share: number): number {
  if (least === -NO_BOUND) return most === NO_BOUND ? 0 : most - FAR_MS * 2 * share;
  if (most === NO_BOUND) return least + FAR_MS * 2 * share;
  const exact = least + (most - least) * share;
  const whole = Math.floor(exact);
  return whole > least ? whole : exact;
}

/** Whether two moments are the same although they may differ: what counts from one would count from the other. */
export const areTied = (values: readonly number[], bounds: Bounds): boolean =>
  values.some((value, i) =>
    values.some((other, j) => i < j && value === other && (bounds[i]![j] !== 0 || bounds[j]![i] !== 0)),
  );

/**
 * Choose moments of a set, unlike each other unless they have to be the same.
 * @throws Error if the set is empty, or none are found
 */
export function choose(bounds: Bounds, present: number): number[] {
  for (const share of SHARES) {
    const chosen = chooseAt(bounds, present, share);
    if (!areTied(chosen, bounds)) return chosen;
  }
  throw new Error("moments that differ are chosen to be the same");
}

function chooseAt(bounds: Bounds, present: number, share: number): number[] {
  const last = bounds.length - 1;
  const known = new Map([[last, present]]);
  for (let index = last - 1; index >= 0; index--) {
    const chosen = chooseBeside(bounds, index, known, share);
    if (chosen === undefined) throw new Error("a set of moments is empty");
    known.set(index, chosen);
  }
  return bounds.map((_, index) => known.get(index)!);
}
