import { NODE_ROLES, type NodeRole } from "../protocol/internal/node-report.ts";
import type { Clock, Timer } from "../shared/ports/clock.ts";
import type { Logger } from "../shared/ports/logger.ts";
import type { Membership } from "./ownership.ts";

export interface RoleWatchOptions {
  /** Measures elapsed time: it must not jump. */
  clock: Clock;
  /** The list of all nodes, for the member with this name. */
  membersOf: (name: string) => Pick<Membership, "renew" | "leave">;
  nodeId: string;
  roles: readonly NodeRole[];
  /** The duration of a member's lease, in ms. */
  leaseMs: number;
  log: Logger;
}

/** Renewals per lease. */
const RENEWALS = 3;

const WITHOUT: Readonly<Record<NodeRole, string>> = {
  gateway: "clients are not answered",
  orchestrator: "commands are unavailable",
  worker: "turns wait",
};

interface Absence {
  /** When this node first saw it, in ms. */
  since: number;
  /**
   * It has lasted a lease: a restart, nodes that start together, and a Redis that came back empty are over within one.
   */
  isLasting: boolean;
  isLogged: boolean;
}

/**
 * Knows which roles no node has. Every node keeps a lease with its roles in its name, so one query of Redis per renewal
 * shows each node all others, without a message to any of them. What it knows is a hint: a role is there at
 * most a renewal after its node, and absent once it has been for a lease.
 */
export class RoleWatch {
  readonly #options: RoleWatchOptions;
  readonly #name: string;
  readonly #members: Pick<Membership, "renew" | "leave">;
  readonly #absent = new Map<NodeRole, Absence>();
  #timer: Timer | undefined;
  #isStopped = false;

  constructor(options: RoleWatchOptions) {
    this.#options = options;
    // The id comes first: the log's writer is the same while nodes come and go.
    this.#name = `${options.nodeId} ${options.roles.join()}`;
    this.#members = options.membersOf(this.#name);
  }

  /** Empty while nothing is known, as on a start while Redis is away. */
  get absent(): NodeRole[] {
    return NODE_ROLES.filter((role) => this.#absent.get(role)?.isLasting);
  }

  /** Take a lease, and then renew it until the watch stops. */
  async start(): Promise<void> {
    const { clock, leaseMs } = this.#options;
    await this.#renew();
    if (!this.#isStopped) this.#timer = clock.after(leaseMs / RENEWALS, () => void this.start());
  }

  /** Give the lease back, so that the others know at once. */
  async stop(): Promise<void> {
    this.die();
    // Otherwise the lease ends by itself.
    await this.#members.leave().catch(() => {});
  }

  /** Stop renewing, as a node does that dies. */
  die(): void {
    this.#isStopped = true;
    this.#timer?.cancel();
  }

  async #renew(): Promise<void> {
    const { clock } = this.#options;
    const members = await this.#members.renew().catch(() => undefined);
    if (this.#isStopped) return;
    const now = clock.now();
    // While the members are unknown, the last known ones remain; leases that are renewed later may end.
    if (!members) {
      for (const absence of this.#absent.values()) absence.since = now;
      return;
    }
    const present = new Set(members.flatMap((name) => name.slice(name.indexOf(" ") + 1).split(",")));
    const isWriter = members.every((name) => name >= this.#name);
    for (const role of NODE_ROLES) {
      if (present.has(role)) this.#sawRole(role);
      else this.#missRole(role, now, isWriter);
    }
  }

  #sawRole(role: NodeRole): void {
    if (this.#absent.get(role)?.isLogged) this.#options.log.info({ role }, "a node has the role again");
    this.#absent.delete(role);
  }

  #missRole(role: NodeRole, now: number, isWriter: boolean): void {
    const absence = this.#absent.get(role);
    if (!absence) {
      this.#absent.set(role, { since: now, isLasting: false, isLogged: false });
      return;
    }
    if (now - absence.since <= this.#options.leaseMs) return;
    absence.isLasting = true;
    if (!isWriter || absence.isLogged) return;
    absence.isLogged = true;
    this.#options.log.warn({ role }, `no node has the role: ${WITHOUT[role]}`);
  }
}
