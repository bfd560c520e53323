/**
 * The number of elements at the beginning of a list that match, by binary search. All that match come before all that
 * do not.
 */
export function countLeading(length: number, matches: (index: number) => boolean): number {
  let low = 0;
  let high = length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (matches(middle)) low = middle + 1;
    else high = middle;
  }
  return low;
}
