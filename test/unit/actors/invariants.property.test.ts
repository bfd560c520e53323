import fc from "fast-check";
import { describe, test } from "vitest";
import type { Claim } from "../../../src/actors/arbitration.ts";
import { makeCatalog } from "../../support/catalog.ts";
import { FloorInvariants } from "../../support/floor-invariants.ts";
import { FloorStage, type LooseCommand } from "../../support/floor-stage.ts";

/** Generated histories of one floor: whatever is asked in whatever order, what must always hold holds. */

const AGENTS = ["a", "b", "c", "d"];
const SESSIONS = ["s1", "s2", "s3", "s4", "s5"];

const agent = fc.record({
  priority: fc.constantFrom(10, 20, 20, 50, 90),
  interruptible: fc.boolean(),
  preemption_threshold: fc.option(fc.constantFrom(20, 60, 90), { nil: undefined }),
  when_blocked: fc.constantFrom("reject", "queue"),
  queue_timeout: fc.constantFrom(undefined, "30s"),
  when_busy: fc.constantFrom("reject", "enqueue", "interrupt"),
  resume: fc.constantFrom("auto", "auto", "manual"),
  max_pause: fc.constantFrom(undefined, "30m"),
  idle_timeout: fc.constantFrom(undefined, "10m"),
  after_turn: fc.constantFrom("keep", "keep", "yield", "archive"),
  adapter: fc.record({
    kind: fc.constant("scripted"),
    yields: fc.constantFrom("hold", "abort"),
    restartable: fc.boolean(),
  }),
});

const world = fc.record({
  agents: fc.tuple(agent, agent, agent, agent),
  policy: fc.record({
    ties: fc.constantFrom("reject", "newest"),
    resume_delay: fc.constantFrom("0ms", "0ms", "1s"),
    max_paused: fc.constantFrom(1, 2, 32),
    max_queued: fc.constantFrom(0, 1, 16),
  }),
});

const sessionId = fc.constantFrom(...SESSIONS);
const nth = fc.nat({ max: 7 });
/** A step names runs, timers and questions by "the n-th there is": what that is depends on the history so far. */
const step = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant("create" as const),
      sessionId,
      agentId: fc.constantFrom(...AGENTS),
      activate: fc.boolean(),
    }),
  },
  { weight: 4, arbitrary: fc.record({ do: fc.constant("chat" as const), sessionId }) },
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant("verb" as const),
      sessionId,
      verb: fc.constantFrom(
        "activate" as const,
        "resume" as const,
        "pause" as const,
        "archive" as const,
        "stop" as const,
        "abort" as const,
        "delete" as const,
      ),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ do: fc.constant("switch" as const), sessionId, agentId: fc.constantFrom(...AGENTS) }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("withdraw" as const), sessionId, nth }) },
  {
    weight: 3,
    arbitrary: fc.record({ do: fc.constant("claim" as const), sessionId, claimId: fc.constantFrom("x", "y") }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant("report" as const),
      sessionId,
      late: fc.constantFrom(0, 0, 0, 1),
      skip: fc.constantFrom(0, 0, 0, 1, -1),
      part: fc.constantFrom("open", "append", "close", "ask", "none"),
      outcome: fc.constantFrom(undefined, undefined, "done", "failed", "stopped", "lost", "yielded"),
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("answer" as const), sessionId }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant("timer" as const), nth }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constantFrom("floor.stop" as const, "floor.stop_all" as const) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("restart" as const) }) },
);
type Step = typeof step extends fc.Arbitrary<infer S> ? S : never;

interface History {
  floor: FloorStage;
  timers: { id: string; sessionId?: string | undefined }[];
  serial: number;
}

