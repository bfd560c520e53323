import type { Fact, Given } from "../actors/facts.ts";
import { type CommandResult, FloorActors } from "../actors/host/floor-actors.ts";
import type { SessionMachineState } from "../actors/host/session-machine-state.ts";
import { deadlineOf } from "../actors/session/session-deadlines.ts";
import type { Catalog } from "../config/catalog/catalog.ts";
import type { FloorId, SessionId } from "../protocol/ids.ts";
import type { Command } from "../protocol/internal/command.ts";
import type { Reply } from "../protocol/internal/reply.ts";

/** The time that a question waits for its answer; scripts ask none. */
const INTERACTION_TIMEOUT_MS = 300_000;

const hasEnded = ({ value: { lifecycle } }: SessionMachineState): boolean =>
  lifecycle === "archived" || lifecycle === "deleted";

/** The name of a user without preferences. */
function userWithout({ overrides }: Catalog): string {
  let userId = "driver";
  while (overrides.has(userId)) userId += "-";
  return userId;
}

/** A fact, and when it happened, in ms since 1970. */
export type TimedFact = { readonly at: number; readonly fact: Exclude<Fact, { type: "reply" | "at" }> };

export interface SteppedFloorOptions {
  catalog: Catalog;
  /** What the wall clock reads at first, in ms since 1970. */
  now: number;
  /** The floor's user; priorities may depend on it. Default: a user without preferences. */
  userId?: string | undefined;
  /** Default: the floor of the user, without a zone. */
  floorId?: FloorId | undefined;
}

/**
 * A floor outside a server, stepped on a virtual clock: the actors that a node hosts, with their deadlines, without
 * store, workers and readers. Synchronous. Participants with a lease are taken to be alive until `die`.
 */
export class SteppedFloor {
  readonly userId: string;
  readonly #actors: FloorActors;
  readonly #dead: Set<SessionId>;
  #catalog: Catalog;
  #time: number;
  /** By how much the wall clock was set, in ms. */
  #jumpedMs = 0;
  #stamp = 0;

  constructor({ catalog, now, userId = userWithout(catalog), floorId }: SteppedFloorOptions, from?: SteppedFloor) {
    this.userId = userId;
    this.#catalog = catalog;
    this.#time = now;
    this.#actors = from ? from.#actors.copy() : new FloorActors(floorId ?? (`u:${userId}` as FloorId));
    this.#dead = new Set(from ? from.#dead : []);
    if (!from) return;
    this.#jumpedMs = from.#jumpedMs;
    this.#stamp = from.#stamp;
  }

