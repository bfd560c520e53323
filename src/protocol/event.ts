import { z } from "zod";
import { Decision } from "./decision.ts";
import { ERROR_CODES } from "./errors.ts";
import { AgentId, type FloorSeq, MessageId, type RequestId, RunId, type Seq, SessionId } from "./ids.ts";
import { ToolCall } from "./interaction.ts";
import { AgentRef, Message, Usage } from "./message.ts";
import { AgentInfo, Session, TokenUsage } from "./session.ts";

/** The verbs of a session's life, as transitions name them. */
export const TRANSITION_EVENTS = [
  "activate",
  "preempt",
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
  "paused",
  "archived",
  "deleted",
] as const;
export type WrittenState = (typeof WRITTEN_STATES)[number];

export const Transition = z.object({
  from: z.enum(WRITTEN_STATES),
  to: z.enum(WRITTEN_STATES),
  event: z.enum(TRANSITION_EVENTS),
  reason: z.string().optional(),
  by: z.object({ sessionId: SessionId, agentId: AgentId }).optional(),
  runId: RunId.optional(),
});
export type Transition = z.infer<typeof Transition>;

/** Events that are logged: they have a `seq` and replay. */
export const LOGGED_EVENTS = {
  session_created: Session,
  session_transition: Transition,
  session_updated: z.object({
    title: z.string().optional(),
    summary: z.string().optional(),
    tokenUsage: TokenUsage.optional(),
    agentSessions: z.record(z.string(), z.string()).optional(),
  }),
  arbitration: Decision,
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
  }),
  user_question_request: z.object({
    question: z.string(),
    options: z.array(z.string()),
    multiSelect: z.boolean().optional(),
  }),
  interaction_resolved: z.object({ by: z.enum(["client", "timeout", "abort"]) }),
  usage: Usage,
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
  }),
  data: z.object({ name: z.string(), data: z.unknown(), agent: AgentRef }),
  floor_updated: z.object({ flags: z.record(z.string(), z.boolean()) }),
} as const;
export type LoggedType = keyof typeof LOGGED_EVENTS;
export type LoggedData<T extends LoggedType> = z.infer<(typeof LOGGED_EVENTS)[T]>;

/** A piece of a message that is still being written. `offset` and lengths in UTF-16 units. */
export const Delta = z.object({
  messageId: MessageId,
  runId: RunId,
  attempt: z.number().int(),
  kind: z.enum(["text", "reasoning"]),
  offset: z.number().int(),
  text: z.string(),
  agent: AgentRef,
});
export type Delta = z.infer<typeof Delta>;

export const BYE_REASONS = ["ended", "draining", "overloaded", "token_expired"] as const;
export type ByeReason = (typeof BYE_REASONS)[number];

/** Events that are not logged: a reader that was away has lost nothing by them. */
export const LIVE_EVENTS = {
  connected: z.object({ connectionId: z.string() }),
  agent_list: z.object({ agents: z.array(AgentInfo), currentAgentId: AgentId }),
  delta: Delta,
  reset: z.object({ sessionId: SessionId.optional(), from: z.number().int().optional() }),
  bye: z.object({ reason: z.enum(BYE_REASONS), reconnectInMs: z.number().int().optional() }),
} as const;
export type LiveType = keyof typeof LIVE_EVENTS;
export type EventType = LoggedType | LiveType;

/** An event as the log keeps it: `json` is its data, serialised once. */
export interface LogEntry {
  floorSeq: FloorSeq;
  sessionId?: SessionId | undefined;
  /** Its place in the session's log; absent for what belongs to the floor alone. */
  seq?: Seq | undefined;
  type: LoggedType;
  requestId?: RequestId | undefined;
  /** When it happened, ms since 1970. */
  at: number;
  json: string;
}

/**
 * What stands behind `data:` in a frame. The same bytes at birth and in a replay years later, so this is the only
 * place that writes it.
 */
export function envelopeJson(event: {
  type: EventType;
  json: string;
  at: number;
  sessionId?: string | undefined;
  seq?: number | undefined;
  requestId?: string | undefined;
}): string {
  let text = `{"type":"${event.type}","data":${event.json},"timestamp":"${new Date(event.at).toISOString()}"`;
  if (event.sessionId !== undefined) text += `,"sessionId":"${event.sessionId}"`;
  if (event.seq !== undefined) text += `,"seq":${event.seq}`;
  if (event.requestId !== undefined) text += `,"requestId":"${event.requestId}"`;
  return `${text}}`;
}
