// Rule C22 of docs/inside/correctness.md.
import type { Bus } from "../../bus/bus.ts";
import type { LIVE_EVENTS } from "../../protocol/event.ts";
import { dataFrame, envelopeJson, toWire, type WireEntry } from "../../protocol/frames.ts";
import type { SessionId } from "../../protocol/ids.ts";
import { writeMessage } from "../../protocol/internal/bus-message.ts";
import { encodeFloorMessage, type FloorMessage, floorTopic, runTopic } from "../../protocol/internal/floor-message.ts";
import { type Alarm, alarmOf, type RunRequest } from "../../protocol/internal/run-request.ts";
import { flow } from "../../shared/flow.ts";
import type { Clock } from "../../shared/ports/clock.ts";
import type { Logger } from "../../shared/ports/logger.ts";
import type { BudgetCount, FloorStore, OverBudget, StoreEpoch } from "../../store/store.ts";
import type { CountedTurns } from "../facts.ts";
import type { Batch } from "./ledger.ts";
import { CommitConflict } from "./snapshot.ts";

/** What commits and their announcements need. */
export interface CommitOptions {
  store: StoreEpoch & Pick<FloorStore, "commit">;
  bus: Bus;
  clock: Clock;
  log: Logger;
  metrics: CommitMetrics;
  /** Arm a committed run request, or the floor's new alarm, if it is due soon. */
  arm: (due: RunRequest | Alarm) => void;
  /** Notices of this webhook were committed. Default: nothing is done. */
  onNotices?: ((hook: string) => void) | undefined;
}

/** Counters of commits. */
export interface CommitMetrics {
  /** A successful commit of this many commands; `durationMs` is the store's time. */
  batch(commands: number, durationMs: number): void;
  /** Turns that began and tokens that were reported, by a commit. */
  counted(turns: CountedTurns): void;
  /** Sessions whose lease ran out. */
  lapsed(sessions: number): void;
}

/** What is written in one commit. */
export interface Commit {
  /** How many commands made it. */
  commands: number;
  batch: Batch;
  /** Of the floor that a session leaves with it (rule C34). */
  left: Batch | undefined;
  /** What both count. */
  counted: CountedTurns;
  budgets: BudgetCount[] | undefined;
}

/** A batch whose frames are encoded if its floor had followers. */
interface Announcement {
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
 * Commit what a floor decided, and announce it: events to followers, signals to workers, run requests to the armer.
 * Frames are encoded while the store writes, and sent after the commit, before its commands are answered.
 * @returns what it would exceed, of budgets: then nothing was written; undefined: it is durable, and announced
 * @throws CommitConflict, or the store's error
 */
export async function commitAndAnnounce(
  { commands, batch, left, counted, budgets }: Commit,
  options: CommitOptions,
): Promise<OverBudget | undefined> {
  const { store, clock, metrics } = options;
  const begunAt = clock.now();
  const outcome = store.commit({ ...batch.change, ...(budgets && { budgets }), ...(left && { along: left.change }) });
  // Silence comes before sound, also for readers of both floors.
  const all = left ? [left, batch] : [batch];
  const announcements = all.map((each) => withoutFault(each, options, () => prepare(each, options)));
  const result = await outcome;
  if (result === "conflict") throw new CommitConflict();
  if (result !== "committed") return result;
  flow.onHop?.("committed", `version ${batch.change.expected + 1}`);
  for (const announcement of announcements)
    if (announcement) withoutFault(announcement.batch, options, () => announce(announcement, options));
  metrics.batch(commands, clock.now() - begunAt);
  metrics.counted(counted);
  const lapses = all.reduce((sum, each) => sum + each.lapses, 0);
  if (lapses > 0) metrics.lapsed(lapses);
  return undefined;
}

/** Encode a batch that is being committed. */
function prepare(batch: Batch, { bus, store }: CommitOptions): Announcement {
  const topic = floorTopic(store.epoch, batch.change.floorId);
  return { batch, topic, wire: bus.hasSubscribers(topic) ? batch.entries.map(toWire) : undefined };
}

function announce({ batch, topic, wire }: Announcement, options: CommitOptions): void {
  const { change, signals } = batch;
  const { bus, store, clock, arm, onNotices } = options;
  flow.onHop?.(
    "announcement",
    `${bus.hasSubscribers(topic) ? "" : "no "}readers; runs ${change.runRequestsAdded.length}`,
  );
  // A follower that subscribed during the commit has read the store as it was before.
  if (wire || bus.hasSubscribers(topic)) {
    const messages = messagesOf(batch, wire ?? batch.entries.map(toWire), clock.now());
    for (const message of messages) void bus.publish(topic, encodeFloorMessage(message, bus.isLocal));
  }
  for (const { runId, signal } of signals) {
    void bus.publish(runTopic(store.epoch, runId), writeMessage(signal));
  }
  for (const runRequest of change.runRequestsAdded) arm(runRequest);
  if (batch.alarm !== undefined) arm(alarmOf(change.floorId, batch.alarm));
  for (const hook of new Set(change.notices?.map(({ hook }) => hook))) onNotices?.(hook);
}

/**
 * Announce a part of a commit. A fault must not fail commands that are committed: it is logged, readers get the events
 * from the store, and the next sweep arms the run requests.
 */
function withoutFault<T>({ change: { floorId } }: Batch, { log }: CommitOptions, work: () => T): T | undefined {
  try {
    return work();
  } catch (error) {
    log.error({ err: error, floorId }, "a commit could not be announced");
    return undefined;
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
