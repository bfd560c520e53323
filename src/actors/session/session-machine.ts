import { enqueueActions, type ParameterizedObject, setup } from "xstate";
import type { ErrorCode } from "../../protocol/errors.ts";
import type { Activity, SessionState } from "../../protocol/session.ts";
import { isContinued } from "../../protocol/written-state.ts";
import type { Emitted } from "../facts.ts";
import {
  endLife,
  endRequest,
  goBeneath,
  leaveQueue,
  loseFloor,
  missTime,
  pauseAgain,
  queueUp,
  reportLeft,
  requestFloor,
  stayPaused,
  stopWaiting,
  winFloor,
} from "./floor-changes.ts";
import { openInteractions, refuseAnswer, resolveInteraction, withdrawInteraction } from "./interactions.ts";
import { cancelRun, failRun, finishRun, releaseStopped } from "./runs.ts";
import { lengthsOf, type SessionContext } from "./session-context.ts";
import { handleDueOfSession } from "./session-deadlines.ts";
import { handleHeartbeat, renewLease } from "./session-lease.ts";
import { refuseScheduled, reschedule } from "./session-schedule.ts";
import { switchAgent, update } from "./session-settings.ts";
import {
  answer,
  answerWithSession,
  beginStep,
  editRun,
  endStep,
  logEvent,
  refuseCommand,
  type SessionEvent,
  type SessionStep,
} from "./session-step.ts";
import { countTurn, isNamedBySummary, summarize } from "./summaries.ts";
import { abortOther, applyAfterTurn, beginTurn, overlapTurn, refuseIfExternalOrBusy, withdrawTurn } from "./turns.ts";
import { answerStill, applyReport, claimRun } from "./worker-commands.ts";

/** The initial state of a session in the actors: new, or from its row. */
export interface SessionInput {
  context: SessionContext;
  lifecycle: SessionState;
  activity: Activity;
}

type EventOf<T extends SessionEvent["type"]> = Extract<SessionEvent, { type: T }>;

/** A machine action: `work` edits a step for the event. A table takes the step as it is, XState carries it out. */
function does<T extends SessionEvent["type"], P extends ParameterizedObject["params"] | undefined = undefined>(
  work: (step: SessionStep, event: EventOf<T>, params: P) => void,
) {
  const stepOf = (context: SessionContext, event: SessionEvent, params: P): SessionStep => {
    const step = beginStep(context, event.given);
    // Every command of the session is a sign of life.
    if (event.type.startsWith("session.")) renewLease(step);
    work(step, event as EventOf<T>, params);
    step.context = endStep(context, step);
    return step;
  };
  const forXstate = enqueueActions<SessionContext, SessionEvent, P, SessionEvent, never, never, never, never, Emitted>(
    ({ context, event, enqueue }, params) => {
      const { context: after, facts, toArbiter, toSelf } = stepOf(context, event, params);
      if (after !== context) enqueue.assign(after);
      if (facts.length > 0) enqueue.emit({ type: "facts", facts });
      for (const sent of toArbiter) enqueue.sendParent(sent);
      for (const sent of toSelf) enqueue.sendTo(({ self }) => self, sent);
    },
  );
  return Object.assign(forXstate, { stepOf });
}

/** Events of a session that waits for the floor, and has never had it. */
const ALLOWED_WHEN_QUEUED = ["activate", "chat", "archive", "stop", "abort", "switch_agent", "delete"];
const ALLOWED_WHEN_CREATED = ["activate", "chat", "schedule", "archive", "stop", "abort", "switch_agent", "delete"];

