import type { ArbiterContext } from "../actors/floor/arbiter-step.ts";
import type { Contender, DuckedContender, QueuedContender } from "../actors/floor/contender.ts";
import type { Floor, ReservedFloor } from "../actors/floor/floor-state.ts";
import type { Run, SessionContext, WaitingRequest } from "../actors/session/session-context.ts";
import type { AgentEntry } from "../config/catalog/catalog.ts";

/**
 * What becomes of a field in the key of a state:
 * - `kept`: two states in which it differs are two;
 * - `presence`: only whether it is there;
 * - `count`: only how many there are;
 * - `moment`: when a state began. Deadlines alone read it, and the bounds between moments are compared (clock-zone.ts);
 * - `elsewhere`: it is in the key in another form, which state-key.ts writes;
 * - `nested`: an object with a table of its own;
 * - or a reason why nothing that can happen depends on it.
 *
 * Everything that the floor, its sessions and their deadlines can read is in these tables. A new field without a word
 * here does not compile.
 */
export type Treatment = "kept" | "presence" | "count" | "moment" | "elsewhere" | { readonly ignored: string } | Nested;
export interface Nested {
  readonly nested: Readonly<Record<string, Treatment>>;
}
export type Table<T> = Readonly<Record<keyof T, Treatment>>;

const FOR_READERS = { ignored: "readers are shown it, and no decision reads it" } as const;
const OF_TURNS = {
  ignored: "a turn reads it, or what a turn says, and decides no more than when a turn ends",
} as const;

const REQUEST_FIELDS: Table<WaitingRequest> = {
  since: "moment",
  wasPreempted: "kept",
  messageIds: "count",
};

/** The workers of an explored floor do nothing in a turn but end it. */
export const RUN_FIELDS: Table<Run> = {
  id: OF_TURNS,
  agentId: OF_TURNS,
  attempt: OF_TURNS,
  at: FOR_READERS,
  claimId: OF_TURNS,
  claimed: FOR_READERS,
  again: FOR_READERS,
  live: "kept",
  effectId: OF_TURNS,
  nudgeId: OF_TURNS,
  mode: "kept",
  messageId: OF_TURNS,
  held: "kept",
  reported: OF_TURNS,
  did: "kept",
  losses: "kept",
  drafts: "kept",
  replyId: "kept",
  hasFailed: "kept",
  interactions: "kept",
  calls: "kept",
  answers: "kept",
  usage: FOR_READERS,
};

export const SESSION_FIELDS: Table<SessionContext> = {
  id: "elsewhere",
  floorId: { ignored: "it is the same for every session of a floor" },
  title: FOR_READERS,
  untitled: FOR_READERS,
  summary: FOR_READERS,
  failure: FOR_READERS,
  pastFailure: FOR_READERS,
  userId: { ignored: "it is the same for every session of a floor" },
  zone: { ignored: "it is the same for every session of a floor" },
  ownerId: "kept",
  workspaceId: "kept",
  origin: "kept",
  group: "kept",
  schedule: "kept",
  nextId: "kept",
  series: "presence",
  endsWithTurn: "kept",
  numbers: "elsewhere",
  pausedBy: "kept",
  level: "kept",
  queuedAt: "presence",
  request: { nested: REQUEST_FIELDS },
  createdAt: { ignored: "of two scheduled sessions the older one asks first, and a proof schedules none" },
  updatedAt: FOR_READERS,
  lastActivityAt: FOR_READERS,
  archivedAt: "presence",
  replacedBy: "kept",
  messageCount: FOR_READERS,
  tokenUsage: "kept",
  newest: OF_TURNS,
  played: "kept",
  agentSessions: "kept",
  agentHomes: "kept",
  agentHeard: "kept",
  approvedTools: "kept",
  expired: "kept",
  run: { nested: RUN_FIELDS },
  turns: "count",
  stopping: "kept",
  mode: "kept",
  summaryId: "kept",
  uncovered: { ignored: "it tells when a summary is due, which needs no floor" },
  summarizing: "kept",
  idleSince: "moment",
  pausedSince: "moment",
  audibleSince: "moment",
  waitsSince: "moment",
  lengths: "kept",
  lease: "elsewhere",
  lapsed: FOR_READERS,
};

