import { expect, test } from "vitest";
import { mergeParts } from "../../../src/agents/merged-parts.ts";
import { BoundedQueue } from "../../../src/agents/process/bounded-queue.ts";
import { heapBytes } from "../../support/runner/heap.ts";
import { turn } from "../../support/runner/virtual-clock.ts";

/** An iterator whose next item arrives when the test sends it. */
function stage() {
  const queue = new BoundedQueue<string>(1_000);
  let pulls = 0;
  let pending = Promise.withResolvers<IteratorResult<string>>();
  const iterator: AsyncIterator<string> = {
    next() {
      pulls += 1;
      pending = Promise.withResolvers();
      return pending.promise;
    },
  };
  const merged = mergeParts(iterator, queue);
  return {
    merged,
    queue,
    push: (item: string) => queue.push(item, 1),
    close: () => queue.close(),
    send: (value: string) => pending.resolve({ done: false, value }),
    end: () => pending.resolve({ done: true, value: undefined }),
    fail: (error: Error) => pending.reject(error),
    pulls: () => pulls,
    next: async () => (await merged.next()).value?.item,
  };
}

test("items of both sources are merged as they come, those of the queue first", async () => {
  const { push, send, end, next } = stage();
  const first = next();
  send("model 1");
  expect(await first).toBe("model 1");
  const second = next();
  push("tool 1");
  push("tool 2");
  expect(await second).toBe("tool 1");
  send("model 2");
  expect(await next()).toBe("tool 2");
  expect(await next()).toBe("model 2");
  const last = next();
  await turn();
  push("tool 3");
  expect(await last).toBe("tool 3");
  const over = next();
  end();
  expect(await over).toBeUndefined();
});

test("an item of the iterator is requested when the one before is consumed", async () => {
  const { send, push, next, pulls } = stage();
  const first = next();
  expect(pulls()).toBe(1);
  send("model 1");
  await first;
  expect(pulls()).toBe(1);
  const second = next();
  await turn();
  expect(pulls()).toBe(2);
  push("tool");
  await second;
  expect(pulls()).toBe(2);
});

test("an error of the iterator is thrown after the items of the queue", async () => {
  const { fail, push, next } = stage();
  const first = next();
  push("tool");
  fail(new Error("cut"));
  expect(await first).toBe("tool");
  await expect(next()).rejects.toThrow("cut");
});

test("an item of the queue is consumed when another one is requested, and not before", async () => {
  const { push, next, queue } = stage();
  const first = next();
  push("tool 1");
  push("tool 2");
  const end = { state: "waiting" };
  const done = (state: string) => () => void Object.assign(end, { state });
  queue.consumed().then(done("consumed"), done("discarded"));
  await first;
  await next();
  await turn();
  expect(end.state).toBe("waiting");
  void next();
  await turn();
  expect(end.state).toBe("consumed");
  await queue.consumed();
  push("tool 3");
  queue.consumed().then(done("consumed"), done("discarded"));
  queue.discard();
  await turn();
  expect(end.state).toBe("discarded");
  await expect(queue.consumed()).rejects.toThrow("no longer read");
});

test("a closed queue does not keep the process busy, and the iterator goes on", async () => {
  const { close, send, next } = stage();
  const first = next();
  close();
  await turn();
  send("model");
  expect(await first).toBe("model");
});

test("items of one source leave nothing in memory while the other one is silent", async () => {
  const { push, next } = stage();
  const take = async (items: number) => {
    for (let index = 0; index < items; index++) {
      const item = next();
      push("tool");
      await item;
    }
    return heapBytes();
  };
  const before = await take(1_000);
  const after = await take(20_000);
  // A reaction to a promise takes some 200 bytes.
  expect(after - before).toBeLessThan(50 * 20_000);
});
