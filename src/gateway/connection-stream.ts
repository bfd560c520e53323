import type { Unsubscribe } from "../bus/bus.ts";
import { BOUNDS } from "../config/bounds.ts";
import { readMessage } from "../protocol/bus-message.ts";
import type { Clock } from "../protocol/clock.ts";
import { ConnectionMessage } from "../protocol/connection-message.ts";
import { AppError } from "../protocol/errors.ts";
import { dataFrame, toWire } from "../protocol/floor-message.ts";
import type { ConnectionId, FloorId, Seq, SessionId } from "../protocol/ids.ts";
import type { Logger } from "../protocol/logger.ts";
import { type ConnectionPosition, connectionPosition } from "../protocol/position.ts";
import type { AgentInfo } from "../protocol/session.ts";
import type { ConnectionRow, Store } from "../store/store.ts";
import { type Binding, ConnectionFloor } from "./connection-floor.ts";
import type { Connections } from "./connections.ts";
import { type Follower, placeFrame } from "./follower.ts";
import type { Followers } from "./followers.ts";
import type { SseWriter } from "./sse-writer.ts";
import type { Stream } from "./streams.ts";

/** A binding that this stream did not know of. */
interface Fresh {
  binding: Binding;
  floorId: FloorId;
}

export interface ConnectionStreamOptions {
  writer: SseWriter;
  connections: Connections;
  followers: Followers;
  store: Pick<Store, "epoch" | "whereIs" | "viewSession" | "readSessionLog" | "readFloorLog">;
  clock: Clock;
  /** Whether what belongs to an owner exists for the reader, whatever its connection was bound to before (rule C26). */
  isVisible: (ownerId: string | undefined) => boolean;
  agents: () => { agents: AgentInfo[]; defaultAgentId: string };
  log: Logger;
}

/** `GET /events`: a client's connection, with the events of every session bound to it. */
export class ConnectionStream implements Stream {
  readonly writer: SseWriter;
  readonly #options: ConnectionStreamOptions;
  #row: ConnectionRow;
  // Lists, since thousands of connections have none or one of each.
  /** Live ones, in the order of their slots. */
  #bindings: Binding[] = [];
  #floors: ConnectionFloor[] = [];
  /** Slots before this one need no further look. */
  #nextSlot = 0;
  /** Until the stream has begun, what its row says by then has to wait: a client that came back has places of its own. */
  #begun: PromiseWithResolvers<void> | undefined = Promise.withResolvers();
  #syncing: Promise<void> = this.#begun!.promise;
  #unsubscribe: Unsubscribe | undefined;
  #isClosed = false;

