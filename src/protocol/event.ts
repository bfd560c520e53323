import { z } from "zod";
import { Decision } from "./decision.ts";
import { ERROR_CODES } from "./errors.ts";
import { FloorSummary, Reservation } from "./floor.ts";
import { AgentId, FloorId, type FloorSeq, MessageId, type RequestId, RunId, type Seq, SessionId } from "./ids.ts";
import { ToolCall } from "./interaction.ts";
import { AgentRef, LogLine, Message, Played, Usage } from "./message.ts";
import { Routed } from "./routed.ts";
import { ACTIVITIES, AgentInfo, Schedule, Session, TokenUsage } from "./session.ts";
import { SessionSettings } from "./session-settings.ts";

/** The events that cause a session's transitions. */
export const TRANSITION_EVENTS = [
  "activate",
  "preempt",
  "duck",
  "resume",
  "pause",
  "yield",
  "turn",
  "ask",
  "answer",
  "done",
  "fail",
  "abort",
  "archive",
  "expire",
  "delete",
] as const;
export type TransitionEvent = (typeof TRANSITION_EVENTS)[number];

export const WRITTEN_STATES = [
  "created",
  "active.idle",
  "active.running",
  "active.waiting",
  "active.failed",
  "ducked.idle",
  "ducked.running",
  "ducked.waiting",
  "ducked.failed",
  "paused",
  "archived",
  "deleted",
] as const;
export type WrittenState = (typeof WRITTEN_STATES)[number];

export const Transition = z.object({
  from: z.enum(WRITTEN_STATES),
  to: z.enum(WRITTEN_STATES),
  event: z.enum(TRANSITION_EVENTS),
  activity: z
    .object({ from: z.enum(ACTIVITIES), to: z.enum(ACTIVITIES) })
    .optional()
    .meta({ description: "a change that `from` and `to` do not show: that of a paused session" }),
  reason: z.string().optional(),
  by: z.object({ sessionId: SessionId, agentId: AgentId }).optional(),
  movedTo: FloorId.optional().meta({ description: "of a session that was moved: the floor where `by` goes on" }),
  runId: RunId.optional(),
  /** Set when the session becomes ducked: its new volume in dB relative to its own, -60 to 0. */
  level: z.number().optional(),
  played: Played.optional().meta({ description: "of a session that is heard again: where its spoken reply goes on" }),
});
export type Transition = z.infer<typeof Transition>;

/** Why a summary that was wanted is not there. */
export const SummaryFailure = z
  .object({
    errorCode: z.enum(ERROR_CODES).optional().meta({ description: "absent if there was nothing to summarise" }),
    message: z.string(),
    retryAt: z.number().optional().meta({ description: "when it is tried again, ms since 1970; absent: not again" }),
  })
  .meta({ id: "SummaryFailure" });
export type SummaryFailure = z.infer<typeof SummaryFailure>;

/** The time of a session's schedule has come. */
const Fired = z
  .object({
    at: z.number().meta({ description: "the time that has come, ms since 1970" }),
    lateMs: z.number().meta({ description: "how much later the floor learnt of it, in ms" }),
    sessionId: SessionId.optional().meta({ description: "of a series: the session that asks" }),
  })
  .meta({ id: "Fired" });
export type Fired = z.infer<typeof Fired>;

