import type { PausedBy } from "../../src/protocol/session.ts";
import { en, type WordKey } from "../words/en.ts";
import type { Say } from "../words/sentence.ts";

/** A transition's reason in words; undefined for a reason without words. */
export function becauseOf(reason: string | undefined, say: Say): string | undefined {
  const key = `because.${reason}`;
  return Object.hasOwn(en, key) ? say(key as WordKey) : undefined;
}

/** How a session was paused, and the reason if it has words. */
export function howPaused(pausedBy: PausedBy, because: string | undefined, say: Say): string {
  const how = say(`pausedby.${pausedBy}`);
  return because === undefined ? how : say("pausedby.because", { how, because });
}
