import { z } from "zod";
import { AgentId } from "./ids.ts";
import { Usage } from "./message.ts";

/** Which kind of row of `routing` decided; `default`: none, so the catalogue's default agent hears it. */
const ROUTED_BY = ["says", "continues", "ask", "agent", "default"] as const;

/**
 * Why a row that fits was passed over: the agent may not be used by this caller, or the router agent was late, failed,
 * wrote too much, or named an agent that the row does not list.
 */
export const PASSED_WHY = ["not_usable", "late", "failed", "too_much", "unknown"] as const;
export type PassedWhy = (typeof PASSED_WHY)[number];

/** Which agent hears a sentence that named none, and by which row of the catalogue's `routing`. */
export const Routed = z
  .object({
    agent: AgentId.optional().meta({ description: "absent: the sentence is ignored" }),
    by: z.enum(ROUTED_BY),
    row: z.int().optional().meta({ description: "the row of `routing`, from 1; absent with `default`" }),
    ignored: z.literal(true).optional(),
    alternatives: z.array(AgentId).meta({ description: "agents of later rows whose patterns fit the sentence too" }),
    passed: z
      .array(z.object({ row: z.int(), why: z.enum(PASSED_WHY) }))
      .optional()
      .meta({ description: "rows before it that fit, and why they did not decide" }),
    groups: z
      .record(z.string(), z.string())
      .optional()
      .meta({ description: "the named groups of the pattern that fits" }),
    asked: z
      .array(z.object({ agent: AgentId, usage: Usage }))
      .optional()
      .meta({ description: "router agents whose answers cost tokens, which count as those of turns do" }),
    took: z.number().meta({ description: "in ms" }),
  })
  .meta({ id: "Routed" });
export type Routed = z.infer<typeof Routed>;
