import { z } from "zod";
import { shortened, toOneLine } from "../shared/text.ts";
import { ERROR_CODES } from "./errors.ts";
import { MessageId, RunId, SessionId } from "./ids.ts";

/**
 * Who wrote it: the session's agent, or a sub-agent it called. `path` names the agents from the master to this one;
 * `calls` holds the ids of the tool calls between them, which tells apart two sub-agents of one name.
 */
export const AgentRef = z
  .object({
    kind: z.enum(["master", "sub"]),
    name: z.string(),
    depth: z.number().int(),
    path: z.array(z.string()),
    calls: z.array(z.string()).optional(),
  })
  .meta({ id: "AgentRef" });
export type AgentRef = z.infer<typeof AgentRef>;

/** The session's own agent as an author. */
export function masterRef(name: string): AgentRef {
  return { kind: "master", name, depth: 0, path: [name] };
}

/** The key of a speaker in a run: its path of agents, and the tool calls on that path. */
export function speakerOf({ kind, path, calls = [] }: AgentRef): string {
  return [kind, ...path, ...calls].join("\n");
}

/** The usage that a provider reported for one run, in tokens. */
export const Usage = z
  .object({
    prompt_tokens: z.number().int().nonnegative(),
    completion_tokens: z.number().int().nonnegative(),
    total_tokens: z.number().int().nonnegative(),
    cache_creation_input_tokens: z.number().int().nonnegative().optional(),
    cache_read_input_tokens: z.number().int().nonnegative().optional(),
  })
  .meta({ id: "Usage" });
export type Usage = z.infer<typeof Usage>;

/** The sum of two usages. The counts of cached tokens are absent while they are 0. */
export function addUsage(sum: Usage, more: Usage): Usage {
  const add = (key: keyof Usage) => (sum[key] ?? 0) + (more[key] ?? 0);
  const created = add("cache_creation_input_tokens");
  const read = add("cache_read_input_tokens");
  return {
    prompt_tokens: add("prompt_tokens"),
    completion_tokens: add("completion_tokens"),
    total_tokens: add("total_tokens"),
    ...(created > 0 && { cache_creation_input_tokens: created }),
    ...(read > 0 && { cache_read_input_tokens: read }),
  };
}

/** An image that was stored: its bytes are read at `/session/{id}/images/{hash}`. */
export const ImageRef = z
  .object({ hash: z.string().regex(/^[a-f0-9]{64}$/), mimeType: z.string(), bytes: z.number().int() })
  .meta({ id: "ImageRef" });
export type ImageRef = z.infer<typeof ImageRef>;

export const ROLES = ["user", "assistant", "system", "tool"] as const;
export const MESSAGE_STATUSES = ["queued", "running", "success", "error", "interrupted"] as const;
export type MessageStatus = (typeof MESSAGE_STATUSES)[number];

/**
 * Why a reply is incomplete although its run succeeded: the model reached its length limit, the provider's content
 * filter cut the reply, it has no text, or the provider cut it for another reason.
 */
export const FINISH_REASONS = ["length", "content_filter", "empty", "incomplete"] as const;
export type FinishReason = (typeof FINISH_REASONS)[number];

/** A message of a session. Times in ms since 1970. The key is (session, id). */
export const Message = z
  .object({
    id: MessageId,
    sessionId: SessionId,
    role: z.enum(ROLES),
    content: z.string(),
    images: z.array(ImageRef).optional(),
    parts: z.array(z.record(z.string(), z.unknown())).optional(),
    status: z.enum(MESSAGE_STATUSES),
    agent: AgentRef.optional(),
    runId: RunId.optional(),
    output: z.string().optional(),
    /** Absent when the reply is complete. */
    finishReason: z.enum(FINISH_REASONS).optional(),
    /** Of an `incomplete` reply: the provider's own word for the reason; at most 64 characters. */
    nativeFinishReason: z.string().optional(),
    /** Of the message that a failed run ends with, one for each run: why it failed. */
    errorCode: z.enum(ERROR_CODES).optional(),
    errorMessage: z.string().optional(),
    usage: Usage.optional(),
    summary: z
      .object({ upTo: MessageId })
      .optional()
      .meta({ description: "of a summary: the last message that it covers" }),
    playedUpTo: z
      .number()
      .int()
      .optional()
      .meta({ description: "of a spoken reply: how much of it was spoken, in UTF-16 units" }),
    createdAt: z.number(),
    startedAt: z.number().optional(),
    finishedAt: z.number().optional(),
  })
  .meta({ id: "Message" });
export type Message = z.infer<typeof Message>;

/** How much of a reply was spoken. */
export const Played = z
  .object({
    messageId: MessageId,
    upTo: z.int().nonnegative().meta({ description: "how much of its content was spoken, in UTF-16 units" }),
  })
  .meta({ id: "Played" });
export type Played = z.infer<typeof Played>;

/**
 * Whether a request to a model includes the message: messages of the user and of the session's agents, interrupted
 * replies too. Failed and queued messages are left out, and so are those of sub-agents, whose results the agent's own
 * messages report.
 */
export function isForModel({ role, status, agent, content, images }: Message): boolean {
  if (role !== "user" && role !== "assistant") return false;
  if (status === "error" || status === "queued" || agent?.kind === "sub") return false;
  return content !== "" || (images?.length ?? 0) > 0;
}

/** The longest line that names a session, in UTF-16 units. */
const HEADLINE_UNITS = 120;

/** The line that a summary begins with, without the marks of a heading: what the session is about. */
export function headlineOf(text: string): string {
  const line = toOneLine(text.split("\n", 1)[0]!.replace(/^#+\s*|\*\*/g, ""));
  return shortened(line === "" ? toOneLine(text) : line, HEADLINE_UNITS);
}

/** A line that an agent logged during a run. */
export const LogLine = z
  .object({ id: z.string(), stream: z.enum(["stdout", "stderr"]), text: z.string(), timestamp: z.number() })
  .meta({ id: "LogLine" });
export type LogLine = z.infer<typeof LogLine>;
