import fc from "fast-check";
import { describe, test } from "vitest";
import type { Claim } from "../../../src/actors/floor/claim.ts";
import {
  beginHistory,
  commandOf,
  SESSIONS,
  type Step,
  step,
  type World,
  world,
} from "../../support/floor-histories.ts";
import { FloorInvariants } from "../../support/floor-invariants.ts";
import type { LooseCommand } from "../../support/floor-stage.ts";

/** Generated histories of one floor: whatever is asked in whatever order, what must always hold holds. */

function play(setting: World, steps: Step[]): void {
  const history = beginHistory(setting);
  const { floor } = history;
  const invariants = new FloorInvariants();
  const carryOut = (command: LooseCommand) => {
    const before = floor.actors.context.floor;
    const delivery = floor.deliver(command);
    for (const fact of delivery.facts) {
      if (fact.type !== "effect.add" || fact.effect.kind !== "timer") continue;
      history.timers = [{ id: fact.effect.id, sessionId: fact.effect.sessionId }, ...history.timers].slice(0, 8);
    }
    invariants.check(before, delivery, floor.actors);
    preemptionIsLawful(before.holder, floor.actors.context.floor.holder, delivery.facts);
  };
  for (const each of steps) {
    floor.now += 1_000;
    if (each.do === "restart") floor.restart();
    const command = commandOf(each, history);
    if (command) carryOut(command);
  }
  for (const id of SESSIONS) if (floor.state(id)) carryOut({ type: "session.stop", sessionId: id });
  invariants.checkAllEnded();
}

/** Invariant 2: who is not interruptible is paused only from its threshold up, and never by a lesser one. */
function preemptionIsLawful(
  holder: Claim | undefined,
  winner: Claim | undefined,
  facts: readonly { type: string }[],
): void {
  const preempted = facts.some((fact) => fact.type === "event" && JSON.stringify(fact).includes(`"event":"preempt"`));
  if (!preempted || !holder || !winner || holder.sessionId === winner.sessionId) return;
  const mayYield = holder.interruptible || winner.priority >= (holder.preemptionThreshold ?? Number.POSITIVE_INFINITY);
  if (!mayYield || winner.priority < holder.priority) throw new Error(`${winner.sessionId} preempted unlawfully`);
}

describe("for any commands to a floor, in any order", () => {
  test("every invariant holds after every step", () => {
    fc.assert(fc.property(world, fc.array(step, { minLength: 1, maxLength: 60 }), play), {
      numRuns: Number(process.env["FLOOR_HISTORIES"] ?? 400),
    });
  }, 120_000);

  test("a paused session's aborted run is logged as a change of its activity", () => {
    const agent = {
      priority: 10,
      interruptible: true,
      preemption_threshold: undefined,
      when_blocked: "reject",
      queue_timeout: undefined,
      when_busy: "reject",
      resume: "auto",
      max_pause: undefined,
      idle_timeout: undefined,
      after_turn: "keep",
      adapter: { kind: "scripted", yields: "hold", restartable: false },
    } as const;
    const policy = { ties: "newest", resume_delay: "0ms", max_paused: 1, max_queued: 16 } as const;
    play({ agents: [agent, agent, agent, agent], policy }, [
      { do: "create", sessionId: "s2", agentId: "a", activate: false },
      { do: "create", sessionId: "s1", agentId: "a", activate: false },
      { do: "chat", sessionId: "s2" },
      { do: "verb", sessionId: "s1", verb: "activate" },
      { do: "verb", sessionId: "s2", verb: "abort" },
    ]);
  });
});
