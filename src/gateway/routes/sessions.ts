import type { FastifyRequest } from "fastify";
import { z } from "zod";
import { BOUNDS } from "../../config/bounds.ts";
import { AppError } from "../../protocol/errors.ts";
import { AgentId, CommandId, ConnectionId, EVERY_ZONE, Name, SessionId } from "../../protocol/ids.ts";
import { Locale } from "../../protocol/locale.ts";
import { Message } from "../../protocol/message.ts";
import { incarnationOf, logPosition } from "../../protocol/position.ts";
import { Session, STATES } from "../../protocol/session.ts";
import { changedSettings, ModeName, SessionSettings } from "../../protocol/session-settings.ts";
import { ZoneAnswer } from "../../protocol/zone-answer.ts";
import type { Clock } from "../../shared/ports/clock.ts";
import { cleanText } from "../../shared/text.ts";
import type { BlobStore, StoreEpoch } from "../../store/store.ts";
import { ownerOf } from "../access/caller.ts";
import { checkUserZone, newTarget, userZoneOf } from "../chat-commands.ts";
import type { CommandContext, Routes } from "../route-context.ts";
import { checkSchedule, scheduleFields, wantedSchedule } from "../schedule-fields.ts";
import type { Connections } from "../streams/connections.ts";
import { askInAllZones, stopGroup } from "../zone-groups.ts";
import { Notice, noticeOf, SessionAnswerSchema, sessionAnswer } from "./command-answer.ts";
import { CommandBody, commandFields, commandSession, SessionParams } from "./session-command.ts";

const CreateBody = z
  .strictObject({
    id: SessionId.optional(),
    agentId: AgentId.optional(),
    initialAgentId: AgentId.optional(),
    yoloMode: z.boolean().optional().meta({ description: "ignored: earlier clients send it" }),
    ...SessionSettings.shape,
    userId: Name.optional(),
    zone: Name.optional().meta({ description: "`*`: ask on each of the user's open floors" }),
    workspaceId: Name.optional(),
    locale: Locale.optional().meta({
      description: "the language of spoken sentences; default: that of Accept-Language",
    }),
    connectionId: ConnectionId.optional(),
    activate: z.boolean().default(false),
    ...scheduleFields,
    commandId: CommandId.optional(),
  })
  .check(checkSchedule, (context) => {
    const { activate, at, in: inMs, every, id, userId, zone } = context.value;
    const hasTime = [at, inMs, every].some((each) => each !== undefined);
    const fault = (path: string, message: string) =>
      void context.issues.push({ code: "custom", path: [path], message, input: context.value });
    if (zone === EVERY_ZONE && hasTime) fault("zone", "of a session that asks at a time is one zone");
    if (zone === EVERY_ZONE && id !== undefined) fault("id", "is for one session: the zone * makes one for each floor");
    if (zone === EVERY_ZONE && userId === undefined) fault("userId", "is needed with the zone *");
    if (activate && hasTime) fault("activate", "is for sessions that ask now");
  });

const ChangeBody = z
  .strictObject({ ...SessionSettings.shape, ...commandFields })
  .check((context) => {
    if (Object.keys(changedSettings(context.value)).length === 0)
      context.issues.push({ code: "custom", path: [], message: NO_SETTING, input: context.value });
  })
  .meta({ minProperties: 1 });
const NO_SETTING = `needs one of: ${Object.keys(SessionSettings.shape).join(", ")}`;

const ScheduleBody = z.strictObject({ ...scheduleFields, ...commandFields }).check(checkSchedule, (context) => {
  const { at, in: inMs, every } = context.value;
  if ([at, inMs, every].every((each) => each === undefined))
    context.issues.push({ code: "custom", path: [], message: "needs at, in or every", input: context.value });
});

const StopBody = z
  .strictObject({
    group: z.boolean().default(false).meta({ description: "the sessions of its group too" }),
    ...commandFields,
  })
  .prefault({});

const ListQuery = z.object({
  page: z.coerce.number().int().min(0).max(1_000_000).default(0),
  pageSize: z.coerce.number().int().min(1).max(200).default(20),
  q: z.string().max(1_024).overwrite(cleanText).optional(),
  state: z.enum(STATES).optional(),
  agentId: AgentId.optional(),
  userId: Name.optional(),
  workspaceId: Name.optional(),
  includeArchived: z.stringbool().default(false),
});

const VERBS = [
  {
    verb: "activate",
    operationId: "activateSession",
    summary: "Ask for the floor",
    description: "The decision in the answer has the reason if the session is rejected or queued.",
  },
  {
    verb: "pause",
    operationId: "pauseSession",
    summary: "Pause a session",
    description: "The session releases the floor and keeps its run.",
  },
  {
    verb: "resume",
    operationId: "resumeSession",
    summary: "Resume a paused session",
    description: "The session requests the floor again. It is never queued.",
  },
  {
    verb: "archive",
    operationId: "archiveSession",
    summary: "Archive a session",
    description: "Ends its run. An archived session cannot be used again.",
  },
  {
    verb: "summarize",
    operationId: "summarizeSession",
    summary: "Request a summary of a session",
    description:
      "The agent's model writes it beside the session's turns; it arrives as a system message. While one is being written, no second one is requested.",
  },
] as const;

