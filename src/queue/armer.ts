// Rules C8 and C37 of docs/inside/correctness.md.
import type { FloorId } from "../protocol/ids.ts";
import type { Envelope } from "../protocol/internal/command.ts";
import type { Reply } from "../protocol/internal/reply.ts";
import { type Alarm, alarmOf, type RunRequest } from "../protocol/internal/run-request.ts";
import { LogThrottle } from "../shared/log-throttle.ts";
import type { Clock, Timer } from "../shared/ports/clock.ts";
import type { Logger } from "../shared/ports/logger.ts";
import { sleep } from "../shared/waiting.ts";
import type { DueQuery, RunRequestStore, ViewStore } from "../store/store.ts";
import type { Queued, RunQueue } from "./run-queue.ts";

/** The interval between two sweeps, in ms. Each sweep arms only what is due soon (rules C8 and C9). */
const SWEEP_MS = 10_000;
/** Run requests, or floors, per read from the store. */
const PAGE = 1_000;
/** Floors per read when a new catalogue has come. */
const VISITED = 200;
/** Floors that are asked at once to carry out what is due. */
const FIRING = 16;
/**
 * An alarm that is later than this belongs to a crowd, as after an outage: it lets the commands of clients go first.
 */
const LATE_MS = 1_000;
/** How often such an alarm looks whether commands wait, in ms, and for how long at most. */
const LOOK_MS = 20;
const GIVE_WAY_MS = 1_000;

export interface ArmerOptions {
  store: RunRequestStore & Pick<ViewStore, "listFloors">;
  queue: RunQueue;
  /** Its time is the floors'. */
  clock: Clock;
  /** The clock of the commands' deadlines. */
  wallNow: () => number;
  /**
   * Floors with a session whose time comes within these ms on the wall clock, before their alarm (rule C37). Absent
   * where the wall clock's time is the floors'.
   */
  lateRings?: ((withinMs: number, limit: number) => Promise<FloorId[]>) | undefined;
  newId: () => string;
  send: (envelope: Envelope) => Promise<Reply>;
  sendTimeoutMs: number;
  /** Unanswered commands of this node's floors, alarms included. */
  unansweredCount: () => number;
  /** The hashes of the floors whose runs and alarms this node arms (rule C8). Absent or undefined: all floors. */
  floorHashes?: () => readonly number[] | undefined;
  /** Called when the queue did not take a run request or an alarm; the next sweep adds it again. */
  onNotQueued?: () => void;
  log: Logger;
}

/**
 * Ensures that committed run requests are carried out and that alarms come: it queues those of a commit at once, and a
 * periodic sweep queues what a crash, a full queue or a lost job has left behind. The store keeps a run request until
 * its run needs no worker, and an alarm until its floor has caught up, so arming one twice is harmless and missing it
 * costs one sweep.
 */
export class Armer {
  readonly #options: ArmerOptions;
  #armedUntil = 0;
  #timer: Timer | undefined;
  #isStopped = false;
  #sweeping: Promise<void> | undefined;
  /** A sweep was requested while another was running, for example because floors came to this node. */
  #isSweptAgain = false;
  /** Alarms that are being carried out. */
  #firing = 0;
  #stopFiring: (() => Promise<void>) | undefined;
  /** New catalogues so far, and the events that floors get because of the last one. */
  #visits = 0;
  #visiting: Promise<void> = Promise.resolve();
  // While the store or the bus is away, each sweep and each alarm fails.
  readonly #sweepNotes = new LogThrottle();
  readonly #fireNotes = new LogThrottle();

  constructor(options: ArmerOptions) {
    this.#options = options;
  }

