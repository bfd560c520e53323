import { type AnyActorRef, createActor, type InspectionEvent, type SnapshotFrom } from "xstate";
import { TRANSITION_EVENTS, type Transition, type TransitionEvent } from "../protocol/event.ts";
import type { FloorId, SessionId } from "../protocol/ids.ts";
import type { Reply } from "../protocol/reply.ts";
import type { Session } from "../protocol/session.ts";
import { type ArbiterEvent, arbiterMachine } from "./arbiter.ts";
import type { ArbiterContext } from "./arbiter-step.ts";
import type { Fact } from "./facts.ts";
import type { SessionInput, sessionMachine } from "./session.ts";
import { type SessionContext, type SessionValue, sessionView, writtenState } from "./session-context.ts";

type SessionSnapshot = SnapshotFrom<typeof sessionMachine>;

/** A session as its machine stands. */
export interface SessionStanding {
  context: SessionContext;
  value: SessionValue;
}

/** What one command made of a floor. */
export interface Delivery {
  /** In the order in which they happened; transitions among them. */
  facts: Exclude<Fact, { type: "reply" }>[];
  reply: Reply;
}

/** The machines broke: what they hold is worth nothing any more. */
export class BrokenActors extends Error {
  constructor(floorId: FloorId, cause: unknown) {
    super(`the actors of floor ${floorId} broke`, { cause });
    this.name = "BrokenActors";
  }
}

const COMMAND_VERBS: Record<string, TransitionEvent> = { "session.stop": "archive" };
for (const verb of TRANSITION_EVENTS) {
  COMMAND_VERBS[verb] = verb;
  COMMAND_VERBS[`session.${verb}`] = verb;
}

/**
 * The live actors of one floor, and the one gate through which everything they do becomes known: their transitions and
 * what they emit, in order. Nothing here waits and nothing here is durable; the host commits what a delivery says, or
 * drops these actors.
 */
export class FloorActors {
  readonly #floorId: FloorId;
  readonly #arbiter;
  /** Each session as it was before the event under way. */
  readonly #standings = new Map<SessionId, SessionStanding>();
  /** Sessions that an event reached since the last `takeTouched`. */
  #touched = new Set<SessionId>();
  #facts: Fact[] = [];
  #broken: unknown;