const machine = setup({
  types: {
    context: {} as SessionContext,
    events: {} as SessionEvent,
    emitted: {} as Emitted,
    input: {} as SessionInput,
  },
  guards: {
    isForAnotherRun: ({ context, event }) =>
      event.type === "session.abort" && event.runId !== undefined && event.runId !== context.run?.id,
    isScheduled: ({ context }) => context.schedule !== undefined,
    isQueued: ({ context }) => context.queuedAt !== undefined,
    hasNoInteraction: ({ context }) => !context.run?.interactions.length,
    // How XState's own actor begins; a node restores the states of a row. None has a run: such a session stays loaded.
    enters: ({ event }, from: Pick<SessionInput, "lifecycle"> | Pick<SessionInput, "activity">) => {
      const { input } = event as unknown as { input: SessionInput };
      return "lifecycle" in from ? input.lifecycle === from.lifecycle : input.activity === from.activity;
    },
  },
  actions: {
    requestFloor: does<"session.activate" | "session.resume">((step) => requestFloor(step)),
    requestFloorForTurn: does<"session.chat">((step, { turn }) =>
      refuseIfExternalOrBusy(step) ? undefined : requestFloor(step, turn),
    ),
    winFloor: does<"activate" | "resume">(winFloor),
    goBeneath: does<"duck">(goBeneath),
    loseFloor: does<"preempt" | "yield">((step, { type }) =>
      loseFloor(step, type === "preempt" ? "preemption" : "yield"),
    ),
    pause: does<"session.pause">((step) => {
      loseFloor(step, "user");
      answerWithSession(step);
    }),
    pauseAgain: does<"session.pause">(pauseAgain),
    queueUp: does<"queue">(queueUp),
    setNumbers: does<"renumber">((step, { contender, isRequest }) => {
      if (!isRequest || contender.priority !== step.context.numbers.priority) step.context.numbers = contender;
      // Without `idle_timeout` the request changes nothing, and is not logged.
      const isPostponed = isRequest && lengthsOf(step.context, step.given.catalog).idleTimeoutMs !== undefined;
      if (isPostponed && step.context.idleSince !== undefined) step.context.idleSince = step.given.time;
    }),
    leaveQueue: does<"unqueue">(leaveQueue),
    endRequest: does<"unqueue">(endRequest),
    stayPaused: does<"yield">(stayPaused),
    stopWaiting: does<"yield">(stopWaiting),
    handleHeartbeat: does<"session.heartbeat">((step) => {
      handleHeartbeat(step);
      answerWithSession(step, step.context.lapsed && { lapsed: true });
    }),
    /** The host has checked the position against the message. */
    notePlayed: does<"session.played">((step, { messageId, upTo }) => {
      const played = { messageId, upTo };
      step.context.played = played;
      step.facts.push({ type: "message.played", sessionId: step.context.id, ...played });
      logEvent(step, "session_updated", { played });
      answer(step, { messageId, playedUpTo: upTo });
    }),
    endLife: does<"archive" | "expire">((step, { reason, by }) => {
      if (isContinued(reason)) step.context.replacedBy = by?.sessionId;
      endLife(step);
    }),
    archive: does<"session.archive" | "session.stop">((step) => {
      endLife(step);
      answerWithSession(step);
    }),
    delete: does<"session.delete">((step) => {
      endLife(step);
      releaseStopped(step);
      answer(step, { deleted: true });
    }),
    receiveTurn: does<"session.chat">((step, { turn: input }) => {
      if (refuseIfExternalOrBusy(step)) return;
      const { messageId, runId } = input;
      step.toSelf.push({ type: "turn", turn: { messageId, runId }, input, given: step.given });
    }),
    beginTurn: does<"turn">(beginTurn),
    overlapTurn: does<"turn">(overlapTurn),
    withdrawTurn: does<"session.withdraw">(withdrawTurn),
    openInteractions: does<"ask">((step, { interactions }) => openInteractions(step, interactions)),
    resolveInteraction: does<"session.answer">(resolveInteraction),
    withdrawInteraction: does<"withdraw">(withdrawInteraction),
    finishRun: does<"done">((step, { summary }) => {
      const { context } = step;
      if (summary !== undefined && !isNamedBySummary(step)) context.summary = summary;
      const data = {
        ...(context.summary !== undefined && { summary: context.summary }),
        tokenUsage: context.tokenUsage,
      };
      logEvent(step, "session_updated", data);
      finishRun(step, editRun(step), false);
      countTurn(step);
      applyAfterTurn(step, true);
    }),
    failRun: does<"fail">((step, { code, message, retryAfterMs, expired }) => {
      failRun(step, { errorCode: code, message, ...(retryAfterMs !== undefined && { retryAfterMs }) }, expired);
      applyAfterTurn(step, false);
    }),
    cancelRun: does<"abort" | "session.abort">((step, { type }) => {
      cancelRun(step);
      applyAfterTurn(step, false);
      if (type === "session.abort") answer(step, {});
    }),
    abortOther: does<"session.abort">(abortOther),
    nothingToAnswer: does<"session.answer">(refuseAnswer),
    claimRun: does<"run.claim">(claimRun),
    applyReport: does<"run.report">(applyReport),
    answerStill: does<"run.still">(answerStill),
    summarize: does<"session.summarize">(summarize),
    reportLeft: does<"leave">(reportLeft),
    handleDue: does<"due">(handleDueOfSession),
    update: does<"session.update">(update),
    switchAgent: does<"session.switch_agent">(switchAgent),
    reschedule: does<"session.schedule">(reschedule),
    refuseScheduled: does<"session.activate" | "session.chat">((step) => refuseScheduled(step)),
    missTime: does<"miss">((step, { turn }) => missTime(step, turn)),
    acknowledge: does<"session.stop">((step) => answerWithSession(step)),
    refuse: does<SessionEvent["type"], { code: ErrorCode; allowed?: string[] }>((step, _, { code, allowed }) => {
      const { replacedBy } = step.context;
      const facts = allowed ? { allowed } : replacedBy !== undefined && { replacedBy };
      refuseCommand(step, code, facts ? { facts } : undefined);
    }),
  },
});

