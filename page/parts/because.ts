import { en, type WordKey } from "../words/en.ts";
import type { Speech } from "../words/words.tsx";

/** A transition's reason in words; undefined for one that the page has no words for. */
export function becauseOf(reason: string | undefined, say: Speech["say"]): string | undefined {
  const key = `because.${reason}`;
  return Object.hasOwn(en, key) ? say(key as WordKey) : undefined;
}
