/**
 * How deep the JSON of an agent may be nested, unless the caller says otherwise. Code that writes JSON, or copies it to
 * another thread, calls itself for each level, and fails at some thousands of them.
 */
const MAX_DEPTH = 128;

/** Whether a value is nested deeper than this many levels. Never recurses, and looks at each object once. */
export function isTooDeep(value: unknown, maxDepth = MAX_DEPTH): boolean {
  const seen = new Set<object>();
  let level: unknown[] = [value];
  for (let depth = 0; level.length > 0; depth += 1) {
    if (depth >= maxDepth) return true;
    const next: unknown[] = [];
    for (const each of level) {
      if (typeof each !== "object" || each === null || seen.has(each)) continue;
      seen.add(each);
      for (const inner of Object.values(each)) if (typeof inner === "object" && inner !== null) next.push(inner);
    }
    level = next;
  }
  return false;
}
