import type { Decision } from "../../../src/protocol/decision.ts";
import { AppError } from "../../../src/protocol/errors.ts";
import type { ConnectionId, FloorId, FloorSeq, MessageId, Seq, SessionId } from "../../../src/protocol/ids.ts";
import type { Effect } from "../../../src/protocol/internal/effect.ts";
import { floorHash } from "../../../src/protocol/internal/floor-hash.ts";
import type { Message } from "../../../src/protocol/message.ts";
import type { Session } from "../../../src/protocol/session.ts";
import {
  ANSWER_BYTES,
  readPage,
  rowsWithin,
  weightOfEvent,
  weightOfFloor,
  weightOfLine,
  weightOfView,
} from "../../../src/store/row-page.ts";
import type {
  Blob,
  CommitOutcome,
  ConnectionRow,
  DraftPage,
  FloorChange,
  FloorRecord,
  FloorRow,
  Jumps,
  LogSlice,
  MessageRange,
  Receipt,
  ReceiptKey,
  SessionRow,
  Store,
  StoredFloorPage,
  StoredFloorQuery,
  StoredFloorView,
  StoredLogPage,
  StoredMessagePage,
  StoredSessionPage,
  StoredSessionQuery,
  StoredSessionView,
  Whereabouts,
} from "../../../src/store/store.ts";
import { byTime, firstOf, logPage, newest, receiptKey } from "./memory-rows.ts";
import { MemoryTables, type StoredSession } from "./memory-tables.ts";

/**
 * The store's port over maps, for tests that only need a store. Every method is synchronous inside, so that a simulation
 * decides when an answer arrives. Its search only finds substrings, and it does not prune.
 */
export class MemoryStore implements Store {
  readonly epoch = "sim1";
  readonly #tables = new MemoryTables();
  readonly secret = "a secret of the simulation, long enough";
  #jumps: Jumps = { jumpedMs: 0, doubtUntil: 0 };
  readonly #connections = new Map<ConnectionId, ConnectionRow>();
  readonly #blobs = new Map<string, Blob>();
  #isClosed = false;
  /** Called synchronously with every committed change. */
  onCommit: (change: FloorChange) => void = () => {};

  // Read by the simulation without a delay.

  /** Pending effects, in no order. */
  get effects(): Iterable<Effect> {
    return this.#tables.effects.values();
  }

