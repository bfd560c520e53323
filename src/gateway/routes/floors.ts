import type { FastifyRequest } from "fastify";
import { z } from "zod";
import { BOUNDS } from "../../config/bounds.ts";
import { type Catalog, findAgent, restrictionsBy } from "../../config/catalog/catalog.ts";
import { MAX_CONTENT } from "../../protocol/client-message.ts";
import { Decision } from "../../protocol/decision.ts";
import { AppError } from "../../protocol/errors.ts";
import { FLOOR_STATES, FloorSummary, MAX_FLAGS, Reservation } from "../../protocol/floor.ts";
import { positionedJson } from "../../protocol/frames.ts";
import { AgentId, CommandId, FloorId, Name, SessionId, SHORT_NAME, SHORT_NAME_FORM } from "../../protocol/ids.ts";
import { localeOf } from "../../protocol/locale.ts";
import { logPosition, parseLogPosition } from "../../protocol/position.ts";
import { Routed } from "../../protocol/routed.ts";
import { Session } from "../../protocol/session.ts";
import type { Clock } from "../../shared/ports/clock.ts";
import type { StoreEpoch } from "../../store/store.ts";
import type { VisibleSessions } from "../access/visible-sessions.ts";
import { sendLargeJson } from "../http/compression.ts";
import { Problem, problemOf } from "../http/problem.ts";
import type { CommandContext, Routes } from "../route-context.ts";
import type { Sentences } from "../sentences.ts";
import { summaryOf } from "../streams/floor-watch.ts";
import { LoggedEventSchema } from "./event-schemas.ts";
import { KeyedBody } from "./session-command.ts";

/** Sessions in each list of a floor's view. A user may have thousands of paused ones that no request waits for. */
const SHOWN_SESSIONS = 200;

/** The floor that a path names. `VisibleSessions.floor` checks its form; no well-formed id is longer. */
export const FloorParams = z.object({ id: z.string().max(2_600) });
const Archived = z.object({ success: z.literal(true), archived: z.array(SessionId) });
/** Floors, or events of a floor's log, on one page. */
const FLOORS_PAGE = 100;
const MAX_FLOORS = 1_000;
const LOG_PAGE = 500;
const MAX_LOG_PAGE = 2_000;
/** A page of the log ends with the event that exceeds this many characters of JSON. */
const MAX_LOG_CHARACTERS = 4_194_304;
/** Events that are read from the store at a time. */
const LOG_READ = 200;

/** Every other field is a flag; no flag has the name of the key field. */
const Flags = z
  .object({ commandId: CommandId.optional() })
  .catchall(z.boolean())
  .refine(({ commandId: _, ...flags }) => Object.keys(flags).every((name) => SHORT_NAME.test(name)), SHORT_NAME_FORM)
  .refine(({ commandId: _, ...flags }) => Object.keys(flags).length <= MAX_FLAGS, `at most ${MAX_FLAGS} flags`);

interface LogQuery {
  floorId: FloorId;
  epoch: string;
  before: number | undefined;
  limit: number;
}

/** A page of a floor's log, newest first. It ends early if its events are large. */
async function logJson(sessions: VisibleSessions, { floorId, epoch, before, limit }: LogQuery): Promise<string> {
  const events: string[] = [];
  let characters = 0;
  let from = before;
  for (;;) {
    const wanted = Math.min(limit - events.length, LOG_READ);
    const { entries, head, lowWater } = await sessions.floorLogBack(floorId, from, wanted);
    for (const entry of entries) {
      const event = positionedJson(logPosition(epoch, entry.floorSeq), entry);
      events.push(event);
      characters += event.length;
      from = entry.floorSeq;
      if (characters > MAX_LOG_CHARACTERS) break;
    }
    // The store ends a page early if its events are large.
    const isOver = entries.length === 0 || from! <= lowWater + 1;
    if (!isOver && events.length < limit && characters <= MAX_LOG_CHARACTERS) continue;
    return `{"success":true,"events":[${events.join()}],"hasMore":${!isOver},"position":"${logPosition(epoch, head)}"}`;
  }
}

