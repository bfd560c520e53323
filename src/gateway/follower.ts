import type { Bus, Unsubscribe } from "../bus/bus.ts";
import { BOUNDS } from "../config/bounds.ts";
import type { Delta } from "../protocol/event.ts";
import {
  aboutOf,
  decodeFloorMessage,
  type FloorMessage,
  floorTopic,
  parseFrame,
  toWire,
  type WireEntry,
} from "../protocol/floor-message.ts";
import type { FloorId, FloorSeq, MessageId, RunId, SessionId } from "../protocol/ids.ts";
import type { Logger } from "../protocol/logger.ts";
import type { Store } from "../store/store.ts";
import { DraftBoard } from "./draft-board.ts";
import { keepListening } from "./keep-listening.ts";

/** A logged event as this node hands it to readers. */
export interface FollowedEntry extends WireEntry {
  /** The session's log ends with it. */
  ends: boolean;
  /** The frame with its position in the session's own stream; made for the first reader of that. */
  sessionFrame: Uint8Array | undefined;
}

/**
 * Events before its place that a follower looks at when it opens: a word that is late does not bring back what they
 * ended, or make a paused session speak (rule C15).
 */
const RECALLED = 32;

/** One who follows the floor: told of what is new, and reads it when it can. */
export interface FloorListener {
  /** There are entries after those it has. */
  advance(): void;
  /** It has all there is, so nothing need be kept for it. */
  readonly isLive: boolean;
  /** A piece of a message; a listener that is behind misses it and asks for the drafts later. */
  delta(sessionId: SessionId, frame: Uint8Array): void;
  /** What was shown of unfinished messages has a hole: they are to be shown anew. */
  redraw(sessionId: SessionId): void;
  /** An event that is not logged, for whoever is live. */
  notice(sessionId: SessionId, frame: Uint8Array): void;
  /** Entries up to this index are no longer kept. */
  dropped(upTo: number): void;
}

export interface FollowerOptions {
  bus: Bus;
  store: Pick<Store, "epoch" | "heads" | "readFloorLog" | "loadDrafts">;
  now: () => number;
  log: Logger;
  /** A commit came over the bus, so many ms after it was durable. */
  onHeard?: ((lagMs: number) => void) | undefined;
  /** The bus had not brought something: it is read from the store. */
  onBehind?: (() => void) | undefined;
}

/**
 * Where this node stands in one floor's log, however many readers there are (rule C17). The bus brings what is new; what
 * it lost is read from the store (principle 1). Entries have an index that only grows, and listeners keep theirs.
 */
export class Follower {
  readonly floorId: FloorId;
  readonly drafts = new DraftBoard();
  readonly #options: FollowerOptions;
  readonly #listeners = new Set<FloorListener>();
  #kept: FollowedEntry[] = [];
  #keptBytes = 0;
  /** The index of the first entry that is kept. */
  #firstIndex = 0;
  /** Events after this place are kept. */
  #keptFrom: FloorSeq = 0;
  #place: FloorSeq = 0;
  /** Told on the bus before the place was known. */
  #early: FloorMessage[] | undefined = [];
  #catchingUp: Promise<void> | undefined;
  #isBehind = false;
  /** The bus was not heard at first, and is heard since before the place was known. */
  #isLate = false;
  #unsubscribe: Unsubscribe | undefined;
  #isClosed = false;

  private constructor(floorId: FloorId, options: FollowerOptions) {
    this.floorId = floorId;
    this.#options = options;
  }

  /** Follow a floor from now on. Nothing that is committed after the promise is fulfilled is missed. */
  static async open(floorId: FloorId, options: FollowerOptions): Promise<Follower> {
    const follower = new Follower(floorId, options);
    await follower.#open();
    return follower;
  }

  /** Where the floor's log stood when this node last heard of it. */
  get place(): FloorSeq {
    return this.#place;
  }

  /** Everything after this place is kept in memory. */
  get keptFrom(): FloorSeq {
    return this.#keptFrom;
  }

  /** The index after the newest entry. */
  get endIndex(): number {
    return this.#firstIndex + this.#kept.length;
  }

