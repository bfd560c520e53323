import { expect, test } from "vitest";
import {
  type KnownState,
  newPlayerMachine,
  type PlayerAction,
  type PlayerEvent,
  type PlayerMachine,
  stepPlayer,
} from "../../../src/cli/playing/player-machine.ts";
import { PlayerWorld } from "../../support/desktops/player-world.ts";

/** What the machine has done since the first `from` steps. */
const actionsOf = (world: PlayerWorld, from = 0) => world.steps.slice(from).flatMap(({ actions }) => actions);
const ordersOf = (world: PlayerWorld, from = 0) =>
  actionsOf(world, from).flatMap((action) => (action.type === "order" ? action.to : []));

/** A player that was started in a call, and waits. */
function waiting(): PlayerWorld {
  const world = new PlayerWorld();
  world.setOthers("call");
  world.press("playing");
  world.settle();
  expect([world.machine.phase, world.playback, world.session?.isWaiting]).toEqual(["held", "paused", true]);
  return world;
}

test("play on a player that waits says again what it waits for, and keeps its place", () => {
  const world = waiting();
  const from = world.steps.length;
  world.press("playing");
  world.settle();
  expect(actionsOf(world, from)).toContainEqual({ type: "deny", say: "because" });
  expect(ordersOf(world, from)).toEqual(["paused"]);
  world.setOthers("nobody");
  world.settle();
  expect(world.playback).toBe("playing");
});

test("a player whose session is moved to another floor goes on as the session there, and asks for no other", () => {
  const world = new PlayerWorld();
  world.press("playing");
  world.settle();
  const from = world.steps.length;
  world.move();
  world.settle();
  const { id } = world.session!;
  expect([world.machine.sessionId, world.playback, ordersOf(world, from)]).toEqual([id, "playing", []]);
  expect(actionsOf(world, from).filter(({ type }) => type === "request")).toEqual([]);
  world.press("paused");
  world.settle();
  expect([world.machine.phase, world.session]).toMatchObject(["resting", { id, state: "paused" }]);
});

test("pause takes a player that waits out of the queue, and it stays paused when the call ends", () => {
  const world = waiting();
  world.step({ type: "reported", playback: "paused", isRepeat: true });
  world.settle();
  world.setOthers("nobody");
  world.settle();
  expect([world.machine.phase, world.playback]).toEqual(["away", "paused"]);
});

test("a second report of the pause that the floor ordered takes it out of nothing", () => {
  const world = new PlayerWorld();
  world.press("playing");
  world.settle();
  world.setOthers("call");
  while (world.deliver("stream") || world.deliver("order") || world.deliver("report"));
  world.step({ type: "reported", playback: "paused", isRepeat: true });
  world.setOthers("nobody");
  world.settle();
  expect(world.playback).toBe("playing");
});

test("a bridge that is killed during a prompt, and started again, orders nothing and asks for nothing", () => {
  const world = new PlayerWorld();
  world.press("playing");
  world.setOthers("prompt");
  world.settle();
  const from = world.steps.length;
  world.restart();
  world.settle();
  expect(actionsOf(world, from).filter(({ type }) => type === "order" || type === "request")).toEqual([]);
  expect(world.machine.phase).toBe("heard");
});

test("a bridge that ends leaves the next one word of what it paused, and ends its session", () => {
  const world = waiting();
  world.step({ type: "left" });
  world.settle();
  expect(world.session?.state ?? "archived").toBe("archived");
  world.restart();
  world.setOthers("nobody");
  world.settle();
  expect([world.playback, world.machine.phase]).toEqual(["playing", "heard"]);
});

test("while the node has faults a player goes on as its user left it, and takes part again afterwards", () => {
  const world = new PlayerWorld();
  const phases: PlayerMachine["phase"][] = [];
  world.fault(true);
  world.press("playing");
  for (let rounds = 0; rounds < 3; rounds += 1) {
    while (world.deliver("report") || world.deliver("request") || world.deliver("answer"));
    phases.push(world.machine.phase);
    world.wait("try again");
  }
  expect([phases, ordersOf(world), world.playback]).toEqual([["asking", "asking", "asking"], [], "playing"]);
  world.settle();
  expect(world.machine.phase).toBe("heard");
});

test("a player that was granted the floor and silenced before it heard so is not told that it may not play", () => {
  const known = (seq: number, state: "active" | "paused", cause: string): KnownState => ({
    ...{ epoch: "e", seq, state, level: 0, cause },
  });
  const events: PlayerEvent[] = [
    { type: "reported", playback: "playing" },
    { type: "answered", sessionId: "s", known: known(1, "active", ""), say: "Music starts." },
    { type: "reported", playback: "paused" },
    { type: "answered", sessionId: "s", known: known(2, "paused", ""), say: "" },
    { type: "reported", playback: "playing" },
    // Its resume is granted, and a call comes: the stream is faster than the answer.
    { type: "known", known: known(4, "paused", "preempted by phone_agent") },
    { type: "answered", sessionId: "s", known: known(3, "active", ""), say: "Music starts." },
  ];
  let machine = newPlayerMachine();
  let actions: readonly PlayerAction[] = [];
  for (const event of events) [machine, actions] = stepPlayer(machine, event);
  expect(machine.phase).toBe("held");
  expect(actions).toContainEqual({ type: "show", state: "paused", level: 0, cause: "preempted by phone_agent" });
  expect(actions.map(({ type }) => type)).not.toContain("deny");
});
