import { onTestFinished } from "vitest";
import type { Live, LiveState } from "../../../src/client/live/live.ts";
import { within } from "../runner/within.ts";

/** Follows a live view until the test ends; resolves with the view when the condition holds. */
export async function until<T extends LiveState>(live: Live<T>, holds: (view: T) => boolean): Promise<T> {
  const done = Promise.withResolvers<void>();
  const look = () => holds(live.view) && done.resolve();
  const stop = live.subscribe(look);
  onTestFinished(() => {
    stop();
    live.suspend();
  });
  look();
  await within(`a view for which ${holds}`, done.promise);
  return live.view;
}
