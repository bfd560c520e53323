import type { FastifyRequest } from "fastify";
import { z } from "zod";
import { AppError } from "../../protocol/errors.ts";
import { Name } from "../../protocol/ids.ts";
import type { Store } from "../../store/store.ts";
import type { Caller } from "../access/caller.ts";
import type { CommandContext, Routes } from "../route-context.ts";

const UserParams = z.object({ id: Name });
/** Sessions that are read at a time. */
const PAGE = 200;
/** How often sessions that were made during the deletion are deleted too, before it is `busy`. */
const ROUNDS = 5;

/** What these routes depend on. */
interface Context extends CommandContext {
  store: Pick<Store, "forgetUser">;
}

/** The deletion of all that the store has of one user. */
export function userRoutes(app: Routes, context: Context): void {
  const { commands, store, visibleTo } = context;

  app.delete(
    "/user/:id",
    {
      schema: {
        tags: ["operations"],
        operationId: "forgetUser",
        summary: "Forget a user",
        description:
          "Deletes the sessions of a user, also archived ones, and the events, decisions, receipts, images and connections of its floors. For operators. A repeat deletes what has come since. `remains` says what still has data of the user.",
        params: UserParams,
        response: {
          200: z.object({ success: z.literal(true), sessions: z.number().int(), remains: z.array(z.string()) }),
        },
      },
    },
    async (request) => {
      const caller = context.callerOf(request);
      if (!caller.isOperator) throw new AppError("forbidden", "Only operators may delete users.");
      const userId = request.params.id;
      let sessions = 0;
      for (let round = 0; round < ROUNDS; round++) {
        sessions += await deleteSessions(request, caller, userId);
        const forgotten = await store.forgetUser(userId);
        if (forgotten !== "conflict") return { success: true as const, sessions, remains: forgotten.remains };
      }
      throw new AppError("busy", "The user still creates sessions. Repeat the deletion.");
    },
  );

  /** Delete the sessions page by page. @returns how many there were */
  async function deleteSessions(request: FastifyRequest, caller: Caller, userId: string): Promise<number> {
    let count = 0;
    for (;;) {
      const found = await visibleTo(caller).ofUser(userId, 0, PAGE);
      if (found.length === 0) return count;
      for (const { id: sessionId, floorId } of found) {
        const command = { type: "session.delete" as const, sessionId };
        await commands
          .carryOut(commands.newIdentity(caller, request.trace), async () => ({ floorId, command }))
          .catch(unlessGone);
        count += 1;
      }
      // The flags of a floor are the last that its actors know.
      for (const floorId of new Set(found.map((session) => session.floorId))) {
        const command = { type: "floor.flags" as const, flags: {} };
        await commands.carryOut(commands.newIdentity(caller, request.trace), async () => ({ floorId, command }));
      }
    }
  }
}

function unlessGone(error: unknown): void {
  if (!(error instanceof AppError && error.code === "session_not_found")) throw error;
}
