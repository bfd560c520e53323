import { expect, test } from "vitest";
import type { FloorId } from "../../../src/protocol/ids.ts";
import { FloorQueues } from "../../../src/store/postgres/floor-queues.ts";
import { ballast, bytesLeft, ROUND_BYTES } from "../../support/runner/heap.ts";

const floor = (name: string) => name as FloorId;

test("requests of one floor run in their order, also after one that fails, and other floors do not wait", async () => {
  const lines = new FloorQueues();
  const done: string[] = [];
  const first = Promise.withResolvers<void>();
  const asked = [
    lines.run(floor("a"), async () => {
      await first.promise;
      done.push("a1");
      throw new Error("refused");
    }),
    lines.run(floor("a"), async () => done.push("a2")),
    lines.run(floor("b"), async () => done.push("b1")),
  ];
  await asked[2];
  expect(done).toEqual(["b1"]);
  first.resolve();
  expect((await Promise.allSettled(asked)).map(({ status }) => status)).toEqual(["rejected", "fulfilled", "fulfilled"]);
  expect(done).toEqual(["b1", "a1", "a2"]);
});

test("the lines are emptied when the last request is done", async () => {
  const lines = new FloorQueues();
  const last = Promise.withResolvers<void>();
  void lines.run(floor("a"), () => last.promise);
  let isEmptied = false;
  const emptied = lines.emptied().then(() => {
    isEmptied = true;
  });
  await Promise.resolve();
  expect(isEmptied).toBe(false);
  last.resolve();
  await emptied;
  expect(isEmptied).toBe(true);
});

test("the outcome of a request is garbage for a minor collection", async () => {
  const lines = new FloorQueues();
  let asked = 0;
  const left = await bytesLeft(async () => {
    let pending: Promise<unknown>[] = [];
    for (let count = 0; count < 100; count++) {
      pending.push(lines.run(floor(`floor${asked++}`), async () => ballast()));
      if (pending.length < 8) continue;
      await Promise.all(pending);
      pending = [];
    }
  });
  expect(left).toBeLessThan(ROUND_BYTES / 4);
});
