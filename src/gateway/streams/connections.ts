// Rule C19 of docs/inside/correctness.md.
import type { Bus } from "../../bus/bus.ts";
import { BOUNDS } from "../../config/bounds.ts";
import { AppError, type ErrorCode } from "../../protocol/errors.ts";
import type { ConnectionId, SessionId } from "../../protocol/ids.ts";
import { writeMessage } from "../../protocol/internal/bus-message.ts";
import { type ConnectionMessage, connectionTopic } from "../../protocol/internal/connection-message.ts";
import type { Clock } from "../../shared/ports/clock.ts";
import type { ConnectionRow, ConnectionStore, Slot, StoreEpoch } from "../../store/store.ts";

/** Slots that a connection may use in its lifetime. Positions name slots by number. */
export const MAX_SLOTS = 10_000;
/** Attempts of a compare-and-set before the request fails with `busy`. */
const MAX_WRITE_TRIES = 16;

/** Why a connection takes no session. */
const UNFIT: readonly ErrorCode[] = ["too_many_bindings", "connection_not_found"];

export interface ConnectionsOptions {
  store: StoreEpoch & ConnectionStore;
  bus: Bus;
  clock: Clock;
  newConnectionId: () => ConnectionId;
  /** The owner's open connection on this node that counts for requests that name none. Default: none. */
  openOf?: (ownerId: string | undefined) => ConnectionId | undefined;
}

const isBound = (slots: readonly Slot[], { sessionId }: Slot): boolean =>
  slots.some((slot) => slot.sessionId === sessionId);

/** The connection to which a request binds a session. */
export interface ChosenConnection {
  row: ConnectionRow;
  /** Whether the request named it: another one is not refused because it has no room, or has gone, by now. */
  isNamed: boolean;
}

/** The slots whose sessions may have further events. */
export const liveSlots = (row: ConnectionRow): Slot[] => row.slots.filter((slot) => !slot.ended);

/**
 * The sessions that a client's connection is bound to. The rows are in the store, so a client may be connected to one
 * node, bind on another, and reconnect to any (rule C19).
 */
export class Connections {
  readonly #options: ConnectionsOptions;

  constructor(options: ConnectionsOptions) {
    this.#options = options;
  }

  async open(defaults: Pick<ConnectionRow, "ownerId" | "userId" | "zone">): Promise<ConnectionRow> {
    const { store, clock, newConnectionId } = this.#options;
    const row: ConnectionRow = {
      id: newConnectionId(),
      ...defaults,
      slots: [],
      expiresAt: clock.now() + BOUNDS.connectionMs,
      version: 0,
    };
    if ((await store.saveConnection(row)) === "conflict") throw new AppError("internal");
    return { ...row, version: 1 };
  }

  /** @throws AppError `connection_not_found`, also for a connection of another owner */
  async find(id: ConnectionId, ownerId: string | undefined): Promise<ConnectionRow> {
    const row = await this.#options.store.loadConnection(id);
    // An expired row is valid until it is pruned, because the clock may have jumped (rule C9).
    if (!row || row.ownerId !== ownerId) throw new AppError("connection_not_found");
    return row;
  }

  /**
   * The connection to bind a new or a loaded session to: the named one, or else the owner's only open connection on
   * this node, or of several the one that has just come, if it has room. This serves clients that never name a
   * connection.
   * @throws AppError `connection_not_found` for an unknown `id`
   */
  async forNewSession(
    named: ConnectionId | undefined,
    ownerId: string | undefined,
  ): Promise<ChosenConnection | undefined> {
    if (named !== undefined) return { row: await this.find(named, ownerId), isNamed: true };
    const row = await this.openOf(ownerId);
    return row && this.hasRoom(row) ? { row, isNamed: false } : undefined;
  }

  /** The owner's open connection on this node that counts for requests that name none; undefined without one. */
  async openOf(ownerId: string | undefined): Promise<ConnectionRow | undefined> {
    const id = this.#options.openOf?.(ownerId);
    const row = id && (await this.#options.store.loadConnection(id));
    return row && row.ownerId === ownerId ? row : undefined;
  }

  /**
   * Reserve room for a session that a command is about to create, so that binding it afterwards cannot fail.
   * @returns false if another request has taken the room of a connection that this one did not name
   * @throws AppError `too_many_bindings`, `connection_not_found`, of one that it named
   */
  reserve({ row, isNamed }: ChosenConnection, sessionId: SessionId, until: number): Promise<boolean> {
    const change = this.#change(row.id, row.ownerId, (current) => {
      if (current.slots.some((slot) => slot.sessionId === sessionId)) return undefined;
      const others = this.#reservations(current).filter((each) => each.sessionId !== sessionId);
      if (!this.#hasRoom(current, others.length)) throw new AppError("too_many_bindings");
      return { reserved: [...others, { sessionId, until }] };
    });
    return wasDone(change, isNamed);
  }

