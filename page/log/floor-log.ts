import type { Client } from "../../src/client/client.ts";
import { Watchers } from "../../src/client/watchers.ts";
import { floorSeqOf, type LogEvent } from "./log-event.ts";

export interface LogView {
  /** Oldest first. The array grows in place; `revision` changes each time. */
  events: readonly LogEvent[];
  revision: number;
  /** Whether the server has older events that were not read yet. */
  hasOlder: boolean;
  isReading: boolean;
  /** Why the last page could not be read. */
  failure?: Error | undefined;
}

/** Events per request. */
const PAGE = 2_000;
/** Events per request for newly added events. */
const ADDED = 100;
/** Events that a tab keeps of a log; older events stay on the server. */
const MAX_EVENTS = 200_000;
/** Events beyond that are dropped in lots, because everything derived from the log is computed again without them. */
const DROPPED = 20_000;
/** The shortest interval between reads of a growing log, in ms. */
const REFRESH_MS = 400;

/** The part of a floor's log that this page has read: the newest page first, then back to the beginning. */
export class FloorLog {
  readonly floorId: string;
  readonly #client: Client | undefined;
  readonly #watchers = new Watchers();
  readonly subscribe = this.#watchers.subscribe;
  readonly #events: LogEvent[] = [];
  #view: LogView;
  #wanted: "nothing" | "newest" = "nothing";
  #refreshing: Promise<void> | undefined;
  #reachingBack: Promise<void> | undefined;
  /** Dropped events are not read again. */
  #hasDropped = false;

  /** @param client undefined for a log from a file, of which nothing more can be read */
  constructor(floorId: string, client: Client | undefined, events: readonly LogEvent[] = []) {
    this.floorId = floorId;
    this.#client = client;
    for (const event of events) this.#events.push(event);
    this.#view = { events: this.#events, revision: 0, hasOlder: client !== undefined, isReading: false };
  }

  get view(): LogView {
    return this.#view;
  }

  /** Read the newly added events; calls during a read cause one more read. */
  refresh(): void {
    this.#wanted = "newest";
    this.#refreshing ??= this.#refresh().finally(() => {
      this.#refreshing = undefined;
    });
  }

  /** Read back to the beginning, page by page. */
  reachBack(): void {
    if (!this.#view.hasOlder || this.#hasDropped || !this.#client) return;
    this.#reachingBack ??= this.#reachBack().finally(() => {
      this.#reachingBack = undefined;
    });
  }

  async #refresh(): Promise<void> {
    while (this.#wanted === "newest" && this.#client) {
      this.#wanted = "nothing";
      let added: LogEvent[];
      try {
        added = await this.#readAdded(this.#client);
      } catch (error) {
        this.#change({ failure: error as Error });
        return;
      }
      for (let index = added.length - 1; index >= 0; index -= 1) this.#events.push(added[index]!);
      if (this.#events.length > MAX_EVENTS) this.#dropOldest();
      if (added.length > 0 || this.#view.failure) this.#change({ failure: undefined });
      this.reachBack();
      await new Promise((resolve) => setTimeout(resolve, REFRESH_MS));
    }
  }

  #dropOldest(): void {
    this.#events.splice(0, this.#events.length - MAX_EVENTS + DROPPED);
    this.#hasDropped = true;
    this.#change({ hasOlder: true });
  }

  /** The events after the newest known one, newest first. If none is known: the newest page of the log. */
  async #readAdded(client: Client): Promise<LogEvent[]> {
    const known = this.#events.length === 0 ? 0 : floorSeqOf(this.#events.at(-1)!);
    const added: LogEvent[] = [];
    let before: string | undefined;
    for (;;) {
      const limit = known === 0 ? PAGE / 4 : before === undefined ? ADDED : PAGE;
      const page = await client.readFloorLog(this.floorId, { limit, ...(before && { before }) });
      const fresh = page.events.filter((event) => floorSeqOf(event) > known);
      added.push(...fresh);
      before = page.events.at(-1)?.position;
      // The first time one page is enough: `reachBack` reads the older ones.
      if (known === 0) this.#change({ hasOlder: page.hasMore });
      if (known === 0 || !page.hasMore || fresh.length < page.events.length) return added;
    }
  }

  async #reachBack(): Promise<void> {
    this.#change({ isReading: true });
    let notifiedAt = 0;
    try {
      while (this.#view.hasOlder && this.#events.length > 0 && this.#events.length < MAX_EVENTS) {
        const before = this.#events[0]!.position;
        const page = await this.#client!.readFloorLog(this.floorId, { before, limit: PAGE });
        if (this.#hasDropped) break;
        this.#events.unshift(...page.events.reverse());
        const hasOlder = page.hasMore && page.events.length > 0;
        // Everything derived from the log is computed again after a change at its beginning.
        if (hasOlder && Date.now() - notifiedAt < REFRESH_MS) continue;
        notifiedAt = Date.now();
        this.#change({ hasOlder, failure: undefined });
      }
    } catch (error) {
      this.#change({ failure: error as Error });
    }
    this.#change({ isReading: false });
  }

  #change(change: Partial<LogView>): void {
    this.#view = { ...this.#view, ...change, revision: this.#view.revision + 1 };
    this.#watchers.notify();
  }
}
