/** Longer names are not compared: the cost grows with the product of the lengths. */
const MAX_NAME_LENGTH = 64;

/** A shorter name is the beginning of too many others. */
const MIN_BEGINNING = 3;

/**
 * The known name that `name` probably means: the one that it is the beginning of, or else the most similar one;
 * undefined when none is similar enough.
 */
export function nearest(name: string, known: readonly string[]): string | undefined {
  if (name.length > MAX_NAME_LENGTH) return undefined;
  const [continued, another] = known.filter((each) => each.toLowerCase().startsWith(name.toLowerCase()));
  if (continued !== undefined && another === undefined && name.length >= MIN_BEGINNING) return continued;
  let best: { name: string; distance: number } | undefined;
  for (const candidate of known) {
    const distance = distanceOf(name.toLowerCase(), candidate.toLowerCase());
    if (!best || distance < best.distance) best = { name: candidate, distance };
  }
  // With every letter replaced, a name is like any other.
  const isSimilar =
    best && best.distance <= Math.max(1, Math.floor(best.name.length / 4)) && best.distance < name.length;
  return isSimilar ? best?.name : undefined;
}

/** `; did you mean …?`, or nothing. */
export function suggest(name: string, known: readonly string[]): string {
  const meant = nearest(name, known);
  return meant === undefined ? "" : `; did you mean ${meant}?`;
}

/** The number of letters to insert, delete, replace or swap with their neighbour (optimal string alignment). */
function distanceOf(one: string, other: string): number {
  let before: number[] = [];
  let last = Array.from({ length: other.length + 1 }, (_, index) => index);
  for (let i = 1; i <= one.length; i++) {
    const row = [i];
    for (let j = 1; j <= other.length; j++) {
      const cost = one[i - 1] === other[j - 1] ? 0 : 1;
      let least = Math.min(row[j - 1]! + 1, last[j]! + 1, last[j - 1]! + cost);
      const isSwapped = i > 1 && j > 1 && one[i - 1] === other[j - 2] && one[i - 2] === other[j - 1];
      if (isSwapped) least = Math.min(least, before[j - 2]! + 1);
      row.push(least);
    }
    before = last;
    last = row;
  }
  return last.at(-1)!;
}
