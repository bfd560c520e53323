import { enqueueActions, type ParameterizedObject, setup, stateIn } from "xstate";
import type { ErrorCode } from "../protocol/errors.ts";
import type { Activity, PausedBy, SessionState } from "../protocol/session.ts";
import type { Emitted } from "./facts.ts";
import type { SessionContext } from "./session-context.ts";
import {
  endLife,
  leaveQueue,
  loseFloor,
  pauseAgain,
  queueUp,
  requestFloor,
  settlePaused,
  tellArbiter,
  winFloor,
} from "./session-floor.ts";
import { openInteractions, refuseAnswer, settleInteraction } from "./session-interactions.ts";
import { claimRun, takeReport, tellStanding } from "./session-report.ts";
import { cancelRun, failRun, finishRun } from "./session-run.ts";
import { fireTimer, rename, switchAgent } from "./session-settings.ts";
import { answer, beginStep, editRun, endStep, refuse, type SessionEvent, type SessionStep } from "./session-step.ts";
import { beginTurn, isTooBusy, keepTurn, overlapTurn, settle, settleAfterTurn, withdrawTurn } from "./session-turns.ts";

/** How a session comes into the actors: new, or from its row. */
export interface SessionInput {
  context: SessionContext;
  lifecycle: SessionState;
  activity: Activity;
}

type EventOf<T extends SessionEvent["type"]> = Extract<SessionEvent, { type: T }>;

/**
 * An action that is a step: `work` says what the event makes of the session, and all of it is carried out here and
 * nowhere else.
 */
function does<T extends SessionEvent["type"], P extends ParameterizedObject["params"] | undefined = undefined>(
  work: (step: SessionStep, event: EventOf<T>, params: P) => void,
) {
  return enqueueActions<SessionContext, SessionEvent, P, SessionEvent, never, never, never, never, Emitted>(
    ({ context, event, enqueue }, params) => {
      const step = beginStep(context, event.given);
      work(step, event as EventOf<T>, params);
      const after = endStep(context, step);
      if (after !== context) enqueue.assign(after);
      if (step.facts.length > 0) enqueue.emit({ type: "facts", facts: step.facts });
      for (const word of step.words) enqueue.sendParent(word);
      for (const verb of step.verbs) enqueue.sendTo(({ self }) => self, verb);
    },
  );
}

/** Guards the way in: only what a row can say is asked, since a session with a run is never just a row. */
const enters =
  (from: Partial<SessionInput>) =>
  ({ event }: { event: unknown }): boolean => {
    const { input } = event as { input: SessionInput };
    return from.lifecycle ? input.lifecycle === from.lifecycle : input.activity === from.activity;
  };

/** What a session that was never granted the floor can be asked. */
const ALLOWED_WHEN_CREATED = ["activate", "chat", "archive", "stop", "abort", "switch_agent", "delete"];

