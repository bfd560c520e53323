import { AppError } from "../protocol/errors.ts";
import type { EffectId, FloorId } from "../protocol/ids.ts";
import type { Clock, Timer } from "../shared/ports/clock.ts";
import { TransientMap } from "../shared/transient-map.ts";
import type { Processing, Queued, RunQueue, WaitingRuns } from "./run-queue.ts";

/** The maximum of runs in memory, and of alarms; further ones wait in the store for the next sweep. */
const MAX_WAITING_EFFECTS = 10_000;
/** The maximum of `setTimeout`. The armer never adds an effect that far ahead (rule C9). */
const MAX_DELAY_MS = 2_147_483_647;

type Handler = (queued: Queued) => Promise<void>;

interface Lane {
  /** What is due, in the order in which it became due. */
  ready: Queued[];
  /** Everything in the lane, by id: not yet due (with its timer), ready, or being handled. */
  readonly known: TransientMap<EffectId, { timer: Timer | undefined }>;
  handler?: Handler | undefined;
  concurrency: number;
  underWay: number;
  /** Called when no handler is running. */
  onIdle?: (() => void) | undefined;
}

/** The run queue of one process. Its contents are lost with the process; the store still has every effect. */
export class MemoryQueue implements RunQueue {
  readonly #clock: Clock;
  readonly #lanes: Record<Queued["kind"], Lane> = { run: newLane(), alarm: newLane() };
  /** The alarm of each floor that is not due yet. */
  readonly #alarms = new TransientMap<FloorId, { id: EffectId }>();
  #isClosed = false;

  /** @param clock its time is the floors' */
  constructor(clock: Clock) {
    this.#clock = clock;
  }

  async add(effect: Queued): Promise<void> {
    if (this.#isClosed) throw new AppError("unavailable");
    const { known } = this.#lanes[effect.kind];
    if (known.has(effect.id)) return;
    if (effect.kind === "alarm") this.#dropAlarm(effect.floorId);
    if (known.size >= MAX_WAITING_EFFECTS) throw new AppError("unavailable", "the run queue is full");
    if (effect.dueAt - this.#clock.now() > MAX_DELAY_MS)
      throw new RangeError(`effect ${effect.id} is due too far ahead`);
    this.#wait(effect);
  }

  async process<K extends Queued["kind"]>(
    kind: K,
    handler: (queued: Extract<Queued, { kind: K }>) => Promise<void>,
    { concurrency }: { concurrency: number },
  ): Promise<Processing> {
    const lane = this.#lanes[kind];
    if (lane.handler) throw new Error(`the lane ${kind} already has a handler`);
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

  async waitingRuns(): Promise<WaitingRuns> {
    const { ready } = this.#lanes.run;
    const since = ready.reduce<number | undefined>((oldest, { dueAt }) => Math.min(oldest ?? dueAt, dueAt), undefined);
    return { count: ready.length, since };
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    for (const lane of Object.values(this.#lanes)) {
      for (const [id, { timer }] of lane.known.entries()) {
        timer?.cancel();
        lane.known.delete(id);
      }
      lane.ready = [];
    }
  }

  /** Drop the floor's alarm, unless it is due. */
  #dropAlarm(floorId: FloorId): void {
    const alarm = this.#alarms.get(floorId);
    if (!alarm) return;
    const { known } = this.#lanes.alarm;
    known.get(alarm.id)?.timer?.cancel();
    known.delete(alarm.id);
    this.#alarms.delete(floorId);
  }

  #wait(effect: Queued): void {
    const delayMs = effect.dueAt - this.#clock.now();
    // Check the time again when the timer fires: it may fire a millisecond early.
    const timer = delayMs > 0 ? this.#clock.after(delayMs, () => this.#wait(effect)) : undefined;
    this.#lanes[effect.kind].known.set(effect.id, { timer });
    if (effect.kind === "alarm") {
      if (timer) this.#alarms.set(effect.floorId, effect);
      else this.#alarms.delete(effect.floorId);
    }
    if (!timer) this.#makeReady(effect);
  }

  #makeReady(effect: Queued): void {
    const lane = this.#lanes[effect.kind];
    lane.ready.push(effect);
    this.#start(lane);
  }

  #start(lane: Lane): void {
    while (lane.handler && lane.underWay < lane.concurrency && lane.ready.length > 0) {
      const effect = shiftFirst(lane.ready);
      lane.underWay += 1;
      void this.#carryOut(lane, lane.handler, effect);
    }
  }

  async #carryOut(lane: Lane, handler: Handler, effect: Queued): Promise<void> {
    try {
      await handler(effect);
    } catch {
      // The handler logs its own failures; the store still has the effect.
    } finally {
      lane.known.delete(effect.id);
      lane.underWay -= 1;
      this.#start(lane);
      if (lane.underWay === 0) {
        lane.onIdle?.();
        lane.onIdle = undefined;
      }
    }
  }
}

const newLane = (): Lane => ({ ready: [], known: new TransientMap(), concurrency: 0, underWay: 0 });

/** Remove and return the run with the highest priority, the oldest among equals. Alarms all rank equally. */
function shiftFirst(ready: Queued[]): Queued {
  const rank = (effect: Queued) => (effect.kind === "run" ? effect.priority : 0);
  let first = 0;
  for (let index = 1; index < ready.length; index++) {
    if (rank(ready[index]!) > rank(ready[first]!)) first = index;
  }
  return ready.splice(first, 1)[0]!;
}
