import type { Agent } from "../../../src/agents/agent.ts";
import type { Delta } from "../../../src/protocol/event.ts";
import type { SessionId } from "../../../src/protocol/ids.ts";
import type { RunOutcome } from "../../../src/protocol/internal/run.ts";
import { RunDriver, type RunWork } from "../../../src/runs/run-driver.ts";
import { ControlledFloor } from "../floors/controlled-floor.ts";
import { VirtualClock } from "../runner/virtual-clock.ts";
import { KeptLog } from "../stores/sqlite-place.ts";
import { Puppet } from "./puppet.ts";
import { turnOf } from "./run-stage.ts";

/** One attempt run by a driver, with a controlled agent, floor and clock. */
export type DriverStage = Awaited<ReturnType<typeof drive>>;

/** A driver whose agent, a puppet, has started. */
export async function drive(agent = new Puppet(), ...more: More) {
  return { ...(await driveAgent(agent, ...more)), run: agent.last };
}

type More = [onDelta?: (driver: RunDriver) => void, home?: string, work?: RunWork];

/** A driver of any agent. */
export async function driveAgent(agent: Agent, ...[onDelta, home, work = { request: turnOf("go") }]: More) {
  const clock = new VirtualClock();
  const floor = new ControlledFloor();
  const log = new KeptLog();
  const deltas: Delta[] = [];
  const holds: boolean[] = [];
  let ids = 0;
  let outcome: string | undefined;
  const driver: RunDriver = new RunDriver({
    agent,
    work,
    sessionId: "session_1" as SessionId,
    clock,
    newId: () => `id${ids++}`,
    log,
    send: floor.ask,
    loadImage: async ({ hash }) => new TextEncoder().encode(hash),
    stream: (delta) => {
      deltas.push(delta);
      onDelta?.(driver);
    },
    home,
    onHold: (isHeld) => void holds.push(isHeld),
    onWait: () => {},
  });
  void driver.run().then(({ kind }) => {
    outcome = kind;
  });
  await clock.advance(0);
  return {
    clock,
    floor,
    log,
    driver,
    deltas,
    /** Each change of the attempt's hold. */
    holds,
    /** The outcome, once the attempt is over. */
    outcome: () => outcome,
    lastOutcome: (): RunOutcome | undefined => floor.reports.at(-1)?.outcome,
  };
}

/** All streamed text. */
export const said = ({ deltas }: DriverStage): string => deltas.map(({ text }) => text).join("");

/** The reported parts of a kind. */
export const kinds = ({ floor }: Pick<DriverStage, "floor">): string[] => floor.parts.map(({ kind }) => kind);
