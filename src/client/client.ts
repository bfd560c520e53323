import type { ClientMessage } from "../protocol/client-message.ts";
import type { Decision } from "../protocol/decision.ts";
import type { FloorState } from "../protocol/floor.ts";
import type { SessionState } from "../protocol/session.ts";
import type {
  AgentsAnswer,
  DefinitionAnswer,
  DefinitionPage,
  DefinitionSettings,
  FloorLogPage,
  FloorPage,
  FloorView,
  Health,
  LoadedSession,
  LogPage,
  MessageAnswer,
  MessagePage,
  NodeList,
  QueuePage,
  Readiness,
  SessionAnswer,
  SessionPage,
} from "./answers.ts";
import { type EventStream, type EventStreamOptions, openEvents } from "./event-stream.ts";
import { type ClientOptions, type ReadOptions, Requester, type WriteOptions } from "./requester.ts";

export interface NewSession {
  /** Default: the server creates an id. */
  id?: string;
  /** Default: the catalogue's default agent. */
  agentId?: string;
  /** A mode of the agent. Default: its first. */
  mode?: string;
  /** Whose floor the session competes for. Default: the session has a floor of its own. */
  userId?: string;
  zone?: string;
  workspaceId?: string;
  title?: string;
  /** The connection to bind the session to. */
  connectionId?: string;
  /** Request the floor with the creation. If that is refused, `rejected` is thrown and no session is created. */
  activate?: boolean;
}

export interface ForkInput {
  /** The last message to copy. Default: all of them. */
  messageId?: string;
  /** Default: the session's agent. */
  agentId?: string;
  connectionId?: string;
  activate?: boolean;
}

export interface EditInput {
  content: string;
  /** Default: the images of the message. */
  images?: { data: string; mimeType?: string }[];
  /** Archive the session in favour of the copy. */
  replace?: boolean;
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
  workspaceId?: string;
  /** The last definition of the previous page. */
  after?: string;
  limit?: number;
}

export interface SessionQuery {
  /** From 0. */
  page?: number;
  pageSize?: number;
  /** Words of titles, summaries and messages, or an id. */
  q?: string;
  state?: SessionState;
  agentId?: string;
  userId?: string;
  workspaceId?: string;
  includeArchived?: boolean;
}

export interface FloorQuery {
  state?: FloorState;
  /** The last floor of the previous page. */
  after?: string;
  limit?: number;
}

export interface FloorLogQuery {
  /** A position: only events before it are returned. */
  before?: string;
  limit?: number;
}

/** A page of a list: the entries after, or before, an id. */
export interface Window {
  after?: string;
  before?: string;
  limit?: number;
}

/** The input of `POST /message`. The idempotency key is an option, not a field. */
export type OutgoingMessage = WithoutKey<(typeof ClientMessage)["_zod"]["input"]>;
type WithoutKey<T> = T extends unknown ? Omit<T, "commandId"> : never;

export interface StreamOptions extends Pick<EventStreamOptions, "signal" | "position" | "onStatus" | "onPosition"> {}

export interface ConnectionOptions extends StreamOptions {
  /** Sessions to bind when the stream opens. */
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
  const post = <T>(path: Path, body: object, options: WriteOptions | undefined) =>
    requester.json<T>({ ...options, method: "POST", path, body });
  /** A write that copies a history. */
  const copy = <T>(path: Path, body: object, options: WriteOptions | undefined) =>
    requester.json<T>({ ...options, method: "POST", path, body, isLong: true });
  const remove = <T>(path: Path, options: WriteOptions | undefined) =>
    requester.json<T>({ ...options, method: "DELETE", path });
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
    createSession: (input: NewSession = {}, options?: WriteOptions) =>
      post<SessionAnswer>(["session", "create"], input, options),

    /** The session with its newest messages. Binds it to `connectionId`, if given. */
    loadSession: (input: { sessionId: string; connectionId?: string }, options?: WriteOptions) =>
      post<LoadedSession>(["session", "load"], input, options),

