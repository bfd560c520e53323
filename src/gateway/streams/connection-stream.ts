import type { Bus, Unsubscribe } from "../../bus/bus.ts";
import { BOUNDS } from "../../config/bounds.ts";
import { AppError } from "../../protocol/errors.ts";
import { dataFrame, placeFrame } from "../../protocol/frames.ts";
import type { ConnectionId, FloorId, Seq, SessionId } from "../../protocol/ids.ts";
import { readMessage } from "../../protocol/internal/bus-message.ts";
import { ConnectionMessage, connectionTopic } from "../../protocol/internal/connection-message.ts";
import { toWire } from "../../protocol/internal/floor-message.ts";
import type { Clock } from "../../protocol/ports/clock.ts";
import type { Logger } from "../../protocol/ports/logger.ts";
import { type ConnectionPosition, connectionPosition } from "../../protocol/position.ts";
import type { AgentInfo } from "../../protocol/session.ts";
import type { ConnectionRow, Slot, Store } from "../../store/store.ts";
import type { VisibleSessions } from "../access/visible-sessions.ts";
import { type Binding, ConnectionFloor } from "./connection-floor.ts";
import type { Connections } from "./connections.ts";
import type { Follower } from "./follower.ts";
import type { Followers } from "./followers.ts";
import { keepListening } from "./keep-listening.ts";
import type { Stream } from "./open-streams.ts";
import type { SseWriter } from "./sse-writer.ts";

/** The position that a returning client sent. */
interface Standing {
  /** The client's position in each slot that it named. */
  places: ReadonlyMap<number, Seq>;
  /** Slots below this number that the client did not name had ended, and the client knows it. */
  known: number;
}

/** A binding that is new to this stream. */
interface Fresh {
  binding: Binding;
  floorId: FloorId;
}

export interface ConnectionStreamOptions {
  writer: SseWriter;
  connections: Connections;
  followers: Followers;
  store: Pick<Store, "epoch" | "whereIs" | "readSessionLog" | "readFloorLog">;
  bus: Bus;
  clock: Clock;
  /** The sessions that the reader may see, which may differ from those its connection was bound to before (rule C26). */
  sessions: Pick<VisibleSessions, "log" | "agentOf">;
  /** The agents for sessions of a workspace. */
  agents: (workspaceId: string | undefined) => { agents: AgentInfo[]; defaultAgentId: string };
  log: Logger;
}

/** `GET /events`: a client's connection, with the events of every session bound to it. */
export class ConnectionStream implements Stream {
  readonly writer: SseWriter;
  readonly #options: ConnectionStreamOptions;
  #row: ConnectionRow;
  // Arrays, because thousands of connections have none or one of each.
  /** Live bindings, in the order of their slots. */
  #bindings: Binding[] = [];
  #floors: ConnectionFloor[] = [];
  /** All slots below this number have been read. */
  #nextSlot = 0;
  /** Resolved once the stream has begun. Row changes wait for it, because a returning client has its own positions. */
  #begun: PromiseWithResolvers<void> | undefined = Promise.withResolvers();
  #syncing: Promise<void> = this.#begun!.promise;
  #unsubscribe: Unsubscribe | undefined;
  #isClosed = false;

  constructor(options: ConnectionStreamOptions, row: ConnectionRow) {
    this.#options = options;
    this.writer = options.writer;
    this.#row = row;
    this.writer.source = this;
  }

