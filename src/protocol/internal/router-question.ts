import { z } from "zod";
import { AgentId } from "../ids.ts";
import { Usage } from "../message.ts";
import { PASSED_WHY } from "../routed.ts";

/** Asks all workers which of them can run a router agent now. */
export const RouterCall = z.object({ agentId: AgentId, replyTo: z.string().max(256) });
export type RouterCall = z.infer<typeof RouterCall>;

/** The question to one of those workers. It answers within this time, or not at all. */
export const RouterQuestion = z.object({
  agentId: AgentId,
  replyTo: z.string().max(256),
  content: z.string(),
  withinMs: z.number(),
});
export type RouterQuestion = z.infer<typeof RouterQuestion>;

/** The tokens that the agent's provider has reported. */
const used = { usage: Usage.optional() };

/** A worker's offer, and its answer: what the agent wrote, or why there is nothing. */
export const RouterReply = z.union([
  z.object({ worker: z.string().max(256) }),
  z.object({ named: z.string().max(256), ...used }),
  z.object({ why: z.enum(PASSED_WHY), ...used }),
]);
export type RouterReply = z.infer<typeof RouterReply>;

/** The topic on which workers are asked. */
export const routerTopic = (epoch: string): string => `${epoch}.routers`;