    listSessions: (query: SessionQuery = {}, options?: ReadOptions) =>
      get<SessionPage>(["session", "list"], query, options),

    getSession: (id: string, options?: ReadOptions) => get<SessionAnswer>(["session", id], {}, options),

    renameSession: (id: string, title: string, options?: WriteOptions) =>
      requester.json<SessionAnswer>({ ...options, method: "PATCH", path: ["session", id], body: { title } }),

    /** Delete a session. `deleted` is false if it did not exist. */
    deleteSession: (id: string, options?: WriteOptions) => remove<{ deleted: boolean }>(["session", id], options),

    /** A page of a session's messages. Default: the newest. */
    listMessages: (id: string, window: Window = {}, options?: ReadOptions) =>
      get<MessagePage>(["session", id, "messages"], window, options),

    /** Copy a session with its messages up to `messageId`, or with all of them. */
    forkSession: (id: string, input: ForkInput = {}, options?: WriteOptions) =>
      copy<SessionAnswer>(["session", id, "fork"], input, options),

    /** Take back the last turns: a copy without them replaces the session, which is archived. */
    rollBackSession: (id: string, input: { turns?: number } = {}, options?: WriteOptions) =>
      copy<SessionAnswer>(["session", id, "rollback"], input, options),

    /** Send a user message again, as a new turn. */
    resendMessage: (id: string, messageId: string, options?: WriteOptions) =>
      post<MessageAnswer>(["session", id, "messages", messageId, "resend"], {}, options),

    /** Send an edited user message, in a copy of the session that ends before it. */
    editMessage: (id: string, messageId: string, input: EditInput, options?: WriteOptions) =>
      copy<MessageAnswer>(["session", id, "messages", messageId, "edit"], input, options),

    /** The session as a file: Markdown, or lines of JSON for `importSession`. */
    exportSession: (id: string, format: "md" | "jsonl" = "md", options?: ReadOptions) =>
      requester.blob({ ...options, method: "GET", path: ["session", id, "export"], query: { format }, isLong: true }),

    /** A session with the messages of an exported one. */
    importSession: (lines: string | Blob, input: ImportInput = {}, options?: WriteOptions) =>
      requester.json<SessionAnswer>({
        ...options,
        method: "POST",
        path: ["session", "import"],
        query: input,
        lines,
        isLong: true,
      }),

    /** The queued turns, in the order in which they will run. */
    listQueue: (id: string, query: { after?: string } = {}, options?: ReadOptions) =>
      get<QueuePage>(["session", id, "queue"], query, options),

    /** Withdraw a turn that is still queued. */
    withdrawMessage: (id: string, messageId: string, options?: WriteOptions) =>
      remove<{ deleted: true }>(["session", id, "messages", messageId], options),

    /** The log of an agent's program for a message. */
    listLogs: (id: string, messageId: string, window: Omit<Window, "before"> = {}, options?: ReadOptions) =>
      get<LogPage>(["session", id, "messages", messageId, "logs"], window, options),

    activateSession: (id: string, options?: WriteOptions) =>
      post<SessionAnswer>(["session", id, "activate"], {}, options),
    pauseSession: (id: string, options?: WriteOptions) => post<SessionAnswer>(["session", id, "pause"], {}, options),
    resumeSession: (id: string, options?: WriteOptions) => post<SessionAnswer>(["session", id, "resume"], {}, options),
    archiveSession: (id: string, options?: WriteOptions) =>
      post<SessionAnswer>(["session", id, "archive"], {}, options),
    /** End the session's run and archive the session. Archiving it again is not an error. */
    stopSession: (id: string, options?: WriteOptions) => post<SessionAnswer>(["session", id, "stop"], {}, options),

