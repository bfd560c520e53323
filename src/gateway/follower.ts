import type { Bus, Unsubscribe } from "../bus/bus.ts";
import { BOUNDS } from "../config/settings.ts";
import type { Delta } from "../protocol/event.ts";
import {
  decodeFloorMessage,
  type FloorMessage,
  floorTopic,
  toWire,
  type WireEntry,
} from "../protocol/floor-message.ts";
import type { FloorId, FloorSeq, MessageId, RunId, SessionId } from "../protocol/ids.ts";
import type { Logger } from "../protocol/logger.ts";
import type { Store } from "../store/store.ts";
import { DraftBoard } from "./draft-board.ts";

/** A logged event as this node hands it to readers. */
export interface FollowedEntry extends Omit<WireEntry, "body"> {
  /** The session's log ends with it. */
  ends: boolean;
  /** `data: …` and the blank line: made once, for all readers. */
  dataFrame: Uint8Array;
  /** The same with its position in the session's own stream; made for the first reader of that. */
  sessionFrame: Uint8Array | undefined;
}

/** One who follows the floor: told of what is new, and reads it when it can. */
export interface FloorListener {
  /** There are entries after those it has. */
  advance(): void;
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
    if (head > this.#place) this.#catchUp();
  }

  close(): void {
    this.#isClosed = true;
    this.#unsubscribe?.();
    this.#listeners.clear();
    this.#kept = [];
  }

  async #open(): Promise<void> {
    const { bus, store } = this.#options;
    this.#unsubscribe = await bus.subscribe(floorTopic(store.epoch, this.floorId), (bytes) => this.#hear(bytes));
    try {
      this.#place = (await store.heads([this.floorId])).get(this.floorId) ?? 0;
      this.#keptFrom = this.#place;
      for (const message of await store.loadDrafts(this.floorId)) this.drafts.restore(message);
    } catch (error) {
      this.close();
      throw error;
    }
    const early = this.#early!;
    this.#early = undefined;
    for (const message of early) this.#take(message);
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
        return this.#takeDelta(message.sessionId, message.body);
      case "checkpoint":
        if (this.drafts.lacks(message.messageId, message.runId, message.length)) void this.#restoreDrafts();
        return;
      case "notice": {
        const frame = frameOf(message.body);
        for (const listener of this.#listeners) listener.notice(message.sessionId, frame);
      }
    }
  }

  #takeCommit({ prev, last, entries }: Extract<FloorMessage, { kind: "commit" }>): void {
    if (last <= this.#place) return;
    if (prev !== this.#place || !entries || this.#catchingUp) return this.#catchUp();
    this.#append(entries, last);
  }

  #takeDelta(sessionId: SessionId, body: Uint8Array): void {
    const { data } = JSON.parse(decoder.decode(body)) as { data: Delta };
    if (!this.drafts.add(sessionId, data, this.#options.now())) return;
    const frame = frameOf(body);
    for (const listener of this.#listeners) listener.delta(sessionId, frame);
  }

  #append(entries: readonly WireEntry[], last: FloorSeq): void {
    for (const entry of entries) {
      const followed = follow(entry);
      this.#kept.push(followed);
      this.#keptBytes += followed.dataFrame.byteLength;
      this.#watch(entry);
    }
    this.#place = last;
    for (const listener of this.#listeners) listener.advance();
    this.#trim();
  }

  /** What an event says about unfinished messages. */
  #watch({ type, sessionId, body }: WireEntry): void {
    if (sessionId === undefined) return;
    if (type === "message") {
      const id = MESSAGE_ID.exec(decoder.decode(body.subarray(0, 160)))?.[1];
      if (id) this.drafts.finish(id as MessageId);
    } else if (type === "complete") {
      const id = RUN_ID.exec(decoder.decode(body))?.[1];
      if (id) this.drafts.end(id as RunId);
    } else if (type === "session_transition") {
      const to = TRANSITION_TO.exec(decoder.decode(body))?.[1] ?? "";
      if (to === "archived" || to === "deleted") this.drafts.forget(sessionId);
      else this.drafts.setActive(sessionId, to !== "paused");
    }
  }

  #trim(): void {
    let count = 0;
    while (
      this.#kept.length - count > BOUNDS.keptEvents ||
      (this.#keptBytes > BOUNDS.keptBytes && count < this.#kept.length)
    ) {
      const oldest = this.#kept[count]!;
      this.#keptBytes -= oldest.dataFrame.byteLength;
      this.#keptFrom = oldest.floorSeq;
      count += 1;
    }
    if (count === 0) return;
    this.#kept.splice(0, count);
    this.#firstIndex += count;
    for (const listener of this.#listeners) listener.dropped(this.#firstIndex);
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

  async #restoreDrafts(): Promise<void> {
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

const decoder = new TextDecoder();
const encoder = new TextEncoder();
/** A message's id stands first in its data; the others cannot be forged: quotes in texts are escaped. */
const MESSAGE_ID = /^\{"type":"message","data":\{"id":"([A-Za-z0-9_-]+)"/;
const RUN_ID = /"runId":"([A-Za-z0-9_-]+)"/;
const TRANSITION_TO = /"to":"([a-z.]+)"/;
const ENDS = /"to":"(?:archived|deleted)"/;

const DATA = encoder.encode("data: ");
const BLANK_LINE = encoder.encode("\n\n");

/** A frame of an event without a position. */
export function frameOf(body: Uint8Array): Uint8Array {
  const frame = new Uint8Array(DATA.length + body.byteLength + BLANK_LINE.length);
  frame.set(DATA);
  frame.set(body, DATA.length);
  frame.set(BLANK_LINE, DATA.length + body.byteLength);
  return frame;
}

/** A frame with its position before it. */
export function placeFrame(id: string, dataFrame: Uint8Array): Uint8Array {
  const head = encoder.encode(`id: ${id}\n`);
  const frame = new Uint8Array(head.byteLength + dataFrame.byteLength);
  frame.set(head);
  frame.set(dataFrame, head.byteLength);
  return frame;
}

export function follow(entry: WireEntry): FollowedEntry {
  const { body, ...rest } = entry;
  const ends = entry.type === "session_transition" && ENDS.test(decoder.decode(body));
  return { ...rest, ends, dataFrame: frameOf(body), sessionFrame: undefined };
}