  /** @param persisted what `persist` returned, or undefined for a floor nobody has used yet */
  constructor(floorId: FloorId, persisted?: unknown) {
    this.#floorId = floorId;
    const inspect = (event: InspectionEvent) => this.#observe(event);
    this.#arbiter = createActor(arbiterMachine, {
      input: { floorId },
      inspect,
      ...(persisted !== undefined && { snapshot: persisted as SnapshotFrom<typeof arbiterMachine> }),
    });
    // Without this a throw inside a machine would end the process.
    this.#arbiter.subscribe({ error: (error) => this.#break(error) });
    this.#arbiter.start();
    for (const [id, child] of Object.entries(this.#arbiter.getSnapshot().children)) {
      if (child) this.#standings.set(id as SessionId, standingOf(child.getSnapshot()));
    }
    this.#check();
  }

  get context(): ArbiterContext {
    return this.#arbiter.getSnapshot().context;
  }

  has(sessionId: SessionId): boolean {
    return this.#standings.has(sessionId);
  }

  standing(sessionId: SessionId): SessionStanding | undefined {
    return this.#standings.get(sessionId);
  }

  get sessionIds(): SessionId[] {
    return [...this.#standings.keys()];
  }

  /** Bring a session in from its row. */
  bring(input: SessionInput): void {
    this.#send({ type: "bring", input });
    this.#touched.delete(input.context.id);
  }

  /** @throws BrokenActors when a machine threw or left the command unanswered; these actors are then useless */
  deliver(command: Extract<ArbiterEvent, { given: unknown }>): Delivery {
    this.#facts = [];
    this.#send(command);
    const facts: Delivery["facts"] = [];
    let answer: Extract<Fact, { type: "reply" }> | undefined;
    for (const fact of this.#facts) {
      if (fact.type !== "reply") facts.push(fact);
      else if (answer) throw new BrokenActors(this.#floorId, new Error(`${command.type} was answered twice`));
      else answer = fact;
    }
    if (!answer) throw new BrokenActors(this.#floorId, new Error(`${command.type} was not answered`));
    return { facts, reply: answer.show ? this.#show(answer.reply) : answer.reply };
  }

  /** The sessions that changed since this was last asked, as they are now. */
  takeTouched(): SessionStanding[] {
    const touched = [...this.#touched].map((id) => this.#standings.get(id)!);
    this.#touched = new Set();
    return touched;
  }

  /** Let go of all sessions that do not matter to the floor (rule C6). */
  release(): void {
    const { holder, paused, queued } = this.context.floor;
    const kept = new Set([holder, ...paused, ...queued].map((claim) => claim?.sessionId));
    const sessionIds = [...this.#standings]
      .filter(([id, { context, value }]) => !kept.has(id) && (!context.run || value.lifecycle === "deleted"))
      .map(([id]) => id);
    if (sessionIds.length === 0) return;
    this.#send({ type: "release", sessionIds });
    for (const id of sessionIds) this.#standings.delete(id);
  }

  /** All there is to know, as JSON text. XState shares references into it, so it is written out at once. */
  persist(): string {
    return JSON.stringify(this.#arbiter.getPersistedSnapshot());
  }

  stop(): void {
    this.#arbiter.stop();
  }

  #send(event: ArbiterEvent): void {
    this.#arbiter.send(event);
    this.#check();
  }

  #show(reply: Reply): Reply {
    if (!reply.ok || reply.sessionId === undefined) return reply;
    const standing = this.#standings.get(reply.sessionId);
    return standing ? { ...reply, session: viewOf(standing) } : reply;
  }

  #observe(event: InspectionEvent): void {
    // A throwing inspector wedges XState's mailbox, so nothing gets out of here.
    try {
      if (event.type === "@xstate.action") {
        if (event.action.type === "xstate.emit") this.#facts.push((event.action.params as { event: Fact }).event);
      } else if (event.type === "@xstate.snapshot" && event.actorRef !== this.#arbiter) {
        this.#transition(event.actorRef as AnyActorRef, event.snapshot as SessionSnapshot, event.event);
      }
    } catch (error) {
      this.#break(error);
    }
  }

  #transition(actor: AnyActorRef, snapshot: SessionSnapshot, event: { type: string }): void {
    // Being let go of changes nothing.
    if (snapshot.status === "stopped") return;
    const id = actor.id as SessionId;
    const before = this.#standings.get(id);
    const after = standingOf(snapshot);
    this.#standings.set(id, after);
    if (!before || before.context !== after.context || before.value !== after.value) this.#touched.add(id);
    if (event.type === "xstate.init" || !before) return;
    const from = writtenState(before.value);
    const to = writtenState(after.value);
    if (from === to) return;
    const { reason, by } = event as Pick<Transition, "reason" | "by">;
    const runId = after.context.run?.id ?? before.context.run?.id;
    const data: Transition = {
      from,
      to,
      event: COMMAND_VERBS[event.type]!,
      ...(reason !== undefined && { reason }),
      ...(by && { by }),
      ...(runId !== undefined && { runId }),
    };
    this.#facts.push({ type: "event", event: { type: "session_transition", sessionId: id, data } });
  }

  #break(error: unknown): void {
    this.#broken ??= error;
  }

  #check(): void {
    const snapshot = this.#arbiter.getSnapshot();
    if (this.#broken === undefined && snapshot.status === "active") return;
    throw new BrokenActors(this.#floorId, this.#broken ?? snapshot.error);
  }
}

function standingOf(snapshot: SessionSnapshot): SessionStanding {
  return { context: snapshot.context, value: snapshot.value as SessionValue };
}

export function viewOf({ context, value }: SessionStanding): Session {
  return sessionView(context, value);
}
