import { BOUNDS } from "../../config/bounds.ts";
import type { Delta, LogEntry } from "../../protocol/event.ts";
import { type Frame, toWire } from "../../protocol/frames.ts";
import type { FloorSeq, SessionId } from "../../protocol/ids.ts";
import { type Draft, streamingMessage } from "./draft-board.ts";
import { type FloorListener, type FollowedEntry, type Follower, follow } from "./follower.ts";
import type { SseWriter } from "./sse-writer.ts";

/** A reader of a floor. */
export interface TrackReader {
  readonly writer: Pick<SseWriter, "isFull" | "write" | "send" | "destroy" | "cut">;
  /** Handles pieces of unfinished messages itself. Absent: their frames are written. */
  readonly drafts?: DraftReader;
  /** The sessions whose unfinished messages the reader receives. */
  sessions(): Iterable<SessionId>;
  /**
   * The next page of history, read before the live events. It begins after the last entry of the previous page, or at
   * the last event that the reader has, so that a follower behind that event is recognised. Pages are also limited in
   * bytes, so more may follow a page of one entry.
   */
  read(after: LogEntry | undefined, limit: number): Promise<HistoryPage>;
  /**
   * Write the entry, unless the reader does not want it or has it. After `wait`, the reader calls `resume` and is
   * offered the same entry again.
   */
  receive(entry: FollowedEntry): "go" | "wait" | "end";
  /** Called when the reader has been offered every entry there is. */
  caughtUp?(): void;
  now(): number;
}

/** A reader that needs the text of unfinished messages instead of their frames. */
export interface DraftReader {
  /** The next piece of a message, which continues the reader's text. */
  receiveDelta(delta: Delta): void;
  /** An unfinished message with its text so far. */
  receiveDraft(draft: Draft): void;
}

export interface HistoryPage {
  entries: LogEntry[];
  /** No entry followed these when they were read. */
  isLast: boolean;
}

/** The rest of a page of history. */
interface OpenPage extends HistoryPage {
  /** The follower's `floorSeq` before the page was read. */
  before: FloorSeq;
  last: LogEntry | undefined;
}

/**
 * One reader's way through one floor: history from the store as fast as the reader drains its socket, then live events,
 * without a gap. It has no queue of its own, only an index into the follower's entries. A reader that falls behind them
 * while its socket is full is cut off, and reconnects with its position. The rest of a page of history is kept, so
 * nothing is read twice.
 */
export class Track implements FloorListener {
  readonly #follower: Follower;
  readonly #reader: TrackReader;
  /** The index of the next entry, once history is read. */
  #index: number | undefined;
  /** The `floorSeq` up to which history was read. The follower may still be behind it. */
  #readTo: FloorSeq = 0;
  /** The rest of the current page of history. */
  #page: OpenPage | undefined;
  /** The last entry of the previous page. */
  #readAfter: LogEntry | undefined;
  #isReading = false;
  /** `reread` was called while history was being read. */
  #mustReread = false;
  #isWaiting = false;
  #isClosed = false;
  /** The unfinished messages that were sent are incomplete, or none were sent yet. */
  #needsDrafts = true;

  constructor(follower: Follower, reader: TrackReader) {
    this.#follower = follower;
    this.#reader = reader;
    follower.listen(this);
  }

  get follower(): Follower {
    return this.#follower;
  }

