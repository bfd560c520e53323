import { BOUNDS } from "../../../src/config/bounds.ts";
import { must } from "../../../src/policy/arrangement-check.ts";
import type { Delta, LogEntry } from "../../../src/protocol/event.ts";
import type { ConnectionId, FloorId, SessionId } from "../../../src/protocol/ids.ts";
import type { Message } from "../../../src/protocol/message.ts";
import { parseConnectionPosition } from "../../../src/protocol/position.ts";
import type { GatewaySide, Opening } from "../nodes/gateway-side.ts";
import type { World } from "../world.ts";
import { AccumulatedTexts } from "./accumulated-texts.ts";
import type { Reading } from "./reader.ts";
import type { Wire } from "./wire.ts";

/** The longest time from a connection, or a binding, to the bound sessions' events, in ms. */
const CARRIED_MS = 800;

interface Bound {
  /** The place of its last event. */
  seq: number;
  /** When the binding was acknowledged. */
  since?: number | undefined;
  /** Whether it received the end of the session. */
  hasEnd: boolean;
  /** Whether more sessions ended than a position can name: this session may be one of them. */
  mayBeSkipped?: true;
}

/** A client's connection with its bound sessions, read from each session's first event. */
export class ConnectionReading implements Reading {
  readonly floorId: FloorId;
  readonly #world: World;
  readonly #texts = new AccumulatedTexts();
  readonly #bound = new Map<SessionId, Bound>();
  /** Named in a received position: the client reconnects to this connection. */
  #id: ConnectionId | undefined;
  #cameAt = 0;

  constructor(floorId: FloorId, world: World) {
    this.floorId = floorId;
    this.#world = world;
  }

  /** The connection's id; undefined before the first position. */
  get id(): ConnectionId | undefined {
    return this.#id;
  }

  get isPlaced(): boolean {
    return this.#id !== undefined;
  }

  get standing(): string {
    const places = [...this.#bound].map(([id, { seq, since }]) => `${id} ${seq}${since === undefined ? "?" : ""}`);
    return `connection ${this.#id} stands at ${places.join(", ")}`;
  }

  get isComplete(): boolean {
    const { watch } = this.#world;
    return this.#bound.entries().every(([sessionId, { seq, since, hasEnd, mayBeSkipped }]) => {
      if (since === undefined || hasEnd || mayBeSkipped) return true;
      return seq === watch.logOf(sessionId).at(-1)?.seq;
    });
  }

  /** Request a binding. @returns whether it is the first request for it */
  beginBinding(sessionId: SessionId): boolean {
    if (this.#bound.has(sessionId)) return false;
    this.#bound.set(sessionId, { seq: 0, hasEnd: false });
    return true;
  }

  /** The binding was acknowledged. */
  endBinding(sessionId: SessionId): void {
    this.#bound.get(sessionId)!.since = this.#world.clock.now();
  }

  /** The connection had no room. An earlier request may have bound the session, which may have ended since. */
  giveUpBinding(sessionId: SessionId): void {
    if (this.#bound.get(sessionId)!.seq === 0) this.#bound.delete(sessionId);
  }

  open(gateway: GatewaySide, position: string | undefined, wire: Wire): Promise<Opening> {
    return gateway.openConnection(position, wire);
  }

  reconnect(): void {
    const { clock, watch } = this.#world;
    for (const [id, { since, hasEnd }] of this.#bound) {
      const endedAway = since !== undefined && !hasEnd && watch.endOf(id) !== undefined;
      if (endedAway) this.#world.count("sessions that ended while their reader was away");
    }
    this.#cameAt = clock.now();
    this.#texts.reconnect();
  }

  lacks(_: FloorId, { sessionId, seq }: LogEntry): boolean {
    const bound = sessionId === undefined ? undefined : this.#bound.get(sessionId);
    if (bound?.since === undefined) return false;
    if (this.#world.clock.now() < Math.max(bound.since, this.#cameAt) + CARRIED_MS) return false;
    return !bound.hasEnd && !bound.mayBeSkipped && bound.seq < seq!;
  }

  end(answer: string): void {
    must(false, () => `${this.standing} and was told that it is ${answer}`);
  }

  takeLive(type: string, data: unknown): void {
    if (type === "delta") this.#texts.add(data as Delta);
    else if (type === "message") this.#texts.show(data as Message);
    else if (type === "connected") {
      const { connectionId } = data as { connectionId: ConnectionId };
      must(this.#id === undefined || this.#id === connectionId, () => `${this.standing} and became ${connectionId}`);
    } else must(type === "agent_list", () => `${this.standing} and was given ${type} ${JSON.stringify(data)}`);
  }

  /** A position without an event. */
  takePlace(id: string): void {
    this.#id = parseConnectionPosition(id)?.connectionId;
    must(this.#id !== undefined, () => `${id} is no position`);
  }

  takeLogged(id: string, text: string): void {
    const { watch } = this.#world;
    const { type, data, sessionId, seq } = JSON.parse(text) as Frame;
    if (type === "reset" && sessionId === undefined) return this.#skip();
    const bound = this.#bound.get(sessionId);
    const describe = () => `${this.standing} and was given ${id} ${text.slice(0, 300)}`;
    must(bound !== undefined && !bound.hasEnd && seq > bound.seq, describe);
    const log = watch.logOf(sessionId);
    const entry = log.find((each) => each.seq === seq);
    must(entry ? watch.textOf(entry) === text : watch.isGoneAt(sessionId, seq), describe);
    const isHole = seq > bound.seq + 1;
    must(!isHole || watch.endOf(sessionId) === "deleted", describe);
    bound.seq = seq;
    this.#follow(bound, type, data);
    const position = parseConnectionPosition(id);
    must(position !== undefined && position.connectionId === this.#id, describe);
    const isNamed = position.slots.some((slot) => slot.seq === seq);
    must(isNamed || bound.hasEnd, () => `${describe()}, and its place is not named`);
  }

  /** More sessions ended while it was away than a position can name; which of them are left out is not visible. */
  #skip(): void {
    const { watch } = this.#world;
    const ended = [...this.#bound].filter(([id, { hasEnd }]) => !hasEnd && watch.endOf(id) !== undefined);
    must(this.#bound.size > BOUNDS.liveSlots, () => `${this.standing} and was given a reset`);
    for (const [, bound] of ended) bound.mayBeSkipped = true;
  }

  #follow(bound: Bound, type: string, data: object): void {
    this.#texts.follow(type, data);
    if (type !== "session_transition") return;
    const { to } = data as { to: string };
    bound.hasEnd = to === "archived" || to === "deleted";
  }
}

interface Frame {
  type: string;
  data: object;
  sessionId: SessionId;
  seq: number;
}
