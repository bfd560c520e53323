/** Compares the machines run by their tables with the same machines run by XState's own actors. */

import fc from "fast-check";
import { expect, test } from "vitest";
import { type ActorRefFrom, createActor, enqueueActions, type SnapshotFrom, setup } from "xstate";
import type { Emitted } from "../../../src/actors/facts.ts";
import { MachinePlayer } from "../../../src/actors/machine/machine-player.ts";
import { newSession, type SessionContext } from "../../../src/actors/session/session-context.ts";
import { sessionMachine } from "../../../src/actors/session/session-machine.ts";
import type { SessionEvent, SessionStep } from "../../../src/actors/session/session-step.ts";
import type { FloorId, SessionId } from "../../../src/protocol/ids.ts";
import type { FloorTime } from "../../../src/shared/floor-time.ts";
import { makeCatalog } from "../../support/catalogs/catalog.ts";
import {
  beginHistory,
  commandOf,
  SESSIONS,
  type Step,
  step,
  type World,
  world,
} from "../../support/floors/floor-histories.ts";
import type { LooseCommand } from "../../support/floors/floor-stage.ts";
import { persistSession, persistWhole } from "../../support/floors/persisted-floor.ts";
import { XstateFloor } from "../../support/floors/xstate-floor.ts";

const FLOOR = "u:ann" as FloorId;

function playBoth(setting: World, steps: Step[]): void {
  const history = beginHistory(setting);
  const { floor } = history;
  let reference = new XstateFloor(FLOOR);
  let stamp = 0;
  const carryOut = (command: LooseCommand) => {
    const wanted = reference.deliver({ ...command, given: floor.given(stamp++) } as never);
    const delivery = floor.deliver(command);
    expect(delivery).toEqual(wanted);
    compare();
  };
  const compare = () => {
    const wanted = reference.persisted();
    const needed = floor.actors.neededIds();
    for (const [id, child] of Object.entries(wanted.children)) {
      expect(JSON.parse(persistSession(floor.actors.machineState(id as SessionId)!))).toEqual(child);
      if (!needed.has(id as SessionId)) delete wanted.children[id];
    }
    expect(JSON.parse(persistWhole(floor.actors))).toEqual(wanted);
  };
  for (const each of steps) {
    floor.now += 1_000;
    if (each.do === "restart") {
      const { actors } = floor;
      const persisted = JSON.parse(persistWhole(actors));
      for (const id of actors.sessionIds) {
        const state = actors.machineState(id)!;
        if (state.value.lifecycle !== "deleted") persisted.children[id] = JSON.parse(persistSession(state));
      }
      reference = new XstateFloor(FLOOR, persisted);
      floor.restart();
      compare();
    }
    const command = commandOf(each, history);
    if (command) carryOut(command);
  }
  for (const id of SESSIONS) if (floor.state(id)) carryOut({ type: "session.stop", sessionId: id });
}

test("a floor run by machine tables emits, answers and writes what XState's own actors would, in any history", () => {
  fc.assert(fc.property(world, fc.array(step, { minLength: 1, maxLength: 60, size: "max" }), playBoth), {
    numRuns: Number(process.env["FLOOR_HISTORIES"] ?? 300),
  });
});

const CATALOG = makeCatalog([{ name: "music", idle_timeout: "10m", max_pause: "30m", queue_timeout: "30s" }]);
const given = {
  now: 1_000_000,
  time: 1_000_000 as FloorTime,
  stamp: "e0",
  catalog: CATALOG,
  interactionTimeoutMs: 300_000,
};
const numbers = { priority: 20, interruptible: true, preemptionThreshold: undefined, explained: [] };
const contender = { sessionId: "s" as SessionId, agentId: "music" as never, ...numbers, askedAt: 0 };

const bare: SessionContext = newSession({ sessionId: "s" as SessionId }, FLOOR, contender, 1_000);
const run = {
  ...{ id: "r1", agentId: "music", messageId: "m1", attempt: 1, claimId: "x", live: true, held: false, reported: 0 },
  ...{ did: "nothing", losses: 0, drafts: ["d1"], interactions: [], answers: [] },
  usage: { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 },
};
const turns = [{ messageId: "m2", runId: "r2" }];
const question = { kind: "question", requestId: "q1", question: "?", options: [] };
const CONTEXTS: Record<string, SessionContext> = {
  "at rest": bare,
  "with its turn waiting in the queue": { ...bare, queuedAt: 5, turns } as never,
  "at work": { ...bare, run, turns, pausedBy: "preemption" } as never,
  "with a question": {
    ...bare,
    run: { ...run, interactions: [{ interaction: question, since: 5 }] },
    stopping: { runId: "r0", attempt: 1, since: 5, reported: 0, messages: [] },
    lease: { lengthMs: 100, renewedAt: 5, signAt: 5, dueAt: 105 },
  } as never,
};

