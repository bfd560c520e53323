import { z } from "zod";
import { AgentId, FloorId, SessionId } from "./ids.ts";

export const STATES = ["created", "active", "paused", "archived"] as const;
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

/** A session as every answer shows it. Times in ms since 1970. */
export const Session = z
  .object({
    id: SessionId,
    title: z.string(),
    summary: z.string().optional(),
    agentId: AgentId,
    userId: z.string().optional(),
    zone: z.string().optional(),
    ownerId: z.string().optional(),
    floorId: FloorId,
    workspaceId: z.string().optional(),
    state: z.enum(STATES),
    activity: z.enum(ACTIVITIES),
    pausedBy: z.enum(PAUSED_BY).optional(),
    queuedAt: z.number().optional(),
    priority: z.number(),
    interruptible: z.boolean(),
    createdAt: z.number(),
    updatedAt: z.number(),
    lastActivityAt: z.number(),
    archivedAt: z.number().optional(),
    messageCount: z.number().int(),
    tokenUsage: TokenUsage,
    agentSessions: z.record(z.string(), z.string()).meta({ description: "the provider's own session id, per agent" }),
  })
  .meta({ id: "Session" });
export type Session = z.infer<typeof Session>;

/** An agent as lists show it. */
export const AgentInfo = z.object({ id: AgentId, name: z.string(), description: z.string() }).meta({ id: "AgentInfo" });
export type AgentInfo = z.infer<typeof AgentInfo>;
