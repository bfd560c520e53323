import type { NewSession } from "../protocol/command.ts";
import type { WrittenState } from "../protocol/event.ts";
import type { AgentId, EffectId, FloorId, MessageId, RequestId, RunId, SessionId } from "../protocol/ids.ts";
import type { Answer, Interaction } from "../protocol/interaction.ts";
import type { Usage } from "../protocol/message.ts";
import {
  type Activity,
  NEW_TITLE,
  type PausedBy,
  type Session,
  type SessionState,
  type TokenUsage,
} from "../protocol/session.ts";
import type { Claim } from "./arbitration.ts";

/** What a session remembers. All of it is JSON: a session that no longer competes is just this, in a row. */
export interface SessionContext {
  id: SessionId;
  floorId: FloorId;
  title: string;
  summary?: string | undefined;
  userId?: string | undefined;
  zone?: string | undefined;
  ownerId?: string | undefined;
  workspaceId?: string | undefined;
  /** The numbers it competes with, as they were when it asked last. */
  claim: Claim;
  pausedBy?: PausedBy | undefined;
  queuedAt?: number | undefined;
  createdAt: number;
  updatedAt: number;
  lastActivityAt: number;
  archivedAt?: number | undefined;
  messageCount: number;
  tokenUsage: TokenUsage;
  agentSessions: Record<string, string>;
  /** Tools the user approved for the rest of the session. */
  approvedTools: string[];
  /** Interactions that ran out, the newest last. */
  expired?: RequestId[] | undefined;
  /** There while the session is running or waiting; kept through a pause. */
  run?: Run | undefined;
  /** Turns that wait for the run to end, or for the floor. */
  turns: WaitingTurn[];
  /** An attempt that was told to stop and has not said that it did (rule C16). */
  stopping?: { runId: RunId; attempt: number; timerId: EffectId } | undefined;
  idleTimerId?: EffectId | undefined;
  pauseTimerId?: EffectId | undefined;
}

export interface WaitingTurn {
  messageId: MessageId;
  runId: RunId;
}

/** The work on one turn. */
export interface Run {
  id: RunId;
  agentId: AgentId;
  /** The user's message. */
  messageId: MessageId;
  /** 0 until a worker claims it; older attempts are fenced by it (rule C10). */
  attempt: number;
  claimId?: string | undefined;
  /** Whether the current attempt may report. */
  live: boolean;
  /** A live attempt that was told to stop pulling. */
  held: boolean;
  /** The number of the last report taken (rule C12). */
  reported: number;
  /** Whether the current attempt has said something or called a tool (rule C11). */
  spoke: boolean;
  /** Attempts that were lost with their worker. */
  losses: number;
  /** The wish for a worker; gone when a worker must not start now. */
  effectId?: EffectId | undefined;
  /** A second wish, in case the worker that holds the run is gone (rule C13). */
  nudgeId?: EffectId | undefined;
  /** Messages that are being written. */
  drafts: MessageId[];
  interactions: PendingInteraction[];
  /** All answers given to this attempt; repeated to a worker that asks (rule C13). */
  answers: Answer[];
  usage: Usage;
}

export interface PendingInteraction {
  interaction: Interaction;
  timerId: EffectId;
}

export const NO_USAGE: Usage = { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 };

/** Messages that may wait in one session for its run to end. */
export const MAX_TURNS = 16;
/** Lost attempts after which a run fails. */
export const MAX_LOSSES = 3;
export const MAX_APPROVED_TOOLS = 256;
/** Interactions that are remembered to have run out; a later answer to one of them hears so. */
export const MAX_EXPIRED = 8;
/** How long a session's next run waits for the former attempt to say that it stopped, in ms. */
export const STOP_GRACE_MS = 10_000;
/** How long a resumed run may be silent before another worker is asked, in ms. */
export const NUDGE_MS = 2_000;

export function newSession(session: NewSession, floorId: FloorId, claim: Claim, now: number): SessionContext {
  return {
    id: session.sessionId,
    floorId,
    title: session.title ?? NEW_TITLE,
    userId: session.userId,
    zone: session.zone,
    ownerId: session.ownerId,
    workspaceId: session.workspaceId,
    claim,
    createdAt: now,
    updatedAt: now,
    lastActivityAt: now,
    messageCount: 0,
    tokenUsage: { used: 0, breakdown: { input: 0, output: 0, cacheRead: 0, cacheCreation: 0 } },
    agentSessions: {},
    approvedTools: [],
    turns: [],
  };
}

/** A session's machine is two regions: whose turn it is, and what it does with it. */
export interface SessionValue {
  lifecycle: SessionState | "deleted";
  activity: Activity;
}

/** How events write a state: only an active session's activity shows. */
export function writtenState({ lifecycle, activity }: SessionValue): WrittenState {
  return lifecycle === "active" ? `active.${activity}` : lifecycle;
}

/** The session as answers show it. */
export function sessionView(context: SessionContext, { lifecycle, activity }: SessionValue): Session {
  const { id, title, summary, userId, zone, ownerId, floorId, workspaceId } = context;
  return {
    id,
    title,
    ...(summary !== undefined && { summary }),
    agentId: context.claim.agentId,
    ...(userId !== undefined && { userId }),
    ...(zone !== undefined && { zone }),
    ...(ownerId !== undefined && { ownerId }),
    floorId,
    ...(workspaceId !== undefined && { workspaceId }),
    state: lifecycle === "deleted" ? "archived" : lifecycle,
    activity,
    ...(lifecycle === "paused" && context.pausedBy && { pausedBy: context.pausedBy }),
    ...(context.queuedAt !== undefined && { queuedAt: context.queuedAt }),
    priority: context.claim.priority,
    interruptible: context.claim.interruptible,
    createdAt: context.createdAt,
    updatedAt: context.updatedAt,
    lastActivityAt: context.lastActivityAt,
    ...(context.archivedAt !== undefined && { archivedAt: context.archivedAt }),
    messageCount: context.messageCount,
    tokenUsage: context.tokenUsage,
    agentSessions: context.agentSessions,
  };
}

/** What a session remembers beside what its view shows, for its row. */
export function memoryOf({
  claim,
  approvedTools,
  expired,
  run,
  turns,
  stopping,
  idleTimerId,
  pauseTimerId,
}: SessionContext): string {
  return JSON.stringify({ claim, approvedTools, expired, run, turns, stopping, idleTimerId, pauseTimerId });
}

/** The session of a row, as its machine left it. */
export function recallSession(session: Session, memory: string): SessionContext {
  const { agentId: _, state: __, activity: ___, priority: ____, interruptible: _____, ...kept } = session;
  return { ...kept, ...(JSON.parse(memory) as Pick<SessionContext, "claim" | "approvedTools" | "expired" | "turns">) };
}
