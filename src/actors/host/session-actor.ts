import type { Catalog } from "../../config/catalog/catalog.ts";
import { TRANSITION_EVENTS, type Transition, type TransitionEvent } from "../../protocol/event.ts";
import type { SessionId } from "../../protocol/ids.ts";
import type { Session } from "../../protocol/session.ts";
import type { DeadlineSources } from "../facts.ts";
import type { Configuration, MachineState } from "../machine/machine-player.ts";
import {
  isAudible,
  memoryOf,
  type SessionContext,
  type SessionValue,
  sessionView,
  writtenState,
} from "../session/session-context.ts";
import { deadlineOf, type SessionDeadline } from "../session/session-deadlines.ts";
import type { SessionEvent } from "../session/session-step.ts";

/** The state of a session's machine, immutable. What is derived from it is computed once. */
export class SessionMachineState implements MachineState<SessionContext> {
  readonly at: Configuration;
  readonly context: SessionContext;
  #view: Session | undefined;
  #memory: string | undefined;
  #deadline: { of: Catalog; first: SessionDeadline | undefined } | undefined;

  constructor({ at, context }: MachineState<SessionContext>) {
    this.at = at;
    this.context = context;
  }

  get value(): SessionValue {
    return this.at.value as unknown as SessionValue;
  }

  /** Whether the floor keeps it in memory although it does not compete: it has a run, or waits for its time. */
  get isKept(): boolean {
    const { run, schedule } = this.context;
    return this.value.lifecycle !== "deleted" && (run !== undefined || schedule !== undefined);
  }

  /** The session as replies show it. */
  get view(): Session {
    this.#view ??= sessionView(this.context, this.value);
    return this.#view;
  }

  /** Its earliest deadline, by this catalogue. */
  deadline(sources: DeadlineSources): SessionDeadline | undefined {
    if (this.#deadline?.of !== sources.catalog) {
      this.#deadline = { of: sources.catalog, first: deadlineOf(this.context, sources) };
    }
    return this.#deadline.first;
  }

  /** The rest of its memory as JSON, for its row. */
  get memory(): string {
    this.#memory ??= memoryOf(this.context);
    return this.#memory;
  }
}

/** A session's actor: its state and the queue of its events. It handles one event at a time. */
export class SessionActor {
  readonly id: SessionId;
  readonly waiting: SessionEvent[] = [];
  machineState: SessionMachineState;
  /** When it was used last, in steps of the floor's sessions. */
  usedAt: number;
  isBusy = false;
  /** Whether it changed since the last `drainTouched`. */
  isTouched = false;
  /** Whether it is deleted. It stays until it is evicted, so that its deletion is committed. */
  isGone = false;

  constructor(id: SessionId, machineState: SessionMachineState, usedAt = 0) {
    this.id = id;
    this.machineState = machineState;
    this.usedAt = usedAt;
  }
}

/** By the type of an event: how `session_transition` names it. */
const TRANSITION_OF: Record<string, TransitionEvent> = {
  "session.stop": "archive",
  // Nothing is left to answer.
  withdraw: "answer",
  // The worker that waited for an answer is lost, so the turn starts again.
  "run.claim": "turn",
  "run.report": "turn",
};
for (const name of TRANSITION_EVENTS) {
  TRANSITION_OF[name] = name;
  TRANSITION_OF[`session.${name}`] = name;
}

/** The transition that an event of a session's machine caused, as it is logged; undefined if clients see no change. */
export function transitionOf(
  before: SessionMachineState,
  after: SessionMachineState,
  event: { type: string },
): Transition | undefined {
  const { level } = after.context;
  const isLouderOrQuieter = level !== before.context.level;
  const isForGood = givesUp(before, event);
  if (before.at === after.at && !isLouderOrQuieter && !isForGood) return undefined;
  const from = writtenState(before.value);
  const to = writtenState(after.value);
  const activity = hiddenActivity(before.value, after.value);
  if (from === to && !activity && !isLouderOrQuieter && !isForGood) return undefined;
  const { reason, by, movedTo } = event as Pick<Transition, "reason" | "by" | "movedTo">;
  const { played } = isAudible(after.context) && !isAudible(before.context) ? after.context : {};
  const runId = after.context.run?.id ?? before.context.run?.id;
  return {
    from,
    to,
    event: TRANSITION_OF[event.type]!,
    ...(activity && { activity }),
    ...(reason !== undefined && { reason }),
    ...(by && { by }),
    ...(movedTo !== undefined && { movedTo }),
    ...(runId !== undefined && { runId }),
    ...(level !== undefined && { level }),
    ...(played && { played }),
  };
}

/** A paused session's change of activity, which the written states do not show. */
function hiddenActivity(before: SessionValue, after: SessionValue): Transition["activity"] {
  if (after.lifecycle !== "paused" || before.activity === after.activity) return undefined;
  return { from: before.activity, to: after.activity };
}

/**
 * A paused session no longer resumes by itself, because it gave up or its user paused it too; or a queued one waits no
 * more. The written states do not show that.
 */
const givesUp = ({ value, context }: SessionMachineState, event: { type: string }): boolean =>
  event.type === "yield"
    ? value.lifecycle === "paused" || value.lifecycle === "created"
    : event.type === "session.pause" && context.pausedBy === "preemption";
