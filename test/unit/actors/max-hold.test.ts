import { describe, expect, test } from "vitest";
import type { Fact } from "../../../src/actors/facts.ts";
import { makeCatalog } from "../../support/catalogs/catalog.ts";
import { FloorStage } from "../../support/floors/floor-stage.ts";

const CATALOG = makeCatalog([
  { name: "prompt", priority: 80, max_hold: "20s", beneath: { all: -14 }, when_preempted: "duck" },
  { name: "call", priority: 90, beneath: { prompt: 0 } },
  { name: "music", priority: 20, when_preempted: "duck" },
]);

/** The pending timers, the newest last. */
function timersOf(facts: readonly Fact[]): { id: string; dueAt: number }[] {
  const standing = new Map<string, { id: string; dueAt: number }>();
  for (const fact of facts) {
    if (fact.type === "effect.add" && fact.effect.kind === "timer") standing.set(fact.effect.id, fact.effect);
    if (fact.type === "effect.remove") standing.delete(fact.id);
  }
  return [...standing.values()];
}

function begin() {
  const stage = new FloorStage(CATALOG);
  stage.create("music");
  stage.create("prompt");
  const [timer] = timersOf(stage.facts);
  const fire = (timerId = timer!.id) => {
    stage.now = Math.max(stage.now, timer!.dueAt);
    return stage.ask({ type: "timer", timerId, sessionId: "prompt" });
  };
  return { stage, timer: timer!, fire };
}

describe("max_hold", () => {
  test("a holder yields after max_hold, and the next session gets the floor", () => {
    const { stage, timer, fire } = begin();
    expect(timer.dueAt).toBe(stage.now + 20_000);
    fire();
    expect(stage.state("prompt")).toBe("paused");
    expect(stage.actors.machineState("prompt" as never)?.view.pausedBy).toBe("yield");
    expect(stage.state("music")).toBe("active.idle");
    expect(stage.events("session_transition").at(-2)).toMatchObject({ event: "yield", reason: "max_hold" });
    expect(timersOf(stage.facts)).toEqual([]);
  });

  test("max_hold counts only the time as the holder: a ducked session has no timer, and the timer restarts when it holds the floor again", () => {
    const { stage, timer, fire } = begin();
    stage.create("call");
    expect(stage.state("prompt")).toBe("ducked.idle");
    expect(timersOf(stage.facts)).toEqual([]);
    // The timer fired before it was removed, and arrives late: the session no longer has it.
    fire();
    expect(stage.state("prompt")).toBe("ducked.idle");
    stage.on("call", "archive");
    const [next] = timersOf(stage.facts);
    expect(next).toMatchObject({ dueAt: stage.now + 20_000 });
    expect(next!.id).not.toBe(timer.id);
  });

  test("a timer of max_hold ends with its session, and changes with its agent", () => {
    const { stage } = begin();
    stage.ask({ type: "session.switch_agent", sessionId: "prompt", agentId: "call" });
    expect(timersOf(stage.facts)).toEqual([]);
    stage.ask({ type: "session.switch_agent", sessionId: "prompt", agentId: "prompt" });
    expect(timersOf(stage.facts)).toHaveLength(1);
    stage.on("prompt", "archive");
    expect(timersOf(stage.facts)).toEqual([]);
  });

  test("max_hold survives a restart of the node", () => {
    const { stage, fire } = begin();
    stage.restart();
    fire();
    expect(stage.state("prompt")).toBe("paused");
  });
});
