import type { ClientMessage } from "../protocol/client-message.ts";
import type { Decision } from "../protocol/decision.ts";
import type { SessionState } from "../protocol/session.ts";
import type {
  AgentsAnswer,
  FloorView,
  Health,
  LoadedSession,
  LogPage,
  MessageAnswer,
  MessagePage,
  Readiness,
  SessionAnswer,
  SessionPage,
} from "./answers.ts";
import { type EventStream, type EventStreamOptions, openEvents } from "./event-stream.ts";
import { type ClientOptions, type ReadOptions, Requester, type WriteOptions } from "./requester.ts";

export interface NewSession {
  /** Default: the server makes one. */
  id?: string;
  /** Default: the catalogue's default agent. */
  agentId?: string;
  /** Whose floor it competes for; without a user it has one of its own. */
  userId?: string;
  zone?: string;
  workspaceId?: string;
  title?: string;
  /** Bind it to this connection's stream. */
  connectionId?: string;
  /** Ask for the floor in the same breath; if that is refused, `rejected` is thrown and there is no session. */
  activate?: boolean;
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

/** A window on a list: what comes after, or before, an entry's id. */
export interface Window {
  after?: string;
  before?: string;
  limit?: number;
}

/** What `POST /message` takes; its key is an option, not a field. */
export type OutgoingMessage = WithoutKey<(typeof ClientMessage)["_zod"]["input"]>;
type WithoutKey<T> = T extends unknown ? Omit<T, "commandId"> : never;

export interface StreamOptions extends Pick<EventStreamOptions, "signal" | "position" | "onStatus"> {}

export interface ConnectionOptions extends StreamOptions {
  /** Sessions to bind at once. */
  sessionIds?: readonly string[];
  /** For sessions that are made through this connection. */
  userId?: string;
  zone?: string;
}

export type Client = ReturnType<typeof createClient>;

/**
 * Everything the server can be asked, one method per route. A method throws `ClientError` when the answer is a failure,
 * and the signal's reason when it is aborted. Each write has an idempotency key and is repeated with it while its
 * outcome is unknown; what still fails then has the key in `facts.commandId`.
 *
 * @throws TypeError for a `baseUrl` that is no address
 */
export function createClient(options: ClientOptions) {
  const requester = new Requester(options);
  type Path = readonly string[];
  const get = <T>(path: Path, query: object, options: ReadOptions | undefined) =>
    requester.json<T>({ ...options, method: "GET", path, query });
  const post = <T>(path: Path, body: object, options: WriteOptions | undefined) =>
    requester.json<T>({ ...options, method: "POST", path, body });
  const remove = <T>(path: Path, options: WriteOptions | undefined) =>
    requester.json<T>({ ...options, method: "DELETE", path });
  const open = (path: Path, { signal, position, onStatus }: StreamOptions, query: object, firstQuery: object) =>
    openEvents({
      ...requester.streaming,
      urlAt: (at) => requester.urlOf(path, { ...query, ...(at === undefined ? firstQuery : { lastEventId: at }) }),
      signal,
      position,
      onStatus,
    });

  return {
    createSession: (input: NewSession = {}, options?: WriteOptions) =>
      post<SessionAnswer>(["session", "create"], input, options),

    /** The session with its newest messages; binds it to a connection's stream, if one is named. */
    loadSession: (input: { sessionId: string; connectionId?: string }, options?: WriteOptions) =>
      post<LoadedSession>(["session", "load"], input, options),

    listSessions: (query: SessionQuery = {}, options?: ReadOptions) =>
      get<SessionPage>(["session", "list"], query, options),

    getSession: (id: string, options?: ReadOptions) => get<SessionAnswer>(["session", id], {}, options),

    renameSession: (id: string, title: string, options?: WriteOptions) =>
      requester.json<SessionAnswer>({ ...options, method: "PATCH", path: ["session", id], body: { title } }),

    /** `deleted` is false for a session that was not there. */
    deleteSession: (id: string, options?: WriteOptions) => remove<{ deleted: boolean }>(["session", id], options),

    /** With neither `after` nor `before`, the newest. */
    listMessages: (id: string, window: Window = {}, options?: ReadOptions) =>
      get<MessagePage>(["session", id, "messages"], window, options),

    /** Takes back a turn that is still queued. */
    withdrawMessage: (id: string, messageId: string, options?: WriteOptions) =>
      remove<{ deleted: true }>(["session", id, "messages", messageId], options),

    /** What an agent's program logged while it wrote a message. */
    listLogs: (id: string, messageId: string, window: Omit<Window, "before"> = {}, options?: ReadOptions) =>
      get<LogPage>(["session", id, "messages", messageId, "logs"], window, options),

    activateSession: (id: string, options?: WriteOptions) =>
      post<SessionAnswer>(["session", id, "activate"], {}, options),
    pauseSession: (id: string, options?: WriteOptions) => post<SessionAnswer>(["session", id, "pause"], {}, options),
    resumeSession: (id: string, options?: WriteOptions) => post<SessionAnswer>(["session", id, "resume"], {}, options),
    archiveSession: (id: string, options?: WriteOptions) =>
      post<SessionAnswer>(["session", id, "archive"], {}, options),
    /** Ends what it is running and archives it; once more is no error. */
    stopSession: (id: string, options?: WriteOptions) => post<SessionAnswer>(["session", id, "stop"], {}, options),

    /** @param id a floor's id as sessions have it in `floorId` */
    getFloor: (id: string, options?: ReadOptions) => get<FloorView>(["floor", id], {}, options),

    /** Archives the holder; what it interrupted goes on. */
    stopFloor: (id: string, options?: WriteOptions) => post<{ archived: string[] }>(["floor", id, "stop"], {}, options),

    /** Archives the holder, whom it interrupted, and who waits. */
    stopAll: (id: string, options?: WriteOptions) =>
      post<{ archived: string[] }>(["floor", id, "stop-all"], {}, options),

    /** Replaces the floor's whole set of flags. */
    setFlags: (id: string, flags: Record<string, boolean>, options?: WriteOptions) =>
      requester.json<{ flags: Record<string, boolean> }>({
        ...options,
        method: "PUT",
        path: ["floor", id, "flags"],
        body: flags,
      }),

    /** What the arbiter would say now; nothing changes. */
    whatIf: (id: string, agentId: string, options?: ReadOptions) =>
      post<{ decision: Decision }>(["floor", id, "what-if"], { agentId }, options),

    listAgents: (options?: ReadOptions) => get<AgentsAnswer>(["agents"], {}, options),

    /** Resolves once the message is accepted; what comes of it is told on the streams. */
    send: (message: OutgoingMessage, options?: WriteOptions) => post<MessageAnswer>(["message"], message, options),

    getHealth: (options?: ReadOptions) => get<Health>(["health"], {}, options),

    /** A node that is not ready answers too, with what it lacks. */
    getReadiness: (options?: ReadOptions) =>
      requester.json<Readiness>({ ...options, method: "GET", path: ["ready"], accepts: 503 }),

    /** Prometheus text. */
    getMetrics: (options?: ReadOptions) => requester.text({ ...options, method: "GET", path: ["metrics"] }),

    getOpenApi: (options?: ReadOptions) => get<Record<string, unknown>>(["openapi.json"], {}, options),

    /** A connection: the events of all sessions that are bound to it. */
    openConnection: ({ sessionIds, userId, zone, ...options }: ConnectionOptions = {}): EventStream =>
      open(["events"], options, { userId, zone }, { sessionId: sessionIds }),

    /** One session's events, from the first or after `position`; ends when the session is archived or deleted. */
    openSession: (id: string, options: StreamOptions = {}): EventStream =>
      open(["session", id, "events"], options, {}, {}),

    /** The decisions of a floor and the transitions of all its sessions. */
    openFloor: (id: string, options: StreamOptions = {}): EventStream => open(["floor", id, "events"], options, {}, {}),
  };
}
