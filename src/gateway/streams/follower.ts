// Rules C17 and C18 of docs/inside/correctness.md.
import type { Bus, Subscription } from "../../bus/bus.ts";
import { BOUNDS } from "../../config/bounds.ts";
import { type Delta, storedSubject } from "../../protocol/event.ts";
import { type Frame, parseFrame, toWire, type WireEntry } from "../../protocol/frames.ts";
import type { FloorId, FloorSeq, SessionId } from "../../protocol/ids.ts";
import { decodeFloorMessage, type FloorMessage, floorTopic } from "../../protocol/internal/floor-message.ts";
import type { Message } from "../../protocol/message.ts";
import { flow } from "../../shared/flow.ts";
import type { LoopBudget } from "../../shared/loop-budget.ts";
import type { Logger } from "../../shared/ports/logger.ts";
import type { LogStore } from "../../store/store.ts";
import { DraftBoard } from "./draft-board.ts";
import { keepListening } from "./keep-listening.ts";

/** A logged event in the form in which this node sends it to readers. */
export interface FollowedEntry extends WireEntry {
  /** Whether the session's log ends with this event. */
  ends: boolean;
  /** The frame with its position in the session's own stream. Made for the first reader of that stream. */
  sessionFrame: Frame | undefined;
}

/**
 * Events before its position that a follower reads when it opens, so that a late delta does not revive a message that
 * they ended, or show text of a paused session (rule C15).
 */
const RECALLED = 32;

/** A listener of a floor. It is notified of new entries and reads them when it can. */
export interface FloorListener {
  /** New entries are available. */
  advance(): void;
  /** True if the listener has all entries, so we keep none for it. */
  readonly isLive: boolean;
  /** Part of a message, and its frame. A listener that is behind skips it and requests the drafts later. */
  delta(sessionId: SessionId, frame: Frame, delta: Delta): void;
  /** The unfinished messages that were sent are incomplete: send them again. */
  redraw(sessionId: SessionId): void;
  /** An event that is not logged, for listeners that are live. */
  liveEvent(sessionId: SessionId, frame: Frame): void;
  /** Entries with an index below this are no longer kept. */
  dropped(upTo: number): void;
}

export interface FollowerOptions {
  bus: Bus;
  store: LogStore;
  now: () => number;
  log: Logger;
  /**
   * Limits the events of history that are read in one iteration of the event loop, for all readers together. Default:
   * none.
   */
  pace?: LoopBudget | undefined;
  /** A commit arrived over the bus, this many ms after it was durable. */
  onReceived?: ((lagMs: number) => void) | undefined;
  /** The bus lost something. What is only on its way does not count, although it may have been read from the store. */
  onBehind?: (() => void) | undefined;
}

/**
 * Follows one floor's log for any number of readers on this node (rule C17). The bus creates new entries; lost ones are
 * read from the store (principle 1). Entries have an index that only grows, and each listener keeps its own.
 */
export class Follower {
  readonly floorId: FloorId;
  readonly drafts = new DraftBoard();
  readonly #options: FollowerOptions;
  readonly #listeners = new Set<FloorListener>();
  #kept: FollowedEntry[] = [];
  /** Bytes of all kept frames, or characters of those that are text. */
  #keptSize = 0;
  /** The index of the first entry that is kept. */
  #firstIndex = 0;
  /** Events after this `floorSeq` are kept. */
  #keptFrom: FloorSeq = 0;
  #floorSeq: FloorSeq = 0;
  /** The bus has brought everything up to here, or has lost it. */
  #heard: FloorSeq = 0;
  /** A head of the log that the bus had not brought yet, and when that was seen. */
  #unheard: { head: FloorSeq; seenAt: number } | undefined;
  /** Messages that arrived over the bus before `#floorSeq` was known. */
  #early: FloorMessage[] | undefined = [];
  #catchingUp: Promise<void> | undefined;
  #isBehind = false;
  /** The bus could not be subscribed to at first, and was before `#floorSeq` was known. */
  #isLate = false;
  #subscription: Subscription | undefined;
  #isClosed = false;

  private constructor(floorId: FloorId, options: FollowerOptions) {
    this.floorId = floorId;
    this.#options = options;
  }

  /** Follow a floor. Once the promise resolves, no later commit is missed. */
  static async open(floorId: FloorId, options: FollowerOptions): Promise<Follower> {
    const follower = new Follower(floorId, options);
    await follower.#open();
    return follower;
  }

  /** The newest `floorSeq` of the floor's log that this node knows. */
  get floorSeq(): FloorSeq {
    return this.#floorSeq;
  }

