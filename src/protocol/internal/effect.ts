import { z } from "zod";
import { Trace } from "../../shared/ports/tracer.ts";
import { AgentId, EffectId, FloorId, RunId, SessionId } from "../ids.ts";

/**
 * Work that a floor requests outside its actors. It is committed with the change that requests it and carried out
 * afterwards.
 */
export type Effect = RunEffect;

/** A run that a worker must carry out. The effect exists until the run's outcome is committed. */
export interface RunEffect {
  readonly kind: "run";
  /** New for each request (rule C7). */
  readonly id: EffectId;
  readonly floorId: FloorId;
  /** In the floor's time, ms. The effect is not carried out earlier. */
  readonly dueAt: number;
  readonly sessionId: SessionId;
  readonly runId: RunId;
  readonly agentId: AgentId;
  /** The owner of the session; absent without authentication. */
  readonly ownerId?: string | undefined;
  /** The priority the session was granted the floor with, 0..100. */
  readonly priority: number;
  /** The home of this conversation's provider session: workers of that home take precedence (rule C16). */
  readonly home?: string | undefined;
  /** Absent: a turn. A summary is written beside the turns, and takes no place from them. */
  readonly purpose?: "summary" | undefined;
  /** The trace of the commit that requested it; absent when that was not traced. */
  readonly trace?: Trace | undefined;
}

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

/** A run effect that one worker hands over to another. */
export const HandedOver = z.object({
  kind: z.literal("run"),
  id: EffectId,
  floorId: FloorId,
  dueAt: z.number(),
  sessionId: SessionId,
  runId: RunId,
  agentId: AgentId,
  ownerId: z.string().optional(),
  priority: z.number(),
  home: z.string().optional(),
  trace: Trace.optional().catch(undefined),
});
