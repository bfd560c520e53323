// Rule C22 of docs/inside/correctness.md.
import type { Bus } from "../../bus/bus.ts";
import type { LIVE_EVENTS } from "../../protocol/event.ts";
import { dataFrame, envelopeJson } from "../../protocol/frames.ts";
import type { FloorId, SessionId } from "../../protocol/ids.ts";
import { writeMessage } from "../../protocol/internal/bus-message.ts";
import { type Alarm, alarmOf, type RunEffect } from "../../protocol/internal/effect.ts";
import {
  encodeFloorMessage,
  type FloorMessage,
  floorTopic,
  runTopic,
  toWire,
  type WireEntry,
} from "../../protocol/internal/floor-message.ts";
import { flow } from "../../shared/flow.ts";
import type { Clock } from "../../shared/ports/clock.ts";
import type { StoreEpoch } from "../../store/store.ts";
import type { Batch } from "./ledger.ts";

export interface AnnouncerOptions {
  store: StoreEpoch;
  bus: Bus;
  clock: Clock;
  /** Arm a committed effect, or the floor's new alarm, if it is due soon. */
  arm: (due: RunEffect | Alarm) => void;
  /** Notices of this webhook were committed. Default: nothing is done. */
  onNotices?: ((hook: string) => void) | undefined;
}

/** A batch whose frames are encoded if its floor had followers. */
export interface Announcement {
  readonly batch: Batch;
  readonly topic: string;
  /** Undefined if no follower listened when the batch was prepared. */
  readonly wire: WireEntry[] | undefined;
}

/** Log lines in one message, in bytes: with their escapes they stay below the bus's limit. */
const MAX_LINES_BYTES = 8_192;
/** What a line has besides: its id, its stream and its time. */
const LINE_BYTES = 128;

/**
 * Larger events, in bytes of all frames of a commit, are not published; followers read them from the store (rule C22).
 */
const MAX_EVENTS_BYTES = 49_152;

/**
 * Announces commits: events to followers, signals to workers, effects to the armer. `prepare` encodes the frames while
 * the store writes; `publish` sends them after the commit. Their caller logs what they throw.
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
    return { batch, topic, wire: bus.hasSubscribers(topic) ? batch.entries.map(toWire) : undefined };
  }

  /** Announce a committed batch. Call it before the batch's commands are answered. */
  publish({ batch, topic, wire }: Announcement): void {
    const { change, signals } = batch;
    const { bus, store, clock, arm, onNotices } = this.#options;
    flow.onHop?.(
      "announcement",
      `${bus.hasSubscribers(topic) ? "" : "no "}readers; runs ${change.effectsAdded.length}`,
    );
    // A follower that subscribed during the commit has read the store as it was before.
    if (wire || bus.hasSubscribers(topic)) {
      const messages = messagesOf(batch, wire ?? batch.entries.map(toWire), clock.now());
      for (const message of messages) void bus.publish(topic, encodeFloorMessage(message, bus.isLocal));
    }
    for (const { runId, signal } of signals) {
      void bus.publish(runTopic(store.epoch, runId), writeMessage(signal));
    }
    for (const effect of change.effectsAdded) arm(effect);
    if (batch.alarm !== undefined) arm(alarmOf(change.floorId, batch.alarm));
    for (const hook of new Set(change.notices?.map(({ hook }) => hook))) onNotices?.(hook);
  }
}

/** The messages about a commit to the followers of its floor. */
function messagesOf({ change, prev, checkpoints }: Batch, wire: WireEntry[], at: number): FloorMessage[] {
  const { floorId, head: last } = change;
  const messages: FloorMessage[] = checkpoints.map((checkpoint) => ({ kind: "checkpoint", floorId, ...checkpoint }));
  messages.push(...printedEvents(change, at));
  if (wire.length === 0) return messages;
  const weight = wire.reduce((sum, entry) => sum + Buffer.byteLength(entry.frame), 0);
  const isLight = weight <= MAX_EVENTS_BYTES;
  return [{ kind: "commit", floorId, prev, last, at, ...(isLight && { entries: wire }) }, ...messages];
}

/** What a program printed, for the live readers of its session: it is stored as lines of its message's log only. */
function printedEvents({ floorId, logs }: Batch["change"], at: number): FloorMessage[] {
  const events: { sessionId: SessionId; bytes: number; data: ReturnType<typeof LIVE_EVENTS.log.parse> }[] = [];
  for (const { sessionId, messageId, runId, line } of logs) {
    if (runId === undefined) continue;
    const bytes = Buffer.byteLength(line.text) + LINE_BYTES;
    const last = events.at(-1);
    if (last?.data.messageId === messageId && last.bytes + bytes <= MAX_LINES_BYTES) {
      last.data.lines.push(line);
      last.bytes += bytes;
    } else events.push({ sessionId, bytes, data: { messageId, runId, lines: [line] } });
  }
  return events.map(({ sessionId, data }) => {
    const frame = dataFrame(envelopeJson({ type: "log", json: JSON.stringify(data), at, sessionId }));
    return { kind: "live", floorId, sessionId, frame };
  });
}
