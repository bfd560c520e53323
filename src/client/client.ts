import type { ClientMessage } from "../protocol/client-message.ts";
import type { FloorState } from "../protocol/floor.ts";
import type { ListedRunState } from "../protocol/listed-run.ts";
import type { Routed } from "../protocol/routed.ts";
import type { SessionState } from "../protocol/session.ts";
import type { SessionSettings } from "../protocol/session-settings.ts";
import type {
  AgentsAnswer,
  CatalogueDifference,
  DefinitionAnswer,
  DefinitionPage,
  DefinitionSettings,
  FloorLogPage,
  FloorPage,
  FloorView,
  Health,
  LoadedSession,
  LogPage,
  MatrixAnswer,
  MessageAnswer,
  MessagePage,
  NodeList,
  QueuePage,
  Readiness,
  ReplayAnswer,
  RunPage,
  SessionAnswer,
  SessionPage,
  UsagePage,
  WebhookAnswer,
  WebhookView,
} from "./answers.ts";
import type { WhatIfAnswer } from "./client-error.ts";
import { type EventStream, type EventStreamOptions, openEvents } from "./event-stream.ts";
import {
  type ClientOptions,
  type CommandOptions,
  type ReadOptions,
  Requester,
  type WriteOptions,
} from "./requester.ts";

/** When a session asks for the floor: one of `at`, `in` and `every`, or none. */
export interface ScheduleInput {
  /** An RFC 3339 instant, or a local date and time with `timezone`, as in `2026-12-01T07:00`. */
  at?: string;
  /** After this time: a whole number and s, m, h or d, as in `10m`. At most 366 days. */
  in?: string;
  /** Again and again: five fields of cron, on the clocks of `timezone`. Needs a `userId`. */
  every?: string;
  /** An IANA time zone, such as `Europe/Berlin`. */
  timezone?: string;
  /** The message with which the session asks, at its time or in all zones, at most 4,096 units. */
  content?: string;
}

/**
 * Names of users, zones and workspaces have 1 to 128 characters, without control characters. Default of the title: made
 * from the first message; of the mode: the agent's first.
 */
export interface NewSession extends ScheduleInput, SessionSettings {
  /** 1 to 64 letters, digits, `_` and `-`. Default: the server creates an id. */
  id?: string;
  /** Default: the catalogue's default agent. */
  agentId?: string;
  /** Whose floor the session competes for. Default: the session has a floor of its own. */
  userId?: string;
  /** Which of the user's floors. Default: the one without a zone. `*`: a session on each that is open asks there. */
  zone?: string;
  /** The workspace whose agents it may have, besides those of the catalogue's file. */
  workspaceId?: string;
  /** The language of spoken sentences, such as `en` or `zh-CN`. Default: the one that the request prefers. */
  locale?: string;
  /** The connection to bind the session to, from `ConnectionView.connectionId` or a `connected` event. */
  connectionId?: string;
  /** Request the floor with the creation. If that is refused, `rejected` is thrown and no session is created. */
  activate?: boolean;
}

/** A copy, beside its source. */
export interface ForkInput {
  /** The last message to copy. Default: all of them. */
  messageId?: string;
  /** Default: the session's agent. */
  agentId?: string;
  /** The connection to bind the copy to. */
  connectionId?: string;
  /** Request the floor for the copy. */
  activate?: boolean;
}

export interface EditInput {
  content: string;
  /** At most 8. `data`: base64 with a `mimeType`, or a `data:` URI. Default: the images of the message. */
  images?: { data: string; mimeType?: string }[];
  /** Archive the session in favour of the copy. */
  replace?: boolean;
  /** The connection to bind the copy to. */
  connectionId?: string;
}

export interface ImportInput extends Pick<NewSession, "agentId" | "userId" | "zone" | "workspaceId" | "connectionId"> {}

export interface DefinitionInput extends DefinitionSettings {
  /** How sessions of the workspace name it. */
  name: string;
  workspaceId: string;
}

export type DefinitionChange = { [K in keyof DefinitionSettings]?: DefinitionSettings[K] | null };

export interface DefinitionQuery {
  /** Default: all workspaces. */
  workspaceId?: string;
  /** The id of the last definition of the previous page. */
  after?: string;
  /** 1 to 200. Default: 50. */
  limit?: number;
}

