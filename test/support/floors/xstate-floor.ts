import { type AnyActorRef, createActor, type InspectionEvent, type SnapshotFrom } from "xstate";
import type { Emitted, Fact, Given } from "../../../src/actors/facts.ts";
import type { ArbiterEvent } from "../../../src/actors/floor/arbiter.ts";
import { arbiterMachine } from "../../../src/actors/floor/arbiter-machine.ts";
import { givesWayWhenIdle } from "../../../src/actors/floor/arbiter-step.ts";
import { asItStands, NEEDS_ARBITER } from "../../../src/actors/host/floor-actors.ts";
import { type SessionValue, sessionView, writtenState } from "../../../src/actors/session/session-context.ts";
import { deadlineOf } from "../../../src/actors/session/session-deadlines.ts";
import type { sessionMachine } from "../../../src/actors/session/session-machine.ts";
import type { SessionCommand } from "../../../src/actors/session/session-step.ts";
import type { Transition } from "../../../src/protocol/event.ts";
import type { FloorId, SessionId } from "../../../src/protocol/ids.ts";
import type { Reply } from "../../../src/protocol/internal/reply.ts";
import type { FloorTime } from "../../../src/shared/floor-time.ts";

type SessionSnapshot = SnapshotFrom<typeof sessionMachine>;
type CommandResult = { facts: Fact[]; reply: Reply | undefined };

/** By the type of an event: how a transition names it, if not by its last word. */
const VERBS: Record<string, string> = {
  "session.stop": "archive",
  withdraw: "answer",
  // A turn whose worker is lost while it waits for an answer begins again.
  "run.claim": "turn",
  "run.report": "turn",
};

/** A floor run by XState's own actors, mailboxes and inspection: the reference for the tables. */
export class XstateFloor {
  readonly #arbiter;
  readonly #before = new Map<SessionId, SessionSnapshot>();
  #lastNow = 0;
  #facts: Fact[] = [];
  #broken: unknown;

