import { visibleJson } from "../shared/text.ts";

/**
 * A tool call's arguments for a person who decides about it: indented, with escapes for characters that would hide or
 * reorder others. A text that is not JSON, or that is nested too deeply to be indented, stays as it is.
 */
export function argumentsText(text: string): string {
  try {
    return visibleJson(JSON.stringify(JSON.parse(text), undefined, 2));
  } catch {
    return text;
  }
}
