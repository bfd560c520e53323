import { z } from "zod";
import { AgentId, Name, RunId, SessionId } from "../../protocol/ids.ts";
import { ListedRun, RUN_STATES } from "../../protocol/listed-run.ts";
import type { Clock } from "../../shared/ports/clock.ts";
import type { RunListPlace } from "../../store/store.ts";
import type { CommandContext, Routes } from "../route-context.ts";
import { KeyedBody } from "./session-command.ts";

const Age = z.coerce.number().int().min(0);

/** A session's place in the list. Clients return it as they got it. */
const Place = z
  .string()
  .regex(/^\d{1,15}_[A-Za-z0-9_-]{1,64}$/, "the `next` of the page before")
  .transform((text): RunListPlace => {
    const [at = "", ...id] = text.split("_");
    return { at: Number(at), sessionId: id.join("_") as SessionId };
  });
const placeText = ({ at, sessionId }: RunListPlace): string => `${at}_${sessionId}`;

const ListQuery = z.object({
  state: z.enum(RUN_STATES).optional().meta({ description: "default: all but `failed`" }),
  agentId: AgentId.optional(),
  userId: Name.optional(),
  minAgeMs: Age.optional().meta({ description: "only runs that are at least so old" }),
  maxAgeMs: Age.optional().meta({ description: "only runs that are at most so old" }),
  after: Place.optional().meta({ description: "the `next` of the page before" }),
  limit: z.coerce.number().int().min(1).max(500).default(100),
});

/** The runs of all sessions. */
export function runRoutes(app: Routes, context: CommandContext & { clock: Clock }): void {
  const { commands, visibleTo } = context;

  app.get(
    "/runs",
    {
      schema: {
        tags: ["operations"],
        operationId: "listRuns",
        summary: "List runs",
        description:
          "The runs that have not ended, of the session that has had some for longest first; or with `state=failed` the newest of each session that failed, the newest first. Operators get all runs, others those of their own sessions. A page ends with the session whose runs reach `limit`; it may have fewer runs, and the last page has no `next`.",
        querystring: ListQuery,
        response: {
          200: z.object({ success: z.literal(true), runs: z.array(ListedRun), next: z.string().optional() }),
        },
      },
    },
    async (request) => {
      const sessions = visibleTo(context.callerOf(request));
      const { minAgeMs, maxAgeMs, ...query } = request.query;
      const now = context.clock.now();
      const from = maxAgeMs === undefined ? undefined : now - maxAgeMs;
      const to = minAgeMs === undefined ? undefined : now - minAgeMs;
      const { runs, next } = await sessions.runs({ ...query, from, to });
      return { success: true as const, runs, ...(next && { next: placeText(next) }) };
    },
  );

  app.post(
    "/runs/:id/cancel",
    {
      schema: {
        tags: ["operations"],
        operationId: "cancelRun",
        summary: "Cancel a run",
        description:
          "Ends a run that has not ended. The text so far stays; a turn that has not begun is withdrawn with its message. An unknown run, or one that has ended, is `not_found`.",
        params: z.object({ id: RunId }),
        body: KeyedBody,
        response: { 200: z.object({ success: z.literal(true), sessionId: SessionId }) },
      },
    },
    async (request) => {
      const caller = context.callerOf(request);
      const identity = await commands.identify(caller, request, request.body);
      const runId = request.params.id;
      const { sessionId } = await commands.carryOut(identity, async () => {
        const { sessionId, floorId } = await visibleTo(caller).sessionOfRun(runId);
        return { floorId, command: { type: "session.abort", sessionId, runId } };
      });
      return { success: true as const, sessionId: sessionId! };
    },
  );
}
