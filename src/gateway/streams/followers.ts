import { BOUNDS } from "../../config/bounds.ts";
import type { FloorId } from "../../protocol/ids.ts";
import { LogThrottle } from "../../shared/log-throttle.ts";
import type { Clock, Timer } from "../../shared/ports/clock.ts";
import { every } from "../../shared/waiting.ts";
import { Follower, type FollowerOptions } from "./follower.ts";

/** Floors whose unfinished messages are read at a time, after messages may have been lost. Each is one small read. */
const RESTORED_AT_A_TIME = 16;

/** The floors that this node follows: one follower for each floor with readers. */
export class Followers {
  readonly #options: FollowerOptions & { clock: Clock };
  /** Least recently reconciled first. */
  readonly #followers = new Map<FloorId, { opening: Promise<Follower>; users: number }>();
  readonly #faultNotes = new LogThrottle();
  #timer: Timer | undefined;
  #forget: (() => void) | undefined;

  constructor(options: Omit<FollowerOptions, "now"> & { clock: Clock }) {
    this.#options = { ...options, now: () => options.clock.now() };
  }

  get count(): number {
    return this.#followers.size;
  }

  start(): void {
    this.#forget = this.#options.bus.onRecovered(() => void this.#recover());
    this.#timer = every(this.#options.clock, BOUNDS.reconcileMs, () => void this.#reconcileNext());
  }

  stop(): void {
    this.#timer?.cancel();
    this.#forget?.();
    for (const { opening } of this.#followers.values()) {
      opening.then(
        (follower) => follower.close(),
        () => {},
      );
    }
    this.#followers.clear();
  }

  /** The floor's follower. Give it back with `leave`. */
  async join(floorId: FloorId): Promise<Follower> {
    const known = this.#followers.get(floorId) ?? { opening: Follower.open(floorId, this.#options), users: 0 };
    known.users += 1;
    this.#followers.set(floorId, known);
    try {
      return await known.opening;
    } catch (error) {
      this.leave(floorId);
      throw error;
    }
  }

  leave(floorId: FloorId): void {
    const known = this.#followers.get(floorId);
    if (!known) return;
    known.users -= 1;
    if (known.users > 0) return;
    this.#followers.delete(floorId);
    known.opening.then(
      (follower) => follower.close(),
      () => {},
    );
  }

  /** Read again everything that may have been lost: events, and text that no later event repeats. */
  async #recover(): Promise<void> {
    const floorIds = [...this.#followers.keys()];
    await this.#reconcile(floorIds);
    for (let from = 0; from < floorIds.length; from += RESTORED_AT_A_TIME) {
      const some = floorIds.slice(from, from + RESTORED_AT_A_TIME);
      await Promise.all(some.map((floorId) => this.#restoreDrafts(floorId)));
    }
  }

  async #restoreDrafts(floorId: FloorId): Promise<void> {
    try {
      const follower = await this.#followers.get(floorId)?.opening;
      await follower?.restoreDrafts();
    } catch {
      // A follower that could not be opened has no readers.
    }
  }

  async #reconcileNext(): Promise<void> {
    const next = [...this.#followers.keys()].slice(0, BOUNDS.reconcileFloors);
    for (const floorId of next) {
      const followed = this.#followers.get(floorId)!;
      this.#followers.delete(floorId);
      this.#followers.set(floorId, followed);
    }
    await this.#reconcile(next);
  }

  async #reconcile(floorIds: readonly FloorId[]): Promise<void> {
    if (floorIds.length === 0) return;
    const { store, clock, log } = this.#options;
    try {
      for (let from = 0; from < floorIds.length; from += BOUNDS.reconcileFloors) {
        const heads = await store.heads(floorIds.slice(from, from + BOUNDS.reconcileFloors));
        for (const [floorId, head] of heads) {
          // A follower that is still opening, or cannot be opened, does not delay the others.
          this.#followers.get(floorId)?.opening.then(
            (follower) => follower.learnHead(head),
            () => {},
          );
        }
      }
    } catch (error) {
      if (this.#faultNotes.isDue(clock.now())) log.warn({ err: error }, "followed floors could not be reconciled");
    }
  }
}
