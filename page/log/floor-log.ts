import type { Client } from "../../src/client/client.ts";
import { type LogEvent, placeOf } from "./log-event.ts";

export interface LogView {
  /** Oldest first. The array grows in place: `revision` says that it did. */
  events: readonly LogEvent[];
  revision: number;
  /** The server has older events that were not read yet. */
  hasOlder: boolean;
  isReading: boolean;
  /** Why the last page could not be read. */
  failure?: string | undefined;
}

/** Events of one request. */
const PAGE = 2_000;
/** Of a request for what was added since the last one. */
const ADDED = 100;
/** What a tab keeps of a log; older events stay on the server. */
const MAX_EVENTS = 200_000;
/** A log that grows is read at most once in so many ms. */
const REFRESH_MS = 400;

/** A floor's log as far as this page has read it: the newest page first, then back to the beginning. */
export class FloorLog {
  readonly floorId: string;
  readonly #client: Client | undefined;
  readonly #watchers = new Set<() => void>();
  readonly #events: LogEvent[] = [];
  #view: LogView;
  #wanted: "nothing" | "newest" = "nothing";
  #refreshing: Promise<void> | undefined;
  #reachingBack: Promise<void> | undefined;

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

  readonly subscribe = (watcher: () => void): (() => void) => {
    this.#watchers.add(watcher);
    return () => this.#watchers.delete(watcher);
  };

  /** Read what was added since; calls that come while it reads are one more reading. */
  refresh(): void {
    this.#wanted = "newest";
    this.#refreshing ??= this.#refresh().finally(() => {
      this.#refreshing = undefined;
    });
  }

  /** Read back to the beginning, page by page. */
  reachBack(): void {
    if (!this.#view.hasOlder || !this.#client) return;
    this.#reachingBack ??= this.#reachBack().finally(() => {
      this.#reachingBack = undefined;
    });
  }

  async #refresh(): Promise<void> {
    while (this.#wanted === "newest" && this.#client) {
      this.#wanted = "nothing";
      const known = this.#events.length === 0 ? 0 : placeOf(this.#events.at(-1)!);
      const added: LogEvent[] = [];
      let before: string | undefined;
      try {
        for (let isMore = true; isMore; ) {
          const limit = known === 0 ? PAGE / 4 : before === undefined ? ADDED : PAGE;
          const page = await this.#client.readFloorLog(this.floorId, { limit, ...(before && { before }) });
          const fresh = page.events.filter((event) => placeOf(event) > known);
          added.push(...fresh);
          before = page.events.at(-1)?.position;
          // The first time one page is enough: older ones come by `reachBack`.
          isMore = page.hasMore && known > 0 && fresh.length === page.events.length;
          if (known === 0) this.#change({ hasOlder: page.hasMore });
        }
      } catch (error) {
        this.#change({ failure: (error as Error).message });
        return;
      }
      for (let index = added.length - 1; index >= 0; index -= 1) this.#events.push(added[index]!);
      if (this.#events.length > MAX_EVENTS) this.#events.splice(0, this.#events.length - MAX_EVENTS);
      if (added.length > 0 || this.#view.failure) this.#change({ failure: undefined });
      this.reachBack();
      await new Promise((resolve) => setTimeout(resolve, REFRESH_MS));
    }
  }

  async #reachBack(): Promise<void> {
    this.#change({ isReading: true });
    let toldAt = 0;
    try {
      while (this.#view.hasOlder && this.#events.length > 0 && this.#events.length < MAX_EVENTS) {
        const before = this.#events[0]!.position;
        const page = await this.#client!.readFloorLog(this.floorId, { before, limit: PAGE });
        this.#events.unshift(...page.events.reverse());
        const hasOlder = page.hasMore && page.events.length > 0;
        // Everything that is read off the log is read anew with each change at its beginning.
        if (hasOlder && Date.now() - toldAt < REFRESH_MS) continue;
        toldAt = Date.now();
        this.#change({ hasOlder, failure: undefined });
      }
    } catch (error) {
      this.#change({ failure: (error as Error).message });
    }
    this.#change({ isReading: false });
  }

  #change(change: Partial<LogView>): void {
    this.#view = { ...this.#view, ...change, revision: this.#view.revision + 1 };
    for (const watcher of [...this.#watchers]) watcher();
  }
}