  constructor(options: ConnectionStreamOptions, row: ConnectionRow) {
    this.#options = options;
    this.writer = options.writer;
    this.#row = row;
    this.writer.onDrain = () => {
      for (const floor of this.#floors) floor.track.advance();
    };
  }

  get id(): ConnectionId {
    return this.#row.id;
  }

  get position(): string {
    return connectionPosition(this.#options.store.epoch, this.id, this.#bindings);
  }

  /**
   * The first frames, then what is bound.
   * @param resumed where the client stands, if it came back
   */
  async begin(resumed: ConnectionPosition | undefined, isReset: boolean): Promise<void> {
    const places = new Map(resumed?.slots.map(({ slot, seq }) => [slot, seq]));
    if (resumed) this.writer.place(connectionPosition(this.#options.store.epoch, this.id, resumed.slots));
    this.writer.tell("connected", { connectionId: this.id }, this.now());
    await this.#tellAgents(this.#row.slots.findLast((slot) => !slot.ended)?.sessionId);
    if (isReset) this.writer.tell("reset", {}, this.now(), { id: this.position });
    // A client that is cut off before anything is logged comes back to this connection all the same.
    else if (!resumed) this.writer.place(this.position);
    this.#begun?.resolve(this.#carryAll(this.#row, { places }));
    this.#begun = undefined;
    await this.#inTurn(async () => {});
  }

  /** Hear what the holder of this connection's stream is told. */
  listen(subscribe: (listener: (message: Uint8Array) => void) => Promise<Unsubscribe>): Promise<void> {
    return subscribe((message) => this.#hear(message)).then((unsubscribe) => {
      if (this.#isClosed) unsubscribe();
      else this.#unsubscribe = unsubscribe;
    });
  }

  /** What it was not told of is in its row; and the row stays as long as somebody reads here (rule C19). */
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

  /** Carry what was bound since; each new binding is followed by the list of agents. */
  sync(row: ConnectionRow): Promise<void> {
    return this.#inTurn(() => this.#carryAll(row, { tellsAgents: true }));
  }

  #inTurn(work: () => Promise<void>): Promise<void> {
    this.#syncing = this.#syncing.then(work).catch((error) => {
      this.#options.log.warn({ err: error, connectionId: this.id }, "a connection could not be carried on");
      this.writer.destroy();
    });
    return this.#syncing;
  }

  async #carryAll(
    row: ConnectionRow,
    { places, tellsAgents = false }: { places?: ReadonlyMap<number, Seq>; tellsAgents?: boolean },
  ): Promise<void> {
    if (row.version > this.#row.version) this.#row = row;
    const fresh: Fresh[] = [];
    for (const [slot, { sessionId, floorId, from, ended }] of row.slots.entries()) {
      if (slot < this.#nextSlot) continue;
      this.#nextSlot = slot + 1;
      // It had ended before the client left.
      if (ended && places && !places.has(slot)) continue;
      const binding = { slot, sessionId, seq: places?.get(slot) ?? from, isEndRecorded: ended === true };
      // All of them before the first event is sent: no position may lack a slot that is live.
      this.#bindings.push(binding);
      fresh.push({ binding, floorId });
    }
    const carried: Fresh[] = [];
    for (const each of fresh) {
      if (await this.#mayFollow(each.binding)) carried.push(each);
      if (!tellsAgents) continue;
      await this.#tellAgents(each.binding.sessionId);
      this.writer.place(this.position);
    }
    // Those of one floor at once: what happened there is told in its order (rule C17).
    for (const [floorId, of] of Map.groupBy(carried, (each) => each.floorId)) {
      const bindings = of.map(({ binding }) => binding);
      await this.#follow(floorId, bindings);
    }
  }

  /** Whether anything may still come; what a binding cannot be given as events is told here. */
  async #mayFollow(binding: Binding): Promise<boolean> {
    const { store, isVisible } = this.#options;
    const { sessionId } = binding;
    const there = await store.whereIs(sessionId);
    const where = there && isVisible(there.ownerId) ? there : undefined;
    if (!where || where.tombstone) {
      await this.#free(binding);
      const { tombstone } = where ?? {};
      if (tombstone && binding.seq < tombstone.head) {
        this.writer.write(placeFrame(this.position, toWire(tombstone.last).frame));
      }
      return false;
    }
    const slice = await store.readSessionLog(sessionId, binding.seq, 1);
    if (slice && (binding.seq > slice.head || binding.seq < slice.lowWater)) {
      binding.seq = slice.head;
      const id = this.position;
      this.writer.tell("reset", { sessionId, from: slice.head }, this.now(), { sessionId, id });
    }
    const view = await store.viewSession(sessionId, 0);
    const isOver = view?.session.state === "archived" && binding.seq === view.head;
    if (isOver) await this.#free(binding);
    return !isOver;
  }

  /** The history of sessions of one floor from their places on, and what follows. */
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
        recordEnd: (ended) => this.#recordEnd(ended),
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

  /** Nothing more will come in this slot. */
  async #free(binding: Binding): Promise<void> {
    await this.#recordEnd(binding);
    this.#release(binding);
  }

  #release(binding: Binding): void {
    this.#bindings = this.#bindings.filter((live) => live !== binding);
  }

  async #recordEnd(binding: Binding): Promise<void> {
    if (!binding.isEndRecorded) await this.#options.connections.end(this.id, this.#row.ownerId, binding.slot);
    binding.isEndRecorded = true;
  }

  #leave(floor: ConnectionFloor): void {
    floor.track.close();
    this.#options.followers.leave(floor.floorId);
  }

  async #tellAgents(sessionId: SessionId | undefined): Promise<void> {
    const { store, agents, isVisible } = this.#options;
    const view = sessionId && (await store.viewSession(sessionId, 0));
    const { agents: list, defaultAgentId } = agents();
    const currentAgentId = view && isVisible(view.session.ownerId) ? view.session.agentId : defaultAgentId;
    this.writer.tell("agent_list", { agents: list, currentAgentId }, this.now());
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
      else log.warn({ err: error, connectionId: this.id }, "a connection could not be looked after");
    }
  }
}
