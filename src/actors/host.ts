import type { Bus } from "../bus/bus.ts";
import { COMMAND_TYPES, type Envelope } from "../protocol/command.ts";
import type { Effect } from "../protocol/effect.ts";
import { AppError } from "../protocol/errors.ts";
import {
  encodeFloorMessage,
  type FloorMessage,
  floorTopic,
  runTopic,
  toWire,
  type WireEntry,
} from "../protocol/floor-message.ts";
import type { FloorId } from "../protocol/ids.ts";
import type { Reply } from "../protocol/reply.ts";
import type { Store } from "../store/store.ts";
import { HostedFloor, type HostedFloorOptions } from "./hosted-floor.ts";
import type { Batch } from "./ledger.ts";

export interface HostOptions extends Omit<HostedFloorOptions, "committing"> {
  store: Store;
  bus: Bus;
  /** An effect was committed: arm it if it is due soon. */
  arm: (effect: Effect) => void;
  /** Floors whose actors are kept warm; over it the one used longest ago is let go of. */
  maxFloors: number;
}

/** A commit whose events weigh more than this travels without them: followers read the store (rule C22). */
const MAX_EVENTS_BYTES = 49_152;

const encoder = new TextEncoder();

/**
 * Where floors live on this node. Every change of a floor passes `deliver`; what a commit asks for is published, armed
 * and signalled here, after it and never before.
 */
export class Host {
  readonly #options: HostOptions & HostedFloorOptions;
  /** The one used last stands last. */
  readonly #floors = new Map<FloorId, HostedFloor>();

  constructor(options: HostOptions) {
    this.#options = { ...options, committing: (batch) => this.#prepareToTell(batch) };
  }

  get floorCount(): number {
    return this.#floors.size;
  }

  /** Commands that are not answered yet, of all floors. */
  get waitingCount(): number {
    let count = 0;
    for (const floor of this.#floors.values()) count += floor.waitingCount;
    return count;
  }

  /**
   * Carry a command out, once.
   * @returns what the floor decided; a refusal is an answer
   * @throws AppError `busy`, `unavailable` (the outcome is unknown), `internal`, or `idempotency_mismatch`
   */
  async deliver(envelope: Envelope): Promise<Reply> {
    const { metrics } = this.#options;
    const { type } = envelope.command;
    // Machines have events of their own, and XState has: nobody else sends those.
    if (!COMMAND_TYPES.has(type)) throw new AppError("unavailable", "this node does not know the command");
    try {
      const reply = await this.#floor(envelope.floorId).deliver(envelope);
      metrics.command(type, reply.ok ? "ok" : reply.code);
      return reply;
    } catch (error) {
      metrics.command(type, error instanceof AppError ? error.code : "internal");
      throw error;
    }
  }

  /** Let go of every floor nothing waits for: what they are is in the store. */
  retireIdle(): void {
    for (const floor of this.#floors.values()) if (floor.isIdle) this.#retire(floor);
  }

  #floor(id: FloorId): HostedFloor {
    const known = this.#floors.get(id);
    this.#floors.delete(id);
    if (!known && this.#floors.size >= this.#options.maxFloors) this.#makeRoom();
    const floor = known ?? new HostedFloor(id, this.#options);
    this.#floors.set(id, floor);
    return floor;
  }

  #makeRoom(): void {
    for (const floor of this.#floors.values()) {
      // One with commands waiting stays: it would lose them.
      if (floor.isIdle) return this.#retire(floor);
    }
    throw new AppError("busy");
  }

  #retire(floor: HostedFloor): void {
    floor.drop();
    this.#floors.delete(floor.id);
  }

  /** Frames are made while the store writes. */
  #prepareToTell(batch: Batch): () => void {
    const { bus, store } = this.#options;
    const topic = floorTopic(store.epoch, batch.change.floorId);
    const wire = bus.isHeard(topic) ? batch.entries.map(toWire) : undefined;
    return () => this.#tell(topic, batch, wire);
  }

  #tell(topic: string, batch: Batch, wire: WireEntry[] | undefined): void {
    const { change, signals } = batch;
    const { bus, store, clock, arm } = this.#options;
    // Somebody may have come to listen meanwhile, and has read the store as it was before.
    if (wire || bus.isHeard(topic)) {
      const messages = messagesOf(batch, wire ?? batch.entries.map(toWire), clock.now());
      for (const message of messages) void bus.publish(topic, encodeFloorMessage(message));
    }
    for (const { runId, signal } of signals) {
      void bus.publish(runTopic(store.epoch, runId), encoder.encode(JSON.stringify(signal)));
    }
    for (const effect of change.effectsAdded) arm(effect);
  }
}

/** What followers of the floor are told of a commit. */
function messagesOf({ change, prev, checkpoints }: Batch, wire: WireEntry[], at: number): FloorMessage[] {
  const { floorId, head: last } = change;
  const messages: FloorMessage[] = checkpoints.map((checkpoint) => ({ kind: "checkpoint", floorId, ...checkpoint }));
  if (wire.length === 0) return messages;
  const weight = wire.reduce((sum, entry) => sum + entry.frame.byteLength, 0);
  const isLight = weight <= MAX_EVENTS_BYTES;
  return [{ kind: "commit", floorId, prev, last, at, ...(isLight && { entries: wire }) }, ...messages];
}
