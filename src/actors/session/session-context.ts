import type { AgentEntry, Catalog } from "../../config/catalog/catalog.ts";
import type { ErrorCode } from "../../protocol/errors.ts";
import type { WrittenState } from "../../protocol/event.ts";
import {
  type AgentId,
  type FloorId,
  type MessageId,
  type RequestId,
  type RunId,
  type RunRequestId,
  type SessionId,
  userOf,
} from "../../protocol/ids.ts";
import type { Answer, Interaction } from "../../protocol/interaction.ts";
import type { History, WantedSession } from "../../protocol/internal/command.ts";
import type { AgentRef, Played, Usage } from "../../protocol/message.ts";
import {
  type Activity,
  type Failure,
  type Group,
  NEW_TITLE,
  type Origin,
  type PausedBy,
  type Schedule,
  type Session,
  type SessionState,
  type TokenUsage,
} from "../../protocol/session.ts";
import { changedSettings, type SessionSettings } from "../../protocol/session-settings.ts";
import type { FloorTime } from "../../shared/floor-time.ts";
import type { Contender } from "../floor/contender.ts";

/** A session's memory, all of it JSON. A session that no longer competes exists only as this, in a row. */
export interface SessionContext extends SessionSettings {
  id: SessionId;
  floorId: FloorId;
  title: string;
  /** Present until the session gets a title, from a client or its first message. */
  untitled?: true | undefined;
  summary?: string | undefined;
  failure?: Failure | undefined;
  userId?: string | undefined;
  zone?: string | undefined;
  ownerId?: string | undefined;
  workspaceId?: string | undefined;
  origin?: Origin | undefined;
  /** Of a request for all zones: its sessions. */
  group?: Group | undefined;
  /** While it waits for its time: when it asks for the floor. */
  schedule?: Schedule | undefined;
  /** Of what its time makes: the beginning of their ids. A commit that is tried again makes the same. */
  nextId?: string | undefined;
  /** The series that it is an occurrence of. */
  series?: SessionId | undefined;
  /** The session is archived when its last turn has ended, however it ended. */
  endsWithTurn?: true | undefined;
  /** How it competes: its numbers as of its last request for the floor. */
  numbers: Contender;
  pausedBy?: PausedBy | undefined;
  /** While it is ducked: its level, in dB relative to its own volume. */
  level?: number | undefined;
  queuedAt?: number | undefined;
  /** A request of the session that waits while it is paused. */
  request?: WaitingRequest | undefined;
  createdAt: number;
  updatedAt: number;
  lastActivityAt: number;
  archivedAt?: number | undefined;
  /** The copy in whose favour it was archived. */
  replacedBy?: SessionId | undefined;
  messageCount: number;
  tokenUsage: TokenUsage;
  /** The newest failure that a later turn followed. */
  pastFailure?: Session["failure"];
  /** The run of the newest turn, and its reply once there is one. */
  newest?: { runId: RunId; messageId?: MessageId } | undefined;
  /** How much of that turn's reply was spoken; absent if the reply is not spoken. */
  played?: Played | undefined;
  agentSessions: Record<string, string>;
  /** By agent: the disk of a provider's session that is reachable from that disk only. */
  agentHomes?: Record<string, string> | undefined;
  /** By agent: the user message of the last run with that provider's session. */
  agentHeard?: Record<string, string> | undefined;
  /** Tools that the user approved for the rest of the session. */
  approvedTools: string[];
  /** Interactions that timed out, newest last. */
  expired?: RequestId[] | undefined;
  /** Present while the session is running or waiting; kept during a pause. */
  run?: Run | undefined;
  /** Turns that wait for the end of the run, or for the floor. */
  turns: QueuedTurn[];
  /** A stopped attempt that has not confirmed its end (rule C16). */
  stopping?: StoppingAttempt | undefined;
  /** The message with the newest summary. */
  summaryId?: MessageId | undefined;
  /** What was said since the newest summary was begun; absent: nothing that counts. */
  uncovered?: { turns: number; units: number } | undefined;
  /** The summary that is wanted or being written. Its id is also that of its message. */
  summarizing?: SessionWork | undefined;
  // When states began, in the floor's time. The deadlines follow from them: session-deadlines.ts.
  /** Since when it holds the floor without a run. */
  idleSince?: FloorTime | undefined;
  pausedSince?: FloorTime | undefined;
  /** Since when it is audible without a break, in front or beneath. */
  audibleSince?: FloorTime | undefined;
  /** Since when it waits for the floor, queued or preempted. */
  waitsSince?: FloorTime | undefined;
  /** What its agent's keys were when its state began; they apply once the agent has left the catalogue. */
  lengths?: Lengths | undefined;
  /** Present while the session is audible or waits for the floor, if its agent has a lease. */
  lease?: SessionLease | undefined;
  /** Its lease ran out, and it has not competed since. */
  lapsed?: true | undefined;
}