const machine = setup({
  types: {
    context: {} as SessionContext,
    events: {} as SessionEvent,
    emitted: {} as Emitted,
    input: {} as SessionInput,
  },
  guards: {
    isActive: stateIn({ lifecycle: "active" }),
    isQueued: ({ context }) => context.queuedAt !== undefined,
    nobodyIsAsked: ({ context }) => !context.run?.interactions.length,
  },
  actions: {
    requestFloor: does<"session.activate" | "session.resume", { as: "activate" | "resume"; mayQueue: boolean }>(
      (step, _, request) => requestFloor(step, request),
    ),
    requestFloorForTurn: does<"session.chat", { as: "activate" | "resume" }>((step, { turn }, { as }) =>
      isTooBusy(step) ? refuse(step, "agent_busy") : requestFloor(step, { as, mayQueue: as === "activate", turn }),
    ),
    winFloor: does<"activate" | "resume">(winFloor),
    loseFloor: does<"preempt" | "yield", { pausedBy: PausedBy }>((step, _, { pausedBy }) => loseFloor(step, pausedBy)),
    pause: does<"session.pause">((step) => {
      loseFloor(step, "user");
      answer(step, {}, true);
    }),
    pauseAgain: does<"session.pause">(pauseAgain),
    queueUp: does<"queue">(queueUp),
    keepPlace: does<"session.activate">((step) => answer(step, {}, true)),
    leaveQueue: does<"unqueue">(leaveQueue),
    endLife: does<"archive" | "expire">(endLife),
    archive: does<"session.archive" | "session.stop">((step) => {
      endLife(step);
      answer(step, {}, true);
    }),
    delete: does<"session.delete">((step) => {
      endLife(step);
      answer(step, { deleted: true });
    }),
    takeTurn: does<"session.chat">((step, { turn: input }) => {
      if (isTooBusy(step)) return refuse(step, "agent_busy");
      const { messageId, runId } = input;
      step.verbs.push({ type: "turn", turn: { messageId, runId }, input, given: step.given });
    }),
    keepTurn: does<"session.chat">((step, { turn }) => keepTurn(step, turn)),
    beginTurn: does<"turn">(beginTurn),
    overlapTurn: does<"turn">(overlapTurn),
    withdrawTurn: does<"session.withdraw">(withdrawTurn),
    openInteractions: does<"ask">((step, { interactions }) => openInteractions(step, interactions)),
    settleInteraction: does<"session.answer">(settleInteraction),
    finishRun: does<"done", { isActive: boolean }>((step, { summary }, { isActive }) => {
      const { context, facts } = step;
      if (summary !== undefined) context.summary = summary;
      const data = {
        ...(context.summary !== undefined && { summary: context.summary }),
        tokenUsage: context.tokenUsage,
      };
      facts.push({ type: "event", event: { type: "session_updated", sessionId: context.id, data } });
      finishRun(step, editRun(step), false);
      if (isActive) settleAfterTurn(step);
      else settlePaused(step);
    }),
    failRun: does<"fail", { isActive: boolean }>((step, { code, message, retryAfterMs, expired }, { isActive }) => {
      failRun(step, { errorCode: code, message, ...(retryAfterMs !== undefined && { retryAfterMs }) }, expired);
      if (isActive) settle(step);
    }),
    cancelRun: does<"abort" | "session.abort", { isActive: boolean }>((step, { type }, { isActive }) => {
      cancelRun(step);
      if (isActive) settle(step);
      if (type === "session.abort") answer(step, {});
    }),
    nothingToAbort: does<"session.abort">((step) => answer(step, {})),
    nothingToAnswer: does<"session.answer">(refuseAnswer),
    claimRun: does<"run.claim", { isActive: boolean }>((step, event, { isActive }) => claimRun(step, event, isActive)),
    takeReport: does<"run.report", { isActive: boolean }>((step, event, { isActive }) =>
      takeReport(step, event, isActive),
    ),
    tellStanding: does<"run.still">(tellStanding),
    tellArbiter: does<"leave">(tellArbiter),
    fireTimer: does<"timer", { isActive: boolean }>((step, event, { isActive }) => fireTimer(step, event, isActive)),
    rename: does<"session.rename">(rename),
    switchAgent: does<"session.switch_agent">((step, event) => switchAgent(step, event)),
    switchArchived: does<"session.switch_agent">((step, event) => switchAgent(step, event, true)),
    acknowledge: does<"session.stop">((step) => answer(step, {}, true)),
    refuse: does<SessionEvent["type"], { code: ErrorCode; allowed?: string[] }>((step, _, { code, allowed }) =>
      refuse(step, code, undefined, allowed && { allowed }),
    ),
  },
});

/** What every living session can be asked, whoever has the floor. */
const anytime = (isActive: boolean) =>
  ({
    archive: { target: "archived", actions: "endLife" },
    "session.archive": { target: "archived", actions: "archive" },
    "session.stop": { target: "archived", actions: "archive" },
    "session.delete": { target: "deleted", actions: "delete" },
    "session.rename": { actions: "rename" },
    "session.switch_agent": { actions: "switchAgent" },
    "session.withdraw": { actions: "withdrawTurn" },
    "run.claim": { actions: { type: "claimRun", params: { isActive } } },
    "run.report": { actions: { type: "takeReport", params: { isActive } } },
    "run.still": { actions: "tellStanding" },
    timer: { actions: { type: "fireTimer", params: { isActive } } },
  }) as const;

const refused = (code: ErrorCode, allowed?: string[]) =>
  ({ actions: { type: "refuse", params: { code, ...(allowed && { allowed }) } } }) as const;

/** An action that depends on whether the session has the floor. */
const byFloor = <Target extends string, Action extends string>(target: Target, action: Action) =>
  [
    { guard: "isActive", target, actions: { type: action, params: { isActive: true } } },
    { target, actions: { type: action, params: { isActive: false } } },
  ] as const;

/** A run is under way: how it ends, and what a further turn does. Whatever runs ends with the session's life. */
const working = {
  turn: { actions: "overlapTurn" },
  done: byFloor("idle", "finishRun"),
  fail: byFloor("failed", "failRun"),
  abort: byFloor("idle", "cancelRun"),
  "session.abort": byFloor("idle", "cancelRun"),
  archive: "idle",
  expire: "idle",
  "session.archive": "idle",
  "session.stop": "idle",
  "session.delete": "idle",
} as const;

