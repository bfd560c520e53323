import type { Bus } from "../bus/bus.ts";
import { BOUNDS } from "../config/bounds.ts";
import type { Clock } from "../protocol/clock.ts";
import { type ConnectionMessage, connectionTopic } from "../protocol/connection-message.ts";
import { AppError } from "../protocol/errors.ts";
import type { ConnectionId, SessionId } from "../protocol/ids.ts";
import type { ConnectionRow, Slot, Store } from "../store/store.ts";

/** Slots a connection may have had; positions name them by number. */
const MAX_SLOTS = 10_000;
/** Tries of a compare-and-set that others win. */
const MAX_TRIES = 16;

export interface ConnectionsOptions {
  store: Pick<Store, "epoch" | "loadConnection" | "saveConnection">;
  bus: Bus;
  clock: Clock;
  newConnectionId: () => ConnectionId;
}

export const liveSlots = (row: ConnectionRow): Slot[] => row.slots.filter((slot) => !slot.ended);

/**
 * Which sessions a client's connection is bound to. Rows in the store, so that a client may be connected here, bind
 * there, and come back anywhere (rule C19).
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

  /** @throws AppError `connection_not_found`, also for another owner's */
  async find(id: ConnectionId, ownerId: string | undefined): Promise<ConnectionRow> {
    const row = await this.#options.store.loadConnection(id);
    // Past its time it is good until it is pruned: the time may have jumped (rule C9).
    if (!row || row.ownerId !== ownerId) throw new AppError("connection_not_found");
    return row;
  }

  /** @throws AppError `too_many_bindings` when the session is not bound yet and there is no room for it */
  checkRoom(row: ConnectionRow, sessionId?: SessionId): void {
    const live = liveSlots(row);
    if (live.some((slot) => slot.sessionId === sessionId)) return;
    if (live.length >= BOUNDS.bindings || row.slots.length >= MAX_SLOTS) throw new AppError("too_many_bindings");
  }

  /** Bind a session from a place on; one that is bound already stays as it is. */
  bind(id: ConnectionId, ownerId: string | undefined, slot: Slot): Promise<ConnectionRow> {
    return this.#bind(id, ownerId, slot, liveSlots);
  }

  /** Bind a session that a command made: once, however often and however late that command is repeated. */
  async bindMade(row: ConnectionRow, { sessionId, floorId }: Pick<Slot, "sessionId" | "floorId">): Promise<void> {
    await this.#bind(row.id, row.ownerId, { sessionId, floorId, from: 0 }, ({ slots }) => slots);
  }

  /** A slot's last event is about to be sent: no position names it any more. */
  async end(id: ConnectionId, ownerId: string | undefined, slot: number): Promise<void> {
    await this.#change(id, ownerId, ({ slots }) => ({
      slots: slots.map((each, index) => (index === slot ? { ...each, ended: true as const } : each)),
    }));
  }

  /** Somebody holds its stream, or did until now: the row is kept for another day. */
  async keep(id: ConnectionId, ownerId: string | undefined): Promise<void> {
    await this.#change(id, ownerId, () => ({}));
  }

  async tell(id: ConnectionId, message: ConnectionMessage): Promise<void> {
    const { bus, store } = this.#options;
    await bus.publish(connectionTopic(store.epoch, id), new TextEncoder().encode(JSON.stringify(message)));
  }

  /** `counting`: slots that count as being bound already. */
  async #bind(
    id: ConnectionId,
    ownerId: string | undefined,
    slot: Slot,
    counting: (row: ConnectionRow) => readonly Slot[],
  ): Promise<ConnectionRow> {
    const row = await this.#change(id, ownerId, (current) => {
      if (counting(current).some(({ sessionId }) => sessionId === slot.sessionId)) return undefined;
      this.checkRoom(current);
      return { slots: [...current.slots, slot] };
    });
    await this.tell(id, { kind: "bound" });
    return row;
  }

  async #change(
    id: ConnectionId,
    ownerId: string | undefined,
    edit: (row: ConnectionRow) => Partial<ConnectionRow> | undefined,
  ): Promise<ConnectionRow> {
    const { store, clock } = this.#options;
    for (let tries = 0; tries < MAX_TRIES; tries++) {
      const row = await this.find(id, ownerId);
      const edited = edit(row);
      if (!edited) return row;
      const changed = { ...row, ...edited, expiresAt: clock.now() + BOUNDS.connectionMs };
      if ((await store.saveConnection(changed)) === "saved") return { ...changed, version: row.version + 1 };
    }
    throw new AppError("busy");
  }
}