/** The agent's keys that end a state of a session after a time, by their names in the catalogue. */
export const LIMITS = {
  idle_timeout: "idleTimeoutMs",
  max_pause: "maxPauseMs",
  max_hold: "maxHoldMs",
  queue_timeout: "queueTimeoutMs",
  resume_within: "resumeWithinMs",
  answer_within: "answerWithinMs",
} as const satisfies Record<string, keyof AgentEntry>;
type LimitKey = (typeof LIMITS)[keyof typeof LIMITS];
const LIMIT_KEYS: readonly LimitKey[] = Object.values(LIMITS);

/** The agent's keys that say when a session's state ends: how long it may last, and what happens after a turn. */
export type Lengths = Partial<Pick<AgentEntry, LimitKey | "answersWhileHeard" | "afterTurn">>;

/** These keys of an agent, as a session remembers them; undefined if none ends a state. */
export function keptLengths(agent: AgentEntry): Lengths | undefined {
  const { answersWhileHeard, afterTurn } = agent;
  const lengths: Lengths = {};
  for (const key of LIMIT_KEYS) if (agent[key] !== undefined) lengths[key] = agent[key];
  if (answersWhileHeard) lengths.answersWhileHeard = true;
  if (afterTurn !== "keep") lengths.afterTurn = afterTurn;
  return Object.keys(lengths).length > 0 ? lengths : undefined;
}

/** These keys of the session's agent; if it has left the catalogue, those that the session's state began with. */
export function lengthsOf({ numbers, lengths }: SessionContext, { agents }: Pick<Catalog, "agents">): Lengths {
  return agents.get(numbers.agentId) ?? lengths ?? {};
}

/** When a session last gave a sign of life, and when its lease is looked at. */
export interface SessionLease {
  lengthMs: number;
  /** The last sign of life that was committed, in ms since 1970, for readers. */
  renewedAt: number;
  /** The same in the floor's time, as is `dueAt`. */
  signAt: FloorTime;
  dueAt: FloorTime;
  /** Whether there was a sign of life since the deadline was set. */
  isRenewed?: true | undefined;
  /** True if no sign of life came for a whole lease. The session lapses at the next deadline. */
  isDoubted?: true | undefined;
}

/** A request for the floor that waits. `queue_timeout` limits it. */
export interface WaitingRequest {
  /** In the floor's time. */
  since: FloorTime;
  /** Whether the session would come back without it. */
  wasPreempted: boolean;
  /** The messages that wait with it. */
  messageIds: MessageId[];
}

export interface StoppingAttempt {
  runId: RunId;
  attempt: number;
  /** When the floor asked it to stop, in the floor's time. */
  since: FloorTime;
  /** The number of its last accepted report. */
  reported: number;
  /** Its unfinished messages. */
  messages: MessageId[];
  /** The agent of its run, to which its last tokens count. */
  agentId?: AgentId | undefined;
}

/** The work of the session's agent: a turn, or a summary. */
export interface SessionWork {
  id: RunId;
  agentId: AgentId;
  /** 0 until a worker claims it. Reports of older attempts are rejected by it (rule C10). */
  attempt: number;
  /** When its turn was accepted, or the summary requested, in ms since 1970, for readers. */
  at?: number | undefined;
  claimId?: string | undefined;
  /** Who claimed the newest attempt, and when, for readers. */
  claimed?: { worker?: string | undefined; at: number } | undefined;
  /** How the try before ended, and when the next one may begin, for readers. Absent: there was none. */
  again?: { after: AttemptEnd | ErrorCode; nextAt?: number } | undefined;
  /** Whether the current attempt may report. */
  live: boolean;
  /** The run request that waits for a worker, under a key of older releases; absent while no worker may start. */
  effectId?: RunRequestId | undefined;
  /** Of a turn: a second request for a worker, in case the worker that holds the run is gone (rule C13). */
  nudgeId?: RunRequestId | undefined;
}

export interface QueuedTurn {
  messageId: MessageId;
  runId: RunId;
  /** It began on another floor, and counts no more. */
  hasBegun?: true | undefined;
  /** When it was accepted, in ms since 1970, for readers. */
  at?: number | undefined;
}

/** How an attempt ended without ending its run. */
export type AttemptEnd =
  /** With its worker, which may have done more than it reported. */
  | "lost"
  /** Its worker gave it back, because it held the run for too long. */
  | "given_back"
  /** The session was paused, and the agent does not hold its runs. */
  | "paused";