  /** The socket has room again. */
  advance(): void {
    for (const floor of this.#floors) floor.track.advance();
  }

  get id(): ConnectionId {
    return this.#row.id;
  }

  get connection(): Pick<ConnectionRow, "id" | "ownerId"> {
    return this.#row;
  }

  get position(): string {
    const { epoch } = this.#options.store;
    return connectionPosition({ epoch, connectionId: this.id, slots: this.#bindings, known: this.#nextSlot });
  }

  /**
   * Send the first frames, then carry the bound sessions.
   * @param resumed the client's position, if it reconnects
   * @param about the session that the connection is opened for; its agent is sent as the current one
   */
  async begin(resumed: ConnectionPosition | undefined, isReset: boolean, about?: SessionId): Promise<void> {
    if (resumed) this.writer.place(connectionPosition(resumed));
    this.writer.tell("connected", { connectionId: this.id }, this.now());
    await this.#tellAgents(about ?? this.#row.slots.findLast((slot) => !slot.ended)?.sessionId);
    if (isReset) this.writer.tell("reset", {}, this.now(), { id: this.position });
    // With this position, a client that is cut off before the first logged event returns to the same connection.
    else if (!resumed) this.writer.place(this.position);
    this.#begun?.resolve(this.#carryAll(this.#row, { standing: standingOf(resumed) }));
    this.#begun = undefined;
    await this.#inTurn(async () => {});
  }

  /** Subscribe to the messages for the node that holds this connection's stream. */
  async listen(): Promise<void> {
    const { bus, store } = this.#options;
    const topic = connectionTopic(store.epoch, this.id);
    const hear = (message: Uint8Array) => this.#hear(message);
    const unsubscribe = await keepListening(bus, topic, hear, () => this.reconcile());
    if (this.#isClosed) unsubscribe();
    else this.#unsubscribe = unsubscribe;
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
    this.#unsubscribe?.();
    for (const floor of this.#floors) this.#leave(floor);
    this.#options.connections.keep(this.id, this.#row.ownerId).catch(() => {});
  }

  now(): number {
    return this.#options.clock.now();
  }

  /** Carry the sessions that were bound since. The list of agents follows each new binding. */
  sync(row: ConnectionRow): Promise<void> {
    return this.#inTurn(() => this.#carryAll(row, { tellsAgents: true }));
  }

  #inTurn(work: () => Promise<void>): Promise<void> {
    this.#syncing = this.#syncing.then(work).catch((error) => {
      this.#options.log.warn({ err: error, connectionId: this.id }, "the sessions of a connection could not be read");
      this.writer.destroy();
    });
    return this.#syncing;
  }

  async #carryAll(
    row: ConnectionRow,
    { standing, tellsAgents = false }: { standing?: Standing; tellsAgents?: boolean },
  ): Promise<void> {
    if (row.version > this.#row.version) this.#row = row;
    const fresh = this.#takeUp(row, standing);
    const carried: Fresh[] = [];
    for (const each of fresh) {
      if (await this.#mayFollow(each.binding)) carried.push(each);
      if (!tellsAgents) continue;
      await this.#tellAgents(each.binding.sessionId);
      this.writer.place(this.position);
    }
    // Add the sessions of one floor together, so that the floor's events keep their order (rule C17).
    for (const [floorId, of] of Map.groupBy(carried, (each) => each.floorId)) {
      const bindings = of.map(({ binding }) => binding);
      await this.#follow(floorId, bindings);
    }
  }

  /**
   * The bindings of the row that are new to this stream. Adds all of them at once, because a position must name every
   * live slot.
   */
  #takeUp(row: ConnectionRow, standing: Standing | undefined): Fresh[] {
    const isUntold = (slot: number) =>
      standing !== undefined && !standing.places.has(slot) && row.slots[slot]!.ended === true;
    let fresh: Fresh[] = [];
    for (const [slot, { sessionId, floorId, from, ended }] of row.slots.entries()) {
      if (slot < this.#nextSlot) continue;
      this.#nextSlot = slot + 1;
      // The slot ended, and the client knows it.
      if (isUntold(slot) && slot < standing!.known) continue;
      const seq = standing?.places.get(slot) ?? from;
      fresh.push({ binding: { slot, sessionId, seq, isEndRecorded: ended === true }, floorId });
    }
    // More sessions ended while the client was away than one position can name.
    const isTooMuch = standing !== undefined && fresh.length > BOUNDS.bindings;
    if (isTooMuch) fresh = fresh.filter(({ binding }) => !isUntold(binding.slot));
    this.#bindings.push(...fresh.map(({ binding }) => binding));
    if (isTooMuch) this.writer.tell("reset", {}, this.now(), { id: this.position });
    return fresh;
  }

  /**
   * Whether more events can follow. Sends the tombstone's last event or a `reset` where the log itself cannot be read
   * from here.
   */
  async #mayFollow(binding: Binding): Promise<boolean> {
    const { sessionId } = binding;
    const log = await this.#options.sessions.log(sessionId);
    if (log?.kind !== "there") {
      await this.#free(binding);
      if (log && binding.seq < log.head) this.writer.write(placeFrame(this.position, toWire(log.last).frame));
      return false;
    }
    const { head, lowWater, isArchived } = log;
    if (binding.seq > head || binding.seq < lowWater) {
      binding.seq = head;
      const id = this.position;
      this.writer.tell("reset", { sessionId, from: head }, this.now(), { sessionId, id });
    }
    const isOver = isArchived && binding.seq === head;
    if (isOver) await this.#free(binding);
    return !isOver;
  }

  /** Send the history of one floor's sessions from their positions on, then the live events. */
  async #follow(floorId: FloorId, bindings: readonly Binding[]): Promise<void> {
    const known = this.#floors.find((floor) => floor.floorId === floorId);
    if (known) return known.add(bindings);
    if (this.#isClosed) return;
    const follower = await this.#options.followers.join(floorId);
    const floor = this.#floorWith(follower, bindings);
    this.#floors.push(floor);
    if (this.#isClosed) this.#leave(floor);
    else floor.track.advance();
  }

  #floorWith(follower: Follower, bindings: readonly Binding[]): ConnectionFloor {
    const { writer, store, clock } = this.#options;
    return new ConnectionFloor(
      {
        writer,
        store,
        clock,
        position: () => this.position,
        recordEnd: (ended, successor) => this.#recordEnd(ended, successor),
        release: (ended) => this.#release(ended),
        drop: (dropped) => {
          this.#floors = this.#floors.filter((floor) => floor !== dropped);
          this.#leave(dropped);
        },
      },
      follower,
      bindings,
    );
  }

  /** End a slot: no more events follow in it. */
  async #free(binding: Binding): Promise<void> {
    await this.#recordEnd(binding);
    this.#release(binding);
  }

  #release(binding: Binding): void {
    this.#bindings = this.#bindings.filter((live) => live !== binding);
  }

