import { expect, test } from "vitest";
import { TurnBudget } from "../../../src/shared/turn-budget.ts";

const MIB = 1_048_576;

test("waiting readers read in one turn of the event loop each, in order", async () => {
  const budget = new TurnBudget(MIB);
  let turn = 0;
  const count = () => {
    turn += 1;
    counting = setImmediate(count);
  };
  let counting = setImmediate(count);
  const reads = Array.from({ length: 20 }, (_, reader) =>
    budget.read(() => {
      budget.spend(MIB);
      return { reader, turn };
    }),
  );
  const turns = (await Promise.all(reads)).map((read) => read.turn);
  clearImmediate(counting);
  expect(new Set(turns).size).toBe(20);
  expect(turns).toEqual(turns.toSorted((one, other) => one - other));
});

test("small reads share a turn", async () => {
  const budget = new TurnBudget(MIB);
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