/** Floors: their holders, their decisions, and what operators may change. */
export function floorRoutes(
  app: Routes,
  context: CommandContext & { catalog: () => Catalog; sentences: Sentences; store: StoreEpoch; clock: Clock },
): void {
  const { commands, sentences, store, clock } = context;
  /** Refuse non-operators before the body is read, so that they cost nothing more than the refusal. */
  const admitOperator = async (request: FastifyRequest) => {
    const caller = context.callerOf(request);
    if (caller.isOperator) return;
    await context.visibleTo(caller).floor((request.params as { id: string }).id);
    throw new AppError("forbidden", "Only operators may set flags.");
  };

  app.get(
    "/floor/:id",
    {
      schema: {
        tags: ["floors"],
        operationId: "getFloor",
        summary: "Read a floor",
        description:
          "The holder, the paused and queued sessions, the flags and the last decisions. A floor that was never used is empty.",
        params: FloorParams,
        response: {
          200: z.object({
            success: z.literal(true),
            floorId: z.string(),
            holder: Session.nullable(),
            ducked: z.array(Session).optional().meta({
              description:
                "sessions heard alongside the holder, highest priority first; present if the catalogue uses ducking",
            }),
            paused: z.array(Session),
            queued: z.array(Session),
            reserved: Reservation.optional(),
            restrictedBy: z.array(z.string()).optional().meta({
              description: "the restrictions that the flags and the time switch on; present if the catalogue has any",
            }),
            flags: z.record(z.string(), z.boolean()),
            decisions: z.array(Decision),
            position: z.string(),
          }),
        },
      },
    },
    async (request) => {
      const sessions = context.visibleTo(context.callerOf(request));
      const floorId = await sessions.floor(request.params.id);
      const limits = { sessions: SHOWN_SESSIONS, decisions: BOUNDS.shownDecisions };
      const view = await sessions.floorView(floorId, limits);
      const { holder = null, reserved, ducked, paused, queued, flags, decisions, head } = view;
      const position = logPosition(store.epoch, head);
      const kept = reserved && !holder && { reserved };
      const catalog = context.catalog();
      return {
        success: true as const,
        floorId,
        holder,
        ...((catalog.isShared || ducked.length > 0) && { ducked }),
        ...kept,
        paused,
        queued,
        flags,
        ...(catalog.restrictions.length > 0 && {
          restrictedBy: restrictionsBy(catalog, flags, clock.now()).map(({ name }) => name),
        }),
        decisions,
        position,
      };
    },
  );

  app.get(
    "/floors",
    {
      schema: {
        tags: ["floors"],
        operationId: "listFloors",
        summary: "List the floors",
        description: "The used floors that the caller may see, by id.",
        querystring: z.object({
          state: z.enum(FLOOR_STATES).optional(),
          after: FloorId.optional().meta({ description: "the last floor of the previous page" }),
          limit: z.coerce.number().int().min(1).max(MAX_FLOORS).default(FLOORS_PAGE),
        }),
        response: {
          200: z.object({ success: z.literal(true), floors: z.array(FloorSummary), hasMore: z.boolean() }),
        },
      },
    },
    async (request) => {
      const { floors, hasMore } = await context.visibleTo(context.callerOf(request)).floors(request.query);
      return { success: true as const, floors: floors.map((row) => summaryOf(row, store.epoch)), hasMore };
    },
  );

  app.get(
    "/floor/:id/log",
    {
      schema: {
        tags: ["floors"],
        operationId: "listFloorEvents",
        summary: "Read a floor's log from its end",
        description: "The events of all its sessions, newest first. A page ends early if its events are large.",
        params: FloorParams,
        querystring: z.object({
          before: z
            .string()
            .regex(/^[a-z0-9]{1,6}\.\d{1,15}$/, "a position")
            .optional(),
          limit: z.coerce.number().int().min(1).max(MAX_LOG_PAGE).default(LOG_PAGE),
        }),
        response: {
          200: z.object({
            success: z.literal(true),
            events: z.array(LoggedEventSchema).meta({ description: "newest first" }),
            hasMore: z.boolean(),
            position: z.string(),
          }),
        },
      },
    },
    async (request, reply) => {
      const sessions = context.visibleTo(context.callerOf(request));
      const floorId = await sessions.floor(request.params.id);
      const { before, limit } = request.query;
      const parsed = before === undefined ? undefined : parseLogPosition(before);
      if (parsed && parsed.epoch !== store.epoch) {
        const issues = [{ path: "querystring.before", message: "a position of another store" }];
        throw new AppError("bad_request", undefined, { facts: { issues } });
      }
      return sendLargeJson(
        request,
        reply,
        await logJson(sessions, { floorId, epoch: store.epoch, before: parsed?.seq, limit }),
      );
    },
  );

  for (const { path, type, ...about } of [
    {
      path: "stop",
      type: "floor.stop",
      operationId: "stopFloor",
      summary: "Archive the session that has the floor",
      description: "The floor goes to the next session.",
    },
    {
      path: "stop-all",
      type: "floor.stop_all",
      operationId: "stopAllOnFloor",
      summary: "Archive every session that competes for the floor",
      description: "The holder, those paused by preemption and those queued. No session is resumed.",
    },
  ] as const) {
    app.post(
      `/floor/:id/${path}`,
      { schema: { tags: ["floors"], ...about, params: FloorParams, body: KeyedBody, response: { 200: Archived } } },
      async (request) => {
        const caller = context.callerOf(request);
        const identity = await commands.identify(caller, request, request.body);
        const { archived = [] } = await commands.carryOut(identity, async () => {
          return { floorId: await context.visibleTo(caller).floor(request.params.id), command: { type } };
        });
        return { success: true as const, archived };
      },
    );
  }

  for (const [[method, type], about] of [
    [
      ["put", "floor.flags"],
      {
        operationId: "setFloorFlags",
        summary: "Set a floor's flags",
        description:
          "Context for the catalogue's priority rules and restrictions; replaces the whole set. For operators.",
      },
    ],
    [
      ["patch", "floor.patch_flags"],
      {
        operationId: "changeFloorFlags",
        summary: "Change some of a floor's flags",
        description: "Changes only the named flags, and answers with all flags. For operators.",
      },
    ],
  ] as const) {
    app[method](
      "/floor/:id/flags",
      {
        schema: {
          tags: ["floors"],
          ...about,
          params: FloorParams,
          body: Flags,
          response: { 200: z.object({ success: z.literal(true), flags: z.record(z.string(), z.boolean()) }) },
        },
        preParsing: admitOperator,
      },
      async (request) => {
        const caller = context.callerOf(request);
        const identity = await commands.identify(caller, request, request.body);
        const { commandId: _, ...wanted } = request.body;
        const { flags = {} } = await commands.carryOut(identity, async () => {
          const floorId = await context.visibleTo(caller).floor(request.params.id);
          return { floorId, command: { type, flags: wanted } };
        });
        return { success: true as const, flags };
      },
    );
  }

  app.post(
    "/floor/:id/what-if",
    {
      schema: {
        tags: ["floors"],
        operationId: "previewDecision",
        summary: "Preview a decision",
        description: "What the arbiter would decide if this agent requested the floor now. Changes nothing.",
        params: FloorParams,
        body: z
          .strictObject({
            agentId: AgentId.optional(),
            content: z.string().min(1).max(MAX_CONTENT).optional().meta({
              description: "instead of an agent: a sentence, for the agent that `routing` names",
            }),
            workspaceId: Name.optional(),
          })
          .refine(({ agentId, content }) => (agentId === undefined) !== (content === undefined), {
            path: ["agentId"],
            error: "either agentId or content",
          })
          .meta({ minProperties: 1 }),
        response: {
          200: z.object({
            success: z.literal(true),
            decision: Decision.optional(),
            routed: Routed.optional(),
            refused: Problem.omit({ success: true, traceId: true })
              .optional()
              .meta({ description: "the failure that the request would get, if not by a decision" }),
            sessionId: SessionId.optional().meta({ description: "the session that the sentence goes on in" }),
          }),
        },
      },
    },
    async (request) => {
      const caller = context.callerOf(request);
      const sessions = context.visibleTo(caller);
      const floorId = await sessions.floor(request.params.id);
      const { agentId: named, content, workspaceId } = request.body;
      const choice =
        content === undefined ? undefined : await sentences.choose(caller, content, { floorId, workspaceId });
      const name = named ?? choice?.routed.agent;
      const heard = choice && { routed: choice.routed, sessionId: choice.continued };
      if (name === undefined) return { success: true as const, ...heard };
      const about = {
        agentId: findAgent(context.catalog(), name, workspaceId)?.id ?? name,
        locale: localeOf(request.headers["accept-language"]),
        ...(choice && { sessionId: choice.continued, isTurn: true, asked: choice.routed.asked }),
      };
      const { decision, refused } = await commands.preview(caller, floorId, about, request.trace);
      return {
        success: true as const,
        ...(decision && { decision }),
        ...(refused && { refused: problemOf(refused) }),
        ...heard,
      };
    },
  );
}
