import { z } from "zod";
import { Decision } from "./decision.ts";
import { ERROR_CODES } from "./errors.ts";
import { FloorId, SessionId } from "./ids.ts";

/** What one floor of a group decided. */
export const ZoneAnswer = z
  .object({
    zone: z.string().optional().meta({ description: "absent: the user's floor without a zone" }),
    floorId: FloorId,
    sessionId: SessionId.optional().meta({ description: "absent: the floor refused it" }),
    decision: Decision.optional(),
    errorCode: z.enum(ERROR_CODES).optional(),
    error: z.string().optional(),
  })
  .meta({ id: "ZoneAnswer" });
export type ZoneAnswer = z.infer<typeof ZoneAnswer>;
