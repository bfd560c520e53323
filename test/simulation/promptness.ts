import type { LogEntry } from "../../src/protocol/event.ts";
import type { FloorId } from "../../src/protocol/ids.ts";
import { must } from "../support/runner/must.ts";
import type { Reader } from "./reader.ts";
import type { World } from "./world.ts";

/** In fair weather an event is with its readers after so long, in ms: long before followers are next reconciled. */
const PROMPT_MS = 250;

/**
 * A reader that was told where it stands misses nothing from then on. What a follower missed would come with the next
 * reconciliation all the same, so that it came late is all there is to see of it.
 */
export class Promptness {
  readonly #world: World;
  readonly #readers: readonly Reader[];

  constructor(world: World, readers: readonly Reader[]) {
    this.#world = world;
    this.#readers = readers;
  }

  begin(): void {
    this.#world.watch.onEvent = (floorId, entry) => this.#follow(floorId, entry);
  }

  end(): void {
    this.#world.watch.onEvent = () => {};
  }

  #follow(floorId: FloorId, entry: LogEntry): void {
    const { clock } = this.#world;
    for (const reader of this.#readers) {
      if (reader.openSince === undefined || reader.isStuffed || !reader.reading.lacks(floorId, entry)) continue;
      const { connections } = reader;
      clock.after(PROMPT_MS, () => {
        if (reader.connections !== connections || reader.openSince === undefined) return;
        this.#world.expect(() => {
          const told = () => `${reader.standing} ${PROMPT_MS} ms after ${entry.floorSeq} was committed on ${floorId}`;
          must(!reader.reading.lacks(floorId, entry), told);
        });
      });
    }
  }
}
