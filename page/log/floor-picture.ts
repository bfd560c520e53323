import type { ServerEventOf } from "../../src/client/server-event.ts";
import type { Decision } from "../../src/protocol/decision.ts";
import type { Transition } from "../../src/protocol/event.ts";
import type { Reservation } from "../../src/protocol/floor.ts";
import type { Activity, PausedBy, Session, SessionState } from "../../src/protocol/session.ts";
import { countLeading } from "./count-leading.ts";
import { type LogEvent, timeOf } from "./log-event.ts";

/** A floor at a moment, in the format of the server's answer. */
export interface FloorPicture {
  holder: Session | null;
  /** Sessions that are heard beneath the holder. */
  ducked: readonly Session[];
  /** The session that was paused last is the first. */
  paused: readonly Session[];
  /** The session that has waited longest is the first. */
  queued: readonly Session[];
  reserved?: Reservation | undefined;
  flags: Readonly<Record<string, boolean>>;
  /** The newest last. */
  decisions: readonly Decision[];
}

/** Decisions that a picture keeps. */
const MAX_DECISIONS = 50;

/** The state of a floor after the events so far. Each step returns a new value: earlier values do not change. */
interface Standing {
  holder: string | undefined;
  ducked: readonly string[];
  paused: readonly string[];
  queued: readonly string[];
  reserved: Reservation | undefined;
  flags: Readonly<Record<string, boolean>>;
  /** The number of decisions. */
  decided: number;
}

const NOTHING: Standing = {
  holder: undefined,
  ducked: [],
  paused: [],
  queued: [],
  reserved: undefined,
  flags: {},
  decided: 0,
};

const PAUSED_BY: Partial<Record<Transition["event"], PausedBy>> = {
  preempt: "preemption",
  pause: "user",
  yield: "yield",
};

/** One pass over a log. It records each value of each session and of the floor with its first event. */
class Pass {
  /** The sessions, in the order of their creation. */
  readonly sessions = new Map<string, History<Session | undefined>>();
  readonly standings = new History<Standing>();
  readonly decisions: Decision[] = [];
  /** The number of processed events. */
  count = 0;
  #rest = NOTHING;

  take(event: LogEvent): void {
    this.count += 1;
    this.#take(event);
    this.standings.note(this.count, this.#rest);
  }

  #take(event: LogEvent): void {
    const { sessionId } = event;
    switch (event.type) {
      case "session_created":
        this.#set(event.data.id, event.data);
        break;
      case "session_transition":
        if (sessionId !== undefined) this.#move(sessionId, event.data, event);
        break;
      case "session_updated":
        if (sessionId !== undefined) this.#edit(sessionId, changeOf(event.data), event);
        break;
      case "agent_switched":
        if (sessionId !== undefined)
          this.#edit(sessionId, { agentId: event.data.currentAgentId, mode: undefined }, event);
        break;
      case "arbitration":
        this.#decide(event.data, event);
        break;
      case "floor_updated":
        this.#rest = { ...this.#rest, flags: event.data.flags, reserved: event.data.reserved };
        break;
      case "message":
        if (sessionId !== undefined) this.#edit(sessionId, { lastActivityAt: timeOf(event) }, event);
        break;
      case "error": {
        const { runId, errorCode, message } = event.data;
        if (sessionId !== undefined && runId !== undefined)
          this.#edit(sessionId, { failure: { runId, errorCode, message } }, event);
        break;
      }
      default:
        break;
    }
  }