  /** Whether the reader has exactly the follower's entries, so that a delta continues what both have. */
  get isLive(): boolean {
    if (this.#isClosed) return true;
    const { endIndex, floorSeq } = this.#follower;
    return this.#index !== undefined && this.#index >= endIndex && floorSeq >= this.#readTo;
  }

  close(): void {
    this.#isClosed = true;
    this.#page = undefined;
    this.#follower.unlisten(this);
  }

  /** Continue: there are new entries, or the socket has room again. */
  advance(): void {
    if (this.#isReading || this.#isWaiting || this.#isClosed) return;
    const { writer } = this.#reader;
    if (writer.isFull) return;
    if (this.#index === undefined) return void this.#readHistory();
    while (!writer.isFull) {
      const entry = this.#follower.at(this.#index);
      if (!entry) break;
      const verdict = this.#reader.receive(entry);
      if (verdict === "end" || this.#isClosed) return;
      if (verdict === "wait") {
        this.#isWaiting = true;
        return;
      }
      this.#index += 1;
    }
    if (!writer.isFull) this.#reader.caughtUp?.();
    if (this.#needsDrafts && this.isLive && !writer.isFull) this.#showDrafts();
  }

  /** Continue after a `wait`. */
  resume(): void {
    this.#isWaiting = false;
    this.advance();
  }

  /** The reader follows more sessions than before: read history again from its positions. */
  reread(): void {
    this.#index = undefined;
    this.#page = undefined;
    this.#readAfter = undefined;
    this.#needsDrafts = true;
    this.#mustReread = this.#isReading;
    this.advance();
  }

  delta(sessionId: SessionId, frame: Frame, delta: Delta): void {
    if (!this.#wants(sessionId)) return;
    const { writer, drafts } = this.#reader;
    if (!this.isLive || writer.isFull || this.#needsDrafts) this.#needsDrafts = true;
    else if (drafts) drafts.receiveDelta(delta);
    else writer.write(frame);
  }

  redraw(sessionId: SessionId): void {
    if (!this.#wants(sessionId)) return;
    this.#needsDrafts = true;
    this.advance();
  }

  liveEvent(sessionId: SessionId, frame: Frame): void {
    if (this.#wants(sessionId) && !this.#reader.writer.isFull) this.#reader.writer.write(frame);
  }

  dropped(upTo: number): void {
    if (this.#index === undefined || this.#index >= upTo) return;
    if (this.#reader.writer.isFull) this.#reader.writer.cut();
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
        this.#page ??= await this.#readPage();
        if (!this.#page) continue;
        const verdict = this.#receivePage(this.#page);
        if (verdict !== "go") return;
        if (this.#page.entries.length > 0) return;
        const { isLast, before, last } = this.#page;
        this.#page = undefined;
        this.#readAfter = last;
        if (isLast && this.#follower.keptFrom <= before) {
          this.#index = this.#follower.indexAfter(before);
          this.#readAfter = undefined;
          break;
        }
      }
    } catch {
      // The reader reconnects with its position once the store can be read again.
      writer.destroy();
      return;
    } finally {
      this.#isReading = false;
    }
    this.#follower.learnHead(this.#readTo);
    this.advance();
  }

  /** Undefined if the reader follows more sessions by now, or is gone. */
  async #readPage(): Promise<OpenPage | undefined> {
    this.#mustReread = false;
    // Everything committed up to this `floorSeq` is in the store by now; the follower keeps what comes later.
    const before: FloorSeq = this.#follower.floorSeq;
    const page = await this.#paced(() => this.#reader.read(this.#readAfter, BOUNDS.replayPage));
    if (this.#mustReread || this.#isClosed) return undefined;
    return { ...page, before, last: page.entries.at(-1) ?? this.#readAfter };
  }

  /**
   * Read a page in an iteration of the event loop that has room for it: commands and live events are handled in
   * between.
   */
  async #paced(read: () => Promise<HistoryPage>): Promise<HistoryPage> {
    const { pace } = this.#follower;
    if (!pace) return read();
    // Takes the budget before reading, or other readers would start too; returns the unused rest.
    const page = await pace.read(() => {
      pace.spend(BOUNDS.replayPage);
      return read();
    });
    pace.spend(page.entries.length - BOUNDS.replayPage);
    return page;
  }

  /** Pass on as many entries as the socket has room for; the rest waits. */
  #receivePage({ entries }: OpenPage): "go" | "wait" | "end" {
    while (entries.length > 0 && !this.#reader.writer.isFull) {
      const [entry] = entries;
      const verdict = this.#reader.receive(follow(toWire(entry!)));
      this.#readTo = Math.max(this.#readTo, entry!.floorSeq);
      if (verdict === "wait") this.#isWaiting = true;
      if (verdict !== "go") return verdict;
      entries.shift();
    }
    return "go";
  }

  #showDrafts(): void {
    const { writer, drafts } = this.#reader;
    for (const sessionId of this.#reader.sessions()) {
      for (const draft of this.#follower.drafts.of(sessionId)) {
        if (drafts) drafts.receiveDraft(draft);
        else writer.send("message", streamingMessage(draft), this.#reader.now(), { sessionId });
      }
    }
    this.#needsDrafts = false;
  }
}
