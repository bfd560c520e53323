import fc from "fast-check";
import { expect, test } from "vitest";
import { clockZoneAfter, firstClockZone, passagesFrom } from "../../../src/policy/clock-zone.ts";
import { firstFloor } from "../../../src/policy/exploration.ts";
import {
  type Bounds,
  type Constraint,
  choose,
  forgetLong,
  includes,
  isAmong,
  ONLY_NOW,
  project,
  tighten,
  withMoment,
} from "../../../src/policy/moments.ts";
import { makeCatalog } from "../../support/catalogs/catalog.ts";

const MOST = 6;
const three = withMoment(withMoment(ONLY_NOW));

const constraint: fc.Arbitrary<Constraint> = fc.record({
  later: fc.nat(2),
  earlier: fc.nat(2),
  most: fc.integer({ min: -4, max: 4 }),
  isStrict: fc.boolean(),
});
const constraints = fc
  .array(constraint, { maxLength: 6 })
  .map((all) => all.filter(({ later, earlier }) => later !== earlier));

/** Every choice of three moments in steps of a quarter, the first at 0. */
function* allMoments() {
  for (let one = -MOST; one <= MOST; one += 0.25) for (let two = -MOST; two <= MOST; two += 0.25) yield [0, one, two];
}

const meets = (values: readonly number[], all: readonly Constraint[]) =>
  all.every(({ later, earlier, most, isStrict }) => {
    const difference = values[later]! - values[earlier]!;
    return isStrict ? difference < most : difference <= most;
  });

test("a set has exactly the moments that meet its constraints", () => {
  fc.assert(
    fc.property(constraints, (all) => {
      const bounds = tighten(three, all);
      for (const values of allMoments())
        expect(bounds !== undefined && isAmong(values, bounds)).toBe(meets(values, all));
    }),
    { numRuns: 60 },
  );
});

test("a choice is one of the set, and its moments differ if they may", () => {
  fc.assert(
    fc.property(constraints, (all) => {
      const bounds = tighten(three, all);
      if (!bounds) return;
      const values = choose(bounds, 100);
      expect(meets(values, all)).toBe(true);
      for (const [i, j] of [
        [0, 1],
        [0, 2],
        [1, 2],
      ] as const) {
        const isSame = bounds[i]![j] === 0 && bounds[j]![i] === 0;
        expect(values[i] === values[j]).toBe(isSame);
      }
    }),
  );
});

test("a set includes another if and only if it has all of its moments", () => {
  const isWithin = (some: Bounds, all: Bounds) =>
    [...allMoments()].every((each) => !isAmong(each, some) || isAmong(each, all));
  fc.assert(
    fc.property(constraints, constraints, (one, more) => {
      const all = tighten(three, one);
      const some = all && tighten(all, more);
      if (!all || !some) return;
      expect(includes(all, some)).toBe(true);
      if (includes(some, all)) expect(isWithin(all, some)).toBe(true);
    }),
    { numRuns: 60 },
  );
});

test("what is longer ago than anything is compared with is forgotten, and nothing else", () => {
  const all = tighten(withMoment(ONLY_NOW), [
    { later: 1, earlier: 0, most: 50 },
    { later: 0, earlier: 1, most: -40 },
  ])!;
  expect(forgetLong(all, [60, 0])).toEqual(all);
  const forgotten = forgetLong(all, [10, 0]);
  expect(isAmong([0, 1_000], forgotten)).toBe(true);
  expect(isAmong([0, 10], forgotten)).toBe(false);
  expect(project(forgotten, [0])).toEqual(ONLY_NOW);
});

test("moments that may differ are chosen unlike each other, also where one follows from another", () => {
  // The first is 500 ms ago; the second, chosen before it, would be half-way between now and a second ago.
  const all = [
    { later: 2, earlier: 0, most: 500 },
    { later: 0, earlier: 2, most: -500 },
    { later: 2, earlier: 1, most: 1_000 },
    { later: 1, earlier: 2, most: 0 },
  ];
  const bounds = tighten(three, all)!;
  const chosen = choose(bounds, 5_000);
  expect([chosen[0], isAmong(chosen, bounds), new Set(chosen).size]).toEqual([4_500, true, 3]);
});

test("however much happens before a deadline, none of it happens after it", () => {
  const floor = firstFloor(makeCatalog([{ name: "call", priority: 90, max_hold: "5s" }]));
  floor.create("call", "call");
  let zone = firstClockZone(firstFloor(floor.catalog));
  const [passage] = passagesFrom(zone, 1);
  zone = clockZoneAfter(zone, passage!, floor, 1);
  for (let step = 2; step < 150; step++) {
    const next = passagesFrom(zone, step).find(({ happens }) => happens === "anything")!;
    const after = next.floor.copy();
    after.send({ type: "floor.patch_flags", flags: { reverse: step % 2 === 0 } });
    expect(after.nextDue()! - after.time).toBeGreaterThan(0);
    zone = clockZoneAfter(zone, next, after, step);
  }
});
