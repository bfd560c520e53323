import { z } from "zod";
import { Trace } from "../../shared/ports/tracer.ts";
import { AgentId, FloorId, RunId, RunRequestId, SessionId } from "../ids.ts";

/**
 * Work that a floor requests outside its actors: a run that a worker must carry out. It is committed with the change
 * that requests it, carried out afterwards, and exists until the run needs no worker: its outcome is committed, or its
 * session is paused. A worker may hand it over.
 */
export const RunRequest = z.object({
  kind: z.literal("run"),
  /** New for each request (rule C7). */
  id: RunRequestId,
  floorId: FloorId,
  /** In the floor's time, ms. The run does not begin earlier. */
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
export type RunRequest = Readonly<z.infer<typeof RunRequest>>;

/** A floor's earliest deadline. A hint: when it comes, the floor is asked to carry out what is due. */
export interface Alarm {
  readonly kind: "alarm";
  /** Its floor and its time. */
  readonly id: string;
  readonly floorId: FloorId;
  /** In the floor's time, ms. */
  readonly dueAt: number;
}

/** A floor's alarm at this time. */
export function alarmOf(floorId: FloorId, dueAt: number): Alarm {
  return { kind: "alarm", id: `${floorId}@${dueAt}`, floorId, dueAt };
}
