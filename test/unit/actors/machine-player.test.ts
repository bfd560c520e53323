/** What the player refuses. `machine-floor.property.test.ts` compares what it plays with XState. */

import { expect, test } from "vitest";
import { and, assign, createMachine } from "xstate";
import { MachinePlayer } from "../../../src/actors/machine/machine-player.ts";

interface Counted {
  n: number;
}
const add = Object.assign(() => {}, { stepOf: ({ n }: Counted) => ({ context: { n: n + 1 } }) });
const fall = Object.assign(() => {}, {
  stepOf: () => {
    throw new Error("it fell");
  },
});

/** A player of a machine with one region. */
function playerOf(A: object, more: { root?: object; region?: object } = {}) {
  const region = { initial: "A", states: { A, B: {} }, ...more.region };
  const config = { id: "m", type: "parallel", context: () => ({ n: 0 }), states: { r: region }, ...more.root };
  const machine = createMachine(config as never).provide({
    guards: { isEven: () => true, isBoth: and(["isEven"]) },
    actions: { add, fall, keep: assign({}), plain: () => {} },
  } as never);
  return new MachinePlayer<typeof machine, { context: never }>(machine as never);
}

test("the player returns the same state object when an event changes nothing", () => {
  const player = playerOf({});
  const state = player.restore({ r: "A" }, { n: 0 } as never);
  expect(player.step(state, { type: "go" }).state).toBe(state);
});

test("the player does not restore a state that the machine lacks", () => {
  const player = playerOf({});
  for (const value of ["B", { A: "B" }, { r: "C" }, {}, null, undefined, 1]) {
    expect(() => player.restore(value, { n: 0 } as never)).toThrow(/^machine m has no state /);
  }
});

test("the player leaves its input unchanged when an action throws, and continues", () => {
  const player = playerOf({ on: { fall: { actions: ["add", "fall"] }, go: { actions: "add" } } });
  const state = player.restore({ r: "A" }, { n: 0 } as never);
  expect(() => player.step(state, { type: "fall" })).toThrow("it fell");
  expect(player.step(state, { type: "go" }).state.context).toEqual({ n: 1 });
});

test("the player stops endless always-transitions with an error", () => {
  const states = { A: { on: { go: "B" } }, B: { always: "C" }, C: { always: "B" } };
  const player = playerOf({}, { region: { states } });
  const state = player.restore({ r: "A" }, { n: 0 } as never);
  expect(() => player.step(state, { type: "go" })).toThrow('machine m takes more than 100 "always" steps after go');
});

const on = (go: object | string) => ({ on: { go } });
test.each<[refused: string, state: object, more?: Parameters<typeof playerOf>[1]]>([
  ["after", { after: { 10: "B" } }],
  ["invoke", { invoke: { src: "work" } }],
  ["initial", { initial: "x", states: { x: {} } }],
  ["entry", { entry: "add" }],
  ["type", { type: "final" }],
  ["onDone", {}, { region: { onDone: { actions: "add" } } }],
  ["always", {}, { root: { always: { actions: "add" } } }],
  ["on", {}, { region: { on: { go: ".B" } } }],
  ["reenter", on({ target: "A", reenter: true })],
  ["the target #m", on("#m")],
  ["the target A,B", on({ target: ["A", "B"] })],
  ["the target .r", {}, { root: on(".r") }],
  ["the event go.*", { on: { "go.*": { actions: "add" } } }],
  ["the guard isBoth", on({ guard: "isBoth" })],
  ["the guard isNowhere", on({ guard: "isNowhere" })],
  ["a guard without a name", on({ guard: () => true })],
  ["the guard isEven", on({ guard: { type: "isEven", params: () => ({}) } })],
  ["a action without a name", on({ actions: () => {} })],
  ["the action keep", on({ actions: "keep" })],
  ["the action plain", on({ actions: "plain" })],
  ["the action nothing", on({ actions: "nothing" })],
])("the player refuses by name: %s", (refused, state, more) => {
  expect(() => playerOf(state, more)).toThrow(`m: the player does not support ${refused}`);
});