/** The work on one turn. */
export interface Run extends SessionWork {
  /** The session's mode when the turn began. */
  mode?: string | undefined;
  /** The user message. */
  messageId: MessageId;
  /** Whether a live attempt is held: its worker does not pull the agent. */
  held: boolean;
  /** The number of the last accepted report (rule C12). */
  reported: number;
  /**
   * What the current attempt has done that its agents may not do again (rule C11): nothing; written text; or acted,
   * such as called a tool.
   */
  did: "nothing" | "spoke" | "acted";
  /** The number of attempts lost with their workers. */
  losses: number;
  /** Unfinished messages. */
  drafts: MessageId[];
  /** The one of them that the session's own agent writes. */
  replyId?: MessageId | undefined;
  /** Whether a message of the current attempt already shows why the run fails. */
  hasFailed?: true | undefined;
  interactions: OpenInteraction[];
  /** Calls of the current attempt that have no result yet; absent if there are none. */
  calls?: OpenCall[] | undefined;
  /** All answers to this attempt's interactions; repeated to a worker that asks (rule C13). */
  answers: Answer[];
  usage: Usage;
}

export interface OpenInteraction {
  interaction: Interaction;
  /** When it was asked, in the floor's time. */
  since: FloorTime;
  /** How long it was audible until the session last fell silent, in ms; absent: it never did. */
  audibleMs?: number;
}

export interface OpenCall {
  toolCallId: string;
  toolName: string;
  agent: AgentRef;
}

export const NO_USAGE: Usage = { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 };

/** The maximum number of turns that wait in one session. */
export const MAX_TURNS = 16;
/** The maximum number of calls whose results a run waits for. Beyond that, the oldest gets none if its attempt ends. */
export const MAX_OPEN_CALLS = 64;
/** Lost attempts after which a run fails. */
export const MAX_LOSSES = 3;
/** The maximum number of tools that a session remembers as approved. */
export const MAX_APPROVED_TOOLS = 256;
/** The maximum number of timed-out interactions kept, so that a late answer gets a specific error. */
export const MAX_EXPIRED = 8;
/** How long a session's next attempt waits for the former one to confirm its end, in ms. */
export const STOP_GRACE_MS = 10_000;
/** How long a resumed run may be silent before another worker is requested, in ms. */
export const NUDGE_MS = 2_000;

/** The context of a session that a command creates. `history`: the messages that it begins with. */
export function newSession(
  session: WantedSession,
  floorId: FloorId,
  numbers: Contender,
  now: number,
  history?: History,
): SessionContext {
  return {
    id: session.sessionId,
    floorId,
    ...changedSettings(session),
    title: session.title ?? NEW_TITLE,
    ...(session.title === undefined && { untitled: true as const }),
    userId: session.userId,
    zone: session.zone,
    ownerId: session.ownerId,
    workspaceId: session.workspaceId,
    ...(history && { origin: history.origin }),
    ...(session.group && { group: session.group }),
    ...(session.endsWithTurn && { endsWithTurn: true as const }),
    ...(history?.summary && { summary: history.summary.headline, summaryId: history.summary.messageId }),
    numbers,
    createdAt: now,
    updatedAt: now,
    lastActivityAt: now,
    messageCount: history?.messageCount ?? 0,
    tokenUsage: { used: 0, breakdown: { input: 0, output: 0, cacheRead: 0, cacheCreation: 0 } },
    agentSessions: {},
    approvedTools: [],
    turns: [],
  };
}

/** What a session has besides its messages when it goes on on another floor, where its messages keep their ids. */
export function carriedBy(context: SessionContext) {
  const { title, untitled, summary, summaryId, uncovered, tokenUsage, endsWithTurn } = context;
  const { agentSessions, agentHomes, agentHeard, approvedTools, run, newest, played } = context;
  return {
    ...{ title, untitled, summary, summaryId, uncovered, tokenUsage, endsWithTurn },
    ...{ agentSessions, agentHomes, agentHeard, approvedTools },
    // A run under way begins again, with its reply.
    ...(!run && { newest, played }),
  } satisfies Partial<SessionContext>;
}

/** The state of a session's machine: one value per region. */
export interface SessionValue {
  lifecycle: SessionState | "deleted";
  activity: Activity;
}

/** Whose turns the session's count with: its owner's, or those of the user of its floor. */
export const payerOf = ({ ownerId, floorId }: Pick<SessionContext, "ownerId" | "floorId">): string =>
  ownerId ?? userOf(floorId) ?? "";

/** Whether the session is active or ducked. */
export const isAudible = ({ audibleSince }: Pick<SessionContext, "audibleSince">): boolean =>
  audibleSince !== undefined;

/** How events write a state: the activity shows while the session is audible. */
export function writtenState({ lifecycle, activity }: SessionValue): WrittenState {
  return lifecycle === "active" || lifecycle === "ducked" ? `${lifecycle}.${activity}` : lifecycle;
}

