/** The runs of a session as lists show them, read from its row. */

import type { ListedRun, ListedRunState } from "../../protocol/listed-run.ts";
import type { Session } from "../../protocol/session.ts";
import { isAudible, recallSession, type SessionContext, type SessionWork } from "./session-context.ts";

/**
 * When the session's oldest unfinished run was accepted, in ms since 1970; undefined if it has none. Rows of an earlier
 * release do not say it: then the session's last activity.
 */
export function oldestRunAt({ run, turns, summarizing, lastActivityAt }: SessionContext): number | undefined {
  const unfinished = [run, turns[0], summarizing].filter((each) => each !== undefined);
  if (unfinished.length === 0) return undefined;
  return Math.min(...unfinished.map(({ at = lastActivityAt }) => at));
}

/** The session's unfinished runs: the present turn's, those of the turns that wait, and its summary. */
export function unfinishedRuns(session: Session, memory: string): ListedRun[] {
  const context = recallSession(session, memory);
  const { run, turns, summarizing } = context;
  const about = aboutSession(session);
  return [
    ...(run ? [{ ...about, ...workOf(run, stateOf(context), session), ...asksOf(context) }] : []),
    ...turns.map(({ runId: id, at = session.lastActivityAt }, index): ListedRun => {
      const isNext = index === 0 && run === undefined;
      const state = isNext && !isAudible(context) ? "waits_for_floor" : "waits_for_turn";
      return { ...about, id, state, at };
    }),
    ...(summarizing
      ? [
          {
            ...about,
            ...workOf(summarizing, summarizing.live ? "driven" : "waits_for_worker", session),
            purpose: "summary" as const,
          },
        ]
      : []),
  ];
}

/** When the newest of the session's failed runs failed; undefined: none did. */
export function lastFailedAt({ failure, pastFailure, lastActivityAt }: SessionContext): number | undefined {
  const last = failure ?? pastFailure;
  return last && (last.at ?? lastActivityAt);
}

/** The newest of the session's failed runs. */
export function failedRun(session: Session, memory: string): ListedRun | undefined {
  const context = recallSession(session, memory);
  const failure = context.failure ?? context.pastFailure;
  if (!failure) return undefined;
  const isFollowed = context.failure === undefined;
  const at = lastFailedAt(context)!;
  return {
    ...{ ...aboutSession(session), id: failure.runId, state: "failed", at, failure },
    ...(isFollowed && { isFollowed }),
  };
}

function stateOf(context: SessionContext): ListedRunState {
  const { live, held, interactions } = context.run!;
  if (live && held) return "held";
  if (live) return interactions.length > 0 ? "waits_for_person" : "driven";
  return isAudible(context) ? "waits_for_worker" : "waits_for_floor";
}

function aboutSession({ id: sessionId, ...session }: Session) {
  const { floorId, agentId, userId, zone, ownerId, workspaceId, title, state: sessionState } = session;
  return {
    ...{ sessionId, floorId, agentId, title, sessionState },
    ...(userId !== undefined && { userId }),
    ...(zone !== undefined && { zone }),
    ...(ownerId !== undefined && { ownerId }),
    ...(workspaceId !== undefined && { workspaceId }),
  };
}

function workOf(
  { id, agentId, attempt, live, claimed, again, at }: SessionWork,
  state: ListedRunState,
  session: Session,
) {
  return {
    ...{ id, agentId, state, at: at ?? session.lastActivityAt, attempt },
    ...(live && claimed && { claimedAt: claimed.at, ...(claimed.worker && { worker: claimed.worker }) }),
    ...(again && { again }),
  };
}

function asksOf(context: SessionContext): Pick<ListedRun, "asks"> {
  const isStill = context.lengths?.answersWhileHeard === true && !isAudible(context);
  const asks = (context.run?.interactions ?? []).map(({ interaction }) => {
    const { requestId, kind } = interaction;
    return {
      requestId,
      kind,
      ...(kind === "confirmation" && { tool: interaction.toolCall.function.name }),
      ...(isStill && { isStill: true as const }),
    };
  });
  return asks.length > 0 ? { asks } : {};
}
