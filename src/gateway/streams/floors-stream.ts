import type { FloorRow } from "../../store/store.ts";
import type { FloorWatch, FloorWatcher, WatchedFloor } from "./floor-watch.ts";
import type { Stream } from "./open-streams.ts";
import type { SseWriter } from "./sse-writer.ts";

export interface FloorsStreamOptions {
  writer: SseWriter;
  watch: FloorWatch;
  /** Whether this reader may see the floor. */
  isVisible: (floor: FloorRow) => boolean;
  now: () => number;
  /** The id of each `reset`, as on other streams. A client that returns with it gets a new `reset`. */
  position: string;
}

/**
 * `GET /floors/events`: a `reset`, then each floor in use, then each floor that changes. These events are not logged,
 * so a reader that reconnects or falls behind starts over.
 */
export class FloorsStream implements Stream, FloorWatcher {
  readonly writer: SseWriter;
  readonly #options: FloorsStreamOptions;
  #isBehind = false;

  constructor(options: FloorsStreamOptions) {
    this.#options = options;
    this.writer = options.writer;
    this.writer.source = this;
  }

  /** The socket has room again. */
  advance(): void {
    if (this.#isBehind) this.#beginAnew();
  }

  begin(): void {
    this.#beginAnew();
    this.#options.watch.add(this);
  }

  close(): void {
    this.#options.watch.remove(this);
  }

  changed({ row, summary }: WatchedFloor): void {
    const { isVisible, now } = this.#options;
    if (this.#isBehind || !isVisible(row)) return;
    this.#isBehind = this.writer.tell("floor", summary, now()) === "full";
  }

  #beginAnew(): void {
    const { watch, now } = this.#options;
    this.#isBehind = false;
    this.writer.tell("reset", {}, now(), { id: this.#options.position });
    for (const floor of watch.floors) this.changed(floor);
  }
}
