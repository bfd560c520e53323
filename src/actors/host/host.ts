import { AppError } from "../../protocol/errors.ts";
import type { FloorId } from "../../protocol/ids.ts";
import { COMMAND_TYPES, type Envelope } from "../../protocol/internal/command.ts";
import type { Reply } from "../../protocol/internal/reply.ts";
import { flow } from "../../shared/flow.ts";
import type { Store } from "../../store/store.ts";
import { Announcer, type AnnouncerOptions } from "./announcer.ts";
import { HostedFloor } from "./hosted-floor.ts";
import type { FloorOptions } from "./loaded-floor.ts";

export interface HostOptions extends FloorOptions, AnnouncerOptions {
  store: Store;
  /** Floors kept in memory. At the limit the host drops an idle floor that was not used lately, or answers `busy`. */
  maxFloors: number;
}

/** The floors in this process's memory. Every change of a floor passes `dispatch`. */
export class Host {
  readonly #options: HostOptions;
  readonly #announcer: Announcer;
  /** Commands use them too often to keep them in order by deleting and adding them (ADR 24). */
  readonly #floors = new Map<FloorId, HostedFloor>();
  #unansweredCount = 0;

  constructor(options: HostOptions) {
    this.#options = options;
    this.#announcer = new Announcer(options);
  }

  get floorCount(): number {
    return this.#floors.size;
  }

  /** Unanswered commands of all floors. */
  get unansweredCount(): number {
    return this.#unansweredCount;
  }

  /**
   * Find or load the command's floor, and let it carry the command out once.
   * @returns the floor's decision; a refusal is a reply too
   * @throws AppError `busy`, `unavailable` (the outcome is unknown), `internal`, or `idempotency_mismatch`
   */
  readonly dispatch = async (envelope: Envelope): Promise<Reply> => {
    const { metrics } = this.#options;
    const { type } = envelope.command;
    // The machines' internal events and XState's own events must not arrive as commands.
    if (!COMMAND_TYPES.has(type)) throw new AppError("unavailable", "this node does not know the command");
    this.#unansweredCount += 1;
    try {
      const reply = await this.#floor(envelope.floorId).accept(envelope);
      metrics.command(type, reply.ok ? "ok" : reply.code);
      return reply;
    } catch (error) {
      metrics.command(type, error instanceof AppError ? error.code : "internal");
      throw error;
    } finally {
      this.#unansweredCount -= 1;
    }
  };

  /** Drop every idle floor. The store has their state. */
  retireIdle(): void {
    for (const floor of this.#floors.values()) if (floor.isIdle) this.#retire(floor);
  }

  #floor(id: FloorId): HostedFloor {
    const known = this.#floors.get(id);
    flow.onHop?.("host", `${id} is ${known ? "" : "not "}in memory`);
    if (known) {
      known.wasUsedAgain = true;
      return known;
    }
    if (this.#floors.size >= this.#options.maxFloors) this.#makeRoom();
    const floor = new HostedFloor(id, this.#options, this.#announcer);
    this.#floors.set(id, floor);
    return floor;
  }

  /** Drop the oldest idle floor that was not used again since it was loaded, or since it was last spared here. */
  #makeRoom(): void {
    for (const floor of this.#floors.values()) {
      // Dropping a floor with waiting commands would lose them.
      if (!floor.isIdle) continue;
      this.#floors.delete(floor.id);
      if (!floor.wasUsedAgain) return floor.drop();
      floor.wasUsedAgain = false;
      this.#floors.set(floor.id, floor);
    }
    throw new AppError("busy");
  }

  #retire(floor: HostedFloor): void {
    floor.drop();
    this.#floors.delete(floor.id);
  }
}