const about = { sessionId: "s", given };
const turn = { messageId: "m9", runId: "r9", content: "hello" };
const answer = { kind: "question", requestId: "q1", selected: [] };
const report = { ...about, type: "run.report", runId: "r1", attempt: 1, n: 1, parts: [] };
/** The events of each type that a session accepts. */
const SESSION_EVENTS = [
  ...["activate", "resume"].map((type) => ({ type, contender, reason: "floor_free", given })),
  { type: "activate", contender, reason: "floor_free", turnFollows: true, given },
  { type: "preempt", by: { sessionId: "o", agentId: "music" }, reason: "outranks", given },
  { type: "duck", contender, level: -14, reason: "preempted", given },
  { type: "queue", contender, decision: { outcome: "queued" }, given },
  { type: "queue", contender, decision: { outcome: "queued" }, turn, given },
  { type: "renumber", contender: { ...contender, priority: 30 }, given },
  { type: "unqueue", decision: { outcome: "rejected", say: "no" }, given },
  { type: "turn", turn, input: turn, given },
  { type: "turn", turn: { messageId: "m2", runId: "r2" }, given },
  { type: "ask", interactions: [question], given },
  { type: "withdraw", requestId: question.requestId, given },
  { type: "done", summary: "so", given },
  { type: "fail", code: "provider_refused", message: "no", reason: "failed", expired: "q1", given },
  ...["abort", "yield", "archive", "expire"].map((type) => ({ type, reason: "why", given })),
  { type: "leave", given },
  ...["activate", "resume", "pause", "archive", "stop", "abort", "delete"].map((verb) => ({
    ...about,
    type: `session.${verb}`,
  })),
  { ...about, type: "session.chat", turn },
  { ...about, type: "session.update", settings: { title: "t" } },
  { ...about, type: "session.heartbeat" },
  { ...about, type: "session.played", messageId: "m1", upTo: 1 },
  { ...about, type: "session.switch_agent", agentId: "music", contender },
  { ...about, type: "session.switch_agent", agentId: "nobody" },
  { ...about, type: "session.withdraw", messageId: "m2" },
  { ...about, type: "session.answer", requestId: "q1", answer },
  { ...about, type: "run.claim", runId: "r1", claimId: "y", hasNoDriver: true },
  report,
  { ...report, parts: [{ kind: "ask", interaction: { ...question, requestId: "q2" } }] },
  { ...report, withdrawn: [question.requestId] },
  { ...report, outcome: { kind: "done" } },
  { ...report, outcome: { kind: "unneeded" } },
  { ...about, type: "run.still", runId: "r1", attempt: 1 },
  { ...about, type: "session.summarize" },
  { ...about, type: "session.update", settings: { mode: "research" } },
  { ...about, type: "session.schedule", schedule: { inMs: 1_000, content: "later" } },
  { type: "miss", turn, given },
  ...["max_pause", "max_hold", "queue_timeout", "answer_within", "lease", "stop_grace"].map((what) => ({
    type: "due",
    what,
    given,
  })),
  { type: "nonsense", given },
] as unknown as SessionEvent[];

/** A session run by XState, and the events sent to its parent. */
function playByXstate(value: unknown, context: SessionContext, event: SessionEvent) {
  const words: unknown[] = [];
  const emitted: unknown[] = [];
  const parent = setup({ actors: { session: sessionMachine } }).createMachine({
    context: {},
    on: { "*": { actions: enqueueActions(({ event: word }) => void words.push(word)) } },
  });
  const child = { status: "active", value, historyValue: {}, context, children: {} };
  const actor = createActor(parent, {
    snapshot: {
      status: "active",
      value: {},
      historyValue: {},
      context: {},
      children: { s: { snapshot: child, src: "session", syncSnapshot: false } },
    } as never,
    inspect(seen) {
      if (seen.type === "@xstate.action" && seen.action.type === "xstate.emit") {
        emitted.push((seen.action.params as { event: Emitted }).event);
      }
    },
  });
  actor.subscribe({ error() {} });
  actor.start();
  const session = actor.getSnapshot().children["s"] as unknown as ActorRefFrom<typeof sessionMachine>;
  session.send(event);
  const {
    status,
    value: to,
    context: remembered,
  } = session.getSnapshot() as SnapshotFrom<typeof sessionMachine> & { status: string };
  return status === "error" ? "it threw" : { value: to, context: remembered, emitted, words };
}

const SESSION = new MachinePlayer<typeof sessionMachine, SessionStep>(sessionMachine);

function playByTable(value: unknown, context: SessionContext, event: SessionEvent) {
  const words: unknown[] = [];
  const emitted: unknown[] = [];
  let state = SESSION.restore(value, context);
  const waiting = [event];
  try {
    for (let next = waiting.shift(); next; next = waiting.shift()) {
      const made = SESSION.step(state, next);
      state = made.state;
      for (const { facts, toArbiter, toSelf } of made.steps) {
        if (facts.length > 0) emitted.push({ type: "facts", facts });
        words.push(...toArbiter);
        waiting.push(...toSelf);
      }
    }
  } catch {
    return "it threw";
  }
  return { value: state.at.value, context: state.context, emitted, words };
}

test("every state of a session is tested with every kind of event", () => {
  const known = new Set<string>();
  const walk = ({ ownEvents, states }: typeof sessionMachine.root) => {
    for (const type of ownEvents) known.add(type);
    for (const child of Object.values(states)) walk(child as never);
  };
  walk(sessionMachine.root);
  const sessionTypes = new Set(SESSION_EVENTS.map(({ type }) => type as string));
  const untested = [...known].filter((type) => !sessionTypes.has(type));
  expect(untested, "add an event of these types to SESSION_EVENTS").toEqual([]);
  expect(SESSION.configurations.length).toBe(
    Object.keys(sessionMachine.root.states["lifecycle"]!.states).length *
      Object.keys(sessionMachine.root.states["activity"]!.states).length,
  );
});

test.each(SESSION.configurations.map(({ value }) => [JSON.stringify(value), value] as const))(
  "a session's table gives the same result as XState for any event: %s",
  (_, value) => {
    for (const context of Object.values(CONTEXTS)) {
      for (const event of SESSION_EVENTS) {
        const wanted = playByXstate(value, context, event);
        expect(playByTable(value, context, event), event.type).toEqual(wanted);
      }
    }
  },
);
