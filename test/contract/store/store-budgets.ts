import { describe, expect, test } from "vitest";
import type { AgentId } from "../../../src/protocol/ids.ts";
import type { BudgetCount, UsageCount } from "../../../src/store/store.ts";
import { DAY, FloorWriter, HOUR, NOON } from "../../support/stores/floor-writer.ts";
import type { StoreStage } from "./store-contract.ts";

const TODAY = Math.floor(NOON / DAY);

function counted(over: Partial<BudgetCount> = {}): BudgetCount {
  return { scope: "runs of ann", ownerId: "ann", withinMs: HOUR, time: NOON, add: 1, max: 3, ...over };
}

function usageOf(over: Partial<UsageCount> = {}): UsageCount {
  const agentId = "dialog_agent" as AgentId;
  return { day: TODAY, ownerId: "ann", agentId, runs: 1, input: 0, output: 0, tokens: 0, ...over };
}

export function budgetContract(stage: StoreStage): void {
  const prune = (usage: { day: number; sumDay: number; time: number }, limit = 100) =>
    stage.store.prune({ now: NOON, receiptsBefore: 0, usage, limit });
  const listed = async (over = {}) =>
    (await stage.store.listUsage({ from: 0, to: TODAY + 9, limit: 100, ...over })).usage;

  describe("budgets", () => {
    test("of 64 floors that count at once, exactly as many commit as the budget has room for", async () => {
      const { store } = stage;
      const floors = Array.from({ length: 64 }, (_, index) => new FloorWriter(store, `u:user${index}`));
      const outcomes = await Promise.all(
        floors.map((floor) => floor.write({ budgets: [counted({ max: 10 })], usage: [usageOf()] })),
      );
      const refused = { over: [{ scope: "runs of ann", room: 0, freeAt: NOON + HOUR }] };
      expect(outcomes.filter((outcome) => outcome === "committed")).toHaveLength(10);
      expect(outcomes.filter((outcome) => outcome !== "committed")).toEqual(Array(54).fill(refused));
      expect(await listed()).toEqual([usageOf({ runs: 10 })]);
      for (const [index, floor] of floors.entries()) {
        expect((await store.loadFloor(floor.id))?.version).toBe(outcomes[index] === "committed" ? 1 : undefined);
      }
    });

    // W7.
    test("a change that is refused says for how many there is room, and counts in none of its budgets", async () => {
      const { floor } = stage;
      const other = counted({ scope: "runs of all", ownerId: undefined, max: 9 });
      expect(await floor.write({ budgets: [counted(), other] })).toBe("committed");
      const refusal = { over: [{ scope: "runs of ann", room: 2, freeAt: NOON + HOUR }] };
      expect(await floor.write({ budgets: [counted({ add: 3 }), { ...other, add: 3 }] })).toEqual(refusal);
      expect(await floor.write({ budgets: [counted({ add: 2 }), { ...other, add: 8 }] })).toBe("committed");
    });

    test("a conflict counts nothing, of one floor or of two", async () => {
      const { store, floor } = stage;
      const other = new FloorWriter(store, "u:bob");
      expect(await floor.write({ budgets: [counted({ max: 2 })], expected: 7 })).toBe("conflict");
      const along = other.change({ expected: 7 });
      expect(await floor.write({ budgets: [counted({ max: 2 })], along })).toBe("conflict");
      expect(await store.loadFloor(floor.id)).toBeUndefined();
      expect(await floor.write({ budgets: [counted({ max: 2 })], along: other.change() })).toBe("committed");
      expect(await floor.write({ budgets: [counted({ max: 2 })] })).toBe("committed");
      expect(await floor.write({ budgets: [counted({ max: 2 })] })).toMatchObject({ over: [{ room: 0 }] });
    });

    test("counting without a maximum is never refused, and leaves no room for more", async () => {
      const { floor } = stage;
      expect(await floor.write({ budgets: [counted({ add: 500, max: undefined })] })).toBe("committed");
      expect(await floor.write({ budgets: [counted({ add: 0, max: 499 })] })).toEqual({
        over: [{ scope: "runs of ann", room: 0, freeAt: NOON + HOUR }],
      });
      expect(await floor.write({ budgets: [counted({ add: 0, max: 500 })] })).toBe("committed");
    });

    test("a window ends with its time, and the next one begins with the next count", async () => {
      const { floor } = stage;
      const at = (time: number) => floor.write({ budgets: [counted({ time, max: 1 })] });
      expect(await at(NOON)).toBe("committed");
      expect(await at(NOON + HOUR - 1)).toMatchObject({ over: [{ freeAt: NOON + HOUR }] });
      expect(await at(NOON + HOUR)).toBe("committed");
      expect(await at(NOON + HOUR + 1)).toMatchObject({ over: [{ freeAt: NOON + 2 * HOUR }] });
      // The clock that began the window was ahead.
      expect(await at(NOON - DAY)).toMatchObject({ over: [{ freeAt: NOON - DAY + HOUR }] });
    });

    test("the windows of budgets are found by their names, each as it was counted last", async () => {
      const { store, floor } = stage;
      const other = { scope: "runs of bob", withinMs: DAY };
      await floor.write({ budgets: [counted({ add: 2 }), counted(other)] });
      await floor.write({ budgets: [counted({ time: NOON + HOUR })] });
      const found = await store.findWindows(["runs of ann", "runs of bob", "runs of eve"]);
      expect(found.sort((one, two) => one.scope.localeCompare(two.scope))).toEqual([
        { scope: "runs of ann", used: 1, endsAt: NOON + 2 * HOUR },
        { scope: "runs of bob", used: 1, endsAt: NOON + DAY },
      ]);
    });

    test("windows that have ended are pruned, and others go on", async () => {
      const { floor } = stage;
      await floor.write({ budgets: [counted({ max: 1 }), counted({ scope: "runs of bob", withinMs: DAY, max: 1 })] });
      await prune({ day: 0, sumDay: 0, time: NOON + HOUR });
      const later = { time: NOON + HOUR - 1, max: 1 };
      expect(await floor.write({ budgets: [counted(later)] })).toBe("committed");
      expect(await floor.write({ budgets: [counted({ ...later, scope: "runs of bob" })] })).toMatchObject({
        over: [{}],
      });
    });
  });

  describe("usage", () => {
    test("is summed over floors by day, owner and agent, and listed in pages, the newest day first", async () => {
      const { store } = stage;
      const [ann, car] = [new FloorWriter(store, "u:ann"), new FloorWriter(store, "u:ann/car")];
      await ann.write({ usage: [usageOf(), usageOf({ ownerId: "bob", runs: 2 })] });
      await ann.write({ usage: [usageOf({ runs: 0, input: 5, output: 3, tokens: 8 })] });
      await car.write({ usage: [usageOf({ tokens: 1 }), usageOf({ day: TODAY - 1 })] });
      const rows = [
        usageOf({ runs: 2, input: 5, output: 3, tokens: 9 }),
        usageOf({ ownerId: "bob", runs: 2 }),
        usageOf({ day: TODAY - 1 }),
      ];
      expect(await listed()).toEqual(rows);
      expect(await listed({ ownerId: "ann" })).toEqual([rows[0], rows[2]]);
      expect(await listed({ agentId: "music_agent" })).toEqual([]);
      expect(await listed({ to: TODAY - 1 })).toEqual([rows[2]]);
      expect(await listed({ from: TODAY })).toEqual(rows.slice(0, 2));
      expect(await store.listUsage({ from: 0, to: TODAY, limit: 1 })).toEqual({ usage: [rows[0]], hasMore: true });
      for (const [index, after] of rows.entries()) expect(await listed({ after })).toEqual(rows.slice(index + 1));
    });

    test("of old days is summed over the floors without a change of what is listed, and later deleted", async () => {
      const { store } = stage;
      for (const id of ["u:ann", "u:ann/car", "u:ann/home"]) {
        await new FloorWriter(store, id).write({ usage: [usageOf({ tokens: 4 }), usageOf({ day: TODAY - 1 })] });
      }
      const before = await listed();
      expect(await prune({ day: 0, sumDay: TODAY + 1, time: 0 }, 2)).toBe(true);
      while (await prune({ day: 0, sumDay: TODAY + 1, time: 0 }, 2)) {}
      expect(await listed()).toEqual(before);
      // A late commit of that day.
      await new FloorWriter(store, "u:late").write({ usage: [usageOf({ tokens: 1 })] });
      expect(await listed()).toEqual([usageOf({ runs: 4, tokens: 13 }), before[1]]);
      await prune({ day: TODAY, sumDay: TODAY, time: 0 });
      expect(await listed()).toEqual([usageOf({ runs: 4, tokens: 13 })]);
    });

    test("and budgets of a user are forgotten with it", async () => {
      const { store, floor } = stage;
      await floor.write({ usage: [usageOf(), usageOf({ ownerId: "bob" })], budgets: [counted({ max: 1 })] });
      await store.forgetUser("ann");
      expect(await listed()).toEqual([usageOf({ ownerId: "bob" })]);
      expect(await floor.write({ budgets: [counted({ max: 1 })] })).toBe("committed");
    });
  });
}

export function budgetLifeContract(stage: StoreStage): void {
  test("usage, and what budgets have counted, survive closing the store", async () => {
    const { floor } = stage;
    await floor.write({ usage: [usageOf({ tokens: 7 })], budgets: [counted({ max: 1 })] });
    const store = await stage.reopen();
    floor.continueIn(store);
    expect((await store.listUsage({ from: 0, to: TODAY, limit: 9 })).usage).toEqual([usageOf({ tokens: 7 })]);
    expect(await floor.write({ budgets: [counted({ max: 1 })] })).toEqual({
      over: [{ scope: "runs of ann", room: 0, freeAt: NOON + HOUR }],
    });
  });
}
