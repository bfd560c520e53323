import type { Membership } from "../../../src/cluster/ownership.ts";
import { AppError } from "../../../src/protocol/errors.ts";
import type { VirtualClock } from "../runner/virtual-clock.ts";

/** The members of one cluster in memory, with leases on a clock that the test moves. */
export class MemberList {
  readonly #clock: VirtualClock;
  readonly #leaseMs: number;
  readonly #until = new Map<string, number>();
  /** While away, no member can be read. */
  isAway = false;

  constructor(clock: VirtualClock, leaseMs: number) {
    this.#clock = clock;
    this.#leaseMs = leaseMs;
  }

  of(nodeId: string): Membership {
    return {
      renew: async () => {
        if (this.isAway) throw new AppError("unavailable");
        const now = this.#clock.now();
        this.#until.set(nodeId, now + this.#leaseMs);
        return this.present();
      },
      leave: async () => {
        if (this.isAway) throw new AppError("unavailable");
        this.#until.delete(nodeId);
      },
    };
  }

  /** Members with a valid lease. */
  present(): string[] {
    const now = this.#clock.now();
    return [...this.#until].filter(([, until]) => until > now).map(([id]) => id);
  }

  /** As if the server had restarted empty. */
  forgetAll(): void {
    this.#until.clear();
  }
}
