import { BOUNDS } from "../config/bounds.ts";
import { toWire } from "../protocol/floor-message.ts";
import type { FloorSeq, SessionId } from "../protocol/ids.ts";
import type { LogSlice } from "../store/store.ts";
import { streamingMessage } from "./draft-board.ts";
import { type FloorListener, type FollowedEntry, type Follower, follow } from "./follower.ts";
import type { SseWriter } from "./sse-writer.ts";

/** What a reader wants of a floor, and how it gets it. */
export interface TrackReader {
  readonly writer: SseWriter;
  /** Sessions whose unfinished messages it is shown. */
  sessions(): Iterable<SessionId>;
  /**
   * The next piece of history, read before the live events: from the last event that it has, so that a follower that
   * has not heard of that one yet is known to be behind.
   */
  readHistory(limit: number): Promise<LogSlice | undefined>;
  /**
   * Write the entry, if it wants it and does not have it. `hold`: it goes on when it calls `resume`, and is offered the
   * same entry again.
   */
  take(entry: FollowedEntry): "go" | "hold" | "end";
  now(): number;
}

/**
 * One floor as one reader follows it: history from the store as fast as the reader takes it, then live, without a gap
 * and without a queue of its own: it has a place in what the follower keeps. One that falls behind what is kept while
 * its socket is full is cut off, and comes back by its position.
 */
export class Track implements FloorListener {
  readonly #follower: Follower;
  readonly #reader: TrackReader;
  /** The next entry, once history is read. */
  #index: number | undefined;
  /** How far on the floor history was read: a follower that is behind has not heard of all of it yet. */
  #readTo: FloorSeq = 0;
  #isReading = false;
  /** Asked for while history was being read. */
  #mustReread = false;
  #isHeld = false;
  #isClosed = false;
  /** What it was shown of unfinished messages has a hole, or it was shown nothing yet. */
  #needsDrafts = true;

  constructor(follower: Follower, reader: TrackReader) {
    this.#follower = follower;
    this.#reader = reader;
    follower.listen(this);
  }

  get follower(): Follower {
    return this.#follower;
  }

  /** Whether the reader has what the follower has, and no more: then what is being written is told to both alike. */
  get isLive(): boolean {
    if (this.#isClosed) return true;
    const { endIndex, place } = this.#follower;
    return this.#index !== undefined && this.#index >= endIndex && place >= this.#readTo;
  }

  close(): void {
    this.#isClosed = true;
    this.#follower.unlisten(this);
  }

  /** Go on: there is something new, or the socket has room again. */
  advance(): void {
    if (this.#isReading || this.#isHeld || this.#isClosed) return;
    const { writer } = this.#reader;
    if (writer.isFull) return;
    if (this.#index === undefined) return void this.#readHistory();
    while (!writer.isFull) {
      const entry = this.#follower.at(this.#index);
      if (!entry) break;
      const taken = this.#reader.take(entry);
      if (taken === "end" || this.#isClosed) return;
      if (taken === "hold") {
        this.#isHeld = true;
        return;
      }
      this.#index += 1;
    }
    if (this.#needsDrafts && this.isLive && !writer.isFull) this.#showDrafts();
  }

  /** After a `hold`. */
  resume(): void {
    this.#isHeld = false;
    this.advance();
  }

  /** The reader wants more of the floor than before: its history is read again from what it has. */
  reread(): void {
    this.#index = undefined;
    this.#needsDrafts = true;
    this.#mustReread = this.#isReading;
    this.advance();
  }

  delta(sessionId: SessionId, frame: Uint8Array): void {
    if (!this.#wants(sessionId)) return;
    const { writer } = this.#reader;
    if (!this.isLive || writer.isFull || this.#needsDrafts) this.#needsDrafts = true;
    else writer.write(frame);
  }

  redraw(sessionId: SessionId): void {
    if (!this.#wants(sessionId)) return;
    this.#needsDrafts = true;
    this.advance();
  }

  notice(sessionId: SessionId, frame: Uint8Array): void {
    if (this.#wants(sessionId) && !this.#reader.writer.isFull) this.#reader.writer.write(frame);
  }

  dropped(upTo: number): void {
    if (this.#index === undefined || this.#index >= upTo) return;
    if (this.#reader.writer.isFull) this.#reader.writer.destroy();
    else this.#index = undefined;
  }

  #wants(sessionId: SessionId): boolean {
    for (const wanted of this.#reader.sessions()) if (wanted === sessionId) return true;
    return false;
  }

  async #readHistory(): Promise<void> {
    const { writer } = this.#reader;
    this.#isReading = true;
    try {
      while (!writer.isFull && !this.#isClosed) {
        this.#mustReread = false;
        // What is committed up to here is in the store when it is read; what comes later is kept by the follower.
        const before: FloorSeq = this.#follower.place;
        const slice = await this.#reader.readHistory(BOUNDS.replayPage);
        if (this.#isClosed) return;
        // It was read for less than the reader wants by now.
        if (this.#mustReread) continue;
        for (const entry of slice?.entries ?? []) {
          // The rest is read again when there is room.
          if (writer.isFull) return;
          const taken = this.#reader.take(follow(toWire(entry)));
          this.#readTo = Math.max(this.#readTo, entry.floorSeq);
          if (taken === "end") return;
          if (taken === "hold") {
            this.#isHeld = true;
            return;
          }
        }
        const isAll = !slice || slice.entries.length < BOUNDS.replayPage;
        if (isAll && this.#follower.keptFrom <= before) {
          this.#index = this.#follower.indexAfter(before);
          break;
        }
      }
    } catch {
      // The reader comes back by its position, when the store can be read again.
      writer.destroy();
      return;
    } finally {
      this.#isReading = false;
    }
    this.#follower.noticeHead(this.#readTo);
    this.advance();
  }

  #showDrafts(): void {
    const { writer } = this.#reader;
    for (const sessionId of this.#reader.sessions()) {
      for (const draft of this.#follower.drafts.of(sessionId)) {
        writer.tell("message", streamingMessage(draft), this.#reader.now(), { sessionId });
      }
    }
    this.#needsDrafts = false;
  }
}
