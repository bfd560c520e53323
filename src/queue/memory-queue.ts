import { AppError } from "../protocol/errors.ts";
import type { EffectId } from "../protocol/ids.ts";
import type { Effect } from "../protocol/internal/effect.ts";
import type { Clock, Timer } from "../protocol/ports/clock.ts";
import { TransientMap } from "../shared/transient-map.ts";
import type { Processing, RunQueue } from "./run-queue.ts";

/** The maximum number of effects in memory; further effects wait in the store for the next sweep. */
const MAX_WAITING = 10_000;
/** The maximum of `setTimeout`. The armer never adds an effect that far ahead (rule C9). */
const MAX_DELAY_MS = 2_147_483_647;

type Handler = (effect: Effect) => Promise<void>;

interface Lane {
  /** Effects that are due, in the order in which they became due. */
  ready: Effect[];
  handler?: Handler | undefined;
  concurrency: number;
  underWay: number;
  /** Called when no handler is running. */
  onIdle?: (() => void) | undefined;
}

/** The run queue of one process. Its contents are lost with the process; the store still has every effect. */
export class MemoryQueue implements RunQueue {
  readonly #clock: Clock;
  readonly #lanes: Record<Effect["kind"], Lane> = {
    run: { ready: [], concurrency: 0, underWay: 0 },
    timer: { ready: [], concurrency: 0, underWay: 0 },
  };
  /** Every effect in the queue, by id: not yet due (with its timer), ready, or being handled. */
  readonly #known = new TransientMap<EffectId, { timer: Timer | undefined }>();
  #isClosed = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  async add(effect: Effect): Promise<void> {
    if (this.#isClosed) throw new AppError("unavailable");
    if (this.#known.has(effect.id)) return;
    if (this.#known.size >= MAX_WAITING) throw new AppError("unavailable", "the run queue is full");
    if (effect.dueAt - this.#clock.now() > MAX_DELAY_MS)
      throw new RangeError(`effect ${effect.id} is due too far ahead`);
    this.#wait(effect);
  }

  async process<K extends Effect["kind"]>(
    kind: K,
    handler: (effect: Extract<Effect, { kind: K }>) => Promise<void>,
    { concurrency }: { concurrency: number },
  ): Promise<Processing> {
    const lane = this.#lanes[kind];
    if (lane.handler) throw new Error(`${kind} effects already have a handler`);
    lane.handler = handler as Handler;
    lane.concurrency = concurrency;
    this.#start(lane);
    return {
      setConcurrency: (more) => {
        lane.concurrency = more;
        this.#start(lane);
      },
      stop: async () => {
        lane.handler = undefined;
        if (lane.underWay === 0) return;
        await new Promise<void>((resolve) => {
          lane.onIdle = resolve;
        });
      },
    };
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    for (const [id, { timer }] of this.#known.entries()) {
      timer?.cancel();
      this.#known.delete(id);
    }
    for (const lane of Object.values(this.#lanes)) lane.ready = [];
  }

  #wait(effect: Effect): void {
    const delayMs = effect.dueAt - this.#clock.now();
    // Check the time again when the timer fires: it may fire a millisecond early.
    const timer = delayMs > 0 ? this.#clock.after(delayMs, () => this.#wait(effect)) : undefined;
    this.#known.set(effect.id, { timer });
    if (!timer) this.#makeReady(effect);
  }

  #makeReady(effect: Effect): void {
    const lane = this.#lanes[effect.kind];
    lane.ready.push(effect);
    this.#start(lane);
  }

  #start(lane: Lane): void {
    while (lane.handler && lane.underWay < lane.concurrency && lane.ready.length > 0) {
      const effect = takeFirst(lane.ready);
      lane.underWay += 1;
      void this.#carryOut(lane, lane.handler, effect);
    }
  }

  async #carryOut(lane: Lane, handler: Handler, effect: Effect): Promise<void> {
    try {
      await handler(effect);
    } catch {
      // The handler logs its own failures; the store still has the effect.
    } finally {
      this.#known.delete(effect.id);
      lane.underWay -= 1;
      this.#start(lane);
      if (lane.underWay === 0) {
        lane.onIdle?.();
        lane.onIdle = undefined;
      }
    }
  }
}

/** Remove and return the run with the highest priority, the oldest among equals. Timers all rank equally. */
function takeFirst(ready: Effect[]): Effect {
  const rank = (effect: Effect) => (effect.kind === "run" ? effect.priority : 0);
  let first = 0;
  for (let index = 1; index < ready.length; index++) {
    if (rank(ready[index]!) > rank(ready[first]!)) first = index;
  }
  return ready.splice(first, 1)[0]!;
}