export interface SessionQuery {
  /** From 0. */
  page?: number;
  /** 1 to 200. Default: 20. */
  pageSize?: number;
  /** Words of titles, summaries and messages, or an id; at most 1,024 characters. */
  q?: string;
  state?: SessionState;
  agentId?: string;
  userId?: string;
  workspaceId?: string;
  /** Default: false, unless `state` is `archived`. */
  includeArchived?: boolean;
}

export interface RunQuery {
  /** Default: all but `failed`. */
  state?: ListedRunState;
  agentId?: string;
  userId?: string;
  /** Only runs at least, or at most, so old, in ms. */
  minAgeMs?: number;
  maxAgeMs?: number;
  /** The `next` of the page before. Default: the first page. */
  after?: string;
  /** 1 to 500. Default: 100. */
  limit?: number;
}

export interface FloorQuery {
  state?: FloorState;
  /** The id of the last floor of the previous page. */
  after?: string;
  /** 1 to 1,000. Default: 100. */
  limit?: number;
}

export interface UsageQuery {
  /** For operators. Default: all owners. */
  ownerId?: string;
  agentId?: string;
  /** The first and the last day (UTC), as in `2026-11-28`. */
  from?: string;
  to?: string;
  /** `next` of the previous page. */
  after?: string;
  /** 1 to 1,000. Default: 100. */
  limit?: number;
}

export interface FloorLogQuery {
  /** A position: only events before it are returned. */
  before?: string;
  /** 1 to 2,000. Default: 500. A page ends earlier if its events are large. */
  limit?: number;
}

/** When and for whom a matrix is made. Default: with the agents' own priorities, without rules. */
export interface MatrixQuery {
  /** HH:MM, in the time zone of the first rule with hours. */
  at?: string;
  userId?: string;
  /** Flags that are set on the floor. */
  flag?: readonly string[];
}

export interface ReplayQuery {
  /** How old the oldest event may be, in ms; default: a day, at most 31. */
  lastMs?: number;
  /** How long a session is heard that was refused and is not refused now, in ms; default: 30,000. */
  refusedLastMs?: number;
}

/** A page of a list: the entries after an id, or before it, but not both. */
export interface PageRange {
  after?: string;
  before?: string;
  /** Messages: 1 to 500, default 100. Log lines: 1 to 1,000, default 200. */
  limit?: number;
}

/** The input of `POST /message`. The idempotency key is an option, not a field. */
export type OutgoingMessage = WithoutKey<(typeof ClientMessage)["_zod"]["input"]>;
type WithoutKey<T> = T extends unknown ? Omit<T, "commandId"> : never;

export interface StreamOptions extends Pick<EventStreamOptions, "signal" | "position" | "onStatus" | "onPosition"> {}

export interface ConnectionOptions extends StreamOptions {
  /** Sessions to bind when the stream opens, at most 64. */
  sessionIds?: readonly string[];
  /** Defaults for sessions that are created through this connection. */
  userId?: string;
  zone?: string;
}

export type Client = ReturnType<typeof createClient>;

/**
 * A client for the HTTP API, with one method per route. A method throws `ClientError` for a failure, and the signal's
 * reason when it is aborted. Each write has an idempotency key and is repeated with it while its outcome is unknown; a
 * final failure then has the key in `facts.commandId`.
 *
 * @throws TypeError if `baseUrl` is not a valid address
 */
