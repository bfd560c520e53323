import type { Bus } from "../../bus/bus.ts";
import type { FloorId } from "../../protocol/ids.ts";
import { writeMessage } from "../../protocol/internal/bus-message.ts";
import { type Alarm, alarmOf, type Effect } from "../../protocol/internal/effect.ts";
import {
  encodeFloorMessage,
  type FloorMessage,
  floorTopic,
  runTopic,
  toWire,
  type WireEntry,
} from "../../protocol/internal/floor-message.ts";
import type { Clock } from "../../protocol/ports/clock.ts";
import type { Store } from "../../store/store.ts";
import type { Batch } from "./ledger.ts";

export interface AnnouncerOptions {
  store: Pick<Store, "epoch">;
  bus: Bus;
  clock: Clock;
  /** Arm a committed effect, or the floor's new alarm, if it is due soon. */
  arm: (due: Effect | Alarm) => void;
}

/** A batch whose frames are encoded if its floor had followers. */
export interface Announcement {
  readonly batch: Batch;
  readonly topic: string;
  /** Undefined if no follower listened when the batch was prepared. */
  readonly wire: WireEntry[] | undefined;
}

/** Larger events, in bytes of all frames of a commit, are not published; followers read them from the store (rule C22). */
const MAX_EVENTS_BYTES = 49_152;

/**
 * Announces commits: events to followers, signals to workers, effects to the armer. `prepare` encodes the frames while
 * the store writes; `publish` sends them after the commit. Neither throws.
 */
export class Announcer {
  readonly #options: AnnouncerOptions;

  constructor(options: AnnouncerOptions) {
    this.#options = options;
  }

  /** The topic of a floor's commits. A floor keeps it: the bus finds a text that it has seen before faster. */
  topicOf(floorId: FloorId): string {
    return floorTopic(this.#options.store.epoch, floorId);
  }

  /** Encode a batch that is being committed. Discard the result if the commit fails. */
  prepare(batch: Batch, topic: string): Announcement {
    const { bus } = this.#options;
    return { batch, topic, wire: bus.isHeard(topic) ? batch.entries.map(toWire) : undefined };
  }

  /** Announce a committed batch. Call it before the batch's commands are answered. */
  publish({ batch, topic, wire }: Announcement): void {
    const { change, signals } = batch;
    const { bus, store, clock, arm } = this.#options;
    // A follower that subscribed during the commit has read the store as it was before.
    if (wire || bus.isHeard(topic)) {
      const messages = messagesOf(batch, wire ?? batch.entries.map(toWire), clock.now());
      for (const message of messages) void bus.publish(topic, encodeFloorMessage(message, bus.isLocal));
    }
    for (const { runId, signal } of signals) {
      void bus.publish(runTopic(store.epoch, runId), writeMessage(signal));
    }
    for (const effect of change.effectsAdded) arm(effect);
    if (batch.alarm !== undefined) arm(alarmOf(change.floorId, batch.alarm));
  }
}

/** The messages about a commit to the followers of its floor. */
function messagesOf({ change, prev, checkpoints }: Batch, wire: WireEntry[], at: number): FloorMessage[] {
  const { floorId, head: last } = change;
  const messages: FloorMessage[] = checkpoints.map((checkpoint) => ({ kind: "checkpoint", floorId, ...checkpoint }));
  if (wire.length === 0) return messages;
  const weight = wire.reduce((sum, entry) => sum + Buffer.byteLength(entry.frame), 0);
  const isLight = weight <= MAX_EVENTS_BYTES;
  return [{ kind: "commit", floorId, prev, last, at, ...(isLight && { entries: wire }) }, ...messages];
}
