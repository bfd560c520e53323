import {
  type FollowedFloor,
  floorAfter,
  sessionAfter,
  sessionBefore,
  UNUSED_FLOOR,
} from "../../src/client/floor-after.ts";
import type { Session } from "../../src/protocol/session.ts";
import { countLeading } from "./count-leading.ts";
import type { LogEvent } from "./log-event.ts";

/** A floor at a moment, in the format of the server's answer. */
export interface FloorPicture extends Pick<FollowedFloor, "flags" | "decisions"> {
  holder: Session | null;
  /** Sessions that are heard beneath the holder. */
  ducked: readonly Session[];
  /** The session that was paused last is the first. */
  paused: readonly Session[];
  /** The session that has waited longest is the first. */
  queued: readonly Session[];
  reserved?: FollowedFloor["reserved"];
  /** The restrictions in force. */
  restrictedBy?: readonly string[];
}

/** One pass over a log. It records each value of each session and of the floor with its first event. */
class Pass {
  /** The sessions, in the order of their creation. */
  readonly sessions = new Map<string, History<Session | undefined>>();
  readonly floors = new History<FollowedFloor>();
  /** The number of processed events. */
  count = 0;

  apply(event: LogEvent): void {
    this.count += 1;
    this.floors.note(this.count, floorAfter(this.floors.last ?? UNUSED_FLOOR, event));
    if (event.sessionId !== undefined) this.#applyToSession(event.sessionId, event);
  }

  #applyToSession(id: string, event: LogEvent): void {
    const history = this.sessions.get(id) ?? new History();
    const before = history.last ?? sessionBefore(id, event);
    const after = sessionAfter(before, event);
    if (after === before) return;
    history.note(this.count, after);
    this.sessions.set(id, history);
  }
}

/** A value, with the number of events after which it applies. */
class History<T> {
  readonly #counts: number[] = [];
  readonly #values: T[] = [];

  get last(): T | undefined {
    return this.#values.at(-1);
  }

  note(count: number, value: T): void {
    if (this.#values.length > 0 && this.last === value) return;
    if (this.#counts.at(-1) === count) this.#values[this.#values.length - 1] = value;
    else {
      this.#counts.push(count);
      this.#values.push(value);
    }
  }

  /** Undefined before the first value. */
  after(count: number): T | undefined {
    const known = countLeading(this.#counts.length, (index) => this.#counts[index]! <= count);
    return this.#values[known - 1];
  }
}

/** The states of a floor at any moment of a log: the log is read once, and each moment is then looked up. */
export class PictureBook {
  readonly #events: readonly LogEvent[];
  readonly #pass = new Pass();

  /** @param events a log that only changes at its end */
  constructor(events: readonly LogEvent[]) {
    this.#events = events;
  }

  at(count: number): FloorPicture {
    const { floors } = this.#readTo(count);
    const { holder, ducked, paused, queued, reserved, flags, restrictedBy, decisions } =
      floors.after(count) ?? UNUSED_FLOOR;
    const shown = (ids: readonly string[]) => ids.map((id) => this.sessionAt(count, id)!);
    return {
      holder: holder === undefined ? null : this.sessionAt(count, holder)!,
      ducked: shown(ducked).sort((one, other) => other.priority - one.priority),
      paused: shown(paused),
      queued: shown(queued),
      ...(reserved && { reserved }),
      flags,
      ...(restrictedBy.length > 0 && { restrictedBy }),
      decisions,
    };
  }

  sessionAt(count: number, id: string): Session | undefined {
    return this.#readTo(count).sessions.get(id)?.after(count);
  }

  sessionsAt(count: number): Session[] {
    const { sessions } = this.#readTo(count);
    return [...sessions.values()].map((history) => history.after(count)).filter((session) => session !== undefined);
  }

  /** The sessions that were created last, the newest first. */
  newestAt(count: number, limit: number): Session[] {
    const { sessions } = this.#readTo(count);
    const found: Session[] = [];
    for (const history of [...sessions.values()].reverse()) {
      const session = history.after(count);
      if (session) found.push(session);
      if (found.length >= limit) break;
    }
    return found;
  }

  #readTo(count: number): Pass {
    const wanted = Math.min(count, this.#events.length);
    while (this.#pass.count < wanted) this.#pass.apply(this.#events[this.#pass.count]!);
    return this.#pass;
  }
}