  constructor(floorId: FloorId, persisted?: unknown) {
    this.#arbiter = createActor(arbiterMachine, {
      input: { floorId },
      inspect: (event) => this.#observe(event),
      ...(persisted !== undefined && { snapshot: persisted as SnapshotFrom<typeof arbiterMachine> }),
    });
    this.#arbiter.subscribe({
      error: (error) => {
        this.#broken = error;
      },
    });
    this.#arbiter.start();
    for (const [id, session] of Object.entries(this.#children)) {
      this.#before.set(id as SessionId, session!.getSnapshot());
    }
  }

  get #children() {
    return this.#arbiter.getSnapshot().children;
  }

  /** @throws the error that a machine threw */
  deliver(command: ArbiterEvent): CommandResult {
    this.#facts = [];
    const { given } = command;
    this.#catchUp(given, "-");
    const begun = this.#facts.length;
    const isForSession = "sessionId" in command && command.sessionId !== undefined && !NEEDS_ARBITER.has(command.type);
    const session = isForSession ? this.#children[command.sessionId!] : undefined;
    if (session) session.send(command as SessionCommand);
    else this.#arbiter.send(command);
    this.#lastNow = given.now;
    this.#catchUp(given, "+");
    if (this.#broken !== undefined) throw this.#broken;
    const answer = this.#facts.find((fact) => fact.type === "reply");
    const facts = this.#facts.filter((fact) => fact.type !== "reply");
    if (!answer) return { facts, reply: undefined };
    const { floor } = this.#arbiter.getSnapshot().context;
    const reply = asItStands(answer.reply, this.#facts.slice(begun), floor, given);
    return { facts, reply: answer.showsSession ? this.#show(reply) : reply };
  }

  /** What is due by now, each at its own moment; an idle holder first, and at the same moment who asked first. */
  #catchUp(given: Given, side: string): void {
    for (let count = 1; ; count += 1) {
      const { context } = this.#arbiter.getSnapshot();
      const { reserved, holder } = context.floor;
      const due = Object.entries(this.#children)
        .flatMap(([id, session]) => {
          const own = session!.getSnapshot().context;
          const deadline = deadlineOf(own, given, reserved?.sessionId === id);
          const givesWay = id === holder?.sessionId && givesWayWhenIdle(context, given.catalog);
          const idle = givesWay && own.idleSince !== undefined && { what: "idle_yields" as const, at: own.idleSince };
          const { askedAt } = own.numbers;
          return [idle, deadline].flatMap((each) => (each ? [{ id, askedAt, session, ...each }] : []));
        })
        .sort((one, other) => {
          const isIdle = Number(other.what === "idle_yields") - Number(one.what === "idle_yields");
          return (
            isIdle ||
            one.at - other.at ||
            one.askedAt - other.askedAt ||
            (one.id < other.id ? -1 : Number(one.id !== other.id))
          );
        })
        .at(0);
      const wakeAt = reserved ? reserved.since + given.catalog.policy.resumeDelayMs : Number.POSITIVE_INFINITY;
      const at = Math.min(wakeAt, due?.at ?? Number.POSITIVE_INFINITY);
      if (at > given.time) {
        if (count > 1) this.#facts.push({ type: "at", now: given.now });
        return;
      }
      const now = Math.max(this.#lastNow, at);
      const own = {
        ...given,
        now,
        time: now as FloorTime,
        stamp: `${given.stamp}${side}${count}`,
        lateMs: given.time - now,
      };
      this.#lastNow = now;
      this.#facts.push({ type: "at", now });
      if (due && due.at < wakeAt) due.session!.send({ type: "due", what: due.what, given: own });
      else this.#arbiter.send({ type: "due", given: own });
    }
  }

  /** The persisted snapshot after a round trip through JSON. */
  persisted(): { children: Record<string, unknown> } {
    return JSON.parse(JSON.stringify(this.#arbiter.getPersistedSnapshot()));
  }

  #show(reply: Reply): Reply {
    const snapshot = reply.ok && reply.sessionId !== undefined ? this.#before.get(reply.sessionId) : undefined;
    if (!snapshot) return reply;
    return { ...reply, session: sessionView(snapshot.context, snapshot.value as SessionValue) } as Reply;
  }

  #observe(event: InspectionEvent): void {
    if (event.type === "@xstate.action" && event.action.type === "xstate.emit") {
      this.#facts.push(...(event.action.params as { event: Emitted }).event.facts);
    } else if (event.type === "@xstate.snapshot" && event.actorRef !== this.#arbiter) {
      this.#transition((event.actorRef as AnyActorRef).id as SessionId, event.snapshot as SessionSnapshot, event.event);
    }
  }

  #transition(id: SessionId, after: SessionSnapshot, event: { type: string }): void {
    if (after.status === "stopped") return;
    const before = this.#before.get(id);
    this.#before.set(id, after);
    if (event.type === "xstate.init" || !before) return;
    const from = writtenState(before.value as SessionValue);
    const to = writtenState(after.value as SessionValue);
    // A paused session's activity is not part of its written state.
    const isHidden = to === "paused" && before.value.activity !== after.value.activity;
    const activity = isHidden ? { from: before.value.activity, to: after.value.activity } : undefined;
    const { level } = after.context;
    const { lifecycle } = before.value;
    const isPausedAgain = event.type === "session.pause" && before.context.pausedBy === "preemption";
    const givesUp = isPausedAgain || ((lifecycle === "paused" || lifecycle === "created") && event.type === "yield");
    if (from === to && !activity && level === before.context.level && !givesUp) return;
    const { reason, by } = event as unknown as Pick<Transition, "reason" | "by">;
    const runId = after.context.run?.id ?? before.context.run?.id;
    const verb = VERBS[event.type] ?? event.type.replace("session.", "");
    const data = {
      from,
      to,
      event: verb as Transition["event"],
      ...(activity && { activity: activity as NonNullable<Transition["activity"]> }),
      ...(reason !== undefined && { reason }),
      ...(by && { by }),
      ...(runId !== undefined && { runId }),
      ...(level !== undefined && { level }),
    };
    this.#facts.push({ type: "event", event: { type: "session_transition", sessionId: id, data } });
  }
}
