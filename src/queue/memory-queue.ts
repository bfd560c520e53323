import { AppError } from "../protocol/errors.ts";
import type { FloorId } from "../protocol/ids.ts";
import type { Alarm } from "../protocol/internal/run-request.ts";
import type { Clock, Timer } from "../shared/ports/clock.ts";
import { TransientMap } from "../shared/transient-map.ts";
import type { Handler, Processing, Queued, RunQueue, WaitingRuns } from "./run-queue.ts";

/** The maximum of runs in memory, and of alarms; further ones wait in the store for the next sweep. */
const MAX_QUEUED = 10_000;
/** The maximum of `setTimeout`. The armer never adds a run request that far ahead (rule C9). */
const MAX_DELAY_MS = 2_147_483_647;

interface KindQueue {
  /** What is due, in the order in which it became due. */
  ready: Queued[];
  /** Everything in the queue, by id: not yet due (with its timer), ready, or being handled. */
  readonly known: TransientMap<Queued["id"], { timer: Timer | undefined }>;
  handler?: Handler | undefined;
  concurrency: number;
  underWay: number;
  /** Called when no handler is running. */
  onIdle?: (() => void) | undefined;
}

/** The run queue of one process. Its contents are lost with the process; the store still has every run request. */
export class MemoryQueue implements RunQueue {
  readonly #clock: Clock;
  readonly #queues: Record<Queued["kind"], KindQueue> = { run: newKindQueue(), alarm: newKindQueue() };
  /** The alarm of each floor that is not due yet. */
  readonly #alarms = new TransientMap<FloorId, { id: Alarm["id"] }>();
  #isClosed = false;

  /** @param clock its time is the floors' */
  constructor(clock: Clock) {
    this.#clock = clock;
  }

  async add(queued: Queued): Promise<void> {
    if (this.#isClosed) throw new AppError("unavailable");
    const { known } = this.#queues[queued.kind];
    if (known.has(queued.id)) return;
    if (queued.kind === "alarm") this.#dropAlarm(queued.floorId);
    if (known.size >= MAX_QUEUED) throw new AppError("unavailable", "the run queue is full");
    if (queued.dueAt - this.#clock.now() > MAX_DELAY_MS)
      throw new RangeError(`${queued.kind} ${queued.id} is due too far ahead`);
    this.#wait(queued);
  }

  async process<K extends Queued["kind"]>(
    kind: K,
    handler: (queued: Extract<Queued, { kind: K }>) => Promise<void>,
    { concurrency }: { concurrency: number },
  ): Promise<Processing> {
    const queue = this.#queues[kind];
    if (queue.handler) throw new Error(`the queue of ${kind}s already has a handler`);
    queue.handler = handler as Handler;
    queue.concurrency = concurrency;
    this.#start(queue);
    return {
      setConcurrency: (more) => {
        queue.concurrency = more;
        this.#start(queue);
      },
      stop: async () => {
        queue.handler = undefined;
        if (queue.underWay === 0) return;
        await new Promise<void>((resolve) => {
          queue.onIdle = resolve;
        });
      },
    };
  }

  async waitingRuns(): Promise<WaitingRuns> {
    const { ready } = this.#queues.run;
    const since = ready.reduce<number | undefined>((oldest, { dueAt }) => Math.min(oldest ?? dueAt, dueAt), undefined);
    return { count: ready.length, since };
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    for (const queue of Object.values(this.#queues)) {
      for (const [id, { timer }] of queue.known.entries()) {
        timer?.cancel();
        queue.known.delete(id);
      }
      queue.ready = [];
    }
  }

  /** Drop the floor's alarm, unless it is due. */
  #dropAlarm(floorId: FloorId): void {
    const alarm = this.#alarms.get(floorId);
    if (!alarm) return;
    const { known } = this.#queues.alarm;
    known.get(alarm.id)?.timer?.cancel();
    known.delete(alarm.id);
    this.#alarms.delete(floorId);
  }

  #wait(queued: Queued): void {
    const delayMs = queued.dueAt - this.#clock.now();
    // Check the time again when the timer fires: it may fire a millisecond early.
    const timer = delayMs > 0 ? this.#clock.after(delayMs, () => this.#wait(queued)) : undefined;
    this.#queues[queued.kind].known.set(queued.id, { timer });
    if (queued.kind === "alarm") {
      if (timer) this.#alarms.set(queued.floorId, queued);
      else this.#alarms.delete(queued.floorId);
    }
    if (!timer) this.#makeReady(queued);
  }

  #makeReady(queued: Queued): void {
    const queue = this.#queues[queued.kind];
    queue.ready.push(queued);
    this.#start(queue);
  }

  #start(queue: KindQueue): void {
    while (queue.handler && queue.underWay < queue.concurrency && queue.ready.length > 0) {
      const queued = shiftFirst(queue.ready);
      queue.underWay += 1;
      void this.#callHandler(queue, queue.handler, queued);
    }
  }

  async #callHandler(queue: KindQueue, handler: Handler, queued: Queued): Promise<void> {
    try {
      await handler(queued);
    } catch {
      // The handler logs its own failures; the store still has the run request.
    } finally {
      queue.known.delete(queued.id);
      queue.underWay -= 1;
      this.#start(queue);
      if (queue.underWay === 0) {
        queue.onIdle?.();
        queue.onIdle = undefined;
      }
    }
  }
}

const newKindQueue = (): KindQueue => ({ ready: [], known: new TransientMap(), concurrency: 0, underWay: 0 });

/** Remove and return the run with the highest priority, the oldest among equals. Alarms all rank equally. */
function shiftFirst(ready: Queued[]): Queued {
  const rank = (queued: Queued) => (queued.kind === "run" ? queued.priority : 0);
  let first = 0;
  for (let index = 1; index < ready.length; index++) {
    if (rank(ready[index]!) > rank(ready[first]!)) first = index;
  }
  return ready.splice(first, 1)[0]!;
}
