import { type ActorRefFrom, type AnyActorRef, createActor, type InspectionEvent, type SnapshotFrom } from "xstate";
import { TRANSITION_EVENTS, type Transition, type TransitionEvent } from "../protocol/event.ts";
import type { FloorId, SessionId } from "../protocol/ids.ts";
import type { Reply } from "../protocol/reply.ts";
import type { Session } from "../protocol/session.ts";
import { type ArbiterEvent, arbiterMachine } from "./arbiter.ts";
import type { ArbiterContext } from "./arbiter-step.ts";
import type { Emitted, Fact } from "./facts.ts";
import type { SessionInput, sessionMachine } from "./session.ts";
import { type SessionContext, type SessionValue, sessionView, writtenState } from "./session-context.ts";
import type { SessionCommand } from "./session-step.ts";

type SessionSnapshot = SnapshotFrom<typeof sessionMachine>;

/** A session as its machine stands. */
export class SessionStanding {
  readonly context: SessionContext;
  readonly value: SessionValue;
  #view: Session | undefined;

  constructor({ context, value }: SessionSnapshot) {
    this.context = context;
    this.value = value as SessionValue;
  }

  /** The session as answers show it; made once, for the answer and the row. */
  get view(): Session {
    this.#view ??= sessionView(this.context, this.value);
    return this.#view;
  }
}

/** What one command made of a floor. */
export interface Delivery {
  /** In the order in which they happened; transitions among them. */
  facts: Exclude<Fact, { type: "reply" }>[];
  reply: Reply;
}

/** Sessions that are kept warm although the floor could do without them. */
const MAX_WARM = 16;

/** What the arbiter has a hand in before the session has. */
const NEEDS_ARBITER: ReadonlySet<string> = new Set(["session.create", "session.delete", "session.switch_agent"]);

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
  /** Each session as it was before the event under way; the one used last stands last. */
  readonly #standings = new Map<SessionId, SessionStanding>();
  /** Sessions that an event reached since the last `takeTouched`. */
  #touched = new Set<SessionId>();
  /** Sessions as `persist` wrote them. */
  readonly #written = new WeakMap<SessionSnapshot, string>();
  #facts: Fact[] = [];
  #broken: unknown;

  /**
   * @param persisted what `persist` returned, or undefined for a floor nobody has used yet
   * @throws BrokenActors, or what XState throws, when it is anything else
   */
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
    this.#check();
    const sessions = Object.entries(this.#arbiter.getSnapshot().children);
    for (const [id, session] of sessions) {
      const snapshot = session!.getSnapshot();
      // XState keeps a child that it could not restore …
      if (snapshot.status !== "active") throw new BrokenActors(floorId, snapshot.error);
      this.#standings.set(id as SessionId, new SessionStanding(snapshot));
    }
    // … and leaves out one it does not know.
    const { children = {} } = (persisted ?? {}) as { children?: object };
    const lost = [...this.mattering(), ...Object.keys(children)].find((id) => !this.#standings.has(id as SessionId));
    if (lost !== undefined) throw new BrokenActors(floorId, new Error(`session ${lost} is not among them`));
    // Coming back is no change.
    this.#touched.clear();
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
    // XState would write what is sent to a dead actor on stderr, users' words and all.
    this.#check();
    this.#facts = [];
    const session = this.#addressee(command);
    if (session) {
      session.send(command as SessionCommand);
      this.#check();
    } else {
      this.#send(command);
    }
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

  /**
   * Let go of sessions that do not matter to the floor (rule C6): their rows are all there is to know of them. The few
   * that were used last stay warm, so that the next command need not bring them in again.
   */
  release(): void {
    const mattering = this.mattering();
    const spare = [...this.#standings].filter(([id]) => !mattering.has(id));
    const isDeleted = ([, { value }]: (typeof spare)[number]) => value.lifecycle === "deleted";
    const idle = spare.filter((each) => !isDeleted(each));
    const released = [...spare.filter(isDeleted), ...idle.slice(0, Math.max(0, idle.length - MAX_WARM))];
    if (released.length === 0) return;
    const sessionIds = released.map(([id]) => id);
    this.#send({ type: "release", sessionIds });
    for (const id of sessionIds) this.#standings.delete(id);
  }

  /** The sessions without which the floor is not what it is: those that compete, and those with a run. */
  mattering(): Set<SessionId> {
    const { holder, paused, queued } = this.context.floor;
    const ids = new Set<SessionId>();
    if (holder) ids.add(holder.sessionId);
    for (const claim of paused) ids.add(claim.sessionId);
    for (const claim of queued) ids.add(claim.sessionId);
    for (const [id, { context, value }] of this.#standings) {
      if (context.run && value.lifecycle !== "deleted") ids.add(id);
    }
    return ids;
  }

  /**
   * All that matters to the floor, as JSON text: what XState's `getPersistedSnapshot` says of it. A session that did not
   * change is not written anew, so that a command costs the same however many are paused.
   */
  persist(): string {
    const { value, context, children } = this.#arbiter.getSnapshot();
    const sessions = [...this.mattering()]
      .map((id) => `"${id}":${this.#writeSession(children[id]!.getSnapshot())}`)
      .join();
    const own = `"status":"active","value":"${value}","historyValue":{},"context":${JSON.stringify(context)}`;
    return `{${own},"children":{${sessions}}}`;
  }

  #writeSession(snapshot: SessionSnapshot): string {
    let text = this.#written.get(snapshot);
    if (text === undefined) {
      const { value, context } = snapshot;
      const inner = `{"status":"active","value":${JSON.stringify(value)},"historyValue":{},"context":${JSON.stringify(context)},"children":{}}`;
      text = `{"snapshot":${inner},"src":"session","syncSnapshot":false}`;
      this.#written.set(snapshot, text);
    }
    return text;
  }

  stop(): void {
    this.#arbiter.stop();
  }

  /** The session that a command is for, where the arbiter would only pass it on. */
  #addressee(command: Extract<ArbiterEvent, { given: unknown }>): ActorRefFrom<typeof sessionMachine> | undefined {
    if (!("sessionId" in command) || command.sessionId === undefined || NEEDS_ARBITER.has(command.type))
      return undefined;
    return this.#arbiter.getSnapshot().children[command.sessionId];
  }

  #send(event: ArbiterEvent): void {
    this.#arbiter.send(event);
    this.#check();
  }

  #show(reply: Reply): Reply {
    if (!reply.ok || reply.sessionId === undefined) return reply;
    const standing = this.#standings.get(reply.sessionId);
    return standing ? { ...reply, session: standing.view } : reply;
  }

  #observe(event: InspectionEvent): void {
    // A throwing inspector wedges XState's mailbox, so nothing gets out of here.
    try {
      if (event.type === "@xstate.action") {
        if (event.action.type === "xstate.emit")
          this.#facts.push(...(event.action.params as { event: Emitted }).event.facts);
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
    const after = new SessionStanding(snapshot);
    this.#standings.delete(id);
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