/**
 * One session. Two regions: `lifecycle` says whether it has the floor (docs/arbitration.md), `activity` what its agent
 * does (docs/protocol.md). Delays and work are effects, never `after` or `invoke`: those do not survive a restore.
 */
export const sessionMachine = machine.createMachine({
  id: "session",
  type: "parallel",
  context: ({ input }) => input.context,
  on: { leave: { actions: "tellArbiter" } },
  states: {
    lifecycle: {
      initial: "entering",
      states: {
        entering: {
          always: [
            { guard: enters({ lifecycle: "paused" }), target: "paused" },
            { guard: enters({ lifecycle: "archived" }), target: "archived" },
            { target: "created" },
          ],
        },
        created: {
          on: {
            ...anytime(false),
            activate: { target: "active", actions: "winFloor" },
            queue: { actions: "queueUp" },
            unqueue: { actions: "leaveQueue" },
            "session.activate": [
              { guard: "isQueued", actions: "keepPlace" },
              { actions: { type: "requestFloor", params: { as: "activate", mayQueue: true } } },
            ],
            "session.chat": [
              { guard: "isQueued", actions: "keepTurn" },
              { actions: { type: "requestFloorForTurn", params: { as: "activate" } } },
            ],
            "session.pause": refused("illegal_command", ALLOWED_WHEN_CREATED),
            "session.resume": refused("illegal_command", ALLOWED_WHEN_CREATED),
          },
        },
        active: {
          on: {
            ...anytime(true),
            preempt: { target: "paused", actions: { type: "loseFloor", params: { pausedBy: "preemption" } } },
            yield: { target: "paused", actions: { type: "loseFloor", params: { pausedBy: "yield" } } },
            "session.pause": { target: "paused", actions: "pause" },
            "session.activate": { actions: { type: "requestFloor", params: { as: "activate", mayQueue: false } } },
            "session.resume": { actions: { type: "requestFloor", params: { as: "resume", mayQueue: false } } },
            "session.chat": { actions: "takeTurn" },
          },
        },
        paused: {
          on: {
            ...anytime(false),
            resume: { target: "active", actions: "winFloor" },
            expire: { target: "archived", actions: "endLife" },
            "session.pause": { actions: "pauseAgain" },
            "session.activate": { actions: { type: "requestFloor", params: { as: "resume", mayQueue: false } } },
            "session.resume": { actions: { type: "requestFloor", params: { as: "resume", mayQueue: false } } },
            "session.chat": { actions: { type: "requestFloorForTurn", params: { as: "resume" } } },
          },
        },
        archived: {
          on: {
            "session.activate": refused("session_archived"),
            "session.resume": refused("session_archived"),
            "session.pause": refused("session_archived"),
            "session.archive": refused("session_archived"),
            "session.chat": refused("session_archived"),
            "session.rename": refused("session_archived"),
            "session.withdraw": refused("session_archived"),
            "session.switch_agent": { actions: "switchArchived" },
            "session.stop": { actions: "acknowledge" },
            "session.delete": { target: "deleted", actions: "delete" },
            "run.claim": { actions: { type: "claimRun", params: { isActive: false } } },
            "run.report": { actions: { type: "takeReport", params: { isActive: false } } },
            "run.still": { actions: "tellStanding" },
            timer: { actions: { type: "fireTimer", params: { isActive: false } } },
          },
        },
        deleted: {},
      },
    },
    activity: {
      initial: "entering",
      states: {
        entering: {
          always: [{ guard: enters({ activity: "failed" }), target: "failed" }, { target: "idle" }],
        },
        idle: {
          on: {
            turn: { target: "running", actions: "beginTurn" },
            "session.abort": { actions: "nothingToAbort" },
            "session.answer": { actions: "nothingToAnswer" },
          },
        },
        running: {
          on: {
            ...working,
            ask: { target: "waiting", actions: "openInteractions" },
            "session.answer": { actions: "nothingToAnswer" },
          },
        },
        waiting: {
          always: { guard: "nobodyIsAsked", target: "running" },
          on: {
            ...working,
            ask: { actions: "openInteractions" },
            "session.answer": { actions: "settleInteraction" },
          },
        },
        failed: {
          on: {
            turn: { target: "running", actions: "beginTurn" },
            "session.abort": { actions: "nothingToAbort" },
            "session.answer": { actions: "nothingToAnswer" },
          },
        },
      },
    },
  },
});
