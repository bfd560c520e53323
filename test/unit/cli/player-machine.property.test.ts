import fc from "fast-check";
import { expect, test } from "vitest";
import { isHeardIn, type Others, PlayerWorld } from "../../support/desktops/player-world.ts";

type Deed = (world: PlayerWorld) => void;

/** Everything that may happen, each with its name for a counterexample. */
const DEEDS: Record<string, Deed> = {
  ...each(["request", "answer", "stream", "order", "report"] as const, (kind) => (world) => void world.deliver(kind)),
  ...each(["playing", "paused", "stopped"] as const, (playback) => (world) => world.press(playback)),
  ...each(["nobody", "prompt", "call", "refusing"] as const, (others) => (world) => world.setOthers(others)),
  ...each(["order is old", "try again", "stayed stopped"] as const, (timer) => (world) => world.wait(timer)),
  "the answer is lost": (world) => world.loseAnswer(),
  "the lease lapses": (world) => world.lapse(),
  "somebody moves the session": (world) => world.move(),
  "somebody ends the session": (world) => world.archive(),
  "the store is lost": (world) => world.lose(),
  "the node has faults": (world) => world.fault(true),
  "the node has none": (world) => world.fault(false),
  "the bridge is killed": (world) => world.restart(),
};

function each<Name extends string>(names: readonly Name[], deed: (name: Name) => Deed): Record<string, Deed> {
  return Object.fromEntries(names.map((name) => [name, deed(name)]));
}

const anyDeeds = fc.array(fc.constantFrom(...Object.keys(DEEDS)), { maxLength: 60, size: "max" });
/** A run takes some 20 µs. */
const RUNS = { numRuns: 3_000 };

/** What may happen, in any order; then everything that is under way arrives. */
function play(deeds: readonly string[]): PlayerWorld {
  const world = new PlayerWorld();
  for (const deed of deeds) DEEDS[deed]!(world);
  world.settle();
  return world;
}

const isHeldBack = ({ state }: { state: string }): boolean => !/^(active|ducked)$/.test(state);

test("only a decision pauses a player: the newest state of its session, or a refusal", () => {
  fc.assert(
    fc.property(anyDeeds, (deeds) => {
      for (const { before, event, after, actions } of play(deeds).steps) {
        if (!actions.some((action) => action.type === "order" && action.to === "paused")) continue;
        const known = event.type === "known" ? event.known : (after.known ?? before.known);
        expect(event.type === "refused" || (known && isHeldBack(known)), JSON.stringify(event)).toBe(true);
      }
    }),
    RUNS,
  );
});

const history = (deeds: string): string[] => deeds.split(",");
/** An archive fails whose session has moved. */
const UNARCHIVED = history(
  "playing,report,call,request,paused,playing,report,the node has faults,somebody moves the session,answer,report,request,stream",
);
/** An order to play reaches a player whose session was ended. */
const STOPPED = history("playing,report,call,request,stopped,nobody,answer,stream,report,stayed stopped");
/** Somebody moves a session that its user has paused. */
const RESTING = history(
  "playing,report,paused,request,the lease lapses,answer,the bridge is killed,somebody moves the session,refusing",
);
/** It moves while an order to play is on its way behind one to pause. */
const MOVED = history("playing,call,report,request,answer,nobody,somebody moves the session,stream,call");

test("when everything has arrived, a player plays exactly if its session is heard, and has one session at most", () => {
  fc.assert(
    fc.property(anyDeeds, (deeds) => {
      const world = play(deeds);
      const { machine, session } = world;
      expect(machine.request).toBeUndefined();
      expect(world.playback === "playing").toBe(isHeardIn(world));
      if (session && session.state !== "archived") expect(machine.sessionId).toBe(session.id);
    }),
    {
      ...RUNS,
      examples: [[[...MOVED, "somebody ends the session", "stream"]], [UNARCHIVED], [STOPPED]],
    },
  );
});

test("what the bridge has paused comes back when nobody else is on the floor, and what its user has paused does not", () => {
  fc.assert(
    fc.property(anyDeeds, fc.constantFrom<Others>("nobody", "prompt"), (deeds, others) => {
      const world = play(deeds);
      const wasPaused = world.playback === "paused";
      const { isPausedHere, phase } = world.machine;
      world.setOthers(others);
      world.settle();
      if (isPausedHere) expect([world.playback, isHeardIn(world)]).toEqual(["playing", true]);
      if (wasPaused && phase === "resting") expect(world.playback).toBe("paused");
    }),
    {
      ...RUNS,
      examples: [
        [[...MOVED, "stream"], "nobody"],
        [RESTING, "nobody"],
      ],
    },
  );
});

test("of a player that is gone nothing is left", () => {
  fc.assert(
    fc.property(anyDeeds, (deeds) => {
      const world = play(deeds);
      world.step({ type: "reported", playback: "gone" });
      world.settle();
      expect(world.machine).toMatchObject({ phase: "over", sessionId: undefined, isPausedHere: false });
      expect(world.session?.state ?? "archived").toBe("archived");
    }),
    RUNS,
  );
});
