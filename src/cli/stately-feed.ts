import { arbiterMachine } from "../actors/floor/arbiter.ts";
import { sessionMachine } from "../actors/session/session-machine.ts";
import type { FloorView } from "../client/answers.ts";
import type { ServerEvent, ServerEventOf } from "../client/server-event.ts";
import type { Session } from "../protocol/session.ts";

/**
 * The version of `@statelyai/inspect` whose message format this is; browser receivers drop messages without a version.
 */
const VERSION = "0.7.2";

/** One message of Stately's inspection protocol: a frame of text without an envelope. */
export interface StatelyMessage {
  type: "@xstate.actor" | "@xstate.event" | "@xstate.snapshot";
  sessionId: string;
  rootId: string;
  /** ms since 1970, as text. */
  createdAt: string;
  [more: string]: unknown;
}

type FloorState = Pick<FloorView, "holder" | "ducked" | "paused" | "queued" | "reserved">;

interface Snapshot {
  status: "active" | "done" | "stopped";
  value: unknown;
  context: object;
}

/** The machines in the form that Stately's viewer reads: functions are replaced by their names. */
const [ARBITER, SESSION] = [arbiterMachine, sessionMachine].map(({ config }) =>
  JSON.stringify(config, (_, value) => (typeof value === "function" ? { type: value.name } : value)),
) as [string, string];

/**
 * Turns the events of one floor into messages for consumers of `@statelyai/inspect`: the floor is the root actor, and
 * sessions are its children. It tracks the existing actors, so that a reader that connects later can receive them
 * first.
 */
export class StatelyFeed {
  readonly #floorId: string;
  readonly #sessions = new Map<string, { lifecycle: string; activity: string; agentId: string }>();
  #holder: string | undefined;
  #reserved: string | undefined;
  #at: number;

  constructor(floorId: string, now: number) {
    this.#floorId = floorId;
    this.#at = now;
  }

  /** The messages for the existing actors, the floor first. */
  get actors(): StatelyMessage[] {
    return [this.#floorActor(), ...[...this.#sessions.keys()].map((id) => this.#sessionActor(id))];
  }

  /** Reset to a floor view that was read from the node. Returns the messages that replace what readers know. */
  begin({ holder, ducked = [], paused, queued, reserved }: FloorState) {
    this.#sessions.clear();
    for (const session of [...(holder ? [holder] : []), ...ducked, ...paused, ...queued]) this.#keep(session);
    this.#holder = holder?.id;
    this.#reserved = reserved?.sessionId;
    return this.actors;
  }

  /** The messages for an event of the floor's stream. */
  take(event: ServerEvent): StatelyMessage[] {
    this.#at = Date.parse(event.timestamp);
    const { sessionId } = event;
    switch (event.type) {
      case "session_created":
        this.#keep(event.data);
        return [this.#sessionActor(event.data.id)];
      case "agent_switched": {
        const session = sessionId === undefined ? undefined : this.#sessions.get(sessionId);
        if (session) session.agentId = event.data.currentAgentId;
        return [];
      }
      case "session_transition":
        return sessionId === undefined ? [] : this.#move(sessionId, event.data);
      case "arbitration":
        return [this.#event(this.#floorId, event.data.challenger.sessionId, { ...event.data, type: "arbitration" })];
      case "floor_updated":
        this.#reserved = event.data.reserved?.sessionId;
        return [
          this.#event(this.#floorId, undefined, { ...event.data, type: "floor_updated" }),
          this.#snapshot(this.#floorId, { type: "floor_updated" }, this.#floorState()),
        ];
      default:
        return [];
    }
  }

  #keep({ id, state, activity, agentId }: Session): void {
    this.#sessions.set(id, { lifecycle: state, activity, agentId });
  }

  #move(id: string, transition: ServerEventOf<"session_transition">["data"]): StatelyMessage[] {
    const { from, to, by, event, ...facts } = transition;
    // The floor's view may lack this session, for example an archived session that is deleted.
    const begins = this.#sessions.has(id) ? [] : this.#join(id, from);
    const session = this.#sessions.get(id)!;
    const [lifecycle = to, activity = facts.activity?.to] = to.split(".") as [string, string | undefined];
    session.lifecycle = lifecycle;
    if (activity !== undefined) session.activity = activity;
    if (lifecycle === "archived" || lifecycle === "deleted") session.activity = "idle";
    const cause = { ...facts, type: event };
    const messages = [
      ...begins,
      this.#event(id, by?.sessionId ?? this.#floorId, cause),
      this.#snapshot(id, cause, this.#sessionState(id)),
    ];
    const before = this.#holder;
    if (lifecycle === "active") this.#holder = id;
    else if (this.#holder === id) this.#holder = undefined;
    if (this.#holder !== undefined) this.#reserved = undefined;
    if (lifecycle === "archived" || lifecycle === "deleted") this.#sessions.delete(id);
    return this.#holder === before ? messages : [...messages, this.#snapshot(this.#floorId, cause, this.#floorState())];
  }

  #join(id: string, from: string): StatelyMessage[] {
    const [lifecycle = from, activity = "idle"] = from.split(".") as [string, string | undefined];
    this.#sessions.set(id, { lifecycle, activity, agentId: "" });
    return [this.#sessionActor(id)];
  }

  #floorActor(): StatelyMessage {
    return this.#message("@xstate.actor", this.#floorId, {
      name: this.#floorId,
      definition: ARBITER,
      snapshot: this.#floorState(),
    });
  }

  #sessionActor(id: string): StatelyMessage {
    const agentId = this.#sessions.get(id)?.agentId;
    return this.#message("@xstate.actor", id, {
      name: agentId ? `${agentId} ${id}` : id,
      parentId: this.#floorId,
      definition: SESSION,
      snapshot: this.#sessionState(id),
    });
  }

  #floorState(): Snapshot {
    const value = this.#holder !== undefined ? "held" : this.#reserved !== undefined ? "reserved" : "free";
    return {
      status: "active",
      value,
      context: { floorId: this.#floorId, holder: this.#holder, reserved: this.#reserved },
    };
  }

  #sessionState(id: string): Snapshot {
    const { lifecycle, activity, agentId } = this.#sessions.get(id)!;
    const status = lifecycle === "deleted" ? "stopped" : lifecycle === "archived" ? "done" : "active";
    return { status, value: { lifecycle, activity }, context: { id, agentId } };
  }

  #event(sessionId: string, sourceId: string | undefined, event: object): StatelyMessage {
    return this.#message("@xstate.event", sessionId, { ...(sourceId !== undefined && { sourceId }), event });
  }

  #snapshot(sessionId: string, event: object, snapshot: Snapshot): StatelyMessage {
    return this.#message("@xstate.snapshot", sessionId, { event, snapshot });
  }

  #message(type: StatelyMessage["type"], sessionId: string, more: object): StatelyMessage {
    const createdAt = String(this.#at);
    return { type, sessionId, rootId: this.#floorId, ...more, createdAt, id: null, _version: VERSION };
  }
}