export function createClient(options: ClientOptions) {
  const requester = new Requester(options);
  type Path = readonly string[];
  const get = <T>(path: Path, query: object, options: ReadOptions | undefined) =>
    requester.json<T>({ ...options, method: "GET", path, query });
  const write = <T>(method: "PATCH" | "POST" | "PUT", path: Path, body: object, options: WriteOptions | undefined) =>
    requester.json<T>({ ...options, method, path, body });
  const post = <T>(path: Path, body: object, options: WriteOptions | undefined) =>
    write<T>("POST", path, body, options);
  /** A command to one session. */
  const command = <T>(path: Path, body: object, { ifSeq, ...options }: CommandOptions = {}) =>
    post<T>(path, { ...body, ifSeq }, options);
  /** A write that takes long: it copies a history, or waits for another server. */
  const postLong = <T>(path: Path, body: object, options: WriteOptions | undefined) =>
    requester.json<T>({ ...options, method: "POST", path, body, isLong: true });
  const remove = <T>(path: Path, { ifSeq, ...options }: CommandOptions = {}, isLong = false) =>
    requester.json<T>({ ...options, method: "DELETE", path, ...(ifSeq !== undefined && { body: { ifSeq } }), isLong });
  const changeSession = (id: string, settings: SessionSettings, { ifSeq, ...options }: CommandOptions = {}) =>
    write<SessionAnswer>("PATCH", ["session", id], { ...settings, ifSeq }, options);
  const upload = <T>(path: Path, query: object, [data, type]: [string | Blob, string], options: WriteOptions = {}) =>
    requester.json<T>({ ...options, method: "POST", path, query, content: { type, data }, isLong: true });
  const download = (path: Path, query: object, options: ReadOptions | undefined) =>
    requester.blob({ ...options, method: "GET", path, query, isLong: true });
  const open = (
    path: Path,
    { signal, position, onStatus, onPosition }: StreamOptions,
    query: object,
    firstQuery: object,
  ) =>
    openEvents({
      ...requester.streaming,
      ticket:
        options.streamsBy === "ticket"
          ? async (signal) => (await post<{ ticket: string }>(["ticket"], {}, { signal })).ticket
          : undefined,
      urlAt: (at) => requester.urlOf(path, { ...query, ...(at === undefined ? firstQuery : { lastEventId: at }) }),
      signal,
      position,
      onStatus,
      onPosition,
    });

  return {
    /**
     * Create a session, and with `activate` request the floor.
     * @throws ClientError `rejected` if the floor is refused; `facts.decision` has the reason. `agent_not_found`;
     *   `idempotency_mismatch` if the id is another session's
     */
    createSession: (input: NewSession = {}, options?: WriteOptions) =>
      post<SessionAnswer>(["session", "create"], input, options),

    /** The session with its newest messages. Binds it to `connectionId`, if given. */
    loadSession: (input: { sessionId: string; connectionId?: string }, options?: WriteOptions) =>
      post<LoadedSession>(["session", "load"], input, options),

    /** A page of the caller's sessions, those with the newest activity first. */
    listSessions: (query: SessionQuery = {}, options?: ReadOptions) =>
      get<SessionPage>(["session", "list"], query, options),

    getSession: (id: string, options?: ReadOptions) => get<SessionAnswer>(["session", id], {}, options),

    /**
     * Change what is given of a session's settings. A title has 1 to 256 characters; a mode is for the turns to come.
     * @throws ClientError `bad_request` if the session's agent lacks the mode
     */
    changeSession,
    renameSession: (id: string, title: string, options?: CommandOptions) => changeSession(id, { title }, options),
    switchMode: (id: string, mode: string, options?: CommandOptions) => changeSession(id, { mode }, options),

    /** Delete a session. `deleted` is false if it did not exist. */
    deleteSession: (id: string, options?: CommandOptions) => remove<{ deleted: boolean }>(["session", id], options),

    /** A page of a session's messages. Default: the newest. */
    listMessages: (id: string, range: PageRange = {}, options?: ReadOptions) =>
      get<MessagePage>(["session", id, "messages"], range, options),

    /** Copy a session with its messages up to `messageId`, or with all of them. */
    forkSession: (id: string, input: ForkInput = {}, options?: WriteOptions) =>
      postLong<SessionAnswer>(["session", id, "fork"], input, options),

    /**
     * Take back the last turns: a copy without them replaces the session, which is archived.
     * @param input `turns`: 1 to 1,000, default 1
     * @throws ClientError `illegal_command` if the session has fewer turns
     */
    rollBackSession: (id: string, input: { turns?: number } = {}, options?: WriteOptions) =>
      postLong<SessionAnswer>(["session", id, "rollback"], input, options),

    /**
     * Move a session to another floor of its user, which it requests. It goes on in the session of the answer, with its
     * messages and unfinished turns, and the former one is archived (`replacedBy`).
     * @param zone null: the user's floor without a zone
     * @throws ClientError `rejected` if that floor is refused: nothing changes; `agent_busy` if its turn has acted
     */
    moveSession: (id: string, zone: string | null, { ifSeq, ...options }: CommandOptions = {}) =>
      postLong<SessionAnswer>(["session", id, "move"], { zone, ifSeq }, options),

    /** Send a user message again, as a new turn. */
    resendMessage: (id: string, messageId: string, options?: CommandOptions) =>
      command<MessageAnswer>(["session", id, "messages", messageId, "resend"], {}, options),

    /** Send an edited user message, in a copy of the session that ends before it. */
    editMessage: (id: string, messageId: string, input: EditInput, options?: WriteOptions) =>
      postLong<MessageAnswer>(["session", id, "messages", messageId, "edit"], input, options),

    /** The session as a file: Markdown, or lines of JSON for `importSession`. */
    exportSession: (id: string, format: "md" | "jsonl" = "md", options?: ReadOptions) =>
      download(["session", id, "export"], { format }, options),

    /** A session with the messages of an exported one. */
    importSession: (lines: string | Blob, input: ImportInput = {}, options?: WriteOptions) =>
      upload<SessionAnswer>(["session", "import"], input, [lines, "application/x-ndjson"], options),

    /** The queued turns, in the order in which they will run. */
    listQueue: (id: string, query: { after?: string } = {}, options?: ReadOptions) =>
      get<QueuePage>(["session", id, "queue"], query, options),

    /** Withdraw a turn that is still queued. */
    withdrawMessage: (id: string, messageId: string, options?: CommandOptions) =>
      remove<{ deleted: true }>(["session", id, "messages", messageId], options),

    /** The log of an agent's program for a message. */
    listLogs: (id: string, messageId: string, range: Omit<PageRange, "before"> = {}, options?: ReadOptions) =>
      get<LogPage>(["session", id, "messages", messageId, "logs"], range, options),

    /** Request the floor. The decision is in the answer if it is granted or queued. @throws ClientError `rejected` */
    activateSession: (id: string, options?: CommandOptions) =>
      command<SessionAnswer>(["session", id, "activate"], {}, options),
    /** Release the floor until `resumeSession`, or until its next message. */
    pauseSession: (id: string, options?: CommandOptions) =>
      command<SessionAnswer>(["session", id, "pause"], {}, options),
    /** Request the floor for a paused session. @throws ClientError `rejected`; the session then stays paused */
    resumeSession: (id: string, options?: CommandOptions) =>
      command<SessionAnswer>(["session", id, "resume"], {}, options),
    /** End the session. It remains readable, and accepts no more messages. */
    archiveSession: (id: string, options?: CommandOptions) =>
      command<SessionAnswer>(["session", id, "archive"], {}, options),
    /**
     * End the session's run and archive the session. Archiving it again is not an error.
     * @param options `group`: the other sessions of its request for all zones too
     */
    stopSession: (id: string, { group, ...options }: CommandOptions & { group?: boolean } = {}) =>
      command<SessionAnswer>(["session", id, "stop"], { group }, options),

    /**
     * Choose when a session that has never had the floor asks for it. Without `content` it keeps its message.
     * @throws ClientError `illegal_command` if it has asked; `too_many_schedules` if 64 of its floor wait
     */
    scheduleSession: (id: string, schedule: ScheduleInput, options?: CommandOptions) =>
      command<SessionAnswer>(["session", id, "schedule"], schedule, options),
    /** Request a summary, which arrives as a message. @throws ClientError `illegal_command` if the agent writes none */
    summarizeSession: (id: string, options?: CommandOptions) =>
      command<SessionAnswer>(["session", id, "summarize"], {}, options),

    /** The floors that have been used and that the caller may see. */
    listFloors: (query: FloorQuery = {}, options?: ReadOptions) => get<FloorPage>(["floors"], query, options),

    /** A floor's events, newest first. */
    readFloorLog: (id: string, query: FloorLogQuery = {}, options?: ReadOptions) =>
      get<FloorLogPage>(["floor", id, "log"], query, options),

    /** @param id the `floorId` of a session */
    getFloor: (id: string, options?: ReadOptions) => get<FloorView>(["floor", id], {}, options),

    /** Archive the holder. The session that it interrupted continues. */
    stopFloor: (id: string, options?: WriteOptions) => post<{ archived: string[] }>(["floor", id, "stop"], {}, options),

    /** Archive the holder, the sessions that it interrupted, and those that wait. */
    stopAll: (id: string, options?: WriteOptions) =>
      post<{ archived: string[] }>(["floor", id, "stop-all"], {}, options),

    /** Replace the floor's whole set of flags; at most 32. */
    setFlags: (id: string, flags: Record<string, boolean>, options?: WriteOptions) =>
      write<{ flags: Record<string, boolean> }>("PUT", ["floor", id, "flags"], flags, options),

    /** Change only these flags of the floor. */
    changeFlags: (id: string, flags: Record<string, boolean>, options?: WriteOptions) =>
      write<{ flags: Record<string, boolean> }>("PATCH", ["floor", id, "flags"], flags, options),

    /**
     * What the arbiter would decide if a session of this agent requested the floor now, or one of the agent that hears
     * this sentence, which `routed` tells; a sentence that is ignored, or that goes on in a session that is heard, has
     * no decision. `refused`: the request would get this error, and no decision. Changes nothing.
     */
    whatIf: <T extends string | { content: string }>(
      id: string,
      about: T,
      options?: ReadOptions & { workspaceId?: string | undefined },
    ) => {
      const asked = typeof about === "string" ? { agentId: about } : (about as { content: string });
      type Answer = WhatIfAnswer & (T extends string ? unknown : { routed?: Routed; sessionId?: string });
      return post<Answer>(["floor", id, "what-if"], { ...asked, workspaceId: options?.workspaceId }, options);
    },

    /**
     * What would have happened on the floor with another catalogue. Nothing is written. The answer may take a minute.
     * @throws ClientError `bad_request`, with `facts.faults` if the catalogue has faults; `busy` if the node plays
     * another log
     */
    replayFloor: (id: string, yaml: string | Blob, query: ReplayQuery = {}, options?: ReadOptions) =>
      upload<ReplayAnswer>(["floor", id, "replay"], query, [yaml, "application/yaml"], options),

    /** The enabled agents, of the catalogue's file and of a workspace. */
    listAgents: (options?: ReadOptions & { workspaceId?: string | undefined }) =>
      get<AgentsAnswer>(["agents"], { workspaceId: options?.workspaceId }, options),

    /**
     * Define an agent for a workspace. The methods for definitions are for operators. @throws ClientError `forbidden`
     */
    createDefinition: (input: DefinitionInput, options?: WriteOptions) =>
      post<DefinitionAnswer>(["agents", "definitions"], input, options),
    listDefinitions: (query: DefinitionQuery = {}, options?: ReadOptions) =>
      get<DefinitionPage>(["agents", "definitions"], query, options),
    getDefinition: (id: string, options?: ReadOptions) =>
      get<DefinitionAnswer>(["agents", "definitions", id], {}, options),
    /** Omitted settings stay unchanged; null resets a setting to that of the catalogue's agent. */
    changeDefinition: (id: string, input: DefinitionChange, options?: WriteOptions) =>
      write<DefinitionAnswer>("PATCH", ["agents", "definitions", id], input, options),
    deleteDefinition: (id: string, options?: WriteOptions) =>
      remove<{ deleted: boolean }>(["agents", "definitions", id], options),

    /** Resolves when the message is accepted. Its effects appear on the streams. */
    send: (message: OutgoingMessage, options?: WriteOptions) => post<MessageAnswer>(["message"], message, options),

    /**
     * Tell how much of a reply was spoken, in UTF-16 units of its content. A later position replaces an earlier one.
     * The answer arrives when it is stored, up to a second later, and its `playedUpTo` is the position that counts.
     */
    played: (sessionId: string, messageId: string, upTo: number, options?: WriteOptions) =>
      post<MessageAnswer>(["message"], { type: "played", sessionId, messageId, upTo }, options),

    /**
     * For pages of the server's own origin: store the token in a cookie that scripts cannot read. The browser then
     * sends it with every request and stream. The answer names the token's owner, and its end in ms since 1970.
     */
    signIn: (token: string, options?: ReadOptions) =>
      requester.json<{ ownerId?: string; expiresAt?: number }>({
        ...options,
        method: "POST",
        path: ["cookie"],
        isSignIn: true,
        headers: { authorization: `Bearer ${token}` },
      }),
    /** Delete the cookie. */
    signOut: (options?: ReadOptions) => remove<object>(["cookie"], options),

    /** Whether the node runs. It answers also when it is not ready. */
    getHealth: (options?: ReadOptions) => get<Health>(["health"], {}, options),

    /** A node that is not ready answers too, with the reasons. */
    getReadiness: (options?: ReadOptions) =>
      requester.json<Readiness>({ ...options, method: "GET", path: ["ready"], accepts: 503 }),

    /** What turns used by day, owner and agent: of all owners for operators, else of the caller. */
    listUsage: (query: UsageQuery = {}, options?: ReadOptions) => get<UsagePage>(["usage"], query, options),

    /** Metrics as Prometheus text. */
    getMetrics: (options?: ReadOptions) => requester.text({ ...options, method: "GET", path: ["metrics"] }),

    /**
     * Delete a user's sessions and all else about it, for operators. `remains`: what still has data of it, as
     * sentences. The answer may take seconds.
     */
    forgetUser: (userId: string, options?: WriteOptions) =>
      remove<{ sessions: number; remains: string[] }>(["user", userId], options, true),
    /** A user's sessions and decisions as lines of JSON, for operators and for the user. */
    exportUser: (userId: string, options?: ReadOptions) => download(["user", userId, "export"], {}, options),

    /** What every node does, for operators. */
    listNodes: (options?: ReadOptions) => get<NodeList>(["nodes"], {}, options),

    /** A page of the runs that have not ended, or that failed: of all sessions for operators, else of the caller's. */
    listRuns: (query: RunQuery = {}, options?: ReadOptions) => get<RunPage>(["runs"], query, options),
    /** End a run that has not ended. @throws ClientError `not_found` if it has, or is unknown */
    cancelRun: (id: string, options?: WriteOptions) => post<{ sessionId: string }>(["runs", id, "cancel"], {}, options),
    /** The webhooks of the node's file, and what waits for their receivers, for operators. */
    listWebhooks: (options?: ReadOptions) => get<{ webhooks: WebhookView[] }>(["webhooks"], {}, options),
    /** Send a test to a webhook's receiver, once and at once, for operators. */
    testWebhook: (name: string, options?: WriteOptions) =>
      postLong<WebhookAnswer>(["webhooks", name, "test"], {}, options),
    /** Send to a webhook's receiver again that answered 410, for operators. */
    enableWebhook: (name: string, options?: WriteOptions) =>
      post<{ wasDisabled: boolean }>(["webhooks", name, "enable"], {}, options),

    /** Who does what to whom in the catalogue's file, for operators. */
    getMatrix: (query: MatrixQuery = {}, options?: ReadOptions) =>
      get<MatrixAnswer>(["catalogue", "matrix"], query, options),
    /**
     * What another catalogue would change, for operators. Nothing is written.
     * @throws ClientError `bad_request`, with `facts.faults` if the catalogue has faults
     */
    compareCatalogue: (yaml: string | Blob, query: MatrixQuery = {}, options?: ReadOptions) =>
      upload<CatalogueDifference>(["catalogue", "diff"], query, [yaml, "application/yaml"], options),

    /** The API as an OpenAPI document. */
    getOpenApi: (options?: ReadOptions) => get<Record<string, unknown>>(["openapi.json"], {}, options),

    /** Open a connection: the events of all sessions that are bound to it. The stream reconnects by itself. */
    openConnection: ({ sessionIds, userId, zone, ...options }: ConnectionOptions = {}): EventStream =>
      open(["events"], options, { userId, zone }, { sessionId: sessionIds }),

    /**
     * The events of one session, from the first one or after `position`. Ends when the session is archived or deleted.
     */
    openSession: (id: string, options: StreamOptions = {}): EventStream =>
      open(["session", id, "events"], options, {}, {}),

    /** All floors that the caller may see: a `reset`, then a `floor` for each one in use, then one for each change. */
    openFloors: (options: Omit<StreamOptions, "position"> = {}): EventStream =>
      open(["floors", "events"], options, {}, {}),

    /** The decisions of a floor and the transitions of all its sessions. */
    openFloor: (id: string, options: StreamOptions = {}): EventStream => open(["floor", id, "events"], options, {}, {}),
  };
}
