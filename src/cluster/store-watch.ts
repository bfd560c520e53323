import type { Clock, Timer } from "../shared/ports/clock.ts";

export interface StoreWatchOptions {
  /** Measures elapsed time: it must not jump. */
  clock: Clock;
  /** Makes a small query to the store; rejects when no answer comes. */
  probe: () => Promise<unknown>;
  /** Whether other orchestrators have a valid lease; rejects when that is unknown. */
  areOthersThere: () => Promise<boolean>;
  /** The duration of an orchestrator's lease, in ms. */
  leaseMs: number;
}

/** Probes per lease. */
const PROBES = 3;
/**
 * After one lease of silence a node stops renewing, and one lease later its membership ends. Nodes that are still
 * members after three leases have renewed since, so the store answers them.
 */
const SILENT_LEASES = 1;
const CUT_OFF_LEASES = 3;

/**
 * Detects whether the store answers this node. A node that alone is cut off from the store cannot execute anything,
 * even if the bus works, so it must leave its floors to the others. When the store is away for all nodes, giving floors
 * up would not help.
 */
export class StoreWatch {
  readonly #options: StoreWatchOptions;
  /** When the last successful probe was sent, in ms. */
  #answeredAt: number;
  #isCutOff = false;
  #timer: Timer | undefined;
  #isStopped = false;

  constructor(options: StoreWatchOptions) {
    this.#options = options;
    this.#answeredAt = options.clock.now();
  }

  /** Whether the store has not answered this node for a lease. */
  get isSilent(): boolean {
    return this.#silentLeases > SILENT_LEASES;
  }

  /** Whether the store answers other nodes but not this one. */
  get isCutOff(): boolean {
    return this.#isCutOff;
  }

  /** Probe the store now, and then three times per lease. */
  start(): void {
    void this.#probe().then(() => {
      const { clock, leaseMs } = this.#options;
      if (!this.#isStopped) this.#timer = clock.after(leaseMs / PROBES, () => this.start());
    });
  }

  stop(): void {
    this.#isStopped = true;
    this.#timer?.cancel();
  }

  get #silentLeases(): number {
    const { clock, leaseMs } = this.#options;
    return (clock.now() - this.#answeredAt) / leaseMs;
  }

  async #probe(): Promise<void> {
    const { clock, probe, areOthersThere } = this.#options;
    const sentAt = clock.now();
    try {
      await probe();
      this.#answeredAt = sentAt;
      this.#isCutOff = false;
    } catch {
      // The store logs its own failures.
      if (this.#silentLeases <= CUT_OFF_LEASES) return;
      // When the members are unknown, keep the previous verdict.
      this.#isCutOff = await areOthersThere().catch(() => this.#isCutOff);
    }
  }
}