  /** The entry at an index, or undefined when it is not kept. */
  at(index: number): FollowedEntry | undefined {
    return this.#kept[index - this.#firstIndex];
  }

  /** The index of the first kept entry after a place. */
  indexAfter(place: FloorSeq): number {
    let low = 0;
    let high = this.#kept.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#kept[middle]!.floorSeq <= place) low = middle + 1;
      else high = middle;
    }
    return this.#firstIndex + low;
  }

  get listenerCount(): number {
    return this.#listeners.size;
  }

  listen(listener: FloorListener): void {
    this.#listeners.add(listener);
  }

  unlisten(listener: FloorListener): void {
    this.#listeners.delete(listener);
  }

  /** The store says where the log stands: whatever the bus lost is read (rule C18). */
  noticeHead(head: FloorSeq): void {
    if (head <= this.#place) return;
    this.#options.onBehind?.();
    this.#catchUp();
  }

  close(): void {
    this.#isClosed = true;
    this.#unsubscribe?.();
    this.#listeners.clear();
    this.#kept = [];
  }

  async #open(): Promise<void> {
    const { bus, store } = this.#options;
    const topic = floorTopic(store.epoch, this.floorId);
    const hear = (bytes: Uint8Array) => this.#hear(bytes);
    // While the bus is away the store is all there is; what came between the two is read when it can be heard again.
    this.#unsubscribe = await keepListening(bus, topic, hear, () => this.#hearLate());
    try {
      this.#place = (await store.heads([this.floorId])).get(this.floorId) ?? 0;
      this.#keptFrom = this.#place;
      const [recent, drafts] = await Promise.all([
        store.readFloorLog(this.floorId, Math.max(0, this.#place - RECALLED), RECALLED),
        store.loadDrafts(this.floorId),
      ]);
      for (const entry of recent.entries) {
        if (entry.floorSeq <= this.#place) this.#watch({ ...entry, about: aboutOf(entry) });
      }
      for (const message of drafts) this.drafts.restore(message);
    } catch (error) {
      this.close();
      throw error;
    }
    const early = this.#early!;
    this.#early = undefined;
    for (const message of early) this.#take(message);
    if (this.#isLate) this.#hearLate();
  }

  /** The bus is heard only from now on: whatever was told before is in the store. */
  #hearLate(): void {
    if (this.#isClosed) return;
    this.#isLate = this.#early !== undefined;
    if (this.#isLate) return;
    this.#catchUp();
    void this.restoreDrafts();
  }

  #hear(bytes: Uint8Array): void {
    if (this.#isClosed) return;
    try {
      const message = decodeFloorMessage(bytes);
      if (this.#early) this.#early.push(message);
      else this.#take(message);
    } catch (error) {
      this.#options.log.warn({ err: error, floorId: this.floorId }, "a message on a floor's topic made no sense");
    }
  }

  #take(message: FloorMessage): void {
    switch (message.kind) {
      case "commit":
        return this.#takeCommit(message);
      case "delta":
        return this.#takeDelta(message.sessionId, message.frame);
      case "checkpoint":
        if (this.drafts.lacks(message.messageId, message.runId, message.length)) void this.restoreDrafts();
        return;
      case "notice": {
        for (const listener of this.#listeners) listener.notice(message.sessionId, message.frame);
      }
    }
  }

  #takeCommit({ prev, last, entries, at }: Extract<FloorMessage, { kind: "commit" }>): void {
    const { now, onHeard, onBehind } = this.#options;
    if (last <= this.#place) return;
    if (at !== undefined) onHeard?.(Math.max(0, now() - at));
    if (prev !== this.#place && !this.#catchingUp) onBehind?.();
    if (prev !== this.#place || !entries || this.#catchingUp) return this.#catchUp();
    this.#append(entries, last);
  }

  #takeDelta(sessionId: SessionId, frame: Uint8Array): void {
    const { data } = parseFrame(frame) as { data: Delta };
    if (!this.drafts.add(sessionId, data, this.#options.now())) return;
    for (const listener of this.#listeners) listener.delta(sessionId, frame);
  }

  #append(entries: readonly WireEntry[], last: FloorSeq): void {
    for (const entry of entries) {
      const followed = follow(entry);
      this.#kept.push(followed);
      this.#keptBytes += followed.frame.byteLength;
      this.#watch(followed);
    }
    this.#place = last;
    let isEverybodyLive = true;
    for (const listener of this.#listeners) {
      listener.advance();
      isEverybodyLive &&= listener.isLive;
    }
    if (isEverybodyLive) this.#forget(this.#kept.length);
    else this.#trim();
  }

  /** What an event says about unfinished messages. */
  #watch({ type, sessionId, about }: Pick<FollowedEntry, "type" | "sessionId" | "about">): void {
    if (sessionId === undefined || about === undefined) return;
    if (type === "message") this.drafts.finish(about as MessageId);
    else if (type === "complete") this.drafts.end(about as RunId);
    else if (endsLog({ type, about })) this.drafts.forget(sessionId);
    else this.drafts.setActive(sessionId, about !== "paused");
  }

  #trim(): void {
    let count = 0;
    while (
      this.#kept.length - count > BOUNDS.keptEvents ||
      (this.#keptBytes > BOUNDS.keptBytes && count < this.#kept.length)
    ) {
      this.#keptBytes -= this.#kept[count]!.frame.byteLength;
      count += 1;
    }
    if (count === 0) return;
    this.#forget(count);
    for (const listener of this.#listeners) listener.dropped(this.#firstIndex);
  }

  /** Keep the first few no longer. */
  #forget(count: number): void {
    if (count === 0) return;
    const isAll = count === this.#kept.length;
    this.#keptFrom = isAll ? this.#place : this.#kept[count - 1]!.floorSeq;
    if (isAll) this.#keptBytes = 0;
    this.#kept.splice(0, count);
    this.#firstIndex += count;
  }

  #catchUp(): void {
    if (this.#catchingUp) {
      this.#isBehind = true;
      return;
    }
    this.#catchingUp = this.#readOn().finally(() => {
      this.#catchingUp = undefined;
      if (this.#isBehind && !this.#isClosed) {
        this.#isBehind = false;
        this.#catchUp();
      }
    });
  }

  async #readOn(): Promise<void> {
    const { store, log } = this.#options;
    try {
      for (;;) {
        const slice = await store.readFloorLog(this.floorId, this.#place, BOUNDS.replayPage);
        if (this.#isClosed) return;
        const isAll = slice.entries.length < BOUNDS.replayPage;
        // What the log skips was deleted, not lost.
        const last = isAll ? slice.head : slice.entries.at(-1)!.floorSeq;
        if (last > this.#place) this.#append(slice.entries.map(toWire), last);
        if (isAll) return;
      }
    } catch (error) {
      // The next word on the floor's head tries again.
      log.warn({ err: error, floorId: this.floorId }, "a floor's log could not be read");
    }
  }

  /** What the store has of unfinished messages and this node has not heard of is shown to readers. */
  async restoreDrafts(): Promise<void> {
    const { store, log } = this.#options;
    try {
      for (const message of await store.loadDrafts(this.floorId)) {
        if (this.#isClosed || !this.drafts.restore(message)) continue;
        for (const listener of this.#listeners) listener.redraw(message.sessionId);
      }
    } catch (error) {
      log.warn({ err: error, floorId: this.floorId }, "unfinished messages could not be read");
    }
  }
}

/** A frame with its position before it. */
export function placeFrame(id: string, frame: Uint8Array): Uint8Array {
  const head = `id: ${id}\n`;
  const placed = Buffer.allocUnsafe(head.length + frame.byteLength);
  // Positions are plain letters and digits.
  placed.write(head, "latin1");
  placed.set(frame, head.length);
  return placed;
}

/** Whether the log of the entry's session ends with it. */
export const endsLog = ({ type, about }: Pick<WireEntry, "type" | "about">): boolean =>
  type === "session_transition" && (about === "archived" || about === "deleted");

export function follow(entry: WireEntry): FollowedEntry {
  return { ...entry, ends: endsLog(entry), sessionFrame: undefined };
}
