/** Generated histories of one floor. */

import fc from "fast-check";
import type { Run, SessionContext } from "../../../src/actors/session/session-context.ts";
import type { Catalog } from "../../../src/config/catalog/catalog.ts";
import { makeCatalog } from "../catalogs/catalog.ts";
import { FloorStage, type LooseCommand } from "./floor-stage.ts";

const AGENTS = ["a", "b", "c", "d"];
export const SESSIONS = ["s1", "s2", "s3", "s4", "s5"];

const ONE_WAY = ["reject", "queue", "duck", "duck"];
/** The keys that let sessions be heard together; without them a floor behaves as if they did not exist. */
const sharing = {
  interruptible: fc.constantFrom(true, true, false),
  when_blocked: fc.constantFrom<string | string[]>(...ONE_WAY, ["duck", "queue"], ["queue", "duck"]),
  when_preempted: fc.constantFrom("pause", "duck", "duck", "duck"),
  yields_to: fc.constantFrom<string[]>([], [], ["a"], ["b", "c"]),
  beneath: fc.constantFrom(
    {},
    { all: -14 },
    { all: -30 },
    { a: -20, b: "pause", all: -3 },
    { a: -6, b: -9 },
    { c: 0, d: -9 },
  ),
  critical: fc.constantFrom(...Array.from({ length: 7 }, () => false), true),
  replaces: fc.constantFrom([], [], ["a"], ["b", "c"], ["a", "b", "c", "d"]),
  max_hold: fc.constantFrom(undefined, undefined, "20s"),
  lease: fc.constantFrom(undefined, undefined, undefined, "12s"),
  isExternal: fc.constantFrom(false, false, true),
};
const plain = {
  interruptible: fc.boolean(),
  when_blocked: fc.constantFrom<string | string[]>("reject", "queue"),
  when_preempted: fc.constant("pause"),
  yields_to: fc.constant<string[]>([]),
  beneath: fc.constant({}),
  critical: fc.constant(false),
  replaces: fc.constant([]),
  max_hold: fc.constant(undefined),
  lease: fc.constant(undefined),
  isExternal: fc.constant(false),
};

const agentWith = (keys: typeof sharing | typeof plain) =>
  fc.record({
    ...keys,
    priority: fc.constantFrom(10, 20, 20, 50, 90),
    preemption_threshold: fc.option(fc.constantFrom(20, 60, 90), { nil: undefined }),
    queue_timeout: fc.constantFrom(undefined, undefined, "30s", "30s", "0ms"),
    resume_within: fc.constantFrom(undefined, "20s"),
    answer_within: fc.constantFrom<unknown>(undefined, "10s", { heard: "10s" }),
    when_busy: fc.constantFrom("reject", "enqueue", "interrupt"),
    resume: fc.constantFrom("auto", "auto", "manual"),
    max_pause: fc.constantFrom(undefined, "0ms", "25s"),
    idle_timeout: fc.constantFrom(undefined, "0ms", "15s"),
    idle_yields: fc.constantFrom(false, false, true),
    after_turn: fc.constantFrom("keep", "keep", "yield", "archive"),
    adapter: fc.record({
      kind: fc.constant("scripted"),
      yields: fc.constantFrom("hold", "abort"),
      restartable: fc.boolean(),
    }),
  });

const restriction = fc.record({
  when: fc.constantFrom("reverse", "quiet"),
  allow: fc.constantFrom([], ["a"], ["b", "c"]),
  others: fc.constantFrom("pause", "pause", "stop", "finish"),
});

const worldWith = (agent: ReturnType<typeof agentWith>, restrictions: fc.Arbitrary<Restrictions>) =>
  fc.record({
    agents: fc.tuple(agent, agent, agent, agent),
    restrictions,
    policy: fc.record({
      ties: fc.constantFrom("reject", "newest"),
      resume_delay: fc.constantFrom("0ms", "0ms", "1s"),
      max_paused: fc.constantFrom(1, 2, 32),
      max_queued: fc.constantFrom(0, 1, 16),
    }),
  });
type Restrictions = (typeof restriction extends fc.Arbitrary<infer R> ? R : never)[];

/** A third of the catalogues have no key for sessions that are heard together. */
export const world = fc.oneof(
  { weight: 1, arbitrary: worldWith(agentWith(plain), fc.constant([])) },
  { weight: 2, arbitrary: worldWith(agentWith(sharing), fc.array(restriction, { maxLength: 2 })) },
);

