// Rules C17, C19 and C26 of docs/inside/correctness.md.
import type { Bus, Subscription } from "../../bus/bus.ts";
import { BOUNDS } from "../../config/bounds.ts";
import { AppError } from "../../protocol/errors.ts";
import { dataFrame, positionedFrame, toWire } from "../../protocol/frames.ts";
import type { ConnectionId, FloorId, Seq, SessionId } from "../../protocol/ids.ts";
import { readMessage } from "../../protocol/internal/bus-message.ts";
import { ConnectionMessage, connectionTopic } from "../../protocol/internal/connection-message.ts";
import { type ConnectionPosition, connectionPosition } from "../../protocol/position.ts";
import type { AgentInfo } from "../../protocol/session.ts";
import type { LogThrottle } from "../../shared/log-throttle.ts";
import type { Clock } from "../../shared/ports/clock.ts";
import type { Logger } from "../../shared/ports/logger.ts";
import type { ConnectionRow, LogStore, Slot } from "../../store/store.ts";
import type { Caller } from "../access/caller.ts";
import type { VisibleSessions } from "../access/visible-sessions.ts";
import { ConnectionFloor, type FloorConnection, type LiveSlot } from "./connection-floor.ts";
import type { Connections } from "./connections.ts";
import type { Followers } from "./followers.ts";
import { keepListening } from "./keep-listening.ts";
import type { Stream } from "./open-streams.ts";
import type { SseWriter } from "./sse-writer.ts";

/** What a returning client has received, by the position that it sent. */
interface Received {
  /** The client's position in each slot that it named. */
  seqs: ReadonlyMap<number, Seq>;
  /** Slots below this number that the client did not name had ended, and the client knows it. */
  known: number;
}

/** How a stream begins. */
interface Beginning {
  /** The client's position, if it reconnects. */
  resumed: ConnectionPosition | undefined;
  /** The client sent a position that is of no use. */
  isReset: boolean;
  /** The session that the connection is opened for; its agent is sent as the current one. */
  about?: SessionId | undefined;
}

/** A live slot that is new to this stream. */
interface Fresh {
  liveSlot: LiveSlot;
  floorId: FloorId;
}

/** What the streams of all connections of a node share. Each keeps a reference to one object, not a copy. */
export interface ConnectionStreamContext {
  connections: Connections;
  followers: Followers;
  store: LogStore;
  bus: Bus;
  clock: Clock;
  /** The sessions that a caller may see, which may differ from those its connection was bound to before (rule C26). */
  visibleTo: (caller: Caller) => Pick<VisibleSessions, "log" | "agentOf">;
  /** The agents for sessions of a workspace. */
  agents: (workspaceId: string | undefined) => { agents: AgentInfo[]; defaultAgentId: string };
  log: Logger;
  /** Limits the lines about rows that cannot be read. */
  faultNotes: LogThrottle;
}

export interface ConnectionStreamOptions {
  writer: SseWriter;
  caller: Caller;
  row: ConnectionRow;
}

/** Shared by the many connections that have no session. */
const NO_LIVE_SLOTS: readonly LiveSlot[] = [];
const NO_FLOORS: readonly ConnectionFloor[] = [];
const NOTHING_TO_DO = Promise.resolve();

/** `GET /events`: a client's connection, with the events of every session bound to it. */
export class ConnectionStream implements Stream, FloorConnection {
  readonly writer: SseWriter;
  readonly id: ConnectionId;
  readonly #ownerId: string | undefined;
  readonly #context: ConnectionStreamContext;
  readonly #caller: Caller;
  /** The newest version of the row that was read. */
  #version: number;
  // Arrays, because thousands of connections have none or one of each. They are replaced, not changed.
  /** In the order of their numbers. */
  #liveSlots = NO_LIVE_SLOTS;
  #floors = NO_FLOORS;
  /** All slots below this number have been read. */
  #nextSlot = 0;
  /** Resolved once the stream has begun. Row changes wait for it, because a returning client has its own positions. */
  #begun: PromiseWithResolvers<void> | undefined = Promise.withResolvers();
  /** Resolves once the row changes received so far have been carried out. */
  #syncing: Promise<void> = this.#begun!.promise;
  #subscription: Subscription | undefined;
  #isClosed = false;

  constructor({ writer, caller, row }: ConnectionStreamOptions, context: ConnectionStreamContext) {
    this.writer = writer;
    this.id = row.id;
    this.#ownerId = row.ownerId;
    this.#version = row.version;
    this.#context = context;
    this.#caller = caller;
    writer.source = this;
  }

  get isResumable(): boolean {
    return true;
  }

