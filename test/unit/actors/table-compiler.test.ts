/** Generated machines of the features that the table supports, compared with the same machines run by XState. */

import fc from "fast-check";
import { expect, test } from "vitest";
import {
  type AnyStateMachine,
  and,
  assign,
  createActor,
  createMachine,
  enqueueActions,
  type InspectionEvent,
  setup,
  stateIn,
} from "xstate";
import { MachinePlayer, type MachineState } from "../../../src/actors/machine/machine-player.ts";
import { type Effect, MachineTable } from "../../../src/actors/machine/table-compiler.ts";

interface Counted {
  n: number;
}
interface Said {
  type: "said";
  word: string;
  n: number;
}
type Counting = Effect<Counted> & { said?: Said };

/** An action with its effect for the table, which XState carries out. */
function does<P extends { word: string } | undefined = undefined>(
  effectOf: (context: Counted, event: { type: string }, params: P) => Counting,
) {
  const forXstate = enqueueActions<Counted, { type: string }, P, { type: string }, never, never, never, never, Said>(
    ({ context, event, enqueue }, params) => {
      const { context: after, said } = effectOf(context, event, params);
      if (after !== context) enqueue.assign(after);
      if (said) enqueue.emit(said);
    },
  );
  return Object.assign(forXstate, { effectOf });
}
const add = does(({ n }) => ({ context: { n: n + 1 } }));

const kit = setup({
  types: {
    context: {} as Counted,
    events: {} as { type: string },
    emitted: {} as Said,
  },
  guards: {
    isEven: ({ context }) => context.n % 2 === 0,
    isBelow: ({ context }, limit: { n: number }) => context.n < limit.n,
    isAt: ({ context }, place: { n: number }) => context.n === place.n,
  },
  actions: {
    add,
    say: does((context, _, { word }: { word: string }) => ({ context, said: { type: "said", word, n: context.n } })),
    addAndSay: does(({ n }, { type }) => ({
      context: { n: n + 10 },
      said: { type: "said", word: `before ${type}`, n },
    })),
  },
});

const EVENTS = ["go", "group.one", "group.one.two", "group", "other", "stray"];
const STATES = ["A", "B", "C"];

const guard = fc.constantFrom(undefined, undefined, "isEven", { type: "isBelow", params: { n: 7 } });
const actions = fc.array(
  fc.oneof(
    fc.constantFrom("add", "addAndSay"),
    fc.constantFrom("one", "two").map((word) => ({ type: "say", params: { word } })),
  ),
  { maxLength: 2 },
);
const transitionIn = (region: string) =>
  fc.record({
    target: fc.option(
      fc.constantFrom(...STATES).map((name) => `#${region}.${name}`),
      { nil: undefined },
    ),
    guard,
    actions,
  });
const on = (region: string) =>
  fc.dictionary(
    fc.constantFrom("go", "group.one", "group.*", "group.one.*", "*", "other"),
    fc.array(transitionIn(region), { minLength: 1, maxLength: 2 }),
    { maxKeys: 3 },
  );
/** Each transition is enabled at one count and increases it, so the machine terminates. */
const always = (region: string) =>
  fc.option(
    fc.tuple(fc.constantFrom(...STATES), fc.nat({ max: 30 })).map(([name, n]) => ({
      target: `#${region}.${name}`,
      guard: { type: "isAt", params: { n } },
      actions: "add",
    })),
    { nil: undefined },
  );
const state = (region: string) => fc.record({ on: on(region), always: always(region) });
const region = (name: string) =>
  fc
    .record({ A: state(name), B: state(name), C: state(name), initial: fc.constantFrom(...STATES) })
    .map(({ initial, ...states }) => ({ id: name, initial, states }));
const machineConfig = fc.record({
  regions: fc.tuple(region("r0"), region("r1")),
  whole: fc.dictionary(
    fc.constantFrom("go", "other", "*"),
    fc.array(fc.record({ guard, actions }), { minLength: 1, maxLength: 2 }),
    { maxKeys: 2 },
  ),
  hasRegions: fc.boolean(),
});

