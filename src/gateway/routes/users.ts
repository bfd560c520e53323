import type { FastifyRequest } from "fastify";
import { z } from "zod";
import { BOUNDS } from "../../config/bounds.ts";
import { exportedLine, exportedPieces, LINES_VERSION, MEDIA_TYPES } from "../../copies/exported-history.ts";
import type { Histories } from "../../copies/histories.ts";
import { AppError } from "../../protocol/errors.ts";
import { type FloorId, floorOfUser, Name, type SessionId } from "../../protocol/ids.ts";
import type { Clock } from "../../shared/ports/clock.ts";
import type { LogStore, Store } from "../../store/store.ts";
import { type Caller, checkUser } from "../access/caller.ts";
import type { CommandContext, Routes } from "../route-context.ts";
import { sendFile } from "./exports.ts";
import { plainAnswer } from "./openapi.ts";

const UserParams = z.object({ id: Name });
/** Sessions that are read at a time. */
const PAGE = 200;
/** How often sessions that were made during the deletion are deleted too, before it is `busy`. */
const ROUNDS = 5;

/** What these routes depend on. */
interface Context extends CommandContext {
  histories: Histories;
  store: LogStore & Pick<Store, "forgetUser">;
  clock: Clock;
}

/** What the store has of one user: its export, and its deletion. */
export function userRoutes(app: Routes, context: Context): void {
  const { commands, store, clock, histories, visibleTo } = context;

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
      const caller = await context.authenticate(request);
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

  app.get(
    "/user/:id/export",
    {
      schema: {
        tags: ["operations"],
        operationId: "exportUser",
        summary: "Export a user's sessions and decisions",
        description:
          "For operators, and for the user. Lines of JSON: each session as its own export has it, then the decisions on the user's floors, newest first. The last line is `complete`; a file without it is incomplete.",
        params: UserParams,
        response: { 200: plainAnswer("application/x-ndjson", "The lines.") },
      },
    },
    async (request, reply) => {
      const caller = await context.authenticate(request);
      const userId = request.params.id;
      checkUser(caller, userId);
      const type = MEDIA_TYPES.jsonl;
      return sendFile(reply, linesOf(caller, userId), {
        type,
        name: "user.jsonl",
        clock,
        onClose: histories.enter(caller),
      });
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

  async function* linesOf(caller: Caller, userId: string): AsyncGenerator<string> {
    const sessions = visibleTo(caller);
    yield exportedLine({ type: "user", version: LINES_VERSION, userId, exportedAt: clock.now() });
    const floorIds = new Set([floorOfUser(userId)]);
    const done = new Set<SessionId>();
    for (let page = 0; ; page++) {
      const found = await sessions.ofUser(userId, page, PAGE);
      if (found.length === 0) break;
      // A session that is used meanwhile moves to the front, and another one to the next page.
      for (const session of found.filter(({ id }) => !done.has(id))) {
        done.add(session.id);
        floorIds.add(session.floorId);
        yield* exportedPieces("jsonl", sessions, session, clock.now());
      }
    }
    for (const floorId of floorIds) yield* decisionsOn(floorId);
    yield exportedLine({ type: "complete", sessions: done.size });
  }

  async function* decisionsOn(floorId: FloorId): AsyncGenerator<string> {
    let before: number | undefined;
    for (;;) {
      const { entries, lowWater } = await store.readFloorLogBack(floorId, before, BOUNDS.shownDecisions);
      for (const { type, at, json } of entries) {
        if (type === "arbitration") yield exportedLine({ type: "decision", floorId, at, decision: JSON.parse(json) });
      }
      before = entries.at(-1)?.floorSeq;
      if (before === undefined || before <= lowWater + 1) return;
    }
  }
}

function unlessGone(error: unknown): void {
  if (!(error instanceof AppError && error.code === "session_not_found")) throw error;
}
