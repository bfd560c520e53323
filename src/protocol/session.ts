import { z } from "zod";
import { ERROR_CODES } from "./errors.ts";
import { AgentId, FloorId, MessageId, RunId, SessionId } from "./ids.ts";
import { Played } from "./message.ts";
import { SessionSettings } from "./session-settings.ts";

export const STATES = ["created", "active", "ducked", "paused", "archived"] as const;
export type SessionState = (typeof STATES)[number];

export const ACTIVITIES = ["idle", "running", "waiting", "failed"] as const;
export type Activity = (typeof ACTIVITIES)[number];

export const PAUSED_BY = ["preemption", "user", "yield"] as const;
export type PausedBy = (typeof PAUSED_BY)[number];

export const TokenUsage = z.object({
  used: z.number().int(),
  breakdown: z.object({
    input: z.number().int(),
    output: z.number().int(),
    cacheRead: z.number().int(),
    cacheCreation: z.number().int(),
  }),
});
export type TokenUsage = z.infer<typeof TokenUsage>;

export const NEW_TITLE = "New Session";

/** Why a session's last turn failed, until its next turn begins. */
export const Failure = z
  .object({
    errorCode: z.enum(ERROR_CODES),
    message: z.string(),
    runId: RunId,
    retryAt: z.number().optional().meta({ description: "when a provider allows another request, ms since 1970" }),
    at: z.number().optional().meta({ description: "when it failed, ms since 1970; absent: with an earlier release" }),
  })
  .meta({ id: "Failure" });
export type Failure = z.infer<typeof Failure>;

export const ORIGINS = ["fork", "edit", "rollback", "import", "move"] as const;

/** Where a session's first messages are from. */
export const Origin = z
  .object({
    by: z.enum(ORIGINS),
    sessionId: SessionId.optional().meta({ description: "the session whose messages were copied" }),
    messageId: MessageId.optional().meta({ description: "the last message that was copied; absent if there was none" }),
  })
  .meta({ id: "Origin" });
export type Origin = z.infer<typeof Origin>;

/** When a session that waits for its time asks for the floor. */
export const Schedule = z
  .object({
    at: z.number().meta({ description: "the instant at which it asks, ms since 1970; of a series: the next one" }),
    every: z.string().optional().meta({ description: "of a series: the cron expression of its times" }),
    timezone: z.string().optional().meta({ description: "of a series: the IANA time zone of its times" }),
    content: z.string().optional().meta({ description: "the message with which it asks" }),
  })
  .meta({ id: "Schedule" });
export type Schedule = z.infer<typeof Schedule>;

/** The sessions with which one request asked on each open floor of its user. Those that were refused do not exist. */
export const Group = z
  .object({
    id: z.string(),
    sessions: z.array(z.object({ sessionId: SessionId, zone: z.string().optional() })),
  })
  .meta({ id: "Group" });
export type Group = z.infer<typeof Group>;

const { title: _, ...otherSettings } = SessionSettings.shape;

/** A session as all responses show it. Times in ms since 1970. */
export const Session = z
  .object({
    id: SessionId,
    title: z.string(),
    summary: z.string().optional().meta({ description: "one line: what it is about, or the newest reply's beginning" }),
    summaryId: MessageId.optional().meta({ description: "the message with the newest summary" }),
    agentId: AgentId,
    ...otherSettings,
    userId: z.string().optional(),
    zone: z.string().optional(),
    locale: z.string().optional().meta({ description: "the language in which decisions about it are said" }),
    ownerId: z.string().optional(),
    floorId: FloorId,
    workspaceId: z.string().optional(),
    origin: Origin.optional(),
    schedule: Schedule.optional().meta({ description: "of a session that waits for its time" }),
    group: Group.optional().meta({ description: "of a request for all zones: its sessions, one for each floor" }),
    endsWithTurn: z.literal(true).optional().meta({
      description:
        "it is archived with its turn, whatever its agent's `after_turn` says: a door made it for one request",
    }),
    series: SessionId.optional().meta({ description: "the session of the series that it is an occurrence of" }),
    state: z.enum(STATES),
    activity: z.enum(ACTIVITIES),
    failure: Failure.optional(),
    pausedBy: z.enum(PAUSED_BY).optional(),
    level: z.number().optional().meta({ description: "of a ducked session: dB below its own volume, -60 to 0" }),
    queuedAt: z.number().optional(),
    leaseMs: z
      .number()
      .optional()
      .meta({ description: "while its participant must send heartbeats: the longest interval between them, in ms" }),
    leaseUntil: z
      .number()
      .optional()
      .meta({ description: "the earliest time at which it loses its place without a further heartbeat" }),
    priority: z.number(),
    interruptible: z.boolean(),
    createdAt: z.number(),
    updatedAt: z.number(),
    lastActivityAt: z.number(),
    archivedAt: z.number().optional(),
    replacedBy: SessionId.optional().meta({
      description: "the session in which it goes on: a copy that replaces it, or the one to which it moved",
    }),
    played: Played.optional().meta({ description: "of the newest turn's reply, if it is spoken" }),
    messageCount: z.number().int(),
    tokenUsage: TokenUsage,
    agentSessions: z.record(z.string(), z.string()).meta({ description: "the provider's own session id, per agent" }),
  })
  .meta({ id: "Session" });
export type Session = z.infer<typeof Session>;

/** An agent as lists show it. */
export const AgentInfo = z.object({ id: AgentId, name: z.string(), description: z.string() }).meta({ id: "AgentInfo" });
export type AgentInfo = z.infer<typeof AgentInfo>;
