import { createHash } from "node:crypto";
import { makeCatalog } from "../catalogs/catalog.ts";
import type { LooseCommand } from "./floor-stage.ts";
import { FloorStage } from "./floor-stage.ts";

/**
 * Histories of one floor, generated from a number, in which nothing happens that the second edition of the rules
 * decides differently. `recorded-histories.txt` has a digest of the events and answers of each, recorded before that
 * edition; and recorded again, of the histories that met it, where a rule changed since: only a critical session
 * replaces a critical one, a session that the floor is reserved for is defended like a holder, every request of a
 * session renews its numbers and its `idle_timeout`, a pause of a session that waits paused is logged, and
 * `floor_updated` names the restrictions in force.
 *
 * What a history leaves out, and the rule that changed it (docs/use/arbitration.md): a waiting session that asks again,
 * and a resume that has to wait (waiting); `stop` of a reserved floor; a turn that ends badly although `after_turn`
 * says what follows; a switch of agents with time limits, or on a free floor; with sharing agents also two sessions of
 * one agent, a start beneath others, sessions that silence others beneath the holder, and `replaces` together with
 * waiting.
 */
export const HISTORIES = 400;

/** A sequence of numbers that depends on the seed only. */
function dice(seed: number) {
  let state = (seed * 2_654_435_761 + 12_345) >>> 0;
  const roll = (sides: number): number => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * sides);
  };
  const pick = <T>(...choices: readonly T[]): T => choices[roll(choices.length)]!;
  return { roll, pick };
}
type Dice = ReturnType<typeof dice>;

const NAMES = ["a", "b", "c", "d", "e"];

interface Setting {
  readonly isShared: boolean;
  /** Whether agents have time limits; otherwise sessions may switch agents. */
  readonly isTimed: boolean;
  /** Whether turns have consequences; then all turns end well. */
  readonly isTidy: boolean;
  readonly agents: Record<string, unknown>[];
  readonly rest: Record<string, unknown>;
}

function settingOf({ pick, roll }: Dice): Setting {
  const isShared = roll(2) === 1;
  const isTimed = roll(2) === 1;
  const isTidy = roll(3) === 0;
  const isReplacing = isShared && roll(2) === 1;
  const restrictions = isShared && !isReplacing ? [{ name: "r", when: "quiet", allow: ["a", "c"] }] : [];
  const agents = NAMES.map((name): Record<string, unknown> => {
    const mayDuck = isShared && roll(2) === 1;
    const isCritical = isShared && roll(8) === 0;
    return {
      name,
      priority: pick(10, 20, 20, 50, 90),
      interruptible: pick(true, true, false),
      preemption_threshold: pick(undefined, undefined, 20, 90),
      when_busy: pick("reject", "enqueue", "interrupt"),
      after_turn: isTidy ? pick("keep", "yield", "archive") : "keep",
      adapter: { kind: "scripted", yields: pick("hold", "abort"), restartable: pick(true, false) },
      ...(isReplacing ? {} : { resume: pick("auto", "auto", "manual") }),
      ...(isTimed && {
        max_pause: pick(undefined, "41011ms"),
        idle_timeout: pick(undefined, "7013ms"),
        queue_timeout: pick(undefined, "23017ms"),
      }),
      ...(isShared
        ? {
            when_preempted: mayDuck ? "duck" : "pause",
            beneath: mayDuck ? { all: pick(-3, -14, -30) } : pick({}, { all: -10 }, { a: -6, b: "pause" }),
            critical: isCritical,
            replaces: isReplacing && !isCritical ? pick([], ["a"], ["b", "c"]) : [],
            ...(isTimed && !mayDuck && !isCritical && { max_hold: pick(undefined, "17019ms") }),
          }
        : { when_blocked: pick("reject", "queue") }),
    };
  });
  const policy = {
    ties: pick("reject", "newest"),
    resume_delay: pick("0ms", "0ms", "2503ms"),
    max_paused: pick(1, 2, 32),
    max_queued: pick(0, 1, 16),
  };
  const priority_rules = [
    {
      name: "boost",
      agents: agents.flatMap(({ name, critical }) => (critical ? [] : [name])),
      when: "boost",
      adjust: 15,
    },
  ];
  return { isShared, isTimed, isTidy, agents, rest: { policy, priority_rules, restrictions } };
}

