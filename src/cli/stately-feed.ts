import { arbiterMachine } from "../actors/floor/arbiter-machine.ts";
import { sessionMachine } from "../actors/session/session-machine.ts";
import type { FloorView } from "../client/answers.ts";
import {
  arbiterState,
  floorAfter,
  sessionAfter,
  sessionBefore,
  sessionsOn,
  UNUSED_FLOOR,
} from "../client/floor-after.ts";
import type { ServerEvent, ServerEventOf } from "../client/server-event.ts";
import type { EventType } from "../protocol/event.ts";
import type { FloorEventType } from "../protocol/event-logs.ts";
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
  readonly #sessions = new Map<string, Session>();
  #floor = UNUSED_FLOOR;
  #at: number;

  constructor(floorId: string, now: number) {
    this.#floorId = floorId;
    this.#at = now;
  }

  /** The messages for the existing actors, the floor first. */
  get actors(): StatelyMessage[] {
    return [this.#floorActor(), ...[...this.#sessions.values()].map((session) => this.#sessionActor(session))];
  }

  /** Reset to a floor view that was read from the node. Returns the messages that replace what readers know. */
  begin(floor: Omit<FloorView, "position">) {
    this.#sessions.clear();
    for (const session of sessionsOn(floor)) this.#sessions.set(session.id, session);
    this.#floor = { ...UNUSED_FLOOR, holder: floor.holder?.id, reserved: floor.reserved };
    return this.actors;
  }

  /** The messages for an event of the floor's stream. */
  convert(event: ServerEvent): StatelyMessage[] {
    this.#at = Date.parse(event.timestamp);
    const { holder } = this.#floor;
    this.#floor = floorAfter(this.#floor, event);
    const { sessionId = "" } = event;
    switch (event.type) {
      case "session_created":
        this.#sessions.set(sessionId, event.data);
        return [this.#sessionActor(event.data)];
      case "agent_switched": {
        const session = this.#sessions.get(sessionId);
        if (session) this.#sessions.set(sessionId, sessionAfter(session, event) ?? session);
        return [];
      }
      case "session_transition": {
        const { from: _from, to: _to, by, event: type, ...facts } = event.data;
        const cause = { ...facts, type };
        const messages = this.#move(sessionId, event, { cause, by: by?.sessionId });
        return this.#floor.holder === holder ? messages : [...messages, this.#floorSnapshot(cause)];
      }
      case "arbitration":
        return [this.#event(this.#floorId, event.data.challenger.sessionId, { ...event.data, type: "arbitration" })];
      case "routed":
        return [this.#event(this.#floorId, event.sessionId, { ...event.data, type: "routed" })];
      case "floor_updated":
        return [
          this.#event(this.#floorId, undefined, { ...event.data, type: "floor_updated" }),
          this.#floorSnapshot({ type: "floor_updated" }),
        ];
      default:
        event.type satisfies Exclude<EventType, FloorEventType>;
        return [];
    }
  }

  #move(
    id: string,
    event: ServerEventOf<"session_transition">,
    { cause, by = this.#floorId }: { cause: object; by: string | undefined },
  ): StatelyMessage[] {
    // The floor's view may lack this session, for example an archived session that is deleted.
    const known = this.#sessions.get(id);
    const before = known ?? sessionBefore(id, event);
    const after = sessionAfter(before, event);
    if (after && after.state !== "archived") this.#sessions.set(id, after);
    else this.#sessions.delete(id);
    return [
      ...(known ? [] : [this.#sessionActor(before)]),
      this.#event(id, by, cause),
      this.#snapshot(id, cause, snapshotOf(after ?? { ...before, state: "deleted", activity: "idle" })),
    ];
  }

  #floorActor(): StatelyMessage {
    return this.#message("@xstate.actor", this.#floorId, {
      name: this.#floorId,
      definition: ARBITER,
      snapshot: this.#floorState(),
    });
  }

  #sessionActor(session: Session): StatelyMessage {
    const { id, agentId } = session;
    return this.#message("@xstate.actor", id, {
      name: agentId ? `${agentId} ${id}` : id,
      parentId: this.#floorId,
      definition: SESSION,
      snapshot: snapshotOf(session),
    });
  }

  #floorState(): Snapshot {
    const { holder, reserved } = this.#floor;
    const value = arbiterState(this.#floor);
    return { status: "active", value, context: { floorId: this.#floorId, holder, reserved: reserved?.sessionId } };
  }

  #floorSnapshot(cause: object): StatelyMessage {
    return this.#snapshot(this.#floorId, cause, this.#floorState());
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

type Shown = Pick<Session, "id" | "agentId" | "activity"> & { state: Session["state"] | "deleted" };

function snapshotOf({ id, agentId, state: lifecycle, activity }: Shown): Snapshot {
  const status = lifecycle === "deleted" ? "stopped" : lifecycle === "archived" ? "done" : "active";
  return { status, value: { lifecycle, activity }, context: { id, agentId } };
}
