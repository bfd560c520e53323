// Rule C26 of docs/inside/correctness.md.

import { createHmac } from "node:crypto";
import { failedRun, unfinishedRuns } from "../../actors/session/listed-runs.ts";
import { hasAsked, runningMessage, waitingMessages } from "../../actors/session/session-context.ts";
import { BOUNDS } from "../../config/bounds.ts";
import { AppError } from "../../protocol/errors.ts";
import type { LogEntry } from "../../protocol/event.ts";
import {
  type AgentId,
  type FloorId,
  floorOfUser,
  type MessageId,
  parseFloorId,
  type RequestId,
  type RunId,
  SessionId,
  userOf,
} from "../../protocol/ids.ts";
import type { ListedRun, ListedRunState } from "../../protocol/listed-run.ts";
import type { Message } from "../../protocol/message.ts";
import type { Session } from "../../protocol/session.ts";
import { flow } from "../../shared/flow.ts";
import type {
  Blob,
  BlobStore,
  FloorRow,
  FloorStore,
  LogSlice,
  LogStore,
  MessageRange,
  MessageStore,
  RunListPlace,
  StoredFloorPage,
  StoredFloorQuery,
  StoredFloorView,
  StoredLogPage,
  StoredMessagePage,
  StoredSessionPage,
  StoredSessionQuery,
  StoredSessionView,
  StoredUsagePage,
  StoredUsageQuery,
  StoreSecret,
  UsageStore,
  ViewStore,
  Whereabouts,
} from "../../store/store.ts";
import type { Caller } from "./caller.ts";
import type { KnownAddresses, SessionAddress } from "./known-addresses.ts";

export interface VisibleSessionsOptions {
  store: ViewStore & MessageStore & LogStore & BlobStore & UsageStore & StoreSecret & Pick<FloorStore, "loadSession">;
  addresses: KnownAddresses;
}

/** The address of an existing session, or of a deleted one with its tombstone (rule C20). */
export type Found = SessionAddress & Pick<Whereabouts, "tombstone">;

/** Which runs to list. Times in ms since 1970. */
export interface ListedRunQuery {
  /** Default: all but `failed`. */
  state?: ListedRunState | undefined;
  agentId?: AgentId | undefined;
  userId?: string | undefined;
  from?: number | undefined;
  to?: number | undefined;
  after?: RunListPlace | undefined;
  limit: number;
}

/** Where a reader of a session's log can begin: in the log, or at the last event of a deleted session. */
export type LogBounds =
  | { kind: "gone"; address: SessionAddress; head: number; last: LogEntry }
  | { kind: "there"; address: SessionAddress; head: number; lowWater: number; createdAt: number; isArchived: boolean };

/** Characters of an owner's tag: 96 bits, so that another owner's tag cannot be found by trying. */
const TAG_LENGTH = 16;
/** Sessions in which one goes on, one after the other, that are followed. */
const MAX_REPLACEMENTS = 1_000;
/** Among how many sessions a question is looked for. */
const ASKING_SESSIONS = 200;
/** Sessions with runs that are read at a time, and for one page. */
const RUNS_READ = 100;
const RUNS_SEARCHED = 2_000;
const ID_LENGTH = 64;

/**
 * The sessions and floors that one caller may see (rule C26). Routes and streams look them up through this class, so
 * that another owner's session looks like a missing one; from the store they read only logs of what it has found. The
 * owner is checked on the row that is read.
 *
 * Ids that clients choose are scoped to their owner: with authentication on, a session is created under the chosen id
 * followed by the owner's tag, and the owner may use either name.
 */
export class VisibleSessions {
  readonly #caller: Caller;
  readonly #options: VisibleSessionsOptions;

  constructor(caller: Caller, options: VisibleSessionsOptions) {
    this.#caller = caller;
    this.#options = options;
  }