const sessionId = fc.constantFrom(...SESSIONS);
const agentId = fc.constantFrom(...AGENTS);
type Fields = Record<string, fc.Arbitrary<unknown>>;
type Doing<Name, F extends Fields> = fc.Arbitrary<
  { do: Name } & { [K in keyof F]: F[K] extends fc.Arbitrary<infer V> ? V : never }
>;
const doing = <const Name extends string, F extends Fields>(weight: number, name: Name, fields: F) => ({
  weight,
  arbitrary: fc.record({ do: fc.constant(name), ...fields }) as unknown as Doing<Name, F>,
});
const VERBS = [
  ...(["activate", "activate", "activate", "resume", "resume"] as const),
  ...(["pause", "archive", "stop", "abort", "delete"] as const),
];

/** A step refers to runs and questions by their index; which one it is depends on the history so far. */
export const step = fc.oneof(
  doing(7, "create", { sessionId, agentId, activate: fc.constantFrom(true, true, false) }),
  doing(4, "chat", { sessionId }),
  /** A message that creates its session, if there is none. */
  doing(1, "sentence", { sessionId, agentId }),
  doing(6, "verb", { sessionId, verb: fc.constantFrom(...VERBS) }),
  doing(1, "switch", { sessionId, agentId }),
  doing(1, "withdraw", { sessionId, nth: fc.nat({ max: 7 }) }),
  doing(3, "claim", { sessionId, claimId: fc.constantFrom("x", "y") }),
  doing(6, "report", {
    sessionId,
    late: fc.constantFrom(0, 0, 0, 0, 0, 1),
    skip: fc.constantFrom(0, 0, 0, 0, 0, 0, 1, -1),
    part: fc.constantFrom("open", "append", "close", "ask", "withdraw", "withdraw", "none"),
    outcome: fc.constantFrom(...Array(8).fill(undefined), "done", "failed", "stopped", "lost", "yielded"),
  }),
  doing(5, "answer", { sessionId }),
  doing(1, "alarm", {}),
  { weight: 1, arbitrary: fc.record({ do: fc.constantFrom("floor.stop" as const, "floor.stop_all" as const) }) },
  doing(1, "restart", {}),
  doing(3, "heartbeat", { sessionId }),
  doing(2, "flag", { flag: fc.constantFrom("reverse", "quiet"), isOn: fc.boolean() }),
  /** Time passes; what is due happens when it is. */
  doing(4, "pass", { ms: fc.constantFrom(2_000, 6_000, 30_000) }),
  /** The node is down for this time; what is due happens afterwards. */
  doing(1, "away", { ms: fc.constantFrom(4_000, 40_000) }),
);
export type Step = typeof step extends fc.Arbitrary<infer S> ? S : never;

/** A new catalogue; its first agents may have left it, and others may be disabled. */
export const reload = fc.record({
  do: fc.constant("reload" as const),
  disabled: fc.subarray(AGENTS, { maxLength: 2 }),
  world,
  gone: fc.constantFrom(0, 0, 0, 1, 2),
});
export type Reload = typeof reload extends fc.Arbitrary<infer R> ? R : never;

export function catalogOf({ world: setting, gone, disabled }: Reload): Catalog {
  const { catalog } = beginHistory(setting).floor;
  const agents = [...catalog.agents].map(
    ([id, agent]) => [id, disabled.includes(id) ? { ...agent, enabled: false } : agent] as const,
  );
  return { ...catalog, agents: new Map(agents.slice(gone)) };
}

export interface History {
  floor: FloorStage;
  serial: number;
}

/** What a session must have for a step that refers to it, the best first. */
const NEEDS: Record<string, ((context: SessionContext, state: string) => unknown)[]> = {
  chat: [(_, state) => state !== "archived"],
  withdraw: [({ turns }) => turns.length > 0],
  claim: [({ run }) => run?.attempt === 0, ({ run }) => run],
  report: [({ run }) => run?.live, ({ stopping }) => stopping, ({ run }) => run],
  answer: [({ run }) => run?.interactions[0], ({ run }) => run?.live, ({ run }) => run],
};

/** The session of a step, or another one if it has nothing that the step could refer to. */
function sessionOf(step: Step, { floor }: History): string {
  if (!("sessionId" in step)) return "";
  for (const need of NEEDS[step.do] ?? []) {
    for (const id of [step.sessionId, ...SESSIONS]) {
      const context = floor.actors.machineState(id as never)?.context;
      if (context && need(context, floor.state(id)!)) return id;
    }
  }
  return step.sessionId;
}