function build({ regions, whole, hasRegions }: typeof machineConfig extends fc.Arbitrary<infer C> ? C : never) {
  const [r0, r1] = regions;
  const config = hasRegions ? { type: "parallel", states: { r0, r1 } } : r0;
  return kit.createMachine({ id: "m", context: { n: 0 }, on: whole, ...config } as never) as unknown as AnyStateMachine;
}

/** XState's reaction to events, one entry per event and one for the start. */
function byXstate(machine: AnyStateMachine, events: readonly string[]): unknown[] {
  let said: unknown[] = [];
  const inspect = (event: InspectionEvent) => {
    if (event.type === "@xstate.action" && event.action.type === "xstate.emit") {
      said.push((event.action.params as { event: unknown }).event);
    }
  };
  const actor = createActor(machine, { inspect });
  actor.start();
  const seen = () => {
    const { value, context } = actor.getSnapshot();
    const entry = { value, context, said };
    said = [];
    return entry;
  };
  return [
    seen(),
    ...events.map((type) => {
      actor.send({ type });
      return seen();
    }),
  ];
}

function byTable(machine: AnyStateMachine, events: readonly string[]): unknown[] {
  const player = new MachinePlayer<typeof machine, Counting>(machine);
  let { state, effects } = player.start(undefined as never);
  const seen = () => {
    const said = effects.flatMap((effect) => effect.said ?? []);
    return { value: state.at.value, context: state.context, said };
  };
  return [
    seen(),
    ...events.map((type) => {
      // The snapshot after a round trip through a row.
      const restored = player.restore(JSON.parse(JSON.stringify(state.at.value)), state.context) as MachineState<never>;
      expect(restored.at).toBe(state.at);
      ({ state, effects } = player.step(restored, { type } as never));
      return seen();
    }),
  ];
}

test("a machine run by its table equals XState in states, context and emitted events, for any machine and events", () => {
  let moves = 0;
  const play = (config: Parameters<typeof build>[0], events: string[]) => {
    const machine = build(config);
    const wanted = byXstate(machine, events);
    expect(byTable(machine, events)).toEqual(wanted);
    moves += new Set(wanted.map((entry) => JSON.stringify(entry))).size - 1;
  };
  const history = fc.array(fc.constantFrom(...EVENTS), { minLength: 1, maxLength: 12 });
  fc.assert(fc.property(machineConfig, history, play), { numRuns: 200 });
  // Machines without transitions would agree on everything.
  expect(moves).toBeGreaterThan(400);
});

const LONE = kit.createMachine({ id: "m", context: { n: 0 }, initial: "A", states: { A: {} } });

test("a machine's table returns the same state object when an event changes nothing", () => {
  const player = new MachinePlayer(LONE);
  const { state } = player.start(undefined as never);
  expect(player.step(state, { type: "go" }).state).toBe(state);
});

test("a machine's table does not restore a state that the machine lacks", () => {
  const player = new MachinePlayer(LONE);
  for (const value of ["B", { A: "B" }, {}, null, undefined, 1]) {
    expect(() => player.restore(value, { n: 0 })).toThrow(/^machine m has no state /);
  }
});

test("a machine's table leaves its input unchanged when an action throws, and continues", () => {
  const machine = setup({
    types: { context: {} as Counted, events: {} as { type: string }, emitted: {} as Said },
    actions: {
      fall: does(() => {
        throw new Error("it fell");
      }),
      add,
    },
  }).createMachine({
    ...{ context: { n: 0 }, on: { fall: { actions: "fall" }, go: { actions: "add" } } },
    ...{ initial: "A", states: { A: {} } },
  });
  const player = new MachinePlayer(machine);
  const { state } = player.start(undefined as never);
  expect(() => player.step(state, { type: "fall" })).toThrow("it fell");
  expect(player.step(state, { type: "go" }).state.context).toEqual({ n: 1 });
});

test("a machine's table stops endless always-transitions with an error", () => {
  const machine = kit.createMachine({
    id: "m",
    context: { n: 0 },
    initial: "A",
    states: { A: { on: { go: "B" } }, B: { always: { target: "C" } }, C: { always: { target: "B" } } },
  });
  const player = new MachinePlayer(machine);
  const { state } = player.start(undefined as never);
  expect(() => player.step(state, { type: "go" })).toThrow('machine m takes more than 100 "always" steps after go');
});

