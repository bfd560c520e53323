import { z } from "zod";
import { REASONS } from "./decision.ts";
import { AgentId } from "./ids.ts";

/** What the challenger's request does: to the holder (`pauses`, `ducks`, `replaces`), or to itself. */
export const EFFECTS = ["pauses", "ducks", "replaces", "beneath", "waits", "follows", "refused", "restricted"] as const;
export type MatrixEffect = (typeof EFFECTS)[number];

/** What happens when a session of `challenger` requests the floor while a session of `holder` has it, alone. */
export const MatrixCell = z
  .object({
    holder: AgentId,
    challenger: AgentId,
    effect: z.enum(EFFECTS),
    level: z
      .number()
      .optional()
      .meta({ description: "the level of the session that is heard beneath the other, in dB" }),
    rule: z.number().int().meta({ description: "the row of the table in docs/use/arbitration.md that applied" }),
    reason: z.enum(REASONS),
  })
  .meta({ id: "MatrixCell" });
export type MatrixCell = z.infer<typeof MatrixCell>;

const RankedAgent = z.object({ id: AgentId, priority: z.number() });

export const Matrix = z.object({
  agents: z.array(RankedAgent).meta({ description: "the enabled agents, in the order of the file" }),
  rows: z.array(z.array(MatrixCell)).meta({ description: "a row for each holder, with a cell for each challenger" }),
});
export type Matrix = z.infer<typeof Matrix>;

/** What another catalogue would change in the matrix of this one. */
export const MatrixDifference = z.object({
  added: z.array(RankedAgent).meta({ description: "enabled agents that only the other catalogue has" }),
  removed: z.array(RankedAgent).meta({ description: "enabled agents that the other catalogue lacks" }),
  priorities: z.array(z.object({ id: AgentId, before: z.number(), after: z.number() })),
  cells: z
    .array(z.object({ holder: AgentId, challenger: AgentId, before: MatrixCell, after: MatrixCell }))
    .meta({ description: "the cells that change, of agents that both catalogues have" }),
});
export type MatrixDifference = z.infer<typeof MatrixDifference>;