/** The commands that every living session accepts, with or without the floor. */
const anytime = {
  archive: { target: "archived", actions: "endLife" },
  "session.archive": { target: "archived", actions: "archive" },
  "session.stop": { target: "archived", actions: "archive" },
  "session.delete": { target: "deleted", actions: "delete" },
  "session.update": { actions: "update" },
  "session.heartbeat": { actions: "handleHeartbeat" },
  "session.played": { actions: "notePlayed" },
  "session.switch_agent": { actions: "switchAgent" },
  "session.withdraw": { actions: "withdrawTurn" },
  "session.summarize": { actions: "summarize" },
  "run.claim": { actions: "claimRun" },
  "run.report": { actions: "applyReport" },
  "run.still": { actions: "answerStill" },
  due: { actions: "handleDue" },
  renumber: { actions: "setNumbers" },
} as const;

/** How an audible session goes silent. */
const silenced = {
  preempt: { target: "paused", actions: "loseFloor" },
  yield: { target: "paused", actions: "loseFloor" },
  "session.pause": { target: "paused", actions: "pause" },
} as const;

const refused = (code: ErrorCode, allowed?: string[]) =>
  ({ actions: { type: "refuse", params: { code, ...(allowed && { allowed }) } } }) as const;

const neverHadFloor = [
  { guard: "isQueued", ...refused("illegal_command", ALLOWED_WHEN_QUEUED) },
  refused("illegal_command", ALLOWED_WHEN_CREATED),
] as const;

/** The events of a session with a run: how the run ends, and what another turn does. The run ends with its session. */
const working = {
  turn: { actions: "overlapTurn" },
  done: { target: "idle", actions: "finishRun" },
  fail: { target: "failed", actions: "failRun" },
  abort: { target: "idle", actions: "cancelRun" },
  "session.abort": [
    { guard: "isForAnotherRun", actions: "abortOther" },
    { target: "idle", actions: "cancelRun" },
  ],
  archive: "idle",
  expire: "idle",
  "session.archive": "idle",
  "session.stop": "idle",
  "session.delete": "idle",
} as const;

/**
 * The machine of one session, with two regions: `lifecycle`, whether it has the floor (docs/use/arbitration.md), and
 * `activity`, what its agent does (docs/use/protocol.md). Work is a run request and delays are deadlines of the floor,
 * because XState does not restore the ones that a machine has.
 */
