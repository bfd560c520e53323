import { z } from "zod";
import { Trace } from "../../shared/ports/tracer.ts";
import { AgentId, EffectId, FloorId, RunId, SessionId } from "../ids.ts";

/**
 * Work that a floor requests outside its actors: a run that a worker must carry out. It is committed with the change
 * that requests it, carried out afterwards, and exists until the run's outcome is committed. A worker may hand it over.
 */
export const RunEffect = z.object({
  kind: z.literal("run"),
  /** New for each request (rule C7). */
  id: EffectId,
  floorId: FloorId,
  /** In the floor's time, ms. The effect is not carried out earlier. */
  dueAt: z.number(),
  sessionId: SessionId,
  runId: RunId,
  agentId: AgentId,
  /** The owner of the session; absent without authentication. */
  ownerId: z.string().optional(),
  /** The priority the session was granted the floor with, 0..100. */
  priority: z.number(),
  /** The home of this conversation's provider session: workers of that home take precedence (rule C16). */
  home: z.string().optional(),
  /** Absent: a turn. A summary is written beside the turns, and takes no place from them. */
  purpose: z.literal("summary").optional(),
  /** The trace of the commit that requested it; absent when that was not traced. */
  trace: Trace.optional().catch(undefined),
});
export type RunEffect = Readonly<z.infer<typeof RunEffect>>;

/** A floor's earliest deadline. A hint: when it comes, the floor is asked to carry out what is due. */
export interface Alarm {
  readonly kind: "alarm";
  readonly id: EffectId;
  readonly floorId: FloorId;
  /** In the floor's time, ms. */
  readonly dueAt: number;
}

/** A floor's alarm at this time. */
export function alarmOf(floorId: FloorId, dueAt: number): Alarm {
  return { kind: "alarm", id: `${floorId}@${dueAt}` as EffectId, floorId, dueAt };
}
