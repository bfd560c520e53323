import type { Clock } from "../../../src/shared/ports/clock.ts";
import type { SimClock } from "../sim-clock.ts";

/** Inputs of a node. Messages may be lost while it sleeps; all other inputs wait. */
type Arrival = { work: () => void; isMessage: boolean };

/**
 * One process of a node as its environment sees it: all input and output passes here. A dead process gets no input, so
 * its pending work never continues; a sleeping one gets its input late.
 */
export class Life {
  readonly name: string;
  readonly #clock: SimClock;
  #state: "awake" | "asleep" | "dead" = "awake";
  #arrivals: Arrival[] = [];
  /** The number of outputs after which it dies. */
  #outputsLeft = Number.POSITIVE_INFINITY;
  readonly #timers = new Set<object>();
  readonly #onDeath: (() => void)[] = [];
  /** The process's own time. */
  readonly clock: Clock;

  /** @param skewMs how far its clock is ahead of the world's */
  constructor(name: string, clock: SimClock, skewMs: number) {
    this.name = name;
    this.#clock = clock;
    this.clock = {
      now: () => clock.now() + skewMs,
      after: (delayMs, callback) => this.#after(delayMs, callback),
    };
  }

  get isDead(): boolean {
    return this.#state === "dead";
  }

  get isAwake(): boolean {
    return this.#state === "awake";
  }

  /** Its pending timers. */
  get timerCount(): number {
    return this.#timers.size;
  }

  onDeath(callback: () => void): void {
    this.#onDeath.push(callback);
  }

  /** Deliver an input. */
  enter(work: () => void, isMessage = false): void {
    if (this.#state === "awake") work();
    else if (this.#state === "asleep") this.#arrivals.push({ work, isMessage });
  }

  /** Whether an output gets out. */
  acts(): boolean {
    if (this.#state === "dead") return false;
    this.#outputsLeft -= 1;
    if (this.#outputsLeft >= 0) return true;
    this.die();
    return false;
  }

  /** A request to the outside; its answer comes in later, or never. */
  call<T>(ask: (done: (answer: T) => void, failed: (error: unknown) => void) => void): Promise<T> {
    return new Promise((resolve, reject) => {
      if (!this.acts()) return;
      ask(
        (answer) => this.enter(() => resolve(answer)),
        (error) => this.enter(() => reject(error)),
      );
    });
  }

  /** Let it die at this output. */
  dieAfter(outputs: number): void {
    this.#outputsLeft = Math.min(this.#outputsLeft, outputs);
  }

  /** Cancel that. */
  live(): void {
    this.#outputsLeft = Number.POSITIVE_INFINITY;
  }

  die(): void {
    if (this.#state === "dead") return;
    this.#state = "dead";
    this.#arrivals = [];
    for (const callback of this.#onDeath) callback();
  }

  sleep(): void {
    if (this.#state === "awake") this.#state = "asleep";
  }

  /** Continue; it gets the waiting inputs in order. */
  wake({ losesMessages }: { losesMessages: boolean }): void {
    if (this.#state !== "asleep") return;
    this.#state = "awake";
    const arrivals = this.#arrivals.filter(({ isMessage }) => !(isMessage && losesMessages));
    this.#arrivals = [];
    // Each in a separate iteration of the event loop, as it would have arrived.
    for (const { work, isMessage } of arrivals) this.#clock.after(0, () => this.enter(work, isMessage));
  }

  #after(delayMs: number, callback: () => void): { cancel(): void } {
    const key = {};
    this.#timers.add(key);
    const timer = this.#clock.after(delayMs, () =>
      this.enter(() => {
        // It may have been cancelled while it waited for the process to wake.
        if (this.#timers.delete(key)) callback();
      }),
    );
    return {
      cancel: () => {
        this.#timers.delete(key);
        timer.cancel();
      },
    };
  }
}
