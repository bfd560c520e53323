/** Every wait ends its timer and its listener when it settles. */

import type { Clock, Timer } from "./ports/clock.ts";

type Settle<T> = Parameters<ConstructorParameters<typeof Promise<T>>[0]>;

/** A promise and what settles it: `Promise.withResolvers` is newer than the oldest engines of the client. */
function settleable<T>(): [Promise<T>, ...Settle<T>] {
  let settle!: Settle<T>;
  const promise = new Promise<T>((...both) => {
    settle = both;
  });
  return [promise, ...settle];
}

/**
 * A promise that `start` settles. Rejects with the signal's reason when it aborts first; when it is aborted already,
 * `start` is not called.
 * @param start begins, and returns its clean-up, which runs once, when the promise settles
 */
export async function unlessAborted<T>(
  signal: AbortSignal | undefined,
  start: (resolve: (value: T | PromiseLike<T>) => void, reject: (reason: unknown) => void) => (() => void) | undefined,
): Promise<T> {
  signal?.throwIfAborted();
  const [promise, resolve, reject] = settleable<T>();
  const onAbort = () => reject(signal!.reason);
  signal?.addEventListener("abort", onAbort, { once: true });
  const end = start(resolve, reject);
  try {
    return await promise;
  } finally {
    signal?.removeEventListener("abort", onAbort);
    end?.();
  }
}

/** The result of `begin`, whose end is not awaited once the signal aborts: then it rejects with the signal's reason. */
export function raceAborted<T>(signal: AbortSignal | undefined, begin: () => Promise<T>): Promise<T> {
  return unlessAborted<T>(signal, (resolve, reject) => {
    begin().then(resolve, reject);
    return undefined;
  });
}

/** Resolves after `delayMs`. Rejects with the signal's reason when it aborts before. */
export function sleep(clock: Pick<Clock, "after">, delayMs: number, signal?: AbortSignal): Promise<void> {
  return unlessAborted<void>(signal, (resolve) => {
    const timer = clock.after(delayMs, resolve);
    return () => timer.cancel();
  });
}

/**
 * Call `work` after each `everyMs`. The next period begins when the work has ended, which must not fail.
 * @returns cancel it to end the calls, also during one of them
 */
export function every(clock: Pick<Clock, "after">, everyMs: number, work: () => Promise<void> | void): Timer {
  let timer: Timer | undefined;
  let isCancelled = false;
  const wait = () => {
    if (!isCancelled) timer = clock.after(everyMs, call);
  };
  const call = () => {
    const ended = work();
    if (ended) void ended.then(wait);
    else wait();
  };
  wait();
  return {
    cancel() {
      isCancelled = true;
      timer?.cancel();
    },
  };
}

/**
 * The result of `work`, or after `delayMs` that of `late`, which may throw. `work` goes on, and its later failure is
 * dropped.
 * @param late default: nothing
 */
export async function within<T, L = undefined>(
  clock: Pick<Clock, "after">,
  delayMs: number,
  work: Promise<T>,
  late?: () => L,
): Promise<T | L> {
  const [passed, pass] = settleable<{ isLate: true }>();
  const timer = clock.after(delayMs, () => pass({ isLate: true }));
  try {
    const first = await Promise.race([work.then((result) => ({ result })), passed]);
    return "result" in first ? first.result : (late?.() as L);
  } finally {
    timer.cancel();
  }
}

/**
 * The pause before the next attempt, in ms: `firstMs`, doubled with each failed attempt, up to `maxMs`. With `random`,
 * a random value of its upper half, so that callers that failed together do not return together.
 * @param failed failed attempts so far, from 1
 * @param random a number from 0 to 1
 */
export function backoffMs(failed: number, bounds: { firstMs: number; maxMs: number }, random = () => 1): number {
  const fullMs = Math.min(bounds.maxMs, bounds.firstMs * 2 ** (failed - 1));
  return Math.round(fullMs * (0.5 + random() / 2));
}
