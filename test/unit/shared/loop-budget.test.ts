import { expect, test } from "vitest";
import { LoopBudget } from "../../../src/shared/loop-budget.ts";

const MIB = 1_048_576;

test("waiting readers read in one iteration of the event loop each, in order", async () => {
  const budget = new LoopBudget(MIB);
  let iteration = 0;
  const count = () => {
    iteration += 1;
    counting = setImmediate(count);
  };
  let counting = setImmediate(count);
  const reads = Array.from({ length: 20 }, (_, reader) =>
    budget.read(() => {
      budget.spend(MIB);
      return { reader, iteration };
    }),
  );
  const iterations = (await Promise.all(reads)).map((read) => read.iteration);
  clearImmediate(counting);
  expect(new Set(iterations).size).toBe(20);
  expect(iterations).toEqual(iterations.toSorted((one, other) => one - other));
});

test("small reads share an iteration", async () => {
  const budget = new LoopBudget(MIB);
  let isOver = false;
  setImmediate(() => {
    isOver = true;
  });
  const reads = Array.from({ length: 20 }, () =>
    budget.read(() => {
      budget.spend(1_000);
      return isOver;
    }),
  );
  expect(await Promise.all(reads)).toEqual(Array(20).fill(false));
});
