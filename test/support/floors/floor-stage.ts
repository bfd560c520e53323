import type { z } from "zod";
import type { Fact, Given } from "../../../src/actors/facts.ts";
import { type CommandResult, FloorActors } from "../../../src/actors/host/floor-actors.ts";
import {
  memoryOf,
  recallSession,
  type SessionContext,
  writtenState,
} from "../../../src/actors/session/session-context.ts";
import type { Catalog } from "../../../src/config/catalog/catalog.ts";
import type { LoggedData } from "../../../src/protocol/event.ts";
import type { FloorId, SessionId } from "../../../src/protocol/ids.ts";
import type { Command } from "../../../src/protocol/internal/command.ts";
import type { Reply } from "../../../src/protocol/internal/reply.ts";
import type { Session } from "../../../src/protocol/session.ts";
import type { FloorTime } from "../../../src/shared/floor-time.ts";
import { throughRows } from "./persisted-floor.ts";

type Loose<T> = T extends z.$brand
  ? string
  : T extends readonly (infer E)[]
    ? Loose<E>[]
    : T extends object
      ? { [K in keyof T]: Loose<T[K]> }
      : T;
/** A command with plain strings in place of the protocol's branded ones. */
export type LooseCommand = Loose<Command>;
type LooseReport = Extract<LooseCommand, { type: "run.report" }>;

/** The actors of one floor, with a clock that the test moves. */
export class FloorStage {
  catalog: Catalog;
  actors: FloorActors;
  now = Date.UTC(2026, 0, 1, 12);
  /** How far the wall clock is ahead of the floor's time, in ms. */
  wallAheadMs = 0;
  /** All events, oldest first. */
  readonly facts: Fact[] = [];
  #stamp = 0;
  #lastNow = 0;
  readonly #floorId: FloorId;

  constructor(catalog: Catalog, floorId = "u:ann") {
    this.catalog = catalog;
    this.#floorId = floorId as FloorId;
    this.actors = new FloorActors(this.#floorId);
  }

  deliver(command: LooseCommand): CommandResult {
    const delivery = this.actors.apply({ ...(command as Command), given: this.given(this.#stamp++) });
    this.facts.push(...delivery.facts);
    this.#lastNow = this.now;
    return delivery;
  }

  given(stamp: number): Given {
    const { now, catalog } = this;
    return {
      now,
      time: now as FloorTime,
      wall: now + this.wallAheadMs,
      stamp: `e${stamp}`,
      catalog,
      interactionTimeoutMs: 300_000,
    };
  }

  /** When the next thing is due; undefined if nothing is. */
  get due(): number | undefined {
    const ring = this.actors.nextRing();
    const due = this.actors.nextDue(this.given(0)) ?? Number.POSITIVE_INFINITY;
    const first = Math.min(due, ring === undefined ? Number.POSITIVE_INFINITY : ring - this.wallAheadMs);
    return first === Number.POSITIVE_INFINITY ? undefined : first;
  }

  /**
   * Let time pass. What is due happens when it is, or at the end of `awayMs`, in which the node was down.
   * @param alarm carries out what is due
   */
  pass(ms: number, awayMs = 0, alarm: () => unknown = () => this.ask({ type: "alarm" })): void {
    const until = this.now + ms;
    const backAt = this.now + awayMs;
    for (let { due } = this; due !== undefined && Math.max(due, backAt) <= until; { due } = this) {
      this.now = Math.max(this.now, due, backAt);
      alarm();
    }
    this.now = until;
  }

  beat(sessionId: string): CommandResult {
    return this.deliver({ type: "session.heartbeat", sessionId });
  }

  /** Send a heartbeat at each of these times from now. */
  beatAt(sessionId: string, ...times: number[]): void {
    const from = this.now;
    for (const at of times) {
      this.pass(from + at - this.now);
      this.beat(sessionId);
    }
  }

  /** What these commands make happen. */
  factsOf(commands: () => unknown): Fact[] {
    const before = this.facts.length;
    commands();
    return this.facts.slice(before);
  }

  contextOf(sessionId: string): SessionContext {
    return this.actors.machineState(sessionId as SessionId)!.context;
  }

  /** The session as answers contain it. */
  view(sessionId: string): Session | undefined {
    const view = this.actors.machineState(sessionId as SessionId)?.view;
    return view && JSON.parse(JSON.stringify(view));
  }

  ask(command: LooseCommand): Reply {
    return this.deliver(command).reply;
  }

  /** Create a session with this agent and the same name. */
  create(agentId: string, options: { id?: string; activate?: boolean } = {}): Reply {
    const sessionId = options.id ?? agentId;
    const session = { sessionId, agentId, userId: "ann" };
    return this.ask({ type: "session.create", sessionId, session, activate: options.activate ?? true });
  }

  on(sessionId: string, verb: "activate" | "resume" | "pause" | "archive" | "stop" | "abort" | "delete"): Reply {
    return this.ask({ type: `session.${verb}`, sessionId });
  }

  chat(sessionId: string, messageId: string, content = "hello"): Reply {
    return this.ask({ type: "session.chat", sessionId, turn: { messageId, runId: `run-${messageId}`, content } });
  }

  claim(sessionId: string, runId: string, claimId = "worker", asked = true): Reply {
    return this.ask({ type: "run.claim", sessionId, runId, claimId, hasNoDriver: asked });
  }

  report(sessionId: string, runId: string, n: number, rest: Partial<LooseReport> = {}): Reply {
    return this.ask({ type: "run.report", sessionId, runId, attempt: 1, n, parts: [], ...rest });
  }

  state(sessionId: string): string | undefined {
    const state = this.actors.machineState(sessionId as SessionId);
    return state && writtenState(state.value);
  }

  /** Restore the floor to new actors, as after a restart: from the floor's snapshot and its sessions' rows. */
  restart(): void {
    const former = this.actors;
    const needed = former.neededIds();
    this.actors = new FloorActors(this.#floorId, throughRows(former), this.#lastNow);
    for (const id of former.sessionIds) {
      const { context, value, view } = former.machineState(id)!;
      const { lifecycle, activity } = value;
      if (needed.has(id) || lifecycle === "deleted") continue;
      this.actors.load({ context: recallSession(view, memoryOf(context)), lifecycle, activity });
    }
  }

  /** `session from→to` of each transition, in order. */
  transitions(facts: readonly Fact[] = this.facts): string[] {
    return facts.flatMap((fact) => {
      if (fact.type !== "event" || fact.event.type !== "session_transition") return [];
      const { from, to } = fact.event.data as LoggedData<"session_transition">;
      return [`${fact.event.sessionId} ${from}→${to}`];
    });
  }

  /** The data of each event of this type, in order. */
  events(type: string, facts: readonly Fact[] = this.facts): Record<string, unknown>[] {
    return facts.flatMap((fact) =>
      fact.type === "event" && fact.event.type === type ? [fact.event.data as Record<string, unknown>] : [],
    );
  }
}

/** The decision in an answer, granted or not. */
export function decisionOf(reply: Reply): LoggedData<"arbitration"> | undefined {
  if (reply.ok) return reply.decision;
  return reply.facts?.["decision"] as LoggedData<"arbitration"> | undefined;
}

/** A catalogue that throws in the machine that reads such an agent. */
export function withThrowing(catalog: Catalog, isBomb: (agentId: string) => boolean): Catalog {
  const get = (id: string) => {
    if (isBomb(id)) throw new Error("it went off");
    return catalog.agents.get(id);
  };
  return { ...catalog, agents: Object.assign(new Map(catalog.agents), { get }) };
}
