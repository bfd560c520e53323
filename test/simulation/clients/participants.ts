import { must } from "../../../src/policy/arrangement-check.ts";
import type { FloorId, SessionId } from "../../../src/protocol/ids.ts";
import type { Clock } from "../../../src/shared/ports/clock.ts";
import { sleep } from "../../../src/shared/waiting.ts";
import type { Cluster } from "../nodes/cluster.ts";
import type { World } from "../world.ts";
import { askNode } from "./client.ts";
import { visit } from "./visit.ts";

/** The interval between the turns of a floor's participants, in ms. */
export const BEAT_MS = 250;
/** How late a heartbeat is at most, in ms. */
const LATE_MS = 600;

/** A heartbeat that was answered: it took effect between the two times. */
interface Sign {
  askedAt: number;
  answeredAt: number;
}

/** The programs that play sessions with a lease: they send heartbeats, in time or late, die, and return. */
export class Participants {
  readonly #world: World;
  readonly #cluster: Cluster;
  readonly #dead = new Set<SessionId>();
  readonly #signs = new Map<SessionId, Sign[]>();
  #count = 0;

  constructor(world: World, cluster: Cluster) {
    this.#world = world;
    this.#cluster = cluster;
  }

  /** Each living participant of the floor sends a heartbeat; occasionally one dies, and a dead one returns. */
  takeTurn(floorId: FloorId): void {
    const { chance, memory } = this.#world;
    for (const { id, leaseMs } of memory.sessionsOf(floorId)) {
      if (leaseMs === undefined) continue;
      if (this.#dead.has(id)) {
        if (chance.percent(10)) this.#dead.delete(id);
      } else if (chance.percent(8)) this.#dead.add(id);
      else if (chance.percent(80)) void this.#beat(floorId, id);
    }
  }

  async #beat(floorId: FloorId, sessionId: SessionId): Promise<void> {
    const { chance, clock } = this.#world;
    if (chance.percent(20)) await sleep(clock as Clock, chance.below(LATE_MS));
    const node = this.#cluster.pickGateway();
    if (!node) return;
    const askedAt = clock.now();
    const command = { type: "session.heartbeat" as const, sessionId };
    const commandId = `beat-${this.#count++}`;
    const outcome = await visit(this.#world, node, () => askNode(node, { floorId, commandId, bodyHash: "", command }));
    if (outcome === "cut" || "failed" in outcome) return;
    const { reply } = outcome;
    const isExpected = reply.ok || reply.code === "session_archived" || reply.code === "session_not_found";
    this.#world.expect(() => must(isExpected, () => `a heartbeat of ${sessionId}: ${JSON.stringify(reply)}`));
    if (!reply.ok) return;
    this.#world.count("heartbeats answered");
    const signs = this.#signs.get(sessionId) ?? [];
    this.#signs.set(sessionId, [...signs, { askedAt, answeredAt: clock.now() }]);
  }

  /**
   * No session lapses sooner than half a lease after an answered heartbeat. While all clocks are right it is a whole
   * lease; a jump takes half of it at most.
   */
  check(): void {
    const { watch, catalog } = this.#world;
    const leases = [...catalog.agents.values()].flatMap(({ leaseMs }) => leaseMs ?? []);
    const leastMs = Math.min(...leases) / 2;
    for (const { lapses } of watch.floors) {
      for (const { sessionId, at } of lapses) {
        const sign = this.#signs.get(sessionId)?.findLast(({ answeredAt }) => answeredAt <= at);
        must(
          !sign || at - sign.askedAt >= leastMs,
          () => `14: ${sessionId} lapsed ${at - sign!.askedAt} ms after it was heard from`,
        );
      }
    }
  }
}
