import type { FloorId, SessionId } from "../../protocol/ids.ts";
import type { Clock } from "../../shared/ports/clock.ts";
import { RecentMap } from "../../shared/recent-map.ts";

/** A session's floor and owner. */
export interface SessionAddress {
  sessionId: SessionId;
  floorId: FloorId;
  ownerId: string | undefined;
}

/** Sessions whose address is remembered. */
const MAX_ADDRESSES = 10_000;
/**
 * How long an address is remembered, in ms. Shorter than a tombstone, which reserves an id for a day (rule C20): a
 * remembered session may be deleted, but its id does not belong to another session yet.
 */
const KNOWN_MS = 3_600_000;

/**
 * The addresses of sessions that this node has seen, so that a command finds its floor without a read. Only a hint for
 * routing: the floor checks the owner again, and answers are read from rows.
 */
export class KnownAddresses {
  readonly #clock: Clock;
  readonly #addresses = new RecentMap<SessionId, SessionAddress & { until: number }>(MAX_ADDRESSES);

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get(sessionId: SessionId): SessionAddress | undefined {
    const known = this.#addresses.get(sessionId);
    if (!known || this.#clock.now() < known.until) return known;
    this.#addresses.delete(sessionId);
    return undefined;
  }

  /** Replaces any earlier entry of the session. */
  set(address: SessionAddress): void {
    this.#addresses.set(address.sessionId, { ...address, until: this.#clock.now() + KNOWN_MS });
  }

  delete(sessionId: SessionId): void {
    this.#addresses.delete(sessionId);
  }
}