function commandOf(step: Step, history: History): LooseCommand | undefined {
  const { floor } = history;
  const serial = history.serial++;
  const contextOf = (id: string) => floor.actors.standing(id as never)?.context;
  switch (step.do) {
    case "create": {
      const session = { sessionId: step.sessionId, agentId: step.agentId, userId: "ann" };
      return { type: "session.create", sessionId: step.sessionId, session, activate: step.activate };
    }
    case "chat":
      return {
        type: "session.chat",
        sessionId: step.sessionId,
        turn: { messageId: `m${serial}`, runId: `r${serial}`, content: "hello" },
      };
    case "verb":
      return { type: `session.${step.verb}`, sessionId: step.sessionId };
    case "switch":
      return { type: "session.switch_agent", sessionId: step.sessionId, agentId: step.agentId };
    case "withdraw": {
      const turn = contextOf(step.sessionId)?.turns[step.nth];
      return turn && { type: "session.withdraw", sessionId: step.sessionId, messageId: turn.messageId };
    }
    case "claim": {
      const run = contextOf(step.sessionId)?.run;
      return (
        run && {
          type: "run.claim",
          sessionId: step.sessionId,
          runId: run.id,
          claimId: step.claimId,
          asked: step.claimId === "y",
        }
      );
    }
    case "report": {
      const context = contextOf(step.sessionId);
      const about = context?.run ?? context?.stopping;
      if (!about) return undefined;
      const runId = "runId" in about ? about.runId : about.id;
      const n = ("reported" in about ? about.reported : 0) + 1 + step.skip;
      return {
        type: "run.report",
        sessionId: step.sessionId,
        runId,
        attempt: Math.max(0, about.attempt - step.late),
        n: Math.max(1, n),
        parts: partsOf(step.part, serial, context?.run?.drafts[0]),
        ...outcomeOf(step.outcome),
      };
    }
    case "answer": {
      const pending = contextOf(step.sessionId)?.run?.interactions[0];
      if (!pending) return undefined;
      const { requestId } = pending.interaction;
      const answer = { kind: "question" as const, requestId, selected: [] };
      return { type: "session.answer", sessionId: step.sessionId, requestId, answer };
    }
    case "timer": {
      const timer = history.timers[step.nth];
      return timer && { type: "timer", timerId: timer.id, sessionId: timer.sessionId as string };
    }
    case "restart":
      return undefined;
    default:
      return { type: step.do };
  }
}

type Report = Extract<LooseCommand, { type: "run.report" }>;

function partsOf(part: string, serial: number, draft: string | undefined): Report["parts"] {
  const agent = { kind: "master" as const, name: "a", depth: 0, path: ["a"] };
  if (part === "open") return [{ kind: "open", messageId: `d${serial}`, agent }];
  if (part === "append" && draft) return [{ kind: "append", messageId: draft, offset: 0, text: "x" }];
  if (part === "close" && draft) return [{ kind: "close", messageId: draft, status: "success" }];
  const interaction = { kind: "question" as const, requestId: `q${serial}`, question: "?", options: [] };
  return part === "ask" ? [{ kind: "ask", interaction }] : [];
}

function outcomeOf(outcome: string | undefined): Partial<Report> {
  if (outcome === "failed") return { outcome: { kind: "failed", code: "provider_refused", message: "no" } };
  if (outcome === "lost" || outcome === "yielded") return { outcome: { kind: "lost", yielded: outcome === "yielded" } };
  return outcome === undefined ? {} : { outcome: { kind: outcome as "done" | "stopped" } };
}

function play(setting: typeof world extends fc.Arbitrary<infer W> ? W : never, steps: Step[]): void {
  const agents = setting.agents.map((entry, index) => ({ name: AGENTS[index], ...JSON.parse(JSON.stringify(entry)) }));
  const floor = new FloorStage(makeCatalog(agents, { policy: setting.policy }));
  const invariants = new FloorInvariants();
  const history: History = { floor, timers: [], serial: 0 };
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

describe("whatever is asked of a floor, in whatever order", () => {
  test("what must always hold holds after every step", () => {
    fc.assert(fc.property(world, fc.array(step, { minLength: 1, maxLength: 60 }), play), {
      numRuns: Number(process.env["FLOOR_HISTORIES"] ?? 400),
    });
  }, 120_000);
});