/** `explained` is how the priority came about; `locale` is the language of sentences. */
export const CONTENDER_FIELDS: Table<Contender & DuckedContender & QueuedContender> = {
  sessionId: "elsewhere",
  agentId: "elsewhere",
  priority: "kept",
  interruptible: "kept",
  preemptionThreshold: "kept",
  explained: FOR_READERS,
  beneath: "kept",
  ducks: "kept",
  critical: "kept",
  yieldsTo: "kept",
  locale: FOR_READERS,
  askedAt: "elsewhere",
  wants: "kept",
  finishes: "kept",
  level: "kept",
  queuedAt: FOR_READERS,
};

/** Of a session that does not compete: the numbers with which it did. */
export const SILENT_FIELDS: typeof CONTENDER_FIELDS = {
  ...CONTENDER_FIELDS,
  finishes: { ignored: "with its next request it is begun anew" },
};

export const FLOOR_FIELDS: Table<Floor> = {
  holder: "elsewhere",
  reserved: "elsewhere",
  ducked: "elsewhere",
  paused: "elsewhere",
  queued: "elsewhere",
};

export const RESERVATION_FIELDS: Table<ReservedFloor> = {
  sessionId: "elsewhere",
  since: "moment",
  until: FOR_READERS,
};

export const ARBITER_FIELDS: Table<ArbiterContext> = {
  floorId: { ignored: "it is the same in every state" },
  floor: "elsewhere",
  flags: "elsewhere",
  catalog: "elsewhere",
  asked: { ignored: "the next session asks later than all others, and their order is in the key" },
  hours: { ignored: "which rules apply is in the key, and the wall clock is set by moves of its own" },
};

/** Of an agent: which keys tell its sessions from those of another. */
export const AGENT_FIELDS: Table<AgentEntry> = {
  id: "elsewhere",
  label: FOR_READERS,
  description: FOR_READERS,
  priority: "kept",
  interruptible: "kept",
  enabled: "kept",
  capabilities: FOR_READERS,
  preemptionThreshold: "kept",
  whenBlocked: "kept",
  whenPreempted: "kept",
  beneath: "kept",
  critical: "kept",
  replaces: "kept",
  yieldsTo: "kept",
  maxHoldMs: "kept",
  leaseMs: "kept",
  queueTimeoutMs: "kept",
  resumeWithinMs: "kept",
  answerWithinMs: OF_TURNS,
  answersWhileHeard: OF_TURNS,
  whenBusy: OF_TURNS,
  resume: "kept",
  maxPauseMs: "kept",
  idleTimeoutMs: "kept",
  idleYields: "kept",
  afterTurn: "kept",
  messages: FOR_READERS,
  instructions: OF_TURNS,
  tools: OF_TURNS,
  modes: OF_TURNS,
  maxSteps: OF_TURNS,
  subAgents: OF_TURNS,
  maxDepth: OF_TURNS,
  workspaceId: "kept",
  adapter: "elsewhere",
};

/** The object with its moments moved, those of nested objects too. */
export function withMoments<T extends object>(value: T, table: Table<T>, momentOf: (moment: number) => number): T {
  const moved = { ...value } as Record<string, unknown>;
  for (const [name, treatment] of Object.entries(table) as [string, Treatment][]) {
    const field = moved[name];
    if (field === undefined) continue;
    if (treatment === "moment") moved[name] = momentOf(field as number);
    else if (typeof treatment === "object" && "nested" in treatment) {
      moved[name] = withMoments(field as object, treatment.nested as Table<object>, momentOf);
    }
  }
  return moved as T;
}
