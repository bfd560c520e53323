import type { Clock } from "../../src/protocol/ports/clock.ts";
import type { SimClock } from "./sim-clock.ts";

/** What reaches a node from outside. Messages may be lost while it sleeps, all else waits for it. */
type Arrival = { work: () => void; isMessage: boolean };

/**
 * One process of a node, as the world around it sees it: everything that comes in or goes out passes here. One that is
 * dead never hears another word, so whatever its memory holds waits for ever and touches nothing; one that sleeps hears
 * everything late.
 */
export class Life {
  readonly name: string;
  readonly #clock: SimClock;
  #state: "awake" | "asleep" | "dead" = "awake";
  #arrivals: Arrival[] = [];
  /** Deeds until it dies in the middle of what it does. */
  #deedsLeft = Number.POSITIVE_INFINITY;
  readonly #timers = new Set<object>();
  readonly #onDeath: (() => void)[] = [];
  /** Time as this process has it. */
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

  /** Timers it waits for. */
  get timerCount(): number {
    return this.#timers.size;
  }

  onDeath(callback: () => void): void {
    this.#onDeath.push(callback);
  }

  /** Something comes in. */
  enter(work: () => void, isMessage = false): void {
    if (this.#state === "awake") work();
    else if (this.#state === "asleep") this.#arrivals.push({ work, isMessage });
  }

  /** Whether what goes out gets out. */
  acts(): boolean {
    if (this.#state === "dead") return false;
    this.#deedsLeft -= 1;
    if (this.#deedsLeft >= 0) return true;
    this.die();
    return false;
  }

  /** A question to the world outside; its answer comes in later, or never. */
  call<T>(ask: (done: (answer: T) => void, failed: (error: unknown) => void) => void): Promise<T> {
    return new Promise((resolve, reject) => {
      if (!this.acts()) return;
      ask(
        (answer) => this.enter(() => resolve(answer)),
        (error) => this.enter(() => reject(error)),
      );
    });
  }

  /** It dies with the deed after so many. */
  dieAfter(deeds: number): void {
    this.#deedsLeft = Math.min(this.#deedsLeft, deeds);
  }

  /** It will not die by itself after all. */
  live(): void {
    this.#deedsLeft = Number.POSITIVE_INFINITY;
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

  /** It goes on where it stood, and hears what waited for it, in its order. */
  wake({ losesMessages }: { losesMessages: boolean }): void {
    if (this.#state !== "asleep") return;
    this.#state = "awake";
    const arrivals = this.#arrivals.filter(({ isMessage }) => !(isMessage && losesMessages));
    this.#arrivals = [];
    // Each in its own turn, as they would have come.
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