  async #recordEnd(binding: Binding, successor?: Slot): Promise<void> {
    const { connections } = this.#options;
    if (!binding.isEndRecorded) await connections.end(this.id, this.#row.ownerId, binding.slot, successor);
    binding.isEndRecorded = true;
  }

  #leave(floor: ConnectionFloor): void {
    floor.track.close();
    this.#options.followers.leave(floor.floorId);
  }

  async #tellAgents(sessionId: SessionId | undefined): Promise<void> {
    const { sessions, agents } = this.#options;
    const session = sessionId && (await sessions.agentOf(sessionId));
    const { agents: list, defaultAgentId } = agents(session?.workspaceId);
    this.writer.tell("agent_list", { agents: list, currentAgentId: session?.agentId ?? defaultAgentId }, this.now());
  }

  #hear(message: Uint8Array): void {
    const told = readMessage(ConnectionMessage, message);
    if (!told) return;
    if (told.kind === "notice") {
      if (!this.writer.isFull) this.writer.write(dataFrame(told.body));
      return;
    }
    this.reconcile();
  }

  async #readRow(): Promise<void> {
    const { connections, log } = this.#options;
    const { ownerId } = this.#row;
    try {
      const row = await connections.find(this.id, ownerId);
      if (row.version > this.#row.version) await this.sync(row);
      if (row.expiresAt < this.now() + BOUNDS.connectionMs / 2) await connections.keep(this.id, ownerId);
    } catch (error) {
      if (error instanceof AppError && error.code === "connection_not_found") this.writer.destroy();
      else log.warn({ err: error, connectionId: this.id }, "a connection's row could not be read");
    }
  }
}

/** Undefined for a client without a position: it knows of no slot yet. */
function standingOf(resumed: ConnectionPosition | undefined): Standing {
  const places = new Map(resumed?.slots.map(({ slot, seq }) => [slot, seq]));
  return { places, known: resumed ? (resumed.known ?? Number.POSITIVE_INFINITY) : 0 };
}