  sessionsOf(floorId: FloorId): Session[] {
    return [...this.#tables.sessions.values()].flatMap((each) => (each.floorId === floorId ? [each.row.session] : []));
  }

  rowOf(id: SessionId): SessionRow | undefined {
    return this.#tables.sessions.get(id)?.row;
  }

  messagesOf(id: SessionId): Message[] {
    return [...(this.#tables.sessions.get(id)?.messages.values() ?? [])];
  }

  receiptOf(key: ReceiptKey): Receipt | undefined {
    return this.#tables.receipts.get(receiptKey(key));
  }

  versionOf(id: FloorId): number {
    return this.#tables.floors.get(id)?.record.version ?? 0;
  }

  headOf(id: FloorId): FloorSeq {
    return this.#tables.floors.get(id)?.record.head ?? 0;
  }

  // The port.

  async loadFloor(id: FloorId): Promise<FloorRecord | undefined> {
    this.#mustBeOpen();
    const floor = this.#tables.floors.get(id);
    return floor && { ...floor.record };
  }

  async commit(change: FloorChange): Promise<CommitOutcome> {
    this.#mustBeOpen();
    if (this.versionOf(change.floorId) !== change.expected || this.#tables.isTaken(change)) return "conflict";
    this.#tables.checkWhole(change);
    this.#tables.write(change);
    this.onCommit(change);
    return "committed";
  }

  async confirm(id: FloorId, version: number): Promise<boolean> {
    this.#mustBeOpen();
    return this.versionOf(id) === version;
  }

  async loadSession(id: SessionId): Promise<SessionRow | undefined> {
    this.#mustBeOpen();
    const row = this.rowOf(id);
    return row && { ...row, session: { ...row.session } };
  }

  async loadSessions(ids: readonly SessionId[]): Promise<SessionRow[]> {
    const rows = await Promise.all(ids.map((id) => this.loadSession(id)));
    return rows.filter((row) => row !== undefined);
  }

  async loadDrafts(id: FloorId, after = 0): Promise<DraftPage> {
    this.#mustBeOpen();
    const sessions = [...this.#tables.sessions.values()].filter(({ floorId }) => floorId === id);
    const messages = sessions.flatMap((session) => [...session.messages.values()]);
    const drafts = messages.filter(({ status }) => status === "running");
    const keyed = drafts.map((message) => ({ message, key: this.#tables.draftKey(message) }));
    const rest = keyed.filter(({ key }) => key > after).sort((a, b) => a.key - b.key);
    const { page, hasMore } = readPage(rest, rest.length, ({ message }) => message.content.length);
    return { messages: page.map(({ message }) => ({ ...message })), next: hasMore ? page.at(-1)!.key : undefined };
  }

  async findMessage(sessionId: SessionId, id: MessageId): Promise<Message | undefined> {
    this.#mustBeOpen();
    const message = this.#tables.sessions.get(sessionId)?.messages.get(id);
    return message && { ...message };
  }

  async findReceipts(keys: readonly ReceiptKey[]): Promise<Receipt[]> {
    this.#mustBeOpen();
    return keys.flatMap((key) => this.receiptOf(key) ?? []).map((receipt) => ({ ...receipt }));
  }

  async dueEffects({ until, after, floorHashes, limit }: Parameters<Store["dueEffects"]>[0]): Promise<Effect[]> {
    this.#mustBeOpen();
    return [...this.#tables.effects.values()]
      .filter(({ dueAt, floorId }) => dueAt <= until && (!floorHashes || floorHashes.includes(floorHash(floorId))))
      .filter((effect) => !after || byTime(after, effect) < 0)
      .sort(byTime)
      .slice(0, limit);
  }

  /** The alarm of each floor that has one, in no order. */
  get alarms(): { id: FloorId; dueAt: number }[] {
    return [...this.#tables.floors].flatMap(([id, { record }]) =>
      record.alarm === undefined ? [] : { id, dueAt: record.alarm },
    );
  }

  async dueAlarms({ until, after, floorHashes, limit }: Parameters<Store["dueAlarms"]>[0]) {
    this.#mustBeOpen();
    return this.alarms
      .filter(({ dueAt, id }) => dueAt <= until && (!floorHashes || floorHashes.includes(floorHash(id))))
      .filter((alarm) => !after || byTime(after, alarm) < 0)
      .sort(byTime)
      .slice(0, limit);
  }

  async loadDue(id: FloorId, except: readonly SessionId[], limit: number): Promise<SessionRow[]> {
    this.#mustBeOpen();
    return [...this.#tables.sessions.values()]
      .filter(({ floorId, row }) => floorId === id && row.dueAt !== undefined && !except.includes(row.session.id))
      .map(({ row }) => ({ id: row.session.id, dueAt: row.dueAt!, row }))
      .sort(byTime)
      .slice(0, limit)
      .map(({ row }) => ({ ...row, session: { ...row.session } }));
  }

  async newestTime(): Promise<number> {
    this.#mustBeOpen();
    let newest = 0;
    for (const { events } of this.#tables.floors.values()) for (const { at } of events) newest = Math.max(newest, at);
    return newest;
  }

  async loadJumps(): Promise<Jumps> {
    return this.#jumps;
  }

  async saveJumps(jumps: Jumps): Promise<void> {
    this.#jumps = jumps;
  }

  forgetUser(): Promise<never> {
    return Promise.reject(new Error("the simulation forgets no user"));
  }

  async whereIs(id: SessionId): Promise<Whereabouts | undefined> {
    this.#mustBeOpen();
    const session = this.#tables.sessions.get(id);
    if (!session) return this.#tables.tombstones.get(id);
    const { floorId, row } = session;
    const { ownerId } = row.session;
    return { floorId, ...(ownerId !== undefined && { ownerId }) };
  }

  async viewSession(id: SessionId, messages: number): Promise<StoredSessionView | undefined> {
    this.#mustBeOpen();
    const stored = this.#tables.sessions.get(id);
    if (!stored) return undefined;
    const { session, head } = stored.row;
    return { session: { ...session }, head, ...newest([...stored.messages.values()], messages) };
  }

  async viewFloor(id: FloorId, limits: { sessions: number; decisions: number }): Promise<StoredFloorView> {
    this.#mustBeOpen();
    const floor = this.#tables.floors.get(id);
    if (!floor) return { head: 0, flags: {}, ducked: [], paused: [], queued: [], decisions: [] };
    const stored = [...this.#tables.sessions.values()].filter(({ floorId }) => floorId === id);
    const holder = stored.find(({ row }) => row.session.state === "active")?.row.session;
    const ducked = stored.filter(({ row }) => row.session.state === "ducked");
    const paused = stored.filter(({ row }) => row.session.state === "paused");
    const queued = stored.filter(({ row }) => row.session.queuedAt !== undefined);
    const decisions = floor.events.filter(({ type }) => type === "arbitration").slice(-limits.decisions);
    const shown = (list: readonly StoredSession[]) => {
      const sessions = list.slice(0, limits.sessions).map(({ row }) => row.session);
      return rowsWithin(sessions, ANSWER_BYTES, (session) => weightOfView({ view: JSON.stringify(session) }));
    };
    ducked.sort((one, other) => other.row.session.priority - one.row.session.priority);
    paused.sort((one, other) => other.pausedAt - one.pausedAt);
    queued.sort((one, other) => one.row.session.queuedAt! - other.row.session.queuedAt!);
    return {
      head: floor.record.head,
      flags: floor.flags,
      ...(floor.reserved && { reserved: floor.reserved }),
      ...(holder && { holder }),
      ducked: shown(ducked),
      paused: shown(paused),
      queued: shown(queued),
      decisions: rowsWithin(decisions.reverse(), ANSWER_BYTES, weightOfEvent)
        .reverse()
        .map(({ json }) => JSON.parse(json) as Decision),
    };
  }

  async listSessions({ q, state, page, pageSize, includeArchived }: StoredSessionQuery): Promise<StoredSessionPage> {
    this.#mustBeOpen();
    const says = ({ row, messages }: StoredSession) =>
      [row.session.title, ...[...messages.values()].map(({ content }) => content)].join("\n");
    const found = [...this.#tables.sessions.values()]
      .filter(({ row }) => includeArchived || row.session.state !== "archived")
      .filter(({ row }) => state === undefined || row.session.state === state)
      .filter((stored) => q === undefined || says(stored).includes(q))
      .map(({ row }) => row.session);
    return { sessions: found.slice(page * pageSize, (page + 1) * pageSize), total: found.length };
  }

  async listMessages(
    id: SessionId,
    { after, before, fromStart, limit }: MessageRange,
  ): Promise<StoredMessagePage | undefined> {
    this.#mustBeOpen();
    const session = this.#tables.sessions.get(id);
    if (!session) return undefined;
    const { head } = session.row;
    const all = [...session.messages.values()].map((message) => ({ ...message }));
    const indexOf = (messageId: MessageId) => {
      const index = all.findIndex((message) => message.id === messageId);
      if (index < 0) throw new AppError("not_found", `There is no message ${messageId} in this session.`);
      return index;
    };
    const end = before === undefined ? all.length : indexOf(before);
    if (after === undefined && !fromStart) return { head, ...newest(all.slice(0, end), limit) };
    const from = after === undefined ? 0 : indexOf(after) + 1;
    return { head, ...firstOf(all.slice(from, end), limit) };
  }

  async listLogs(
    id: SessionId,
    messageId: MessageId,
    range: { after?: string; limit: number },
  ): Promise<StoredLogPage> {
    this.#mustBeOpen();
    const session = this.#tables.sessions.get(id);
    if (!session) throw new AppError("session_not_found");
    if (!session.messages.has(messageId)) throw new AppError("not_found");
    const lines = [...(session.logs.get(messageId)?.values() ?? [])];
    const from = range.after === undefined ? 0 : lines.findIndex((line) => line.id === range.after) + 1;
    if (from === 0 && range.after !== undefined) throw new AppError("not_found");
    const { page, hasMore } = readPage(lines.slice(from), range.limit, weightOfLine);
    return { logs: page, hasMore };
  }

  async readSessionLog(id: SessionId, after: Seq, limit: number): Promise<LogSlice | undefined> {
    this.#mustBeOpen();
    const session = this.#tables.sessions.get(id);
    if (!session) return undefined;
    const later = session.events.filter(({ seq }) => seq! > after);
    return { entries: logPage(later, limit), head: session.row.head, lowWater: 0 };
  }

  async readFloorLog(id: FloorId, after: FloorSeq, limit: number): Promise<LogSlice> {
    this.#mustBeOpen();
    const floor = this.#tables.floors.get(id);
    if (!floor) return { entries: [], head: 0, lowWater: 0 };
    const later = floor.events.filter(({ floorSeq }) => floorSeq > after);
    return { entries: logPage(later, limit), head: floor.record.head, lowWater: 0 };
  }

  async readFloorLogBack(id: FloorId, before: FloorSeq | undefined, limit: number): Promise<LogSlice> {
    this.#mustBeOpen();
    const floor = this.#tables.floors.get(id);
    if (!floor) return { entries: [], head: 0, lowWater: 0 };
    const older = floor.events.filter(({ floorSeq }) => before === undefined || floorSeq < before);
    const entries = older.slice(-limit).reverse();
    return { entries: entries.map((entry) => ({ ...entry })), head: floor.record.head, lowWater: 0 };
  }

  async listFloors({ after, ids, state, ownerId, limit }: StoredFloorQuery): Promise<StoredFloorPage> {
    this.#mustBeOpen();
    const rows = [...this.#tables.floors].map(([floorId, { record, flags, reserved }]) => {
      const sessions = [...this.#tables.sessions.values()].filter((stored) => stored.floorId === floorId);
      const views = sessions.map(({ row }) => row.session);
      const holder = views.find((session) => session.state === "active");
      const { ownerId } = views.find((session) => floorId === `s:${session.id}`) ?? {};
      return {
        isOf: (owner: string) => views.some((session) => session.ownerId === owner),
        row: {
          floorId,
          ...(ownerId !== undefined && { ownerId }),
          head: record.head,
          flags,
          ...(reserved && { reserved }),
          ...(holder && { holder: { sessionId: holder.id, agentId: holder.agentId } }),
          ducked: views.filter((session) => session.state === "ducked").length,
          paused: views.filter((session) => session.state === "paused").length,
          queued: views.filter((session) => session.queuedAt !== undefined).length,
        },
      };
    });
    const stateOf = ({ holder, ducked, paused, queued }: FloorRow) =>
      holder ? "held" : ducked + paused + queued > 0 ? "waiting" : "idle";
    const found = rows
      .filter(
        ({ row, isOf }) => (after === undefined || row.floorId > after) && (ownerId === undefined || isOf(ownerId)),
      )
      .map(({ row }) => row)
      .filter(
        (row) => (ids === undefined || ids.includes(row.floorId)) && (state === undefined || stateOf(row) === state),
      )
      .sort((one, other) => (one.floorId < other.floorId ? -1 : 1));
    const weightOf = ({ floorId, flags }: FloorRow) => weightOfFloor({ floorId, flags: JSON.stringify(flags) });
    const { page, hasMore } = readPage(found, limit, weightOf);
    return { floors: page, hasMore };
  }

  async heads(ids: readonly FloorId[]): Promise<Map<FloorId, FloorSeq>> {
    this.#mustBeOpen();
    return new Map(ids.filter((id) => this.#tables.floors.has(id)).map((id) => [id, this.headOf(id)]));
  }

  async loadConnection(id: ConnectionId): Promise<ConnectionRow | undefined> {
    this.#mustBeOpen();
    const row = this.#connections.get(id);
    return row && { ...row };
  }

  async saveConnection(row: ConnectionRow): Promise<"saved" | "conflict"> {
    this.#mustBeOpen();
    if ((this.#connections.get(row.id)?.version ?? 0) !== row.version) return "conflict";
    this.#connections.set(row.id, { ...row, version: row.version + 1 });
    return "saved";
  }

  async putBlob(sessionId: SessionId, blob: Blob): Promise<void> {
    this.#mustBeOpen();
    this.#blobs.set(`${sessionId}/${blob.hash}`, blob);
  }

  async getBlob(sessionId: SessionId, hash: string): Promise<Blob | undefined> {
    this.#mustBeOpen();
    return this.#blobs.get(`${sessionId}/${hash}`);
  }

  async definitionsVersion(): Promise<number> {
    return 0;
  }

  async listDefinitions(): Promise<never[]> {
    return [];
  }

  changeDefinition(): never {
    throw new Error("this store keeps no definitions");
  }

  stageMessages(): never {
    throw new Error("this store stages no history");
  }

  discardStaged(): never {
    throw new Error("this store stages no history");
  }

  copyBlob(): never {
    throw new Error("this store stages no history");
  }

  prune(): never {
    throw new Error("this store does not prune");
  }

  async close(): Promise<void> {
    this.#isClosed = true;
  }

  #mustBeOpen(): void {
    if (this.#isClosed) throw new AppError("unavailable");
  }
}
