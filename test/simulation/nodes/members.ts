import type { Membership } from "../../../src/cluster/ownership.ts";
import { AppError } from "../../../src/protocol/errors.ts";
import type { Chance } from "../../support/runner/chance.ts";
import type { SimClock } from "../sim-clock.ts";
import type { Life } from "./life.ts";

/** The chance of each fault when a node reads the members, in percent. */
export interface MembersWeather {
  /** The read fails. */
  fail: number;
  /** The answer omits a node, so that two believe that they own a floor. */
  wrong: number;
}

export const FAIR_MEMBERS: MembersWeather = { fail: 0, wrong: 0 };

const TRAVEL_MS = 3;

/** The members, by leases. The list may be wrong: no guarantee may depend on it. */
export class Members {
  readonly #clock: SimClock;
  readonly #chance: Chance;
  readonly #until = new Map<string, number>();
  weather = FAIR_MEMBERS;
  /** Nodes that see only one another. */
  island: ReadonlySet<string> = new Set();

  constructor(clock: SimClock, chance: Chance) {
    this.#clock = clock;
    this.#chance = chance;
  }

  /** The list as one process reads it. */
  link(life: Life, nodeId: string, leaseMs: number): Membership & { read(): Promise<string[]> } {
    return {
      read: () => this.#read(life, nodeId, () => {}),
      renew: () => this.#read(life, nodeId, () => void this.#until.set(nodeId, this.#clock.now() + leaseMs)),
      leave: () =>
        life.call((done) => {
          this.#travel(() => {
            this.#until.delete(nodeId);
            this.#travel(() => done(undefined));
          });
        }),
    };
  }

  #read(life: Life, nodeId: string, renew: () => void): Promise<string[]> {
    return life.call((done, failed) => {
      this.#travel(() => {
        if (this.#happens(this.weather.fail)) return failed(new AppError("unavailable"));
        renew();
        const members = this.#present(nodeId);
        this.#travel(() => done(members));
      });
    });
  }

  #present(asking: string): string[] {
    const now = this.#clock.now();
    for (const [nodeId, until] of this.#until) if (until <= now) this.#until.delete(nodeId);
    const isHere = this.#isOnIsland(asking);
    const members = [...this.#until.keys()].filter((nodeId) => this.#isOnIsland(nodeId) === isHere);
    if (!this.#happens(this.weather.wrong)) return members;
    return members.filter((nodeId) => nodeId === asking || this.#chance.percent(50));
  }

  /** Processes are named after their nodes. */
  #isOnIsland(nodeId: string): boolean {
    return this.island.has(nodeId.split(".", 1)[0]!);
  }

  #happens(share: number): boolean {
    return share > 0 && this.#chance.percent(share);
  }

  #travel(arrive: () => void): void {
    this.#clock.after(1 + this.#chance.below(TRAVEL_MS), arrive);
  }
}
