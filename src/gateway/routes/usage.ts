import { z } from "zod";
import { UsageRow } from "../../protocol/budget.ts";
import { AppError } from "../../protocol/errors.ts";
import { AgentId, Name } from "../../protocol/ids.ts";
import { checkUser } from "../access/caller.ts";
import type { CommandContext, Routes } from "../route-context.ts";

const DAY_MS = 86_400_000;
/** Rows on one page. */
const PAGE = 100;
const MAX_PAGE = 1_000;
/** Days of which all rows are listed if no other bound is named. */
const LAST_DAY = Math.floor(Date.UTC(9_999, 11, 31) / DAY_MS);
/** No owner and no agent has a longer name: their length in bytes, as base64. */
const MAX_NEXT = 2_048;

const Day = z.iso.date().meta({ description: "a day (UTC), as in 2026-11-28" });
const Next = z.tuple([z.int().min(0), z.string(), AgentId]);

/** What turns used. */
export function usageRoutes(app: Routes, context: CommandContext): void {
  app.get(
    "/usage",
    {
      schema: {
        tags: ["operations"],
        operationId: "listUsage",
        summary: "List what turns used, by day, owner and agent",
        description:
          "Operators see all owners, others themselves. The newest day first. A turn counts on the day on which it begins, and tokens on the day on which they are reported, those of sub-agents and summaries with the session's agent. Days older than 400 are deleted.",
        querystring: z.object({
          ownerId: Name.optional(),
          agentId: AgentId.optional(),
          from: Day.optional(),
          to: Day.optional(),
          after: z.string().max(MAX_NEXT).optional().meta({ description: "`next` of the previous page" }),
          limit: z.coerce.number().int().min(1).max(MAX_PAGE).default(PAGE),
        }),
        response: {
          200: z.object({
            success: z.literal(true),
            usage: z.array(UsageRow),
            next: z.string().optional().meta({ description: "`after` of the next page; absent on the last one" }),
          }),
        },
      },
    },
    async (request) => {
      const caller = context.callerOf(request);
      const { ownerId, agentId, from, to, after, limit } = request.query;
      checkUser(caller, ownerId);
      const { usage, hasMore } = await context.visibleTo(caller).usage({
        from: from === undefined ? 0 : dayOf(from),
        to: to === undefined ? LAST_DAY : dayOf(to),
        ownerId,
        agentId,
        after: after === undefined ? undefined : readNext(after),
        limit,
      });
      const last = usage.at(-1);
      return {
        success: true as const,
        usage: usage.map(({ day, ownerId: owner, ...row }) => ({
          day: new Date(day * DAY_MS).toISOString().slice(0, 10),
          // Turns of a session that has neither an owner nor a user.
          ...(owner !== "" && { ownerId: owner }),
          ...row,
        })),
        ...(hasMore && last && { next: writeNext([last.day, last.ownerId, last.agentId]) }),
      };
    },
  );
}

const dayOf = (date: string): number => Math.floor(Date.parse(date) / DAY_MS);

const writeNext = (row: z.infer<typeof Next>): string => Buffer.from(JSON.stringify(row)).toString("base64url");

/** @throws AppError `bad_request` */
function readNext(text: string) {
  try {
    const [day, ownerId, agentId] = Next.parse(JSON.parse(Buffer.from(text, "base64url").toString()));
    return { day, ownerId, agentId };
  } catch {
    const issues = [{ path: "querystring.after", message: "must be `next` of a page" }];
    throw new AppError("bad_request", undefined, { facts: { issues } });
  }
}