  async start(): Promise<void> {
    const { queue } = this.#options;
    const firing = await queue.process("alarm", (alarm) => this.#fire(alarm), { concurrency: FIRING });
    this.#stopFiring = () => firing.stop();
    this.sweep();
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#timer?.cancel();
    await Promise.all([this.#sweeping, this.#visiting]);
    await this.#stopFiring?.();
  }

  /** Queue a run request or an alarm that was committed, if it is due soon. */
  arm(queued: Queued): void {
    if (this.#isStopped || queued.dueAt > this.#armedUntil) return;
    // When the queue is full, the next sweep adds it.
    this.#add(queued).catch(() => {});
  }

  /**
   * A new catalogue has come: give every floor with a holder or a waiting session an event, after the commands of
   * clients. A floor that gets a command first, or that another node serves, needs none.
   */
  visit(serves: (floorId: FloorId) => boolean): void {
    this.#visits += 1;
    const visit = this.#visits;
    this.#visiting = this.#visiting.then(() => this.#visitAll(serves, visit));
  }

  async #visitAll(serves: (floorId: FloorId) => boolean, visit: number): Promise<void> {
    const { store, log } = this.#options;
    // A newer catalogue has its own visit.
    const isOver = () => this.#isStopped || visit !== this.#visits;
    try {
      for (const state of ["held", "waiting"] as const) {
        for (let after: FloorId | undefined, hasMore = true; hasMore && !isOver(); ) {
          const page = await store.listFloors({ state, after, limit: VISITED });
          const ids = page.floors.map(({ floorId }) => floorId).filter(serves);
          for (let at = 0; at < ids.length && !isOver(); at += FIRING) {
            // Due at 0, so it counts as late: such alarms let the commands of clients go first.
            await Promise.all(ids.slice(at, at + FIRING).map((floorId) => this.#fire(alarmOf(floorId, 0))));
          }
          after = page.floors.at(-1)?.floorId;
          hasMore = page.hasMore;
        }
      }
    } catch (error) {
      log.warn({ err: error }, "the floors could not be listed; a new catalogue applies at their next command");
    }
  }

  /** Arm everything that is due within two sweeps. Only one sweep runs at a time; a request meanwhile runs another. */
  sweep(): void {
    this.#timer?.cancel();
    if (this.#isStopped) return;
    if (this.#sweeping) {
      this.#isSweptAgain = true;
      return;
    }
    this.#sweeping = this.#sweepOnce().finally(() => {
      this.#sweeping = undefined;
      const delayMs = this.#isSweptAgain ? 0 : SWEEP_MS;
      this.#isSweptAgain = false;
      if (!this.#isStopped) this.#timer = this.#options.clock.after(delayMs, () => this.sweep());
    });
  }

  async #sweepOnce(): Promise<void> {
    const { store, clock, lateRings, log } = this.#options;
    // Reach beyond the next sweep, so that nothing falls between two sweeps.
    this.#armedUntil = clock.now() + 2 * SWEEP_MS;
    try {
      // Runs first: there may be a crowd of alarms.
      await this.#armAll<RunRequest>(
        (query) => store.dueRunRequests(query),
        (runRequest) => runRequest,
      );
      await this.#armAll<{ id: FloorId; dueAt: number }>(
        (query) => store.dueAlarms(query),
        ({ id, dueAt }) => alarmOf(id, dueAt),
      );
      // These floors carry out what is due by now, and set their alarms by the clock as it is now.
      for (const id of (await lateRings?.(2 * SWEEP_MS, PAGE)) ?? []) await this.#add(alarmOf(id, clock.now()));
    } catch (error) {
      if (!this.#sweepNotes.isDue(clock.now())) return;
      log.warn({ err: error }, "run requests and alarms could not be armed; the next sweep retries");
    }
  }

  /** Arm all pages of what is due within two sweeps. */
  async #armAll<T extends { id: string; dueAt: number }>(
    read: (query: DueQuery<T["id"]>) => Promise<T[]>,
    queued: (due: T) => Queued,
  ): Promise<void> {
    const { floorHashes } = this.#options;
    const until = this.#armedUntil;
    for (let after: T | undefined; ; ) {
      const page = await read({ until, after, floorHashes: floorHashes?.(), limit: PAGE });
      for (const each of page) if (!this.#isStopped) await this.#add(queued(each));
      if (page.length < PAGE || this.#isStopped) return;
      after = page.at(-1);
    }
  }

  async #add(queued: Queued): Promise<void> {
    const { queue, onNotQueued } = this.#options;
    try {
      await queue.add(queued);
    } catch (error) {
      onNotQueued?.();
      throw error;
    }
  }

  async #fire({ floorId, dueAt }: Alarm): Promise<void> {
    const { send, clock, wallNow, newId, sendTimeoutMs, log } = this.#options;
    if (clock.now() - dueAt > LATE_MS) await this.#giveWay();
    this.#firing += 1;
    try {
      const command = { type: "alarm" as const };
      await send({ floorId, commandId: newId(), bodyHash: "", timeoutAt: wallNow() + sendTimeoutMs, command });
    } catch (error) {
      if (!this.#fireNotes.isDue(clock.now())) return;
      log.warn({ err: error, floorId, dueAt }, "an alarm could not be carried out; the next sweep retries");
    } finally {
      this.#firing -= 1;
    }
  }

  /** Wait while commands of clients wait. A floor that gets a command itself has caught up with it. */
  async #giveWay(): Promise<void> {
    const { clock, unansweredCount } = this.#options;
    for (let waitedMs = 0; waitedMs < GIVE_WAY_MS && unansweredCount() > this.#firing; waitedMs += LOOK_MS) {
      await sleep(clock, LOOK_MS);
    }
  }
}
