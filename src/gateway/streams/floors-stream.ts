import type { FloorId } from "../../protocol/ids.ts";
import type { FloorRow } from "../../store/store.ts";
import { type FloorWatch, type FloorWatcher, MAX_FLOORS, type WatchedFloor } from "./floor-watch.ts";
import type { Stream } from "./open-streams.ts";
import type { SseWriter } from "./sse-writer.ts";

export interface FloorsStreamOptions {
  writer: SseWriter;
  /** Its floors are current. */
  watch: FloorWatch;
  /** Whether this reader may see the floor. */
  isVisible: (floor: FloorRow) => boolean;
  now: () => number;
  /** The id of each `reset`, as on other streams. A client that returns with it gets a new `reset`. */
  position: string;
}

/**
 * `GET /floors/events`: a `reset`, then each floor in use, then each floor that changes. These events are not logged,
 * so a reader that reconnects starts over.
 */
export class FloorsStream implements Stream, FloorWatcher {
  readonly writer: SseWriter;
  readonly #options: FloorsStreamOptions;
  /** The newest state of each floor that changed while the socket was full. */
  #unsent: Map<FloorId, WatchedFloor> | undefined;

  constructor(options: FloorsStreamOptions) {
    this.#options = options;
    this.writer = options.writer;
    this.writer.source = this;
  }

  get isResumable(): boolean {
    return true;
  }

  /** The socket has room again. */
  advance(): void {
    const unsent = this.#unsent;
    if (!unsent) return;
    if (unsent.size >= MAX_FLOORS) return this.#beginAnew();
    this.#unsent = undefined;
    for (const floor of unsent.values()) this.changed(floor);
  }

  begin(): void {
    this.#beginAnew();
    this.#options.watch.add(this);
  }

  close(): void {
    this.#options.watch.remove(this);
  }

  changed(floor: WatchedFloor): void {
    const { row, summary } = floor;
    const { isVisible, now } = this.#options;
    if (!isVisible(row)) return;
    if (this.#unsent) {
      if (this.#unsent.size < MAX_FLOORS) this.#unsent.set(row.floorId, floor);
    } else if (this.writer.send("floor", summary, now()) === "full") this.#unsent = new Map();
  }

  #beginAnew(): void {
    const { watch, now } = this.#options;
    this.#unsent = undefined;
    this.writer.send("reset", {}, now(), { id: this.#options.position });
    for (const floor of watch.floors) this.changed(floor);
  }
}
