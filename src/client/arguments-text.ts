import { parseJson } from "../shared/json.ts";
import { visibleJson } from "../shared/text.ts";

/**
 * A tool call's arguments for a person who decides about it: indented, with escapes for characters that would hide or
 * reorder others. A text that is not JSON stays as it is.
 */
export function argumentsText(text: string): string {
  const value = parseJson(text);
  return value === undefined ? text : visibleJson(JSON.stringify(value, undefined, 2));
}
