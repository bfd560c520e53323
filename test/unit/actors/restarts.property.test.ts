/** Histories of one floor whose node restarts before every command, and whose catalogue is replaced meanwhile. */

import fc from "fast-check";
import { expect, test } from "vitest";
import {
  beginHistory,
  catalogOf,
  commandOf,
  type Reload,
  reload,
  type Step,
  step,
  type World,
  world,
} from "../../support/floors/floor-histories.ts";
import type { LooseCommand } from "../../support/floors/floor-stage.ts";

const plainly = (value: unknown): unknown => JSON.parse(JSON.stringify(value));
function play(setting: World, steps: readonly (Step | Reload)[]): void {
  const history = beginHistory(setting);
  const { floor } = history;
  const restarted = beginHistory(setting).floor;
  const carryOut = (command: LooseCommand) => {
    restarted.now = floor.now;
    restarted.restart();
    const delivery = floor.deliver(command);
    expect(plainly(restarted.deliver(command))).toEqual(plainly(delivery));
    expect(plainly(restarted.actors.context)).toEqual(plainly(floor.actors.context));
  };
  for (const each of steps) {
    const ms = each.do === "pass" || each.do === "away" ? each.ms : 1_000;
    floor.pass(ms, 0, () => carryOut({ type: "alarm" }));
    if (each.do === "reload") {
      floor.catalog = catalogOf(each);
      restarted.catalog = floor.catalog;
      continue;
    }
    const command = commandOf(each, history);
    if (command) carryOut(command);
  }
}

test("a floor that restarts before every command does what one without restarts does, with any catalogues in between", () => {
  const steps = fc.array(fc.oneof({ weight: 12, arbitrary: step }, { weight: 1, arbitrary: reload }), {
    minLength: 1,
    maxLength: 40,
    size: "max",
  });
  fc.assert(fc.property(world, steps, play), { numRuns: Number(process.env["FLOOR_HISTORIES"] ?? 300) });
});
