/**
 * Output of a program that was not consumed yet. The reader of the program waits for room first, so that a program is not
 * read faster than its output is consumed; that is also how a run is held.
 */
export class BoundedQueue<T> {
  readonly #maxWeight: number;
  readonly #items: { item: T; weight: number }[] = [];
  #weight = 0;
  #isClosed = false;
  #isDiscarding = false;
  #wake = Promise.withResolvers<void>();
  #room = Promise.withResolvers<void>();

  /** @param maxWeight beyond which there is no room; the last item may exceed it */
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
    this.#signal();
  }

  /** Nothing more comes; what is there can still be taken. */
  close(): void {
    this.#isClosed = true;
    this.#signal();
  }

  /** Forget what is there and what comes: the program shall end without being listened to. */
  discard(): void {
    this.#isDiscarding = true;
    this.#items.length = 0;
    this.#weight = 0;
    this.#room.resolve();
    this.close();
  }

  /** The next item, if there is one already. */
  take(): T | undefined {
    const first = this.#items.shift();
    if (!first) return undefined;
    this.#weight -= first.weight;
    if (this.#weight <= this.#maxWeight) {
      this.#room.resolve();
      this.#room = Promise.withResolvers();
    }
    return first.item;
  }

  get hasItems(): boolean {
    return this.#items.length > 0;
  }

  /** Whether everything was taken and nothing more comes. */
  get isOver(): boolean {
    return this.#isClosed && this.#items.length === 0;
  }

  /** Resolves when there is something to take, or nothing more comes. */
  async ready(): Promise<void> {
    while (this.#items.length === 0 && !this.#isClosed) await this.#wake.promise;
  }

  #signal(): void {
    this.#wake.resolve();
    this.#wake = Promise.withResolvers();
  }
}