/**
 * The session as replies show it. Every view has the same keys, which is faster; JSON leaves out the undefined ones.
 */
export function sessionView(context: SessionContext, { lifecycle, activity }: SessionValue): Session {
  return {
    id: context.id,
    title: context.title,
    summary: context.summary,
    summaryId: context.summaryId,
    agentId: context.numbers.agentId,
    mode: context.mode,
    userId: context.userId,
    zone: context.zone,
    locale: context.numbers.locale,
    ownerId: context.ownerId,
    floorId: context.floorId,
    workspaceId: context.workspaceId,
    origin: context.origin,
    group: context.group,
    schedule: context.schedule,
    endsWithTurn: context.endsWithTurn,
    series: context.series,
    state: lifecycle === "deleted" ? "archived" : lifecycle,
    activity,
    failure: context.failure,
    pausedBy: lifecycle === "paused" ? context.pausedBy : undefined,
    level: lifecycle === "ducked" ? (context.level ?? 0) : undefined,
    queuedAt: context.queuedAt,
    leaseMs: context.lease?.lengthMs,
    leaseUntil: context.lease && context.lease.renewedAt + context.lease.lengthMs,
    priority: context.numbers.priority,
    interruptible: context.numbers.interruptible,
    createdAt: context.createdAt,
    updatedAt: context.updatedAt,
    lastActivityAt: context.lastActivityAt,
    archivedAt: context.archivedAt,
    replacedBy: context.replacedBy,
    played: context.played,
    messageCount: context.messageCount,
    tokenUsage: context.tokenUsage,
    agentSessions: context.agentSessions,
  } satisfies Record<keyof Session, unknown>;
}

/** The session's memory without the parts that its view has. */
function remembered(context: SessionContext) {
  const {
    untitled,
    nextId,
    numbers,
    agentHomes,
    agentHeard,
    approvedTools,
    expired,
    run,
    pastFailure,
    newest,
    turns,
    stopping,
  } = context;
  const { request, lapsed, uncovered, summarizing, idleSince, pausedSince, audibleSince, waitsSince, lengths, lease } =
    context;
  const since = { idleSince, pausedSince, audibleSince, waitsSince };
  const rest = { pastFailure, turns, request, stopping, uncovered, summarizing, ...since, lengths, lease, lapsed };
  return {
    ...{ untitled, nextId, numbers, agentHomes, agentHeard, approvedTools, expired, run, newest },
    ...rest,
  } satisfies Record<Exclude<keyof SessionContext, keyof Session>, unknown>;
}

/** The session's memory without the parts that its view has, as JSON for its row. */
export function memoryOf(context: SessionContext): string {
  return JSON.stringify(remembered(context));
}

/** The messages of the turns that wait, in the order in which they will run, from the memory of a session's row. */
export function waitingMessages(memory: string): MessageId[] {
  const { turns } = JSON.parse(memory) as ReturnType<typeof remembered>;
  return turns.map(({ messageId }) => messageId);
}

/** The user's message of the turn under way, from the memory of a session's row; undefined if there is none. */
export function runningMessage(memory: string): MessageId | undefined {
  return (JSON.parse(memory) as ReturnType<typeof remembered>).run?.messageId;
}

/** Whether the session asks this of its user, or did until it timed out, from the memory of its row. */
export function hasAsked(memory: string, requestId: RequestId): boolean {
  const { run, expired = [] } = JSON.parse(memory) as ReturnType<typeof remembered>;
  const asked = run?.interactions.some(({ interaction }) => interaction.requestId === requestId);
  return asked === true || expired.includes(requestId);
}

/** The fields of a view that come from its numbers and the machine's state; the context does not store them twice. */
const DERIVED = [
  "agentId",
  "state",
  "activity",
  "priority",
  "interruptible",
  "locale",
  "leaseMs",
  "leaseUntil",
] as const;

/** Restore a session's context from its row. */
export function recallSession(session: Session, memory: string): SessionContext {
  const kept: Partial<Session> = { ...session };
  for (const name of DERIVED) delete kept[name];
  return {
    ...(kept as Omit<Session, (typeof DERIVED)[number]>),
    ...(JSON.parse(memory) as ReturnType<typeof remembered>),
  };
}

/** The session's token counts with those of a further run. */
export function addTokens({ used, breakdown }: TokenUsage, more: Usage): TokenUsage {
  return {
    used: used + more.total_tokens,
    breakdown: {
      input: breakdown.input + more.prompt_tokens,
      output: breakdown.output + more.completion_tokens,
      cacheRead: breakdown.cacheRead + (more.cache_read_input_tokens ?? 0),
      cacheCreation: breakdown.cacheCreation + (more.cache_creation_input_tokens ?? 0),
    },
  };
}
