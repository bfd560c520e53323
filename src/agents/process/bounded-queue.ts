/**
 * Unconsumed output of a program. The reader waits for room first, so that a program is read no faster than its output
 * is consumed. Not consuming therefore holds a run.
 */
export class BoundedQueue<T> {
  readonly #maxWeight: number;
  readonly #items: { item: T; weight: number }[] = [];
  #weight = 0;
  #isClosed = false;
  #isDiscarding = false;
  #wake = Promise.withResolvers<void>();
  #room = Promise.withResolvers<void>();
  /** Items since the beginning: pushed, taken, and those after which the consumer asked for another one. */
  #pushed = 0;
  #taken = 0;
  #consumed = 0;
  /** What waits for the consumption of the items before it, in order. */
  readonly #waiting: { upTo: number; done: PromiseWithResolvers<void> }[] = [];

  /** @param maxWeight the weight at which the queue is full; the last item may exceed it */
  constructor(maxWeight: number) {
    this.#maxWeight = maxWeight;
  }

  /** Resolves when there is room for another item. */
  async room(): Promise<void> {
    while (this.#weight > this.#maxWeight && !this.#isDiscarding) await this.#room.promise;
  }

  push(item: T, weight: number): void {
    if (this.#isClosed || this.#isDiscarding) return;
    this.#items.push({ item, weight });
    this.#weight += weight;
    this.#pushed += 1;
    this.#signal();
  }

  /**
   * Resolves when the consumer has asked for another item since it took the last one pushed so far: it has passed that
   * item on. Rejects if it is discarded.
   */
  async consumed(): Promise<void> {
    if (this.#isDiscarding) throw discarded();
    if (this.#consumed === this.#pushed) return;
    const done = Promise.withResolvers<void>();
    this.#waiting.push({ upTo: this.#pushed, done });
    await done.promise;
  }

  /** Close the queue. Items in it can still be read. */
  close(): void {
    this.#isClosed = true;
    this.#signal();
  }

  /** Drop all present and future items, so that the program can end without a reader. */
  discard(): void {
    this.#isDiscarding = true;
    this.#items.length = 0;
    this.#weight = 0;
    this.#room.resolve();
    for (const { done } of this.#waiting.splice(0)) done.reject(discarded());
    this.close();
  }

  /** The next item; undefined if the queue is empty. */
  shift(): T | undefined {
    this.#consumed = this.#taken;
    while (this.#waiting[0] && this.#waiting[0].upTo <= this.#consumed) this.#waiting.shift()!.done.resolve();
    const first = this.#items.shift();
    if (!first) return undefined;
    this.#taken += 1;
    this.#weight -= first.weight;
    if (this.#weight <= this.#maxWeight) {
      this.#room.resolve();
      this.#room = Promise.withResolvers();
    }
    return first.item;
  }

  /** Whether the queue is closed and empty. */
  get isOver(): boolean {
    return this.#isClosed && this.#items.length === 0;
  }

  /** Resolves when there is an item, or the queue is closed. */
  async ready(): Promise<void> {
    while (this.#items.length === 0 && !this.#isClosed) await this.#wake.promise;
  }

  #signal(): void {
    this.#wake.resolve();
    this.#wake = Promise.withResolvers();
  }
}

const discarded = () => new Error("The output is no longer read.");
