import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Decision } from "../../../src/protocol/decision.ts";
import {
  beginHistory,
  commandOf,
  SESSIONS,
  type Step,
  step,
  type World,
  world,
} from "../../support/floors/floor-histories.ts";
import { FloorInvariants } from "../../support/floors/floor-invariants.ts";
import { decisionOf, type FloorStage, type LooseCommand } from "../../support/floors/floor-stage.ts";

/** Generated histories of one floor: the invariants hold for all commands in all orders. */

/** Commands with which a session requests the floor. */
const ASKS = new Set(["session.create", "session.activate", "session.resume", "session.chat", "session.switch_agent"]);

/** What a session of the agent would get now. It changes nothing. */
function preview(floor: FloorStage, agentId: string): Decision {
  const { facts, reply } = floor.deliver({ type: "floor.what_if", agentId });
  expect(facts).toEqual([]);
  return decisionOf(reply)!;
}

const withoutSession = ({ challenger: { sessionId: _, ...challenger }, ...decision }: Decision) => ({
  ...decision,
  challenger,
});

function play(setting: World, steps: Step[]): void {
  const history = beginHistory(setting);
  const { floor } = history;
  const invariants = new FloorInvariants(floor.catalog);
  const carryOut = (command: LooseCommand) => {
    const before = floor.actors.context.floor;
    const expected = command.type === "session.create" && preview(floor, command.session.agentId!);
    const delivery = floor.deliver(command);
    const decision = expected && decisionOf(delivery.reply);
    if (decision) expect(withoutSession(decision)).toEqual(withoutSession(expected));
    const asks = ASKS.has(command.type) && "sessionId" in command ? command.sessionId : undefined;
    invariants.check(asks, before, delivery, floor.actors, floor.now);
  };
  /** Let the alarms come until this time, each at its time. */
  const passTo = (until: number, isPunctual: boolean) => {
    if (!isPunctual) floor.now = until;
    for (let { due } = floor; due !== undefined && due <= until; { due } = floor) {
      floor.now = Math.max(floor.now, due);
      carryOut({ type: "alarm" });
    }
    floor.now = until;
  };
  for (const each of steps) {
    const passes = each.do === "pass" || each.do === "away";
    passTo(floor.now + (passes ? each.ms : 1_000), each.do !== "away");
    if (each.do === "restart") floor.restart();
    const command = commandOf(each, history);
    if (command) carryOut(command);
  }
  for (const id of SESSIONS) if (floor.state(id)) carryOut({ type: "session.stop", sessionId: id });
  invariants.checkAllEnded(floor.now);
}

describe("for any commands to a floor, in any order", () => {
  test("every invariant is true after every step, and each decision is the one that was previewed", () => {
    fc.assert(fc.property(world, fc.array(step, { minLength: 1, maxLength: 60, size: "max" }), play), {
      numRuns: Number(process.env["FLOOR_HISTORIES"] ?? 1_000),
    });
  }, 120_000);

  test("the aborted run of a paused session is logged as a change of its activity", () => {
    const agent = {
      priority: 10,
      interruptible: true,
      preemption_threshold: undefined,
      when_preempted: "pause",
      beneath: {},
      critical: false,
      yields_to: [] as string[],
      replaces: [],
      max_hold: undefined,
      lease: undefined,
      isExternal: false,
      when_blocked: "reject",
      queue_timeout: undefined,
      resume_within: undefined,
      answer_within: undefined,
      when_busy: "reject",
      resume: "auto",
      max_pause: undefined,
      idle_timeout: undefined,
      after_turn: "keep",
      adapter: { kind: "scripted", yields: "hold", restartable: false },
    } as const;
    const policy = { ties: "newest", resume_delay: "0ms", max_paused: 1, max_queued: 16 } as const;
    play({ agents: [agent, agent, agent, agent], restrictions: [], policy }, [
      { do: "create", sessionId: "s2", agentId: "a", activate: false },
      { do: "create", sessionId: "s1", agentId: "a", activate: false },
      { do: "chat", sessionId: "s2" },
      { do: "verb", sessionId: "s1", verb: "activate" },
      { do: "verb", sessionId: "s2", verb: "abort" },
    ]);
  });
});
