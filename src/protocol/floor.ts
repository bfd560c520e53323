import { z } from "zod";
import { AgentId, FloorId, SessionId } from "./ids.ts";

/** Context flags that a floor may have. */
export const MAX_FLAGS = 32;

/**
 * A free floor that is reserved for a session until that session resumes. A request that outranks it ends the
 * reservation.
 */
export const Reservation = z
  .object({ sessionId: SessionId, until: z.number().meta({ description: "ms since 1970" }) })
  .meta({ id: "Reservation" });
export type Reservation = z.infer<typeof Reservation>;

/** `waiting`: no session has the floor, but one is paused, queued or about to resume. */
export const FLOOR_STATES = ["held", "waiting", "idle"] as const;
export type FloorState = (typeof FLOOR_STATES)[number];

/** A floor as `GET /floors` lists it. */
export const FloorSummary = z
  .object({
    floorId: FloorId,
    state: z.enum(FLOOR_STATES),
    holder: z.object({ sessionId: SessionId, agentId: AgentId }).optional(),
    reserved: Reservation.optional(),
    ducked: z.number().int().optional().meta({ description: "how many are heard beneath the holder; absent for none" }),
    paused: z.number().int().meta({ description: "how many are paused on it" }),
    queued: z.number().int().meta({ description: "how many wait in its queue" }),
    flags: z.record(z.string(), z.boolean()),
    position: z.string().meta({ description: "a position from which the floor's stream can be opened" }),
  })
  .meta({ id: "FloorSummary" });
export type FloorSummary = z.infer<typeof FloorSummary>;
