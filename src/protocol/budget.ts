import { z } from "zod";
import { AgentId } from "./ids.ts";

/** A budget of the catalogue that is used up: whose, and when it is free again. */
export const SpentBudget = z
  .object({
    per: z.enum(["owner", "agent"]),
    agentId: AgentId.optional().meta({ description: "of a budget of one agent" }),
    runs: z.number().optional().meta({ description: "how many turns may begin in it, if that is used up" }),
    tokens: z.number().optional().meta({ description: "how many tokens may be used in it, if they are" }),
    withinMs: z.number(),
    freeAt: z.number().meta({ description: "ms since 1970" }),
  })
  .meta({ id: "SpentBudget" });
export type SpentBudget = z.infer<typeof SpentBudget>;

/** What the turns of one owner and agent used on one day. */
export const UsageRow = z
  .object({
    day: z.string().meta({ description: "UTC" }),
    ownerId: z.string().optional().meta({ description: "absent: sessions without an owner and without a user" }),
    agentId: AgentId,
    runs: z.number().meta({ description: "turns that began" }),
    input: z.number().meta({ description: "tokens that models received" }),
    output: z.number().meta({ description: "tokens that models wrote" }),
    tokens: z.number().meta({ description: "all tokens, as providers count them" }),
  })
  .meta({ id: "UsageRow" });
export type UsageRow = z.infer<typeof UsageRow>;
