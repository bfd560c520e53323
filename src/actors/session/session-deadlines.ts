/** The deadlines of a session. None is stored: each follows from when a state began, and from the catalogue. */

import { type FloorTime, later, latest } from "../../shared/floor-time.ts";
import type { DeadlineSources } from "../facts.ts";
import { expireInteraction } from "./interactions.ts";
import { releaseStopped } from "./runs.ts";
import { isAudible, lengthsOf, type SessionContext, STOP_GRACE_MS } from "./session-context.ts";
import { fireLease } from "./session-lease.ts";
import { fireSchedule } from "./session-schedule.ts";
import type { DueEvent, SessionStep } from "./session-step.ts";

/** The earliest deadline of a session. */
export interface SessionDeadline {
  readonly at: FloorTime;
  readonly what: DueEvent["what"];
}

/**
 * The earliest deadline of a session; undefined if it has none. Pure.
 * @param isReserved the floor is reserved for it: then its request does not time out, because it is woken soon
 */
export function deadlineOf(
  context: SessionContext,
  sources: DeadlineSources,
  isReserved = false,
): SessionDeadline | undefined {
  let first: SessionDeadline | undefined;
  eachDeadline(context, sources, isReserved, (what, since, lengthMs) => {
    if (since === undefined || lengthMs === undefined) return;
    const at = later(since, lengthMs);
    if (!first || at < first.at) first = { at, what };
  });
  return first;
}

/** Visit every deadline that the session may have, with when it began and its length: undefined if it has none. */
export function eachDeadline(
  context: SessionContext,
  { catalog, interactionTimeoutMs }: DeadlineSources,
  isReserved: boolean,
  consider: (what: SessionDeadline["what"], since: FloorTime | undefined, lengthMs: number | undefined) => void,
): void {
  const lengths = lengthsOf(context, catalog);
  consider("max_pause", context.request?.since ?? context.pausedSince, lengths.maxPauseMs);
  consider("max_hold", context.audibleSince, lengths.maxHoldMs);
  consider("idle_timeout", context.idleSince, lengths.idleTimeoutMs);
  const isQueued = context.queuedAt !== undefined;
  if (!isQueued) consider("resume_within", context.waitsSince, lengths.resumeWithinMs);
  const requestedAt = isQueued ? context.waitsSince : context.request?.since;
  if (!isReserved) consider("queue_timeout", requestedAt, lengths.queueTimeoutMs);
  consider("lease", context.lease?.dueAt, 0);
  consider("stop_grace", context.stopping?.since, STOP_GRACE_MS);
  const { answerWithinMs = interactionTimeoutMs, answersWhileHeard } = lengths;
  for (const { since, audibleMs = 0 } of context.run?.interactions ?? []) {
    if (!answersWhileHeard) consider("answer_within", since, answerWithinMs);
    else if (context.audibleSince !== undefined)
      consider("answer_within", latest(since, context.audibleSince), answerWithinMs - audibleMs);
  }
}

/** A deadline has passed. It ends the state that it limits, so it passes once. */
export function handleDueOfSession(step: SessionStep, { what }: DueEvent): void {
  const { context, given, toSelf, toArbiter } = step;
  const { id: sessionId } = context;
  switch (what) {
    case "max_pause":
      toSelf.push({ type: "expire", reason: what, given });
      return;
    case "idle_timeout":
    case "idle_yields":
    case "max_hold":
    case "resume_within":
      toSelf.push({ type: "yield", reason: what, given });
      return;
    case "queue_timeout":
      toArbiter.push({ type: "wait_over", sessionId, reason: what, given });
      return;
    case "lease":
      if (!fireLease(step)) return;
      if (isAudible(context) || context.queuedAt === undefined)
        toSelf.push({ type: "yield", reason: "lease_expired", given });
      else toArbiter.push({ type: "wait_over", sessionId, reason: "lease_expired", given });
      return;
    case "scheduled":
      return fireSchedule(step);
    case "stop_grace":
      return releaseStopped(step);
    case "answer_within": {
      const { interactions } = context.run!;
      const earliest = interactions.reduce((one, other) => (other.since < one.since ? other : one));
      return expireInteraction(step, earliest.interaction.requestId);
    }
    default:
      void (what satisfies never);
  }
}
