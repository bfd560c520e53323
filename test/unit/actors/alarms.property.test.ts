/** Invariant 20: the same commands at the same times give the same log, whenever alarms come. */

import fc from "fast-check";
import { expect, test } from "vitest";
import type { Fact } from "../../../src/actors/facts.ts";
import type { FloorTime } from "../../../src/shared/floor-time.ts";
import { beginHistory, commandOf, type Step, step, type World, world } from "../../support/floors/floor-histories.ts";
import type { LooseCommand } from "../../support/floors/floor-stage.ts";

/**
 * What becomes of an alarm: how late it is, in ms, or that it never comes; whether it comes twice; one that is not due.
 */
const fate = fc.record({
  lateMs: fc.constantFrom(0, 0, 1, 500, 7_000, 60_000, undefined),
  isTwice: fc.boolean(),
  isEarly: fc.boolean(),
});
type Fate = typeof fate extends fc.Arbitrary<infer F> ? F : never;

const PUNCTUAL: Fate = { lateMs: 0, isTwice: false, isEarly: false };

/** A lease renews if its deadline comes late, so there is none here. */
const unleased = (setting: World): World => ({
  ...setting,
  agents: setting.agents.map((agent) => ({ ...agent, lease: undefined })) as World["agents"],
});

interface Play {
  fates: readonly Fate[];
  /** The command of each step. Default: chosen from what the floor has carried out so far. */
  commands?: readonly (LooseCommand | undefined)[];
  /** Rule T is left out: what is due happens with an alarm only, not before a command. */
  isForgetful?: boolean;
}

/** Each event with its time, and each answer; and the commands. */
function play(setting: World, steps: readonly Step[], { fates, commands, isForgetful = false }: Play) {
  const history = beginHistory(unleased(setting));
  const { floor } = history;
  let alarmAt = floor.now;
  const given = floor.given.bind(floor);
  if (isForgetful) floor.given = (stamp) => ({ ...given(stamp), time: alarmAt as FloorTime });
  const lines: string[] = [];
  const carriedOut: (LooseCommand | undefined)[] = [];
  let alarms = 0;
  const carryOut = (command: LooseCommand) => {
    if (command.type === "alarm") alarmAt = floor.now;
    const { facts, reply } = floor.deliver(command);
    let at = floor.now;
    for (const fact of facts as Fact[]) {
      if (fact.type === "at") at = fact.now;
      if (fact.type === "event") lines.push(`${at} ${JSON.stringify(fact.event)}`);
    }
    if (command.type !== "alarm") lines.push(JSON.stringify(reply));
  };
  for (const [index, each] of steps.entries()) {
    const until = floor.now + (each.do === "pass" || each.do === "away" ? each.ms : 1_000);
    for (let { due } = floor; due !== undefined && due <= until; { due } = floor) {
      const { lateMs, isTwice, isEarly } = fates[alarms++ % fates.length]!;
      if (isEarly) carryOut({ type: "alarm" });
      const at = Math.max(floor.now, due) + (lateMs ?? Number.POSITIVE_INFINITY);
      if (at > until) break;
      floor.now = at;
      carryOut({ type: "alarm" });
      if (isTwice) carryOut({ type: "alarm" });
    }
    floor.now = until;
    const chosen = () => (each.do === "alarm" ? undefined : commandOf(each, history));
    const command = commands ? commands[index] : chosen();
    carriedOut.push(command);
    if (command) carryOut(command);
  }
  floor.now += 60_000;
  carryOut({ type: "alarm" });
  return { lines, commands: carriedOut };
}

/** The same commands, with punctual alarms and with others. */
function expectSameLog(setting: World, steps: readonly Step[], fates: readonly Fate[], isForgetful = false): void {
  const punctual = play(setting, steps, { fates: [PUNCTUAL], isForgetful });
  const other = play(setting, steps, { fates, commands: punctual.commands, isForgetful });
  expect(other.lines).toEqual(punctual.lines);
}

const steps = fc.array(step, { minLength: 1, maxLength: 50, size: "max" });
const anyFates = fc.array(fate, { minLength: 1, maxLength: 6 });

test("the same commands give the same log, with every alarm in time, early, late by up to a minute, twice or never", () => {
  fc.assert(
    fc.property(world, steps, anyFates, (setting, wanted, fates) => expectSameLog(setting, wanted, fates)),
    { numRuns: Number(process.env["FLOOR_HISTORIES"] ?? 300) },
  );
});

test("a floor on which what is due waits for an alarm is found", () => {
  const { failed } = fc.check(
    fc.property(world, steps, anyFates, (setting, wanted, fates) => expectSameLog(setting, wanted, fates, true)),
    { numRuns: 300, seed: 1, endOnFailure: true },
  );
  expect(failed).toBe(true);
});