/** Create, find and end sessions. */
export function sessionRoutes(
  app: Routes,
  context: CommandContext & { connections: Connections; store: StoreEpoch & BlobStore; clock: Clock },
): void {
  const { commands, connections, store, visibleTo } = context;
  const position = (seq: number, { createdAt }: Session) => logPosition(store.epoch, seq, incarnationOf(createdAt));

  const change = async (request: FastifyRequest, id: SessionId, fields: SessionSettings) => {
    const settings = changedSettings(fields);
    const update = (sessionId: SessionId) => ({ type: "session.update" as const, sessionId, settings });
    const { reply } = await commandSession(context, request, id, update);
    return sessionAnswer(commands, reply);
  };

  app.post(
    "/session/create",
    {
      schema: {
        tags: ["sessions"],
        operationId: "createSession",
        summary: "Create a session",
        description:
          "With `activate` the session requests the floor in the same command. If that is rejected, no session is created. With `at`, `in` or `every` it requests the floor at its time. With the zone `*` there is a session for each of the user's open floors, which each decides; with `content` each is told that.",
        body: CreateBody.prefault({}),
        response: {
          200: SessionAnswerSchema.extend({
            ...Notice,
            zones: z
              .array(ZoneAnswer)
              .optional()
              .meta({ description: "with the zone `*`: what each floor decided; `session` is the first that exists" }),
          }),
        },
      },
    },
    async (request) => {
      const caller = context.callerOf(request);
      const { body } = request;
      const identity = await commands.identify(caller, request, body);
      const { connectionId, workspaceId, activate, content, userId } = body;
      if (body.zone === EVERY_ZONE && userId !== undefined) {
        const agentId = body.agentId ?? body.initialAgentId;
        const about = { agentId, userId, workspaceId, locale: body.locale ?? identity.locale };
        const wanted = { ...about, ...changedSettings(body) };
        return await askInAllZones(context, identity, { wanted, content });
      }
      const plan = async () => {
        const row = connectionId && (await connections.find(connectionId, caller.ownerId));
        const userZone = userZoneOf(body, row);
        // Before the store is asked about an id of another user.
        checkUserZone(caller, userZone);
        const sessionId =
          body.id === undefined
            ? commands.deriveId<SessionId>(identity, "session")
            : await visibleTo(caller).idFor(ownerOf(caller, userZone.userId), body.id);
        const agentId = body.agentId ?? body.initialAgentId;
        const locale = body.locale ?? identity.locale;
        const wanted = { agentId, ...userZone, workspaceId, locale, ...changedSettings(body) };
        const { floorId, creates: session } = newTarget(caller, sessionId, wanted);
        const schedule = wantedSchedule(body);
        const create = { type: "session.create" as const, sessionId, session, activate };
        return { floorId, command: { ...create, ...(schedule && { schedule }) } };
      };
      const answer = sessionAnswer(commands, await commands.carryOut(identity, plan, { connectionId }));
      return { ...answer, ...noticeOf(answer.session) };
    },
  );

  app.post(
    "/session/load",
    {
      schema: {
        tags: ["sessions"],
        operationId: "loadSession",
        summary: "Load a session with its newest messages",
        description:
          "The session is bound to the connection from this answer on. Without `connectionId` that is the caller's open connection, as for a new session.",
        body: z.strictObject({ sessionId: SessionId, connectionId: ConnectionId.optional() }),
        response: {
          200: z.object({
            success: z.literal(true),
            session: Session.extend({ messages: z.array(Message), hasMore: z.boolean() }),
            position: z.string(),
          }),
        },
      },
    },
    async (request) => {
      const caller = context.callerOf(request);
      const { sessionId, connectionId } = request.body;
      const chosen = await connections.forNewSession(connectionId, caller.ownerId);
      const { session, head, messages, hasMore } = await visibleTo(caller).view(sessionId, BOUNDS.loadedMessages);
      const { id, floorId, createdAt } = session;
      if (chosen)
        await connections.bindLoaded(chosen, { sessionId: id, floorId, from: head, sessionCreatedAt: createdAt });
      return { success: true as const, session: { ...session, messages, hasMore }, position: position(head, session) };
    },
  );

  app.get(
    "/session/list",
    {
      schema: {
        tags: ["sessions"],
        operationId: "listSessions",
        summary: "List and search sessions",
        description:
          "Newest activity first. `q` searches titles, summaries and messages for words or their beginnings, or matches a session's id.",
        querystring: ListQuery,
        response: {
          200: z.object({
            success: z.literal(true),
            page: z.number(),
            pageSize: z.number(),
            total: z.number(),
            hasMore: z.boolean(),
            sessions: z.array(Session),
          }),
        },
      },
    },
    async (request) => {
      const caller = context.callerOf(request);
      const { query } = request;
      const { sessions, total } = await visibleTo(caller).list({
        ...query,
        // An empty search is no search.
        q: query.q?.trim() || undefined,
        includeArchived: query.includeArchived || query.state === "archived",
      });
      const { page, pageSize } = query;
      return { success: true as const, page, pageSize, total, hasMore: (page + 1) * pageSize < total, sessions };
    },
  );

  const readSchema = {
    tags: ["sessions"],
    operationId: "getSession",
    summary: "Read a session",
    description: "The answer's position can be used to open the session's stream.",
    params: SessionParams,
    response: { 200: SessionAnswerSchema },
  };
  app.get("/session/:id", { schema: readSchema }, async (request) => {
    const { session, head } = await visibleTo(context.callerOf(request)).view(request.params.id, 0);
    return { success: true as const, session, position: position(head, session) };
  });

  app.patch(
    "/session/:id",
    {
      schema: {
        tags: ["sessions"],
        operationId: "changeSession",
        summary: "Change a session's settings",
        description: "Those that are given; a mode is for the turns to come, and the turn under way keeps its own.",
        params: SessionParams,
        body: ChangeBody,
        response: { 200: SessionAnswerSchema },
      },
    },
    async (request) => {
      return await change(request, request.params.id, request.body);
    },
  );

  app.post(
    "/session/:id/mode",
    {
      schema: {
        tags: ["sessions"],
        operationId: "switchMode",
        summary: "Choose the mode of a session's agent",
        description: "From the next turn on the agent has the tools of this mode. The turn under way keeps its mode.",
        params: SessionParams,
        body: z.strictObject({ mode: ModeName, ...commandFields }),
        response: { 200: SessionAnswerSchema },
      },
    },
    async (request) => {
      return await change(request, request.params.id, request.body);
    },
  );

  app.post(
    "/session/:id/schedule",
    {
      schema: {
        tags: ["sessions"],
        operationId: "scheduleSession",
        summary: "Choose when a session asks for the floor",
        description:
          "For a session that has never had the floor: it gets a time, or another one. Without `content` it keeps its message.",
        params: SessionParams,
        body: ScheduleBody,
        response: { 200: SessionAnswerSchema },
      },
    },
    async (request) => {
      const schedule = wantedSchedule(request.body)!;
      const reschedule = (sessionId: SessionId) => ({ type: "session.schedule" as const, sessionId, schedule });
      const { reply } = await commandSession(context, request, request.params.id, reschedule);
      return sessionAnswer(commands, reply);
    },
  );

  app.delete(
    "/session/:id",
    {
      schema: {
        tags: ["sessions"],
        operationId: "deleteSession",
        summary: "Delete a session",
        description: "Deletes its messages, log and images too. An unknown session is answered with `deleted: false`.",
        params: SessionParams,
        body: CommandBody,
        response: { 200: z.object({ success: z.literal(true), deleted: z.boolean() }) },
      },
    },
    async (request) => {
      const remove = (sessionId: SessionId) => ({ type: "session.delete" as const, sessionId });
      try {
        await commandSession(context, request, request.params.id, remove);
        return { success: true as const, deleted: true };
      } catch (error) {
        if (error instanceof AppError && error.code === "session_not_found") {
          return { success: true as const, deleted: false };
        }
        throw error;
      }
    },
  );

  app.post(
    "/session/:id/stop",
    {
      schema: {
        tags: ["sessions"],
        operationId: "stopSession",
        summary: "Archive a session, if it is not archived yet",
        description:
          "Like archive, without an error if the session is already archived. With `group` it ends the other sessions of its request for all zones too.",
        params: SessionParams,
        body: StopBody,
        response: { 200: SessionAnswerSchema },
      },
    },
    async (request) => {
      const stop = (sessionId: SessionId) => ({ type: "session.stop" as const, sessionId });
      const { identity, reply } = await commandSession(context, request, request.params.id, stop);
      const answer = sessionAnswer(commands, reply);
      if (request.body.group) await stopGroup(context, identity, answer.session);
      return answer;
    },
  );

  for (const { verb, ...about } of VERBS) {
    app.post(
      `/session/:id/${verb}`,
      {
        schema: {
          tags: ["sessions"],
          ...about,
          params: SessionParams,
          body: CommandBody,
          response: { 200: SessionAnswerSchema },
        },
      },
      async (request) => {
        const command = (sessionId: SessionId) => ({ type: `session.${verb}` as const, sessionId });
        const { reply } = await commandSession(context, request, request.params.id, command);
        return sessionAnswer(commands, reply);
      },
    );
  }
}
