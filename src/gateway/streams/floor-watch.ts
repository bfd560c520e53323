import type { FloorSummary } from "../../protocol/floor.ts";
import type { FloorId } from "../../protocol/ids.ts";
import { logPosition } from "../../protocol/position.ts";
import { LogThrottle } from "../../shared/log-throttle.ts";
import type { Clock, Timer } from "../../shared/ports/clock.ts";
import type { Logger } from "../../shared/ports/logger.ts";
import type { FloorRow, StoreEpoch, ViewStore } from "../../store/store.ts";

/** How often the floors are read while there are watchers, in ms. */
const SWEEP_MS = 1_000;
/** Floors of one query. */
const PAGE = 1_000;
/** Floors that are watched. Beyond this, the last ones by id are left out. */
export const MAX_FLOORS = 10_000;

/** A watcher of floors. */
export interface FloorWatcher {
  /** Called with each floor that changed. */
  changed(floor: WatchedFloor): void;
}

/** A floor as it was last read. */
export interface WatchedFloor {
  row: FloorRow;
  summary: FloorSummary;
  /** Serialised, for comparison. */
  json: string;
}

export interface FloorWatchOptions {
  store: StoreEpoch & ViewStore;
  clock: Clock;
  log: Logger;
}

/** A floor's row as clients see it. */
export function summaryOf(row: FloorRow, epoch: string): FloorSummary {
  const { floorId, holder, reserved, ducked, paused, queued, flags, head } = row;
  const isWaiting = reserved !== undefined || ducked > 0 || paused > 0 || queued > 0;
  return {
    floorId,
    state: holder ? "held" : isWaiting ? "waiting" : "idle",
    ...(holder && { holder }),
    // A node of an older release keeps a reservation after it was granted.
    ...(reserved && !holder && { reserved }),
    // Present only where sessions are heard together, so that readers unaware of it see no change.
    ...(ducked > 0 && { ducked }),
    paused,
    queued,
    flags,
    position: logPosition(epoch, head),
  };
}

/**
 * Watches every floor that is held or waited for, for any number of watchers. Reads the store once a second while there
 * are watchers, and never otherwise. It does not use the bus, so commits cost no more.
 */
export class FloorWatch {
  readonly #options: FloorWatchOptions;
  readonly #watchers = new Set<FloorWatcher>();
  #floors = new Map<FloorId, WatchedFloor>();
  readonly #faultNotes = new LogThrottle();
  #timer: Timer | undefined;
  /** The read in progress. */
  #reading: Promise<void> | undefined;
  /** The last read succeeded. */
  #isCurrent = false;

  constructor(options: FloorWatchOptions) {
    this.#options = options;
  }

  /** The floors that are held or waited for, as of the last read. */
  get floors(): Iterable<WatchedFloor> {
    return this.#floors.values();
  }

  /**
   * Resolves when `floors` is current. A reader takes every floor that is not named for idle, so it begins only then.
   * @throws what the store throws while it cannot be read
   */
  async ready(): Promise<void> {
    if (this.#watchers.size === 0 || !this.#isCurrent) await this.#readOnce();
  }

  /** Watch from now on. Call it at once when `ready` has resolved. */
  add(watcher: FloorWatcher): void {
    this.#watchers.add(watcher);
    if (!this.#timer && !this.#reading) this.#sweepLater();
  }

  remove(watcher: FloorWatcher): void {
    this.#watchers.delete(watcher);
    if (this.#watchers.size > 0) return;
    this.#timer?.cancel();
    this.#timer = undefined;
    this.#floors.clear();
  }

  #sweepLater(): void {
    this.#timer = this.#options.clock.after(SWEEP_MS, () => {
      this.#timer = undefined;
      this.#readOnce().catch(() => {});
    });
  }

  /** Read the floors; calls at the same time share one read. */
  #readOnce(): Promise<void> {
    this.#reading ??= this.#readFloors().finally(() => {
      this.#reading = undefined;
      if (this.#watchers.size === 0) return;
      this.#timer?.cancel();
      this.#sweepLater();
    });
    return this.#reading;
  }

  async #readFloors(): Promise<void> {
    try {
      const rows = new Map<FloorId, FloorRow>();
      for (const state of ["held", "waiting"] as const) {
        for (const row of await this.#read({ state })) rows.set(row.floorId, row);
      }
      // Send a floor once more after it became idle.
      const left = [...this.#floors.keys()].filter((floorId) => !rows.has(floorId));
      const ended = left.length === 0 ? [] : await this.#read({ ids: left });
      this.#apply([...rows.values()], ended);
      this.#isCurrent = true;
    } catch (error) {
      this.#isCurrent = false;
      const { clock, log } = this.#options;
      if (this.#faultNotes.isDue(clock.now())) log.warn({ err: error }, "the watched floors could not be read");
      throw error;
    }
  }

  async #read(filter: { state?: "held" | "waiting"; ids?: FloorId[] }): Promise<FloorRow[]> {
    const { store } = this.#options;
    const rows: FloorRow[] = [];
    let hasMore = true;
    while (hasMore && rows.length < MAX_FLOORS) {
      const page = await store.listFloors({ ...filter, after: rows.at(-1)?.floorId, limit: PAGE });
      rows.push(...page.floors);
      hasMore = page.hasMore;
    }
    return rows;
  }

  #apply(rows: readonly FloorRow[], ended: readonly FloorRow[]): void {
    const before = this.#floors;
    this.#floors = new Map();
    for (const row of rows) {
      const floor = this.#watched(row);
      this.#floors.set(row.floorId, floor);
      if (before.get(row.floorId)?.json !== floor.json) this.#notify(floor);
    }
    for (const row of ended) this.#notify(this.#watched(row));
  }

  #watched(row: FloorRow): WatchedFloor {
    const summary = summaryOf(row, this.#options.store.epoch);
    return { row, summary, json: JSON.stringify(summary) };
  }

  #notify(floor: WatchedFloor): void {
    for (const watcher of [...this.#watchers]) watcher.changed(floor);
  }
}
