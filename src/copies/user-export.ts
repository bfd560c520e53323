import { z } from "zod";
import { BOUNDS } from "../config/bounds.ts";
import { type Caller, checkUser } from "../gateway/access/caller.ts";
import type { Routes, SightContext } from "../gateway/route-context.ts";
import { plainAnswer } from "../gateway/routes/openapi.ts";
import { type FloorId, floorOfUser, Name, type SessionId } from "../protocol/ids.ts";
import type { Clock } from "../shared/ports/clock.ts";
import type { LogStore } from "../store/store.ts";
import type { Copies } from "./copies.ts";
import { sendFile } from "./export-routes.ts";
import { exportedLine, exportedPieces, LINES_VERSION, MEDIA_TYPES } from "./exported-history.ts";

/** Sessions that are read at a time. */
const PAGE = 200;

/** What these routes depend on. */
interface Context extends SightContext {
  copies: Copies;
  store: LogStore;
  clock: Clock;
}

/** What the store has of one user, as a file. */
export function userExportRoutes(app: Routes, context: Context): void {
  const { store, clock, copies, visibleTo } = context;

  app.get(
    "/user/:id/export",
    {
      schema: {
        tags: ["operations"],
        operationId: "exportUser",
        summary: "Export a user's sessions and decisions",
        description:
          "For operators, and for the user. Lines of JSON: each session as its own export has it, then the decisions on the user's floors, newest first. The last line is `complete`; a file without it is incomplete.",
        params: z.object({ id: Name }),
        response: { 200: plainAnswer("application/x-ndjson", "The lines.") },
      },
    },
    async (request, reply) => {
      const caller = context.callerOf(request);
      const userId = request.params.id;
      checkUser(caller, userId);
      const type = MEDIA_TYPES.jsonl;
      return sendFile(reply, linesOf(caller, userId), {
        type,
        name: "user.jsonl",
        clock,
        onClose: copies.histories.enter(caller),
      });
    },
  );

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
