import { z } from "zod";
import { REASONS } from "./decision.ts";

const count = z.number().int();
const ms = z.number();

/** What happened to the sessions of one agent, together. Durations are in ms. */
export const AgentTally = z
  .object({
    requests: count.meta({ description: "requests for the floor that were decided" }),
    granted: count,
    rejected: count,
    queued: count,
    refusedBy: z
      .partialRecord(z.enum(REASONS), count)
      .meta({ description: "how often each reason refused a request, or ended a wait" }),
    waitedMs: ms.meta({ description: "in the queue, before the first sound" }),
    frontMs: ms.meta({ description: "audible in front" }),
    beneathMs: ms.meta({ description: "audible beneath another session" }),
    silentMs: ms.meta({ description: "silent after the first sound of a session, until its end" }),
    longestSilenceMs: ms.meta({ description: "the longest silence without a break" }),
  })
  .meta({ id: "AgentTally" });
export type AgentTally = z.infer<typeof AgentTally>;

const moment = z.number().meta({ description: "ms since 1970" });

/** What differs on one floor, if its log is played with another catalogue. */
export const FloorReplay = z.object({
  hash: z.string().meta({ description: "of the catalogue in the body" }),
  from: moment.optional().meta({ description: "the first event that was played; absent if there is none" }),
  to: moment.optional(),
  requests: count.meta({ description: "how many requests the log has" }),
  reloads: count.meta({ description: "how often another catalogue came into force" }),
  unknown: count.meta({ description: "sessions that did not take part, because the log does not name their agents" }),
  hasMore: z.boolean().meta({ description: "older events of the time were left out" }),
  differing: count.meta({ description: "how many differences there are; the first 1,000 are listed" }),
  differences: z.array(
    z.object({
      at: moment,
      agentId: z.string(),
      sessionId: z.string(),
      before: z.string().meta({ description: "what the log says: a decision, or what became of the session" }),
      after: z.string(),
    }),
  ),
  agents: z.array(z.object({ agentId: z.string(), before: AgentTally, after: AgentTally })),
});
export type FloorReplay = z.infer<typeof FloorReplay>;