  /** Everything after this `floorSeq` is kept in memory. */
  get keptFrom(): FloorSeq {
    return this.#keptFrom;
  }

  /** The index after the newest entry. */
  get endIndex(): number {
    return this.#firstIndex + this.#kept.length;
  }

  /** The entry at an index, or undefined if it is not kept. */
  at(index: number): FollowedEntry | undefined {
    return this.#kept[index - this.#firstIndex];
  }

  /** The index of the first kept entry after a `floorSeq`. */
  indexAfter(floorSeq: FloorSeq): number {
    let low = 0;
    let high = this.#kept.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#kept[middle]!.floorSeq <= floorSeq) low = middle + 1;
      else high = middle;
    }
    return this.#firstIndex + low;
  }

  /** What the readers' reads of history wait for. */
  get pace(): LoopBudget | undefined {
    return this.#options.pace;
  }

  listen(listener: FloorListener): void {
    this.#listeners.add(listener);
  }

  unlisten(listener: FloorListener): void {
    this.#listeners.delete(listener);
  }

  /** Compare with the head that the store reports, and read what the bus lost (rule C18). */
  learnHead(head: FloorSeq): void {
    this.#noteUnheard(head);
    if (head > this.#floorSeq) this.#catchUp();
  }

  /** A commit is durable before its message is sent: only one that does not come is lost. */
  #noteUnheard(head: FloorSeq): void {
    const { now, onBehind } = this.#options;
    if (this.#unheard && this.#unheard.head > this.#heard) {
      if (now() - this.#unheard.seenAt < BOUNDS.reconcileMs) return;
      this.#heard = this.#unheard.head;
      onBehind?.();
    }
    this.#unheard = head > this.#heard ? { head, seenAt: now() } : undefined;
  }

  close(): void {
    this.#isClosed = true;
    this.#subscription?.end();
    this.#listeners.clear();
    this.#kept = [];
  }

  async #open(): Promise<void> {
    const { bus, store } = this.#options;
    const topic = floorTopic(store.epoch, this.floorId);
    const receive = (bytes: Uint8Array) => this.#receive(bytes);
    // While the bus is away, read from the store. Once the bus is back, the entries in between are read again.
    this.#subscription = await keepListening(bus, topic, receive, () => this.#beginLate());
    try {
      this.#floorSeq = (await store.heads([this.floorId])).get(this.floorId) ?? 0;
      this.#keptFrom = this.#floorSeq;
      this.#heard = this.#floorSeq;
      await Promise.all([this.#readDrafts((message) => this.drafts.restore(message)), this.#recall()]);
    } catch (error) {
      this.close();
      throw error;
    }
    const early = this.#early!;
    this.#early = undefined;
    for (const message of early) this.#handle(message);
    if (this.#isLate) this.#beginLate();
  }

  /** Apply the last events before the follower's `floorSeq` to the drafts. */
  async #recall(): Promise<void> {
    let from = Math.max(0, this.#floorSeq - RECALLED);
    while (from < this.#floorSeq) {
      const { entries } = await this.#options.store.readFloorLog(this.floorId, from, this.#floorSeq - from);
      if (entries.length === 0) return;
      for (const entry of entries) this.#watch({ ...entry, subject: storedSubject(entry) });
      from = entries.at(-1)!.floorSeq;
    }
  }

  /** The bus is subscribed to only now. Earlier messages are in the store. */
  #beginLate(): void {
    if (this.#isClosed) return;
    this.#isLate = this.#early !== undefined;
    if (this.#isLate) return;
    this.#catchUp();
    void this.restoreDrafts();
  }

  #receive(bytes: Uint8Array): void {
    if (this.#isClosed) return;
    try {
      const message = decodeFloorMessage(bytes);
      if (this.#early) this.#early.push(message);
      else this.#handle(message);
    } catch (error) {
      this.#options.log.warn({ err: error, floorId: this.floorId }, "a message of a floor could not be decoded");
    }
  }

  #handle(message: FloorMessage): void {
    switch (message.kind) {
      case "commit":
        return this.#handleCommit(message);
      case "delta":
        return this.#handleDelta(message.sessionId, message.frame);
      case "checkpoint":
        if (this.drafts.lacks(message.messageId, message.runId, message.length)) void this.restoreDrafts();
        return;
      case "live": {
        for (const listener of this.#listeners) listener.liveEvent(message.sessionId, message.frame);
      }
    }
  }

  #handleCommit({ prev, last, entries, at }: Extract<FloorMessage, { kind: "commit" }>): void {
    const { now, onReceived, onBehind } = this.#options;
    if (last > this.#heard) {
      onReceived?.(Math.max(0, now() - at));
      if (prev > this.#heard) onBehind?.();
      this.#heard = last;
    }
    if (last <= this.#floorSeq) return;
    if (prev !== this.#floorSeq || !entries || this.#catchingUp) return this.#catchUp();
    this.#append(entries, last);
  }

  #handleDelta(sessionId: SessionId, frame: Frame): void {
    const { data } = parseFrame(frame) as { data: Delta };
    flow.onHop?.("draft", `a delta at ${data.offset}, for ${this.#listeners.size} readers`);
    if (!this.drafts.add(sessionId, data, this.#options.now())) return;
    for (const listener of this.#listeners) listener.delta(sessionId, frame, data);
  }

  #append(entries: readonly WireEntry[], last: FloorSeq): void {
    flow.onHop?.("follower", `${entries.length} events up to ${last}, for ${this.#listeners.size} readers`);
    const followed = entries.map(follow);
    // Mostly nothing is kept, because every listener has received the entries before.
    if (this.#kept.length === 0) this.#kept = followed;
    else this.#kept.push(...followed);
    for (const entry of followed) {
      this.#keptSize += entry.frame.length;
      this.#watch(entry);
    }
    this.#floorSeq = last;
    let areAllLive = true;
    for (const listener of this.#listeners) {
      listener.advance();
      areAllLive &&= listener.isLive;
    }
    if (areAllLive) this.#forget(this.#kept.length);
    else this.#trim();
  }

  /** Apply an event to the drafts. */
  #watch({ sessionId, subject }: Pick<FollowedEntry, "sessionId" | "subject">): void {
    if (sessionId === undefined || subject === undefined) return;
    if ("message" in subject) this.drafts.finish(subject.message);
    else if ("run" in subject) this.drafts.end(subject.run);
    else if (endsLog({ subject })) this.drafts.forget(sessionId);
    else this.drafts.setActive(sessionId, subject.state !== "paused");
  }

  #trim(): void {
    let count = 0;
    while (
      this.#kept.length - count > BOUNDS.keptEvents ||
      (this.#keptSize > BOUNDS.keptBytes && count < this.#kept.length)
    ) {
      this.#keptSize -= this.#kept[count]!.frame.length;
      count += 1;
    }
    if (count === 0) return;
    this.#forget(count);
    for (const listener of this.#listeners) listener.dropped(this.#firstIndex);
  }

  /** Stop keeping the first `count` entries. */
  #forget(count: number): void {
    if (count === 0) return;
    const isAll = count === this.#kept.length;
    this.#keptFrom = isAll ? this.#floorSeq : this.#kept[count - 1]!.floorSeq;
    if (isAll) {
      this.#kept = [];
      this.#keptSize = 0;
    } else this.#kept.splice(0, count);
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
        const { entries, head } = await store.readFloorLog(this.floorId, this.#floorSeq, BOUNDS.replayPage);
        if (this.#isClosed) return;
        // A page may be short because its events are large. Gaps in the log were deleted, not lost.
        const last = entries.at(-1)?.floorSeq ?? head;
        if (last > this.#floorSeq) this.#append(entries.map(toWire), last);
        if (entries.length === 0 || last >= head) return;
      }
    } catch (error) {
      // The next message about the floor's head triggers another attempt.
      log.warn({ err: error, floorId: this.floorId }, "a floor's log could not be read");
    }
  }

  /** Show readers the unfinished messages of the store that this node lacks. */
  async restoreDrafts(): Promise<void> {
    try {
      await this.#readDrafts((message) => {
        if (this.#isClosed || !this.drafts.restore(message)) return;
        for (const listener of this.#listeners) listener.redraw(message.sessionId);
      });
    } catch (error) {
      this.#options.log.warn({ err: error, floorId: this.floorId }, "unfinished messages could not be read");
    }
  }

  /** Read the floor's unfinished messages page by page, while the follower is open. */
  async #readDrafts(add: (message: Message) => void): Promise<void> {
    let next: number | undefined;
    do {
      const page = await this.#options.store.loadDrafts(this.floorId, next);
      for (const message of page.messages) add(message);
      next = page.next;
    } while (next !== undefined && !this.#isClosed);
  }
}

/** Whether the session's log ends with this entry. */
const endsLog = ({ subject }: Pick<WireEntry, "subject">): boolean =>
  subject !== undefined && "state" in subject && (subject.state === "archived" || subject.state === "deleted");

/** An entry as it came, in the form in which a follower keeps it. */
export function follow(entry: WireEntry): FollowedEntry {
  return { ...entry, ends: endsLog(entry), sessionFrame: undefined };
}