export const sessionMachine = machine.createMachine({
  id: "session",
  type: "parallel",
  context: ({ input }) => input.context,
  on: { leave: { actions: "reportLeft" } },
  states: {
    lifecycle: {
      initial: "entering",
      states: {
        entering: {
          always: [
            { guard: { type: "enters", params: { lifecycle: "paused" } }, target: "paused" },
            { guard: { type: "enters", params: { lifecycle: "archived" } }, target: "archived" },
            { target: "created" },
          ],
        },
        created: {
          on: {
            ...anytime,
            activate: { target: "active", actions: "winFloor" },
            duck: { target: "ducked", actions: "goBeneath" },
            queue: { actions: "queueUp" },
            unqueue: { actions: "leaveQueue" },
            yield: { actions: "stopWaiting" },
            miss: { actions: "missTime" },
            "session.schedule": [
              { guard: "isQueued", ...refused("illegal_command", ALLOWED_WHEN_QUEUED) },
              { actions: "reschedule" },
            ],
            "session.activate": [{ guard: "isScheduled", actions: "refuseScheduled" }, { actions: "requestFloor" }],
            "session.chat": [{ guard: "isScheduled", actions: "refuseScheduled" }, { actions: "requestFloorForTurn" }],
            "session.pause": neverHadFloor,
            "session.resume": neverHadFloor,
          },
        },
        active: {
          on: {
            ...anytime,
            ...silenced,
            duck: { target: "ducked", actions: "goBeneath" },
            "session.schedule": refused("illegal_command"),
            "session.activate": { actions: "requestFloor" },
            "session.resume": { actions: "requestFloor" },
            "session.chat": { actions: "receiveTurn" },
          },
        },
        ducked: {
          on: {
            ...anytime,
            ...silenced,
            duck: { actions: "goBeneath" },
            resume: { target: "active", actions: "winFloor" },
            "session.schedule": refused("illegal_command"),
            "session.activate": { actions: "requestFloor" },
            "session.resume": { actions: "requestFloor" },
            "session.chat": { actions: "requestFloorForTurn" },
          },
        },
        paused: {
          on: {
            ...anytime,
            resume: { target: "active", actions: "winFloor" },
            duck: { target: "ducked", actions: "goBeneath" },
            expire: { target: "archived", actions: "endLife" },
            queue: { actions: "queueUp" },
            unqueue: { actions: "endRequest" },
            yield: { actions: "stayPaused" },
            "session.pause": { actions: "pauseAgain" },
            "session.schedule": refused("illegal_command"),
            "session.activate": { actions: "requestFloor" },
            "session.resume": { actions: "requestFloor" },
            "session.chat": { actions: "requestFloorForTurn" },
          },
        },
        archived: {
          on: {
            "session.activate": refused("session_archived"),
            "session.resume": refused("session_archived"),
            "session.pause": refused("session_archived"),
            "session.archive": refused("session_archived"),
            "session.chat": refused("session_archived"),
            "session.schedule": refused("session_archived"),
            "session.update": refused("session_archived"),
            "session.withdraw": refused("session_archived"),
            "session.summarize": refused("session_archived"),
            "session.heartbeat": refused("session_archived"),
            "session.played": refused("session_archived"),
            "session.switch_agent": { actions: "switchAgent" },
            "session.stop": { actions: "acknowledge" },
            "session.delete": { target: "deleted", actions: "delete" },
            "run.claim": { actions: "claimRun" },
            "run.report": { actions: "applyReport" },
            "run.still": { actions: "answerStill" },
            due: { actions: "handleDue" },
          },
        },
        deleted: {},
      },
    },
    activity: {
      initial: "entering",
      states: {
        entering: {
          always: [{ guard: { type: "enters", params: { activity: "failed" } }, target: "failed" }, { target: "idle" }],
        },
        idle: {
          on: {
            turn: { target: "running", actions: "beginTurn" },
            "session.abort": { actions: "abortOther" },
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
          always: { guard: "hasNoInteraction", target: "running" },
          on: {
            ...working,
            ask: { actions: "openInteractions" },
            withdraw: { actions: "withdrawInteraction" },
            "session.answer": { actions: "resolveInteraction" },
          },
        },
        failed: {
          on: {
            turn: { target: "running", actions: "beginTurn" },
            "session.abort": { actions: "abortOther" },
            "session.answer": { actions: "nothingToAnswer" },
          },
        },
      },
    },
  },
});
