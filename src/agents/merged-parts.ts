import type { BoundedQueue } from "./process/bounded-queue.ts";

export type Merged<Item, Aside> = { from: "iterator"; item: Item } | { from: "queue"; item: Aside };

/**
 * The items of an iterator and of a queue as they come, those of the queue first. Ends with the iterator, and throws
 * what it throws. The iterator's next item is requested when the one before has been consumed.
 *
 * Each source is awaited once per item. `Promise.race` would add a reaction to the promise of the source that is
 * silent, and keep them all until it speaks.
 */
export async function* mergeParts<Item, Aside>(
  iterator: AsyncIterator<Item>,
  queue: BoundedQueue<Aside>,
): AsyncGenerator<Merged<Item, Aside>, void, undefined> {
  let wake = () => {};
  let arrived: Promise<IteratorResult<Item>> | undefined;
  let isListening = false;
  const pull = () => {
    arrived = undefined;
    const next = iterator.next();
    const arrive = () => {
      arrived = next;
      wake();
    };
    next.then(arrive, arrive);
  };
  const listen = () => {
    isListening = true;
    void queue.ready().then(() => {
      isListening = false;
      wake();
    });
  };
  pull();
  for (;;) {
    for (let item = queue.shift(); item !== undefined; item = queue.shift()) yield { from: "queue", item };
    if (arrived) {
      const { done, value } = await arrived;
      if (done) return;
      yield { from: "iterator", item: value };
      pull();
      continue;
    }
    if (!isListening && !queue.isOver) listen();
    await new Promise<void>((resolve) => {
      wake = resolve;
    });
  }
}