  /** The socket has room again. */
  advance(): void {
    for (const floor of this.#floors) floor.track.advance();
  }

  get connection(): Pick<ConnectionRow, "id" | "ownerId"> {
    return { id: this.id, ownerId: this.#ownerId };
  }

  get #visible(): Pick<VisibleSessions, "log" | "agentOf"> {
    return this.#context.visibleTo(this.#caller);
  }

  get position(): string {
    const { epoch } = this.#context.store;
    return connectionPosition({ epoch, connectionId: this.id, slots: this.#liveSlots, known: this.#nextSlot });
  }

  /** Send the first frames, then carry the bound sessions. */
  async begin(row: ConnectionRow, { resumed, isReset, about }: Beginning): Promise<void> {
    this.writer.send("connected", { connectionId: this.id }, this.now());
    const current = about ?? row.slots.findLast((slot) => !slot.ended)?.sessionId;
    // With a position, a client that is cut off before the first logged event returns to the same connection.
    await this.#sendAgents(current, { hasPosition: !resumed && !isReset });
    if (isReset) this.writer.send("reset", {}, this.now(), { id: this.position });
    this.#begun?.resolve(this.#carryAll(row, { received: receivedBy(resumed) }));
    this.#begun = undefined;
    await this.#inOrder(async () => {});
  }

  /** Subscribe to the messages for the node that holds this connection's stream. */
  async listen(): Promise<void> {
    const { bus, store } = this.#context;
    const topic = connectionTopic(store.epoch, this.id);
    const receive = (message: Uint8Array) => this.#receive(message);
    const subscription = await keepListening(bus, topic, receive, () => this.reconcile());
    if (this.#isClosed) subscription.end();
    else this.#subscription = subscription;
  }

  /**
   * Read the row again, in case a bus message was lost. Reading also keeps the row alive while the stream is open (rule
   * C19).
   */
  reconcile(): void {
    void this.#readRow();
  }

  close(): void {
    this.#isClosed = true;
    this.#subscription?.end();
    for (const floor of this.#floors) this.#leave(floor);
    this.#context.connections.keep(this.id, this.#ownerId).catch(() => {});
  }

  now(): number {
    return this.#context.clock.now();
  }

  /** Carry the sessions that were bound since. The list of agents follows each new slot. */
  sync(row: ConnectionRow): Promise<void> {
    return this.#inOrder(() => this.#carryAll(row, { sendsAgents: true }));
  }

  #inOrder(work: () => Promise<void>): Promise<void> {
    const done = this.#syncing
      .then(work)
      .catch((error) => {
        this.#context.log.warn({ err: error, connectionId: this.id }, "the sessions of a connection could not be read");
        this.writer.destroy();
      })
      .finally(() => {
        if (this.#syncing === done) this.#syncing = NOTHING_TO_DO;
      });
    this.#syncing = done;
    return done;
  }

  async #carryAll(
    row: ConnectionRow,
    { received, sendsAgents = false }: { received?: Received; sendsAgents?: boolean },
  ): Promise<void> {
    this.#version = Math.max(row.version, this.#version);
    const fresh = this.#addLiveSlots(row, received);
    const carried: Fresh[] = [];
    for (const each of fresh) {
      if (await this.#mayFollow(each.liveSlot)) carried.push(each);
      if (!sendsAgents) continue;
      await this.#sendAgents(each.liveSlot.sessionId, { hasPosition: true });
    }
    // Add the sessions of one floor together, so that the floor's events keep their order (rule C17).
    for (const [floorId, of] of Map.groupBy(carried, (each) => each.floorId)) {
      const liveSlots = of.map(({ liveSlot }) => liveSlot);
      await this.#follow(floorId, liveSlots);
    }
  }

  /**
   * The live slots of the row that are new to this stream. Adds all of them at once, because a position must name every
   * live slot.
   */
  #addLiveSlots(row: ConnectionRow, received: Received | undefined): Fresh[] {
    const isUnreceived = (slot: number) =>
      received !== undefined && !received.seqs.has(slot) && row.slots[slot]!.ended === true;
    let fresh: Fresh[] = [];
    for (const [slot, { sessionId, floorId, from, sessionCreatedAt, ended }] of row.slots.entries()) {
      if (slot < this.#nextSlot) continue;
      this.#nextSlot = slot + 1;
      // The slot ended, and the client knows it.
      if (isUnreceived(slot) && slot < received!.known) continue;
      const seq = received?.seqs.get(slot) ?? from;
      fresh.push({ liveSlot: { slot, sessionId, seq, sessionCreatedAt, isEndRecorded: ended === true }, floorId });
    }
    // More sessions ended while the client was away than one position can name.
    const isTooMuch = received !== undefined && fresh.length > BOUNDS.liveSlots;
    if (isTooMuch) fresh = fresh.filter(({ liveSlot }) => !isUnreceived(liveSlot.slot));
    if (fresh.length > 0) this.#liveSlots = this.#liveSlots.concat(fresh.map(({ liveSlot }) => liveSlot));
    if (isTooMuch) this.writer.send("reset", {}, this.now(), { id: this.position });
    return fresh;
  }

  /**
   * Whether more events can follow. Sends the tombstone's last event or a `reset` where the log itself cannot be read
   * from here.
   */
  async #mayFollow(liveSlot: LiveSlot): Promise<boolean> {
    const { sessionId } = liveSlot;
    const log = await this.#visible.log(sessionId);
    if (log?.kind !== "there") {
      await this.#free(liveSlot);
      if (log && liveSlot.seq < log.head) this.writer.write(positionedFrame(this.position, toWire(log.last).frame));
      return false;
    }
    const { head, lowWater, createdAt, isArchived } = log;
    if (liveSlot.sessionCreatedAt !== undefined && liveSlot.sessionCreatedAt !== createdAt) {
      // Another session has the id by now, and this connection is not bound to it.
      await this.#free(liveSlot);
      return false;
    }
    if (liveSlot.seq > head || liveSlot.seq < lowWater) {
      liveSlot.seq = head;
      const id = this.position;
      this.writer.send("reset", { sessionId, from: head }, this.now(), { sessionId, id });
    }
    const isOver = isArchived && liveSlot.seq === head;
    if (isOver) await this.#free(liveSlot);
    return !isOver;
  }

  /** Send the history of one floor's sessions from their positions on, then the live events. */
  async #follow(floorId: FloorId, liveSlots: readonly LiveSlot[]): Promise<void> {
    const known = this.#floors.find((floor) => floor.floorId === floorId);
    if (known) return known.add(liveSlots);
    if (this.#isClosed) return;
    const follower = await this.#context.followers.join(floorId);
    const floor = new ConnectionFloor(this, this.#context, follower, liveSlots);
    this.#floors = this.#floors.concat(floor);
    if (this.#isClosed) this.#leave(floor);
    else floor.track.advance();
  }

  /** End a slot: no more events follow in it. */
  async #free(liveSlot: LiveSlot): Promise<void> {
    await this.recordEnd(liveSlot);
    this.release(liveSlot);
  }

  release(liveSlot: LiveSlot): void {
    this.#liveSlots = this.#liveSlots.filter((live) => live !== liveSlot);
  }

  async recordEnd(liveSlot: LiveSlot, successor?: Slot): Promise<void> {
    const { connections } = this.#context;
    if (!liveSlot.isEndRecorded) await connections.end(this.id, this.#ownerId, liveSlot.slot, successor);
    liveSlot.isEndRecorded = true;
  }

  drop(floor: ConnectionFloor): void {
    this.#floors = this.#floors.filter((each) => each !== floor);
    this.#leave(floor);
  }

  #leave(floor: ConnectionFloor): void {
    floor.track.close();
    this.#context.followers.leave(floor.floorId);
  }

  async #sendAgents(sessionId: SessionId | undefined, { hasPosition }: { hasPosition: boolean }): Promise<void> {
    const session = sessionId && (await this.#visible.agentOf(sessionId));
    const { agents, defaultAgentId } = this.#context.agents(session?.workspaceId);
    const data = { agents, currentAgentId: session?.agentId ?? defaultAgentId };
    this.writer.send("agent_list", data, this.now(), hasPosition ? { id: this.position } : {});
  }

  #receive(message: Uint8Array): void {
    const received = readMessage(ConnectionMessage, message);
    if (!received) return;
    if (received.kind === "live") {
      if (!this.writer.isFull) this.writer.write(dataFrame(received.body));
      return;
    }
    this.reconcile();
  }

  async #readRow(): Promise<void> {
    const { connections, log, faultNotes } = this.#context;
    try {
      const row = await connections.find(this.id, this.#ownerId);
      if (row.version > this.#version) await this.sync(row);
      if (row.expiresAt < this.now() + BOUNDS.connectionMs / 2) await connections.keep(this.id, this.#ownerId);
    } catch (error) {
      if (error instanceof AppError && error.code === "connection_not_found") this.writer.destroy();
      else if (faultNotes.isDue(this.now())) {
        log.warn({ err: error, connectionId: this.id }, "the row of a connection could not be read");
      }
    }
  }
}

/** What the position says. A client without a position has received nothing. */
function receivedBy(resumed: ConnectionPosition | undefined): Received {
  const seqs = new Map(resumed?.slots.map(({ slot, seq }) => [slot, seq]));
  return { seqs, known: resumed ? (resumed.known ?? Number.POSITIVE_INFINITY) : 0 };
}
