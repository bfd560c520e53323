/** Which groups of agents it matters in which order they ask, found without playing each of them. */
import fc from "fast-check";
import { afterEach, expect, test, vi } from "vitest";
import type * as Arbitration from "../../../src/actors/floor/arbitration.ts";
import { findOrderRisks, whyOrderUnchecked } from "../../../src/cli/check/order-risks.ts";
import type { Catalog } from "../../../src/config/catalog/catalog.ts";
import { makeCatalog } from "../../support/catalogs/catalog.ts";

const counted = vi.hoisted(() => ({ decisions: 0 }));
vi.mock("../../../src/actors/floor/arbitration.ts", async (load) => {
  const real = await load<typeof Arbitration>();
  const decide: typeof real.decide = (...given) => {
    counted.decisions += 1;
    return real.decide(...given);
  };
  return { ...real, decide };
});

afterEach(() => {
  counted.decisions = 0;
});

const NAMES = ["a", "b", "c", "d", "e"];
const names = fc.subarray(NAMES, { maxLength: 2 });
const levels = fc.dictionary(fc.constantFrom(...NAMES, "all"), fc.constantFrom(-20, 0, "pause"), { maxKeys: 3 });
/** Of an agent that can be ducked, and of one that cannot. */
const blocked = [["reject"], ["queue"], ["duck"], ["duck", "queue"], ["queue", "duck"]];
const settings = fc.record({
  priority: fc.constantFrom(10, 20, 21, 50),
  interruptible: fc.boolean(),
  preemption_threshold: fc.option(fc.constantFrom(15, 20, 50), { nil: undefined }),
  when_preempted: fc.constantFrom("duck", "pause"),
  resume: fc.constantFrom("auto", "manual"),
  beneath: fc.oneof(levels, fc.constant({})),
  yields_to: names,
  replaces: names,
  blocked: fc.nat(4),
});
type Settings = typeof settings extends fc.Arbitrary<infer T> ? T : never;
const KEYS = Object.keys(fc.sample(settings, 1)[0]!) as (keyof Settings)[];
const different = fc.record({ key: fc.constantFrom(...KEYS), other: settings });

function agentOf(name: string, { blocked: way, preemption_threshold, ...each }: Settings): object {
  const whenBlocked = blocked[each.when_preempted === "duck" ? way : way % 2];
  return { name, ...each, when_blocked: whenBlocked, ...(!each.interruptible && { preemption_threshold }) };
}

/** Of two such agents with other priorities, one is refused or both are heard. */
const COMMON: Settings = {
  priority: 20,
  interruptible: true,
  preemption_threshold: undefined,
  when_preempted: "duck",
  resume: "auto",
  beneath: { all: -20 },
  yields_to: [],
  replaces: [],
  blocked: 0,
};

/** Agents that differ in a few keys, so that many groups are nearly alike. */
const catalogs = fc
  .record({
    differences: fc.tuple(...NAMES.map(() => fc.array(different, { minLength: 1, maxLength: 3 }))),
    firm: fc.constantFrom({}, { interruptible: false, preemption_threshold: 20 }),
    ties: fc.constantFrom("reject", "newest"),
  })
  .map(({ differences, firm, ties }) => {
    const agents = differences.map((own, index) => {
      const changes = Object.fromEntries(own.map(({ key, other }) => [key, other[key]]));
      return agentOf(NAMES[index]!, { ...COMMON, ...firm, ...changes });
    });
    return makeCatalog(agents as Record<string, unknown>[], { policy: { ties, max_paused: 2 } });
  });

/** The same catalogue without the other agents. */
const onlyOf = (catalog: Catalog, ids: readonly string[]): Catalog => ({
  ...catalog,
  agents: new Map([...catalog.agents].filter(([id]) => ids.includes(id))),
});

test("a group has the risks that it has by itself", () => {
  let count = 0;
  fc.assert(
    fc.property(catalogs, (catalog) => {
      const pairs = NAMES.flatMap((one, at) => NAMES.slice(at + 1).map((other) => [one, other]));
      const triples = NAMES.flatMap((one, at) =>
        pairs.filter(([two]) => NAMES.indexOf(two!) > at).map((others) => [one, ...others]),
      );
      const alone = [...pairs, ...triples].flatMap((ids) => findOrderRisks(onlyOf(catalog, ids)));
      const all = findOrderRisks(catalog);
      count += all.length;
      expect(new Set(all)).toEqual(new Set(alone));
      expect(all).toHaveLength(new Set(all).size);
    }),
    { numRuns: 200, seed: 1 },
  );
  expect(count).toBeGreaterThan(75);
});

const shared = (count: number) =>
  makeCatalog(
    Array.from({ length: count }, (_, index) => ({
      name: `agent${index}`,
      priority: index % 101,
      interruptible: index % 3 > 0,
      when_preempted: "duck",
      when_blocked: index % 2 > 0 ? "duck" : "reject",
      beneath: { all: -(index % 20) },
    })),
  );

test("a thousand agents take few decisions, and what is not checked of them is said", () => {
  const risks = findOrderRisks(shared(1_000));
  expect(risks.length).toBeGreaterThan(1_000);
  expect(counted.decisions).toBeLessThan(10_000);
  expect(whyOrderUnchecked(shared(100))).toBeUndefined();
  expect(whyOrderUnchecked(shared(101))).toBe(
    "whether it matters in which order three agents ask: 101 agents are enabled, and that is checked of at most 100; of " +
      "two agents it was checked",
  );
});
