import { must } from "../../../src/policy/arrangement-check.ts";
import type { LogEntry } from "../../../src/protocol/event.ts";
import type { FloorId } from "../../../src/protocol/ids.ts";
import type { Reader } from "../clients/reader.ts";
import type { World } from "../world.ts";

/**
 * The longest time until an event is with its readers in fair weather, in ms: much shorter than the followers'
 * reconciliation interval.
 */
const PROMPT_MS = 250;

/**
 * A reader that got its position misses no event from then on. The next reconciliation would deliver an event that a
 * follower missed, so a late event is the only symptom.
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
          const describe = () =>
            `${reader.standing} ${PROMPT_MS} ms after ${entry.floorSeq} was committed on ${floorId}`;
          must(!reader.reading.lacks(floorId, entry), describe);
        });
      });
    }
  }
}