  /** Give the reservation back after the command was refused. A reservation that remains expires. */
  async release(row: ConnectionRow, sessionId: SessionId): Promise<void> {
    const released = this.#change(row.id, row.ownerId, ({ reserved = [] }) => ({
      reserved: reserved.filter((each) => each.sessionId !== sessionId),
    }));
    await released.catch(() => {});
  }

  /** Whether a session created now could be bound. */
  hasRoom(row: ConnectionRow): boolean {
    return this.#hasRoom(row, this.#reservations(row).length);
  }

  #hasRoom(row: ConnectionRow, reserved: number): boolean {
    return liveSlots(row).length + reserved < BOUNDS.liveSlots && row.slots.length + reserved < MAX_SLOTS;
  }

  #reservations({ reserved = [] }: ConnectionRow): NonNullable<ConnectionRow["reserved"]> {
    const now = this.#options.clock.now();
    return reserved.filter(({ until }) => until > now);
  }

  /**
   * Bind a session from a position on. A session that is already bound keeps its position.
   * @throws AppError `too_many_bindings`, `connection_not_found`
   */
  async bind(id: ConnectionId, ownerId: string | undefined, slot: Slot): Promise<ConnectionRow> {
    const row = await this.#change(id, ownerId, (current) => {
      if (liveSlots(current).some(({ sessionId }) => sessionId === slot.sessionId)) return undefined;
      if (!this.hasRoom(current)) throw new AppError("too_many_bindings");
      return { slots: [...current.slots, slot] };
    });
    await this.send(id, { kind: "bound" });
    return row;
  }

  /** Bind a session that a client has loaded, as `bind` does, and as `reserve` if the request did not name it. */
  async bindLoaded({ row, isNamed }: ChosenConnection, slot: Slot): Promise<void> {
    await wasDone(this.bind(row.id, row.ownerId, slot), isNamed);
  }

  /**
   * Bind a session that a command created: once, even when the command is repeated much later. Does not throw for lack
   * of room, because the session exists. The session stays unbound when its reservation expired and the room is used,
   * or when the connection is gone.
   */
  async bindMade(row: ConnectionRow, made: Omit<Slot, "from" | "ended">): Promise<void> {
    const { sessionId, floorId, sessionCreatedAt } = made;
    try {
      await this.#change(row.id, row.ownerId, (current) => {
        const { slots, reserved = [] } = current;
        const others = reserved.filter((each) => each.sessionId !== sessionId);
        const wasReserved = others.length < reserved.length;
        const isBound = slots.some((slot) => slot.sessionId === sessionId);
        if (isBound || !(wasReserved || this.hasRoom(current))) {
          return wasReserved ? { reserved: others } : undefined;
        }
        return { slots: [...slots, { sessionId, floorId, from: 0, sessionCreatedAt }], reserved: others };
      });
    } catch (error) {
      if (error instanceof AppError && error.code === "connection_not_found") return;
      throw error;
    }
    await this.send(row.id, { kind: "bound" });
  }

  /**
   * Record that a slot has ended, before its last event is sent. From then on no position names the slot.
   * @param successor the session that takes its place: it is bound, in the room that the ended one leaves
   */
  async end(id: ConnectionId, ownerId: string | undefined, slot: number, successor?: Slot): Promise<void> {
    const row = await this.#change(id, ownerId, ({ slots }) => {
      const ended = slots.map((each, index) => (index === slot ? { ...each, ended: true as const } : each));
      const isNew = successor && slots[slot]?.ended !== true && !isBound(slots, successor) && slots.length < MAX_SLOTS;
      return { slots: isNew ? [...ended, successor] : ended };
    });
    if (successor && isBound(row.slots, successor)) await this.send(id, { kind: "bound" });
  }

  /** Keep the row for another day: its stream is open, or was until now. */
  async keep(id: ConnectionId, ownerId: string | undefined): Promise<void> {
    await this.#change(id, ownerId, () => ({}));
  }

  async send(id: ConnectionId, message: ConnectionMessage): Promise<void> {
    const { bus, store } = this.#options;
    await bus.publish(connectionTopic(store.epoch, id), writeMessage(message));
  }

  async #change(
    id: ConnectionId,
    ownerId: string | undefined,
    edit: (row: ConnectionRow) => Partial<ConnectionRow> | undefined,
  ): Promise<ConnectionRow> {
    const { store, clock } = this.#options;
    for (let tries = 0; tries < MAX_WRITE_TRIES; tries++) {
      const row = await this.find(id, ownerId);
      const edited = edit(row);
      if (!edited) return row;
      const changed = { ...row, ...edited, expiresAt: clock.now() + BOUNDS.connectionMs };
      if ((await store.saveConnection(changed)) === "saved") return { ...changed, version: row.version + 1 };
    }
    throw new AppError("busy");
  }
}

async function wasDone(change: Promise<unknown>, isNamed: boolean): Promise<boolean> {
  try {
    await change;
    return true;
  } catch (error) {
    const isUnfit = error instanceof AppError && UNFIT.includes(error.code);
    if (isNamed || !isUnfit) throw error;
    return false;
  }
}