    /** Choose the mode of the session's agent, from the next turn on. @throws ClientError `bad_request` if it lacks it */
    switchMode: (id: string, mode: string, options?: WriteOptions) =>
      post<SessionAnswer>(["session", id, "mode"], { mode }, options),
    /** Request a summary, which arrives as a message. @throws ClientError `illegal_command` if the agent writes none */
    summarizeSession: (id: string, options?: WriteOptions) =>
      post<SessionAnswer>(["session", id, "summarize"], {}, options),

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

    /** Replace the floor's whole set of flags. */
    setFlags: (id: string, flags: Record<string, boolean>, options?: WriteOptions) =>
      requester.json<{ flags: Record<string, boolean> }>({
        ...options,
        method: "PUT",
        path: ["floor", id, "flags"],
        body: flags,
      }),

    /** Change only these flags of the floor. */
    changeFlags: (id: string, flags: Record<string, boolean>, options?: WriteOptions) =>
      requester.json<{ flags: Record<string, boolean> }>({
        ...options,
        method: "PATCH",
        path: ["floor", id, "flags"],
        body: flags,
      }),

    /** What the arbiter would decide now. Changes nothing. */
    whatIf: (id: string, agentId: string, options?: ReadOptions & { workspaceId?: string | undefined }) =>
      post<{ decision: Decision }>(["floor", id, "what-if"], { agentId, workspaceId: options?.workspaceId }, options),

    listAgents: (options?: ReadOptions & { workspaceId?: string | undefined }) =>
      get<AgentsAnswer>(["agents"], { workspaceId: options?.workspaceId }, options),

    /** Define an agent for a workspace. For operators, like the four below. */
    createDefinition: (input: DefinitionInput, options?: WriteOptions) =>
      post<DefinitionAnswer>(["agents", "definitions"], input, options),
    listDefinitions: (query: DefinitionQuery = {}, options?: ReadOptions) =>
      get<DefinitionPage>(["agents", "definitions"], query, options),
    getDefinition: (id: string, options?: ReadOptions) =>
      get<DefinitionAnswer>(["agents", "definitions", id], {}, options),
    /** Omitted settings stay unchanged; null resets a setting to that of the catalogue's agent. */
    changeDefinition: (id: string, input: DefinitionChange, options?: WriteOptions) =>
      requester.json<DefinitionAnswer>({
        ...options,
        method: "PATCH",
        path: ["agents", "definitions", id],
        body: input,
      }),
    deleteDefinition: (id: string, options?: WriteOptions) =>
      remove<{ deleted: boolean }>(["agents", "definitions", id], options),

    /** Resolves when the message is accepted. Its effects appear on the streams. */
    send: (message: OutgoingMessage, options?: WriteOptions) => post<MessageAnswer>(["message"], message, options),

    /**
     * For pages of the server's own origin: store the token in a cookie that scripts cannot read. The browser then
     * sends it with every request and stream. The answer names the token's owner.
     */
    signIn: (token: string, options?: ReadOptions) =>
      requester.json<{ ownerId?: string; expiresAt?: number }>({
        ...options,
        method: "POST",
        path: ["cookie"],
        isSignIn: true,
        headers: { authorization: `Bearer ${token}` },
      }),
    signOut: (options?: ReadOptions) => remove<object>(["cookie"], options),

    getHealth: (options?: ReadOptions) => get<Health>(["health"], {}, options),

    /** A node that is not ready answers too, with the reasons. */
    getReadiness: (options?: ReadOptions) =>
      requester.json<Readiness>({ ...options, method: "GET", path: ["ready"], accepts: 503 }),

    /** Metrics as Prometheus text. */
    getMetrics: (options?: ReadOptions) => requester.text({ ...options, method: "GET", path: ["metrics"] }),

    /** What every node does, for operators. */
    listNodes: (options?: ReadOptions) => get<NodeList>(["nodes"], {}, options),

    getOpenApi: (options?: ReadOptions) => get<Record<string, unknown>>(["openapi.json"], {}, options),

    /** Open a connection: the events of all sessions that are bound to it. */
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
