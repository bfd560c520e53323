import { z } from "zod";
import { AgentId, FloorId, RequestId, RunId, SessionId } from "./ids.ts";
import { Failure, STATES } from "./session.ts";

/** What a run is doing, or what it waits for. */
export const RUN_STATES = [
  /** Its session is silent: it is queued for the floor, was interrupted, or is paused. */
  "waits_for_floor",
  /** Another turn of its session is under way. */
  "waits_for_turn",
  /** No worker has claimed it, or none has claimed it again. */
  "waits_for_worker",
  "driven",
  /** Its worker keeps it for a session that is silent. */
  "held",
  /** Its agent waits for an answer to a question, or for a consent. */
  "waits_for_person",
  /** It is the newest of its session that failed. */
  "failed",
] as const;
export type ListedRunState = (typeof RUN_STATES)[number];

/** A run that has not ended, or the newest of a session that failed. Times in ms since 1970. */
export const ListedRun = z
  .object({
    id: RunId,
    sessionId: SessionId,
    floorId: FloorId,
    agentId: AgentId,
    userId: z.string().optional(),
    zone: z.string().optional(),
    ownerId: z.string().optional(),
    workspaceId: z.string().optional(),
    title: z.string().meta({ description: "of its session" }),
    sessionState: z.enum(STATES),
    purpose: z.literal("summary").optional().meta({ description: "absent: a turn of the user" }),
    state: z.enum(RUN_STATES),
    at: z.number().meta({ description: "when its turn was accepted, or when it failed" }),
    attempt: z.number().int().optional().meta({ description: "claimed so far; 0: no worker has claimed it" }),
    worker: z.string().optional().meta({ description: "the name of the node that drives or holds it" }),
    claimedAt: z.number().optional().meta({ description: "when that node claimed it" }),
    again: z.object({ after: z.string(), nextAt: z.number().optional() }).optional().meta({
      description:
        "how the try before ended: `lost` with its worker, `given_back`, `paused`, or an error code; and when the next one may begin",
    }),
    asks: z
      .array(
        z.object({
          requestId: RequestId,
          kind: z.enum(["confirmation", "question"]),
          tool: z.string().optional(),
          isStill: z.literal(true).optional().meta({
            description: "its time stands still, because it counts only while the session is heard, which is silent",
          }),
        }),
      )
      .optional()
      .meta({ description: "what its agent waits for" }),
    failure: Failure.optional().meta({ description: "why it failed" }),
    isFollowed: z
      .literal(true)
      .optional()
      .meta({ description: "a later turn of its session has begun since it failed" }),
  })
  .meta({ id: "ListedRun" });
export type ListedRun = z.infer<typeof ListedRun>;