  #decide(decision: Decision, event: LogEvent): void {
    const { outcome, reason, challenger } = decision;
    this.decisions.push(decision);
    this.#rest = { ...this.#rest, decided: this.decisions.length };
    const id = challenger.sessionId;
    const session = id === undefined ? undefined : this.#session(id);
    if (id === undefined || !session) return;
    if (outcome !== "rejected") this.#edit(id, { priority: challenger.priority }, event);
    if (outcome === "queued" && session.state === "paused") {
      // Its resume waits, so it comes back by itself.
      this.#edit(id, { pausedBy: "preemption" }, event);
    } else if (outcome === "queued" && !this.#rest.queued.includes(id)) {
      this.#rest = { ...this.#rest, queued: [...without(this.#rest.queued, id), id] };
      this.#edit(id, { queuedAt: timeOf(event) }, event);
    } else if (reason === "queue_timeout" || reason === "lease_expired") this.#leaveQueue(id);
  }

  #move(id: string, transition: Transition, event: LogEvent): void {
    const { to, activity, level } = transition;
    const [state, shown] = to.split(".") as [SessionState | "deleted", Activity | undefined];
    const next = shown ?? activity?.to;
    if (state === "deleted") {
      this.#leave(id);
      this.#set(id, undefined);
      return;
    }
    if (transition.event === "turn") this.#drop(id, "failure");
    this.#edit(id, { state, ...(next && { activity: next }), lastActivityAt: timeOf(event) }, event);
    switch (state) {
      case "active":
        if (this.#rest.holder === id) return;
        this.#depart(id);
        this.#rest = { ...this.#rest, holder: id, reserved: undefined };
        return;
      case "ducked":
        if (!this.#rest.ducked.includes(id)) {
          this.#depart(id);
          this.#rest = { ...this.#rest, ducked: [...this.#rest.ducked, id] };
        }
        if (level !== undefined) this.#edit(id, { level }, event);
        return;
      case "paused":
        return this.#pause(id, transition, event);
      case "archived":
        this.#depart(id);
        this.#edit(id, { activity: "idle", archivedAt: timeOf(event) }, event);
        return;
      default:
        return;
    }
  }

  #pause(id: string, { from, event: verb }: Transition, event: LogEvent): void {
    const isPaused = from.startsWith("paused");
    if (!isPaused) {
      this.#leave(id);
      this.#rest = { ...this.#rest, paused: [id, ...this.#rest.paused] };
    }
    const pausedBy = PAUSED_BY[verb];
    // A paused session changes its activity, or it yields: then it is no longer resumed by itself.
    if (pausedBy && (!isPaused || verb === "yield")) this.#edit(id, { pausedBy }, event);
  }

  /** The session leaves its place, the queue, and the reason for its pause. */
  #depart(id: string): void {
    this.#leave(id);
    this.#leaveQueue(id);
    this.#drop(id, "pausedBy");
  }

  #leave(id: string): void {
    const { holder, ducked, paused, queued } = this.#rest;
    if (ducked.includes(id)) this.#drop(id, "level");
    this.#rest = {
      ...this.#rest,
      holder: holder === id ? undefined : holder,
      ducked: without(ducked, id),
      paused: without(paused, id),
      queued: without(queued, id),
    };
  }

  #leaveQueue(id: string): void {
    this.#rest = { ...this.#rest, queued: without(this.#rest.queued, id) };
    this.#drop(id, "queuedAt");
  }

  #drop(id: string, key: "pausedBy" | "queuedAt" | "level" | "failure"): void {
    const known = this.#session(id);
    if (known?.[key] === undefined) return;
    const { [key]: _, ...session } = known;
    this.#set(id, session as Session);
  }

  #edit(id: string, change: Partial<Session>, event: LogEvent): void {
    this.#set(id, { ...(this.#session(id) ?? unknownSession(id, event)), ...change });
  }

  #session(id: string): Session | undefined {
    return this.sessions.get(id)?.last;
  }

  #set(id: string, session: Session | undefined): void {
    let history = this.sessions.get(id);
    if (!history) {
      history = new History();
      this.sessions.set(id, history);
    }
    history.note(this.count, session);
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

/** A session whose beginning is no longer in the log. */
function unknownSession(id: string, event: LogEvent): Session {
  const at = timeOf(event);
  return {
    id,
    title: id,
    agentId: "",
    floorId: "",
    state: "created",
    activity: "idle",
    priority: 0,
    interruptible: true,
    createdAt: at,
    updatedAt: at,
    lastActivityAt: at,
    messageCount: 0,
    tokenUsage: { used: 0, breakdown: { input: 0, output: 0, cacheRead: 0, cacheCreation: 0 } },
    agentSessions: {},
  } as unknown as Session;
}

const without = (ids: readonly string[], id: string): readonly string[] =>
  ids.includes(id) ? ids.filter((each) => each !== id) : ids;

/** The session's fields of an update; the reason of a missing summary is not one of them. */
const changeOf = ({ summaryFailure, ...data }: ServerEventOf<"session_updated">["data"]): Partial<Session> =>
  Object.fromEntries(Object.entries(data).filter(([, value]) => value !== undefined));

/** The state of a floor after the first `count` events of its log. */
export function pictureOf(events: readonly LogEvent[], count = events.length): FloorPicture {
  return new PictureBook(events).at(count);
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
    const { standings, decisions } = this.#readTo(count);
    const { holder, ducked, paused, queued, reserved, flags, decided } = standings.after(count) ?? NOTHING;
    const shown = (ids: readonly string[]) => ids.map((id) => this.sessionAt(count, id)!);
    return {
      holder: holder === undefined ? null : this.sessionAt(count, holder)!,
      ducked: shown(ducked).sort((one, other) => other.priority - one.priority),
      paused: shown(paused),
      queued: shown(queued),
      ...(reserved && { reserved }),
      flags,
      decisions: decisions.slice(Math.max(0, decided - MAX_DECISIONS), decided),
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
    while (this.#pass.count < wanted) this.#pass.take(this.#events[this.#pass.count]!);
    return this.#pass;
  }
}
