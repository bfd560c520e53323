import { onTestFinished } from "vitest";
import type { Live, LiveState } from "../../../src/client/live/live.ts";

/** Watches a live view until the test ends; resolves with it when it is as it should be. */
export async function until<T extends LiveState>(live: Live<T>, holds: (view: T) => boolean): Promise<T> {
  const done = Promise.withResolvers<void>();
  const look = () => holds(live.view) && done.resolve();
  const stop = live.subscribe(look);
  onTestFinished(() => {
    stop();
    live.suspend();
  });
  look();
  await done.promise;
  return live.view;
}
