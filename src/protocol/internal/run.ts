import { z } from "zod";
import { ERROR_CODES } from "../errors.ts";
import { AgentId, MessageId, RunId } from "../ids.ts";
import { Answer, Interaction, ToolCall } from "../interaction.ts";
import { AgentRef, LogLine, MESSAGE_STATUSES, Message, Usage } from "../message.ts";

/** The name of a disk that holds provider sessions. All workers that share the disk share the name. */
export const Home = z.string().regex(/^[A-Za-z0-9_-]{1,64}$/);

const claimed = {
  runId: RunId,
  attempt: z.number().int(),
  agentId: AgentId,
  /** The message with the session's newest summary. */
  summaryId: MessageId.optional(),
};

/** The data that a worker needs to drive a turn. It reads the history itself. */
const TurnTask = z.object({
  purpose: z.undefined().optional(),
  ...claimed,
  messageId: MessageId,
  providerSessionId: z.string().optional(),
  /** The home of that session; absent: every worker can reach it. */
  providerHome: z.string().optional(),
  /** The newest message that the provider session knows: that of its last run. */
  heardUpTo: MessageId.optional(),
  workspaceId: z.string().optional(),
  /** The agent's mode for this turn. Absent: its first. */
  mode: z.string().optional(),
  /** Tools the user approved for the rest of the session. */
  approvedTools: z.array(z.string()),
});
export type TurnTask = z.infer<typeof TurnTask>;

/** The data that a worker needs to write the summary after `summaryId`. It reads the messages itself. */
const SummaryTask = z.object({
  purpose: z.literal("summary"),
  ...claimed,
  /** The user message of the turn under way: the summary ends before it. */
  before: MessageId.optional(),
});
export type SummaryTask = z.infer<typeof SummaryTask>;

export const RunTask = z.discriminatedUnion("purpose", [TurnTask, SummaryTask]);
export type RunTask = z.infer<typeof RunTask>;

/**
 * The floor's instruction to an attempt: continue (`go`), pause (`hold`) or end (`stop`). `answers` repeats all answers
 * that were given (rule C13).
 */
export const Directive = z.object({
  verdict: z.enum(["go", "hold", "stop"]),
  /** Set when reports are missing: the `n` from which the worker must repeat (rule C12). */
  expected: z.number().int().optional(),
  answers: z.array(Answer),
});
export type Directive = z.infer<typeof Directive>;

/** A durable part of an agent's output. Reports list parts in the order in which they happened. */
export const ReportPart = z.discriminatedUnion("kind", [
  z.object({ kind: z.literal("open"), messageId: MessageId, agent: AgentRef }),
  /** `offset`: the position of `text` in the message, in UTF-16 units. */
  z.object({ kind: z.literal("append"), messageId: MessageId, offset: z.number().int(), text: z.string() }),
  z.object({
    kind: z.literal("close"),
    messageId: MessageId,
    status: z.enum(MESSAGE_STATUSES),
    parts: Message.shape.parts,
    output: z.string().optional(),
    finishReason: Message.shape.finishReason,
    nativeFinishReason: Message.shape.nativeFinishReason,
    errorCode: Message.shape.errorCode,
    errorMessage: z.string().optional(),
    usage: Usage.optional(),
  }),
  z.object({ kind: z.literal("tool_call"), call: ToolCall, agent: AgentRef }),
  z.object({
    kind: z.literal("tool_result"),
    toolCallId: z.string(),
    toolName: z.string(),
    content: z.string(),
    status: z.enum(["success", "error"]),
    agent: AgentRef,
  }),
  z.object({ kind: z.literal("ask"), interaction: Interaction }),
  z.object({ kind: z.literal("usage"), usage: Usage, agent: AgentRef.optional() }),
  /** Without an id the session there was is lost. `home`: later runs have to go there (rule C16). */
  z.object({ kind: z.literal("provider_session"), id: z.string().max(512).optional(), home: Home.optional() }),
  z.object({ kind: z.literal("log"), messageId: MessageId, line: LogLine }),
  z.object({ kind: z.literal("data"), name: z.string().max(256), data: z.unknown(), agent: AgentRef }),
]);
export type ReportPart = z.infer<typeof ReportPart>;
export type PartOf<K extends ReportPart["kind"]> = Extract<ReportPart, { kind: K }>;

/**
 * How an attempt ended. `stopped` confirms an abort (rule C16). `lost`: the worker gives the attempt back because it
 * shuts down or, if `yielded`, because it held the run for too long (rule C14).
 */
export const RunOutcome = z.discriminatedUnion("kind", [
  z.object({ kind: z.literal("done"), summary: z.string().optional() }),
  /** A summary. `upTo`: the last message that it covers. `hasMore`: there was more to cover than one request holds. */
  z.object({ kind: z.literal("written"), text: z.string().min(1), upTo: MessageId, hasMore: z.boolean() }),
  /** Nothing was said since the summary before. */
  z.object({ kind: z.literal("unneeded") }),
  z.object({
    kind: z.literal("failed"),
    code: z.enum(ERROR_CODES),
    message: z.string(),
    retryAfterMs: z.number().optional(),
  }),
  z.object({ kind: z.literal("stopped") }),
  z.object({ kind: z.literal("lost"), yielded: z.boolean() }),
]);
export type RunOutcome = z.infer<typeof RunOutcome>;

/**
 * A signal from the floor to the driver of an attempt, on the run's topic. Only a hint: the reply to `run.still` says
 * the same.
 */
export const RunSignal = z.discriminatedUnion("signal", [
  /** Asks for the driver of the run, which replies on `replyTo`. Silence means that there is none (rule C10). */
  z.object({ signal: z.literal("who"), replyTo: z.string() }),
  z.object({ signal: z.enum(["stop", "hold", "go"]), attempt: z.number().int() }),
  z.object({ signal: z.literal("answer"), attempt: z.number().int(), answer: Answer }),
]);
export type RunSignal = z.infer<typeof RunSignal>;