  /** Another floor in the same state; a step of one does not change the other. */
  copy(): SteppedFloor {
    const { userId } = this;
    return new SteppedFloor({ catalog: this.#catalog, now: this.#time, userId }, this);
  }

  get catalog(): Catalog {
    return this.#catalog;
  }

  /** What the wall clock reads, in ms since 1970. */
  get now(): number {
    return this.#time + this.#jumpedMs;
  }

  /** The floor's time, in ms: `now` without the jumps of the wall clock. */
  get time(): number {
    return this.#time;
  }

  /** The competing sessions, and the flags. */
  get context(): FloorActors["context"] {
    return this.#actors.context;
  }

  /** The floor's sessions that have not ended. */
  get sessions(): SessionMachineState[] {
    return this.#actors.sessionIds.map((id) => this.#actors.machineState(id)!).filter((state) => !hasEnded(state));
  }

  session(id: string): SessionMachineState | undefined {
    return this.#actors.machineState(id as SessionId);
  }

  isDead(id: string): boolean {
    return this.#dead.has(id as SessionId);
  }

  /** Step the floor by a command, at the present time. */
  send(command: Command): { reply: Reply; facts: TimedFact[] } {
    const { facts, reply } = this.#actors.apply({ ...command, given: this.#given() });
    return { reply, facts: [...this.#dated(facts), ...this.#beat()] };
  }

  /** Create a session of this agent, which asks for the floor. */
  create(sessionId: string, agentId: string, locale?: string): { reply: Reply; facts: TimedFact[] } {
    const session = { sessionId, agentId, userId: this.userId, ...(locale !== undefined && { locale }) };
    const command = { type: "session.create", sessionId, session, activate: true };
    return this.send(command as Command);
  }

  /** The session's program gives no further sign of life: without heartbeats a lease runs out. */
  die(id: string): TimedFact[] {
    const { facts } = this.send({ type: "session.heartbeat", sessionId: id as SessionId });
    this.#dead.add(id as SessionId);
    return facts;
  }

  /** The session's program sends heartbeats again. */
  revive(id: string): void {
    this.#dead.delete(id as SessionId);
  }

  /** Replace the catalogue, as a reload does, and let the floor settle under it. */
  use(catalog: Catalog): TimedFact[] {
    this.#catalog = catalog;
    return this.send({ type: "alarm" }).facts;
  }

  /** Set the wall clock, and let the floor settle by it. No time passes. */
  setClock(now: number): TimedFact[] {
    this.#jumpedMs = now - this.#time;
    return this.send({ type: "alarm" }).facts;
  }

  /** When the next deadline comes, in the floor's time; undefined if there is none. */
  nextDue(): number | undefined {
    const { floor, hours } = this.context;
    const { reserved } = floor;
    const sources = { catalog: this.#catalog, interactionTimeoutMs: INTERACTION_TIMEOUT_MS };
    const deadlines = this.sessions.map(({ context }) => {
      // The lease of a living participant never runs out, so it is no deadline.
      const limited = context.lease && !this.#dead.has(context.id) ? { ...context, lease: undefined } : context;
      return deadlineOf(limited, sources, reserved?.sessionId === context.id)?.at;
    });
    const all = [hours?.dueAt, reserved && reserved.since + this.#catalog.policy.resumeDelayMs, ...deadlines];
    const first = Math.min(...all.filter((at) => at !== undefined));
    return first === Number.POSITIVE_INFINITY ? undefined : first;
  }

  /** Let time pass up to this moment, in the floor's time. Each deadline is carried out when it comes. */
  passTo(time: number): TimedFact[] {
    const facts: TimedFact[] = [];
    for (let due = this.nextDue(); due !== undefined && due <= time; due = this.nextDue()) {
      this.#time = Math.max(this.#time, due);
      facts.push(...this.send({ type: "alarm" }).facts);
    }
    this.#time = Math.max(this.#time, time);
    return facts;
  }

  /** Forget sessions that have ended, so that a long play needs no more memory than a short one. */
  release(): void {
    for (const id of this.#actors.evict(hasEnded)) this.#dead.delete(id);
  }

  /**
   * Heartbeats of living participants whose lease is in doubt. A lease whose deadline comes more than half a lease late
   * starts anew, so that it needs no heartbeat during a pause between two steps.
   */
  #beat(): TimedFact[] {
    const facts: TimedFact[] = [];
    for (const { context } of this.sessions) {
      if (!context.lease?.isDoubted || this.#dead.has(context.id)) continue;
      const beat = this.#actors.apply({ type: "session.heartbeat", sessionId: context.id, given: this.#given() });
      facts.push(...this.#dated(beat.facts));
    }
    return facts;
  }

  #given(): Given {
    this.#stamp += 1;
    const { now } = this;
    const stamp = `s${this.#stamp}`;
    return { now, time: this.#time, stamp, catalog: this.#catalog, interactionTimeoutMs: INTERACTION_TIMEOUT_MS };
  }

  #dated(facts: CommandResult["facts"]): TimedFact[] {
    let at = this.now;
    const dated: TimedFact[] = [];
    for (const fact of facts) {
      if (fact.type === "at") at = fact.now;
      else dated.push({ at, fact });
    }
    return dated;
  }
}