const one = (state: object) => ({ initial: "A", states: { A: state, B: {} } });
test.each<[place: string, feature: string, config: object]>([
  ["m.A", "after", one({ after: { 10: "B" } })],
  ["m.A", "invoke", one({ invoke: { src: "work" } })],
  ["m.A", "substates", one({ initial: "x", states: { x: {} } })],
  ["m.A", "entry", one({ entry: "add" })],
  ["m.A", "exit", one({ exit: "add" })],
  ["m.r", "onDone", { type: "parallel", states: { r: { ...one({}), onDone: { actions: "add" } } } }],
  ["m.A", "a final state", one({ type: "final" })],
  ["m.A", "a history state", one({ type: "history" })],
  ["m.A", "substates", one({ type: "parallel", states: { x: one({}) } })],
  ["m", "always over several states", { type: "parallel", always: {}, states: { r: one({}) } }],
  ["m", "always over several states", { ...one({}), always: { target: ".B" } }],
  ["m.r", "events of a region", { type: "parallel", states: { r: { ...one({}), on: { go: ".B" } } } }],
  ["m", "a region without states", {}],
  ["m.r", "a region without states", { type: "parallel", states: { r: {} } }],
  ["m.r", "a region without states", { type: "parallel", states: { r: { type: "parallel", states: { x: {} } } } }],
  ["m", "actions of initial", { ...one({}), initial: { target: "A", actions: "add" } }],
  ["m.A", "an unnamed guard", one({ on: { go: { guard: () => true } } })],
  ["m.A", "the guard isBoth, which is one of XState's own", one({ on: { go: { guard: "isBoth" } } })],
  ["m.A", "the guard isInB, which is one of XState's own", one({ on: { go: { guard: "isInB" } } })],
  ["m.A", "the guard isNowhere, which is not implemented", one({ on: { go: { guard: "isNowhere" } } })],
  [
    "m.A",
    "computed params of the guard isEven",
    one({ on: { go: { guard: { type: "isEven", params: () => ({}) } } } }),
  ],
  ["m.A", "an unnamed action", one({ on: { go: { actions: () => {} } } })],
  ["m.A", "the action keep, which has no effectOf", one({ on: { go: { actions: "keep" } } })],
  ["m.A", "the action plain, which has no effectOf", one({ on: { go: { actions: "plain" } } })],
  ["m.A", "the action nothing, which is not implemented", one({ on: { go: { actions: "nothing" } } })],
  ["m.A", "a transition that reenters", one({ on: { go: { target: "A", reenter: true } } })],
  [
    "m.r.A",
    "a transition that leaves its region",
    { type: "parallel", states: { r: one({ on: { go: "#m.q.B" } }), q: one({}) } },
  ],
  ["m", "a transition that leaves its region", { type: "parallel", on: { go: "#m.r.B" }, states: { r: one({}) } }],
  ["m.A", "a transition that leaves its region", one({ on: { go: "#m" } })],
  ["m", "a transition that leaves its region", { ...one({}), on: { go: "#m" } }],
  ["m.A", "a transition with several targets", one({ on: { go: { target: ["#m.A", "#m.B"] } } })],
])("a machine's table refuses by name: %s: the table does not support %s", (place, feature, config) => {
  const machine = createMachine({ id: "m", ...config } as never).provide({
    guards: { isEven: () => true, isBoth: and(["isEven"]), isInB: stateIn("B") },
    actions: { add, keep: assign({}), plain: () => {} },
  } as never);
  expect(() => new MachineTable(machine)).toThrow(`${place}: the table does not support ${feature}`);
});

test("an unsupported feature is also found where only a wildcard leads to it", () => {
  const machine = createMachine({ id: "m", initial: "A", states: { A: { on: { "*": { actions: "nothing" } } } } });
  expect(() => new MachineTable(machine)).toThrow("the action nothing, which is not implemented");
});

test("a machine with more states than a table may have is refused", () => {
  const states = Object.fromEntries(Array.from({ length: 17 }, (_, n) => [`s${n}`, {}]));
  const region = { initial: "s0", states };
  const machine = createMachine({ id: "m", type: "parallel", states: { a: region, b: region, c: region } });
  expect(() => new MachineTable(machine)).toThrow("m: the table does not support machines with more than 4096 states");
});