/** Events that are stored in the log: they have a `seq` and can be replayed. */
export const LOGGED_EVENTS = {
  session_created: Session,
  session_transition: Transition,
  session_updated: z.object({
    ...SessionSettings.shape,
    summary: z.string().optional(),
    summaryId: MessageId.optional(),
    summaryContinues: z.literal(true).optional(),
    summaryFailure: SummaryFailure.optional(),
    tokenUsage: TokenUsage.optional(),
    agentSessions: z.record(z.string(), z.string()).optional(),
    played: Played.optional(),
    schedule: Schedule.optional(),
    fired: Fired.optional(),
  }),
  arbitration: Decision,
  routed: Routed,
  agent_switched: z.object({ previousAgentId: AgentId, currentAgentId: AgentId, agentName: z.string() }),
  message: Message.extend({ streaming: z.boolean() }),
  tool_call: ToolCall.extend({ agent: AgentRef }),
  tool_result: z.object({
    toolCallId: z.string(),
    toolName: z.string(),
    content: z.string(),
    status: z.enum(["success", "error"]),
    agent: AgentRef,
  }),
  tool_confirmation_request: z.object({
    toolCall: ToolCall,
    isSensitive: z.boolean(),
    availableOptions: z.array(z.object({ value: z.string(), label: z.string() })),
    expiresAt: z.number().optional().meta({ description: "when it runs out, ms since 1970" }),
    audibleMs: z
      .number()
      .optional()
      .meta({ description: "instead of expiresAt: how long it waits while it is heard, in ms" }),
  }),
  user_question_request: z.object({
    question: z.string(),
    options: z.array(z.string()),
    multiSelect: z.boolean().optional(),
    expiresAt: z.number().optional().meta({ description: "when it runs out, ms since 1970" }),
    audibleMs: z
      .number()
      .optional()
      .meta({ description: "instead of expiresAt: how long it waits while it is heard, in ms" }),
  }),
  interaction_resolved: z.object({ by: z.enum(["client", "timeout", "abort", "agent"]) }),
  usage: Usage.extend({ agent: AgentRef.optional() }),
  error: z.object({
    errorCode: z.enum(ERROR_CODES),
    message: z.string(),
    availableAgents: z.array(AgentInfo).optional(),
    runId: RunId.optional(),
    retryAfterMs: z.number().optional(),
  }),
  complete: z.object({
    sessionId: SessionId,
    runId: RunId,
    usage: Usage,
    tokenCount: z.number().int(),
    cancelled: z.literal(true).optional(),
    withdrawn: z
      .literal(true)
      .optional()
      .meta({ description: "the turn was taken back before it began, and its message is deleted" }),
  }),
  data: z.object({ name: z.string(), data: z.unknown(), agent: AgentRef }),
  floor_updated: z.object({
    flags: z.record(z.string(), z.boolean()),
    reserved: Reservation.optional(),
    restrictedBy: z.array(z.string()).optional().meta({
      description: "the restrictions that the flags and the time switch on; present if the catalogue has any",
    }),
    catalogue: z
      .object({ hash: z.string(), former: z.string() })
      .optional()
      .meta({ description: "by which catalogue the floor decides from now on, and by which it did, as hashes" }),
  }),
} as const;
export type LoggedType = keyof typeof LOGGED_EVENTS;
export type LoggedData<T extends LoggedType> = z.infer<(typeof LOGGED_EVENTS)[T]>;

/** A piece of a message that is still being written. `offset` is in UTF-16 units. */
export const Delta = z.object({
  messageId: MessageId,
  runId: RunId,
  attempt: z.number().int(),
  kind: z.enum(["text", "reasoning"]),
  offset: z.number().int(),
  text: z.string(),
  agent: AgentRef,
  after: z
    .string()
    .optional()
    .meta({ description: "in the first piece of a message: the newest tool call of its agent before it" }),
});
export type Delta = z.infer<typeof Delta>;

export const BYE_REASONS = ["ended", "draining", "overloaded", "token_expired"] as const;
export type ByeReason = (typeof BYE_REASONS)[number];

/** Events that are not logged. A reader that misses them loses no data. */
export const LIVE_EVENTS = {
  connected: z.object({ connectionId: z.string() }),
  agent_list: z.object({ agents: z.array(AgentInfo), currentAgentId: AgentId }),
  delta: Delta,
  log: z.object({ messageId: MessageId, runId: RunId, lines: z.array(LogLine) }),
  floor: FloorSummary,
  rollback_result: z.object({
    success: z.boolean(),
    sessionId: SessionId.optional().meta({
      description: "the copy that replaces the session; of a failure: the session",
    }),
    error: z.string().optional(),
  }),
  reset: z.object({ sessionId: SessionId.optional(), from: z.number().int().optional() }),
  bye: z.object({ reason: z.enum(BYE_REASONS), reconnectInMs: z.number().int().optional() }),
} as const;
export type LiveType = keyof typeof LIVE_EVENTS;
export type EventType = LoggedType | LiveType;

/** An event as the log stores it. `json` is its data, serialised once. */
export interface LogEntry {
  floorSeq: FloorSeq;
  sessionId?: SessionId | undefined;
  /** Its sequence number in the session's log; absent for events of the floor only. */
  seq?: Seq | undefined;
  type: LoggedType;
  requestId?: RequestId | undefined;
  /** The time of the event, ms since 1970. */
  at: number;
  json: string;
  /** Set when the event is created. Entries from the store lack it: `storedSubject` derives it from their data. */
  subject?: Subject | undefined;
}

/** The subject of an event, from which followers know which unfinished messages and logs it ends. */
export type Subject = { message: MessageId } | { run: RunId } | { state: WrittenState };

/** Derive the subject of an event from its data; undefined for types that no follower acts on. */
export function subjectOf(type: LoggedType, data: unknown): Subject | undefined {
  switch (type) {
    case "message":
      return { message: (data as LoggedData<"message">).id };
    case "complete":
      return { run: (data as LoggedData<"complete">).runId };
    case "session_transition":
      return { state: (data as LoggedData<"session_transition">).to };
    default:
      return undefined;
  }
}

/** The subject of an entry that may come from the store. */
export function storedSubject({ type, json, subject }: LogEntry): Subject | undefined {
  if (subject) return subject;
  const hasSubject = type === "message" || type === "complete" || type === "session_transition";
  return hasSubject ? subjectOf(type, JSON.parse(json)) : undefined;
}