  /** The session with this id, existing or deleted; undefined if the caller may not see it or it is unknown. */
  async find(id: SessionId): Promise<Found | undefined> {
    for (const name of this.#names(id)) {
      const where = await this.#options.store.whereIs(name);
      if (!where || !maySee(this.#caller, where.ownerId)) continue;
      const { floorId, ownerId, tombstone } = where;
      return { sessionId: name, floorId, ownerId, tombstone };
    }
    return undefined;
  }

  /** As `find`, but undefined for a deleted session. */
  async findLiving(id: SessionId): Promise<SessionAddress | undefined> {
    const found = await this.find(id);
    return found?.tombstone ? undefined : found;
  }

  /** @throws AppError `session_not_found` */
  async addressOf(id: SessionId): Promise<SessionAddress> {
    const found = await this.findLiving(id);
    if (!found) throw new AppError("session_not_found");
    return found;
  }

  /**
   * Where to send a command. The address may be out of date; the floor checks the session and its owner again.
   * @throws AppError `session_not_found`
   */
  async locate(id: SessionId): Promise<SessionAddress> {
    const { addresses } = this.#options;
    const known = addresses.get(id);
    flow.onHop?.("sight", `${id} ${known ? "was seen before" : "is looked up in the store"}`);
    if (known && maySee(this.#caller, known.ownerId)) return known;
    const address = await this.addressOf(id);
    addresses.set(address);
    return address;
  }

  /**
   * The id of a session for which a client chose the id `chosen`. The same for a repeat, and independent of other
   * owners who chose the same id.
   */
  async idFor(ownerId: string | undefined, chosen: SessionId): Promise<SessionId> {
    if (ownerId === undefined) return chosen;
    const where = await this.#options.store.whereIs(chosen);
    return where?.ownerId === ownerId ? chosen : this.#tagged(ownerId, chosen);
  }

  /** A page of a user's sessions: those on its floors, and those that it owns. Empty after the last page. */
  async ofUser(userId: string, page: number, pageSize: number): Promise<Session[]> {
    if (!maySee(this.#caller, userId)) return [];
    const query = { page, pageSize, includeArchived: true };
    const onFloors = await this.#options.store.listSessions({ ...query, userId });
    const owned = await this.#options.store.listSessions({ ...query, ownerId: userId });
    return [...new Map([...onFloors.sessions, ...owned.sessions].map((session) => [session.id, session])).values()];
  }

  /** What turns used: those of all owners for operators, and else the caller's own. */
  usage(query: StoredUsageQuery): Promise<StoredUsagePage> {
    const ownerId = this.#caller.isOperator ? query.ownerId : this.#caller.ownerId;
    return this.#options.store.listUsage({ ...query, ownerId });
  }

  /** The session with its newest `messages` messages. @throws AppError `session_not_found` */
  async view(id: SessionId, messages: number): Promise<StoredSessionView> {
    const view = await this.#findView(id, messages);
    if (!view) throw new AppError("session_not_found");
    return view;
  }

  /** The session in which this one goes on, if a move or a copy replaced it; else itself. Undefined: unknown. */
  async current(id: SessionId): Promise<Session | undefined> {
    let session = (await this.#findView(id, 0))?.session;
    for (let count = 0; session?.replacedBy !== undefined && count < MAX_REPLACEMENTS; count += 1) {
      const next: StoredSessionView | undefined = await this.#findView(session.replacedBy, 0);
      if (!next) break;
      session = next.session;
    }
    return session;
  }

  /** The agent of a session, and its workspace; undefined for an unknown session. */
  async agentOf(id: SessionId): Promise<{ agentId: AgentId; workspaceId?: string | undefined } | undefined> {
    return (await this.#findView(id, 0))?.session;
  }

  /** The bounds of a session's log; undefined for an unknown session, not for a deleted one. */
  async log(id: SessionId): Promise<LogBounds | undefined> {
    for (;;) {
      const found = await this.find(id);
      if (!found) return undefined;
      const { tombstone, ...address } = found;
      if (tombstone) return { kind: "gone", address, ...tombstone };
      const { store } = this.#options;
      const view = await store.viewSession(address.sessionId, 0);
      const slice = await store.readSessionLog(address.sessionId, 0, 1);
      // The session was deleted between the two reads. The next attempt finds its tombstone.
      if (!view || !slice) continue;
      const { head, session } = view;
      const { createdAt, state } = session;
      return { kind: "there", address, head, lowWater: slice.lowWater, createdAt, isArchived: state === "archived" };
    }
  }

  async list(query: Omit<StoredSessionQuery, "ownerId" | "id">): Promise<StoredSessionPage> {
    const named = SessionId.safeParse(query.q?.trim());
    const id = named.success ? (await this.find(named.data))?.sessionId : undefined;
    return this.#options.store.listSessions({ ...query, ownerId: this.#listedOwner, id });
  }

  /**
   * A page of runs. It ends with the session whose runs reach the limit, or the size limit, or if too many sessions
   * were searched for runs of this state and agent. `next`: where the next page begins; undefined after the last one.
   */
  async runs(query: ListedRunQuery): Promise<{ runs: ListedRun[]; next: RunListPlace | undefined }> {
    const runs: ListedRun[] = [];
    let bytes = 0;
    let searched = 0;
    for await (const { found, last, isLast } of this.#sessionsWithRuns(query)) {
      searched += 1;
      runs.push(...found);
      bytes += JSON.stringify(found).length;
      const isFull = runs.length >= query.limit || bytes >= BOUNDS.pageBytes || searched >= RUNS_SEARCHED;
      if (isFull) return { runs, next: isLast ? undefined : last };
    }
    return { runs, next: undefined };
  }

  /** Sessions that may have such runs, each with those that it has, and with its place in the list. */
  async *#sessionsWithRuns({ state, agentId, userId, from = 0, to, after }: ListedRunQuery) {
    const isWanted = (run: ListedRun) =>
      (state === undefined || run.state === state) &&
      (agentId === undefined || run.agentId === agentId) &&
      run.at >= from &&
      run.at <= (to ?? run.at);
    const kind = state === "failed" ? ("failed" as const) : ("unfinished" as const);
    // A session whose oldest run is too old may have a newer one.
    const query = { kind, ownerId: this.#listedOwner, userId, to, ...(kind === "failed" && { from }) };
    for (let last = after, hasMore = true; hasMore; ) {
      const page = await this.#options.store.listRuns({ ...query, after: last, limit: RUNS_READ });
      hasMore = page.hasMore;
      for (const [index, { session, memory, at }] of page.sessions.entries()) {
        last = { at, sessionId: session.id };
        const runs = kind === "failed" ? [failedRun(session, memory)] : unfinishedRuns(session, memory);
        const found = runs.filter((run) => run !== undefined && isWanted(run)) as ListedRun[];
        yield { found, last, isLast: !hasMore && index === page.sessions.length - 1 };
      }
    }
  }

  /** The session of an unfinished run. @throws AppError `not_found` */
  async sessionOfRun(runId: RunId): Promise<SessionAddress> {
    const query = { kind: "unfinished", ownerId: this.#listedOwner, runId, limit: RUNS_READ } as const;
    const { sessions } = await this.#options.store.listRuns(query);
    const found = sessions.find(({ session, memory }) =>
      unfinishedRuns(session, memory).some(({ id }) => id === runId),
    );
    if (!found) throw new AppError("not_found", "No unfinished run has this id.");
    const { id: sessionId, floorId, ownerId } = found.session;
    return { sessionId, floorId, ownerId };
  }

  /** The session that asked this of its user, of those that were active last; undefined if none of them did. */
  async asking(requestId: RequestId): Promise<SessionAddress | undefined> {
    const { sessions } = await this.list({ page: 0, pageSize: ASKING_SESSIONS, includeArchived: false });
    for (const { id, activity } of sessions) {
      const row = activity === "waiting" ? await this.#options.store.loadSession(id) : undefined;
      if (row && hasAsked(row.memory, requestId)) return this.locate(id);
    }
    return undefined;
  }

  /** @throws AppError `session_not_found` */
  async messages(id: SessionId, range: MessageRange): Promise<StoredMessagePage & { createdAt: number }> {
    const { session } = await this.view(id, 0);
    const page = await this.#options.store.listMessages(session.id, range);
    if (!page) throw new AppError("session_not_found");
    return { ...page, createdAt: session.createdAt };
  }

  /** @throws AppError `session_not_found`, `not_found` */
  async message(id: SessionId, messageId: MessageId): Promise<Message> {
    const { sessionId } = await this.addressOf(id);
    const message = await this.#options.store.findMessage(sessionId, messageId);
    if (!message) throw new AppError("not_found", `There is no message ${messageId} in this session.`);
    return message;
  }

  /**
   * The queued turns of a session, in the order in which they will run, beginning after `after` if that is still
   * queued. A page ends with the message that reaches its size limit.
   * @throws AppError `session_not_found`
   */
  async queue(id: SessionId, after?: MessageId): Promise<{ messages: Message[]; hasMore: boolean }> {
    const { sessionId } = await this.addressOf(id);
    const { store } = this.#options;
    const row = await store.loadSession(sessionId);
    if (!row) throw new AppError("session_not_found");
    const ids = waitingMessages(row.memory);
    const messages: Message[] = [];
    let bytes = 0;
    for (const messageId of ids.slice(after === undefined ? 0 : ids.indexOf(after) + 1)) {
      if (bytes >= BOUNDS.pageBytes) return { messages, hasMore: true };
      const message = await store.findMessage(sessionId, messageId);
      // The turn began, or was withdrawn, since the row was read.
      if (message?.status !== "queued") continue;
      messages.push(message);
      bytes += Buffer.byteLength(message.content);
    }
    return { messages, hasMore: false };
  }

  /**
   * The user's messages whose turns have not ended, in the order in which they run, and whether the first one is under
   * way.
   * @throws AppError `session_not_found`
   */
  async unfinished(id: SessionId): Promise<{ messages: Message[]; isRunning: boolean }> {
    const { sessionId } = await this.addressOf(id);
    const { store } = this.#options;
    const row = await store.loadSession(sessionId);
    if (!row) throw new AppError("session_not_found");
    const running = runningMessage(row.memory);
    const ids = [...(running === undefined ? [] : [running]), ...waitingMessages(row.memory)];
    const found = await Promise.all(ids.map((messageId) => store.findMessage(sessionId, messageId)));
    return { messages: found.filter((message) => message !== undefined), isRunning: running !== undefined };
  }

  /** @throws AppError `session_not_found`, `not_found` */
  async logs(id: SessionId, messageId: MessageId, range: Parameters<ViewStore["listLogs"]>[2]): Promise<StoredLogPage> {
    const { sessionId } = await this.addressOf(id);
    return this.#options.store.listLogs(sessionId, messageId, range);
  }

  /**
   * Images outlive their session for a while but are then not found. @throws AppError `session_not_found`, `not_found`
   */
  async image(id: SessionId, hash: string): Promise<Blob> {
    const { sessionId } = await this.addressOf(id);
    const blob = await this.#options.store.getBlob(sessionId, hash);
    if (!blob) throw new AppError("not_found");
    return blob;
  }

  /**
   * The floor that a path names. The floor of a single session belongs to the session's owner, under either name of the
   * session.
   * @throws AppError `bad_request` for a malformed floor id, `not_found` for another owner's floor
   */
  async floor(text: string): Promise<FloorId> {
    const floorId = parseFloorId(text);
    if (!floorId) {
      const issues = [{ path: "params.id", message: "u:<user>, u:<user>/<zone> or s:<session>" }];
      throw new AppError("bad_request", undefined, { facts: { issues } });
    }
    const { isOperator, ownerId } = this.#caller;
    const userId = userOf(floorId);
    if (userId === undefined) {
      const found = await this.find(floorId.slice("s:".length) as SessionId);
      if (found && found.floorId === `s:${found.sessionId}`) return found.floorId;
    } else if (userId === ownerId) return floorId;
    if (isOperator) return floorId;
    throw new AppError("not_found");
  }

  /** @param id a result of `floor` */
  floorView(id: FloorId, limits: { sessions: number; decisions: number }): Promise<StoredFloorView> {
    return this.#options.store.viewFloor(id, limits);
  }

  /** The newest events of a floor's log before a floorSeq. @param id a result of `floor` */
  floorLogBack(id: FloorId, before: number | undefined, limit: number): Promise<LogSlice> {
    return this.#options.store.readFloorLogBack(id, before, limit);
  }

  async floors(query: Pick<StoredFloorQuery, "after" | "state" | "limit">): Promise<StoredFloorPage> {
    const { floors, hasMore } = await this.#options.store.listFloors({ ...query, ownerId: this.#listedOwner });
    return { floors: floors.filter((floor) => this.seesFloor(floor)), hasMore };
  }

  /**
   * The open floors of a user, by their ids: those on which something has asked, at most `limit`.
   * @param userId the caller's own, or for an operator anybody's
   */
  async floorsOfUser(userId: string, limit: number): Promise<FloorId[]> {
    const { store } = this.#options;
    const own = floorOfUser(userId);
    const below = `${own}/` as FloorId;
    const { floors } = await store.listFloors({ ids: [own], limit: 1 });
    const found = floors.map(({ floorId }) => floorId);
    for (let after = below; found.length < limit; ) {
      const page = await store.listFloors({ after, limit });
      const zones = page.floors.map(({ floorId }) => floorId).filter((id) => id.startsWith(below));
      found.push(...zones);
      if (!page.hasMore || zones.length < page.floors.length) break;
      after = zones.at(-1)!;
    }
    return found.slice(0, limit);
  }

  /** Whether the caller may see the floor, by the same rule as `floor`. */
  seesFloor({ floorId, ownerId }: Pick<FloorRow, "floorId" | "ownerId">): boolean {
    return maySee(this.#caller, floorId.startsWith("u:") ? userOf(floorId) : ownerId);
  }

  /** Whose sessions lists have; undefined: everybody's. */
  get #listedOwner(): string | undefined {
    return this.#caller.isOperator ? undefined : this.#caller.ownerId;
  }

  async #findView(id: SessionId, messages: number): Promise<StoredSessionView | undefined> {
    for (const name of this.#names(id)) {
      const view = await this.#options.store.viewSession(name, messages);
      if (view && maySee(this.#caller, view.session.ownerId)) return view;
    }
    return undefined;
  }

  /** The possible ids of a session that the caller names so: the id itself, and the id with the caller's tag. */
  *#names(id: SessionId): Iterable<SessionId> {
    yield id;
    const { ownerId } = this.#caller;
    if (ownerId !== undefined) yield this.#tagged(ownerId, id);
  }

  #tagged(ownerId: string, chosen: SessionId): SessionId {
    const tag = createHmac("sha256", this.#options.store.secret)
      .update(JSON.stringify(["session of", ownerId, chosen]))
      .digest("base64url")
      .slice(0, TAG_LENGTH);
    return `${chosen.slice(0, ID_LENGTH - TAG_LENGTH - 1)}-${tag}` as SessionId;
  }
}

/** Whether this caller may see what belongs to `ownerId`. */
function maySee(caller: Caller, ownerId: string | undefined): boolean {
  return caller.isOperator || (caller.ownerId !== undefined && caller.ownerId === ownerId);
}