export function commandOf(step: Step, history: History): LooseCommand | undefined {
  const { floor } = history;
  const serial = history.serial++;
  const sessionId = sessionOf(step, history);
  const context = floor.actors.machineState(sessionId as never)?.context;
  const run = context?.run;
  switch (step.do) {
    case "create": {
      const session = { sessionId, agentId: step.agentId, userId: "ann" };
      return { type: "session.create", sessionId, session, activate: step.activate };
    }
    case "chat":
    case "sentence": {
      const session = step.do === "sentence" && { session: { sessionId, agentId: step.agentId, userId: "ann" } };
      const turn = { messageId: `m${serial}`, runId: `r${serial}`, content: "hello" };
      return { type: "session.chat", sessionId, turn, ...session };
    }
    case "verb":
      return { type: `session.${step.verb}`, sessionId };
    case "switch":
      return { type: "session.switch_agent", sessionId, agentId: step.agentId };
    case "withdraw": {
      const turn = context?.turns[step.nth];
      return turn && { type: "session.withdraw", sessionId, messageId: turn.messageId };
    }
    case "claim": {
      return run && claimOf(run, sessionId, step.claimId);
    }
    case "report": {
      const about = run ?? context?.stopping;
      if (!about) return undefined;
      // A worker claims a run before it reports.
      if (run && !run.live && step.late === 0) return claimOf(run, sessionId, "x");
      const parts = partsOf(step.part, serial, run?.drafts[0]);
      const [pending] = step.part === "withdraw" ? (run?.interactions ?? []) : [];
      const withdrawn = pending && [pending.interaction.requestId];
      return reportOf(about, sessionId, { parts, withdrawn, ...outcomeOf(step.outcome) }, step);
    }
    case "answer": {
      const pending = run?.interactions[0];
      // A worker claims a run, and its agent asks, before there is an answer.
      if (!pending && run && !run.live) return claimOf(run, sessionId, "x");
      if (!pending) return run && reportOf(run, sessionId, { parts: partsOf("ask", serial, undefined) });
      const { requestId } = pending.interaction;
      const answer = { kind: "question" as const, requestId, selected: [] };
      return { type: "session.answer", sessionId, requestId, answer };
    }
    case "heartbeat":
      return { type: "session.heartbeat", sessionId };
    case "flag":
      return { type: "floor.patch_flags", flags: { [step.flag]: step.isOn } };
    case "restart":
    case "pass":
    case "away":
      return undefined;
    default:
      return { type: step.do };
  }
}

const claimOf = ({ id: runId }: Run, sessionId: string, claimId: "x" | "y"): LooseCommand => {
  return { type: "run.claim", sessionId, runId, claimId, hasNoDriver: claimId === "y" };
};

type Report = Extract<LooseCommand, { type: "run.report" }>;

/** The next report of an attempt, or one that is `late` or leaves some out. */
function reportOf(
  about: Run | NonNullable<SessionContext["stopping"]>,
  sessionId: string,
  content: Pick<Report, "parts" | "withdrawn" | "outcome">,
  { late, skip } = { late: 0, skip: 0 },
): Report {
  const runId = "runId" in about ? about.runId : about.id;
  const n = Math.max(1, ("reported" in about ? about.reported : 0) + 1 + skip);
  return { type: "run.report", sessionId, runId, attempt: Math.max(0, about.attempt - late), n, ...content };
}

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

export type World = typeof world extends fc.Arbitrary<infer W> ? W : never;

export function beginHistory(setting: World): History {
  const agents = setting.agents.map((entry, index) => ({ name: AGENTS[index], ...catalogued(entry) }));
  const restrictions = setting.restrictions.map((entry, index) => ({ name: `restriction${index}`, ...entry }));
  const floor = new FloorStage(makeCatalog(agents, { policy: setting.policy, restrictions }));
  return { floor, serial: 0 };
}

/** An agent without keys that contradict one another. */
function catalogued({ isExternal, ...entry }: World["agents"][number]): Record<string, unknown> {
  const whenBlocked =
    entry.when_blocked.includes("duck") && entry.when_preempted === "pause" ? "reject" : entry.when_blocked;
  return JSON.parse(
    JSON.stringify({
      ...entry,
      when_blocked: entry.critical ? undefined : whenBlocked,
      yields_to: entry.critical ? undefined : entry.yields_to,
      idle_yields: entry.critical ? undefined : entry.idle_yields,
      ...(isExternal && { adapter: { kind: "external" } }),
    }),
  );
}
