import { isObject } from "../../shared/json.ts";

/**
 * How deep the JSON of an agent may be nested, unless the caller says otherwise. Code that writes JSON, or copies it to
 * another thread, calls itself for each level, and fails at some thousands of them.
 */
const MAX_JSON_DEPTH = 128;

/** Whether a value is nested deeper than this many levels. Never recurses, and looks at each object once. */
export function isTooDeep(value: unknown, maxDepth = MAX_JSON_DEPTH): boolean {
  let level = isObject(value) ? [value] : [];
  const seen = new Set(level);
  for (let depth = 0; level.length > 0; depth += 1) {
    if (depth >= maxDepth) return true;
    const next: Record<string, unknown>[] = [];
    for (const inner of level.flatMap<unknown>(Object.values)) {
      if (!isObject(inner) || seen.has(inner)) continue;
      seen.add(inner);
      next.push(inner);
    }
    level = next;
  }
  return false;
}