/** What a floor's next command may be, from its state. */
function nextCommand(
  floor: FloorStage,
  setting: Setting,
  { roll, pick }: Dice,
  serial: number,
): LooseCommand | undefined {
  const { isShared, isTimed, isTidy } = setting;
  const sessionId = pick("s1", "s2", "s3", "s4", "s5");
  const state = floor.actors.machineState(sessionId as never);
  const context = state?.context;
  const { holder, queued, reserved } = floor.actors.context.floor;
  const agent = context && floor.catalog.agents.get(context.numbers.agentId);
  const isQueued = queued.some((each) => each.sessionId === sessionId);
  const mayAsk = !isQueued && (state?.value.lifecycle !== "paused" || String(agent?.whenBlocked) !== "queue");
  switch (roll(14)) {
    case 0:
    case 1:
    case 2: {
      // One session of each agent, so that no two of one agent are heard together.
      const agentId = isShared ? NAMES[Number(sessionId[1]) - 1]! : pick(...NAMES);
      const session = { sessionId, agentId, userId: "ann" };
      return { type: "session.create", sessionId, session, activate: roll(4) > 0 };
    }
    case 3:
      return mayAsk ? { type: `session.${pick("activate", "resume")}`, sessionId } : undefined;
    case 4:
      return { type: `session.${pick("pause", "archive", "stop", "delete")}`, sessionId };
    case 5:
    case 6: {
      const turn = { messageId: `m${serial}`, runId: `r${serial}`, content: "hello" };
      return mayAsk ? { type: "session.chat", sessionId, turn } : undefined;
    }
    case 7: {
      const run = context?.run;
      return run && { type: "run.claim", sessionId, runId: run.id, claimId: pick("x", "y"), hasNoDriver: false };
    }
    case 8:
    case 9: {
      const run = context?.run;
      if (!run?.live) return undefined;
      const outcome = isTidy ? pick(undefined, "done") : pick(undefined, "done", "failed");
      return {
        type: "run.report",
        ...{ sessionId, runId: run.id, attempt: run.attempt, n: run.reported + 1 },
        parts:
          roll(2) === 0
            ? []
            : [{ kind: "open", messageId: `d${serial}`, agent: { kind: "master", name: "a", depth: 0, path: ["a"] } }],
        ...(outcome === "done" && { outcome: { kind: "done" } }),
        ...(outcome === "failed" && { outcome: { kind: "failed", code: "provider_refused", message: "no" } }),
      };
    }
    case 10:
      return isTidy ? undefined : { type: "session.abort", sessionId };
    case 11:
      return { type: "floor.patch_flags", flags: { [pick("boost", "quiet")]: roll(2) === 1 } };
    case 12:
      if (isShared || isTimed || !holder || !context) return undefined;
      return { type: "session.switch_agent", sessionId, agentId: pick(...NAMES) };
    default:
      if (roll(4) === 0) return { type: "floor.stop_all" };
      if (!reserved) return { type: "floor.stop" };
      return isShared ? undefined : { type: "floor.what_if", agentId: pick(...NAMES) };
  }
}

/** The events and answers of one history, a line for each. */
export function playHistory(seed: number): string[] {
  const { roll, ...rest } = dice(seed);
  const setting = settingOf({ roll, ...rest });
  const floor = new FloorStage(makeCatalog(JSON.parse(JSON.stringify(setting.agents)), setting.rest));
  const lines: string[] = [];
  for (let serial = 0; serial < 60; serial += 1) {
    const before = floor.facts.length;
    floor.pass(roll(12) === 0 ? 30_000 : 1_000);
    const command = nextCommand(floor, setting, { roll, ...rest }, serial);
    const reply = command && floor.ask(command);
    for (const fact of floor.facts.slice(before)) if (fact.type === "event") lines.push(JSON.stringify(fact.event));
    // What workers are answered is not on the wire.
    if (reply && !command.type.startsWith("run.")) lines.push(JSON.stringify(reply));
  }
  return lines;
}

/** The first half of the SHA-256 of a history's lines. */
export const digestOf = (lines: readonly string[]): string =>
  createHash("sha256").update(lines.join("\n")).digest("hex").slice(0, 16);
