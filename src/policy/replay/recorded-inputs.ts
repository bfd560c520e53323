/**
 * What was done to a floor, read from its log: who asked, which turns were taken and how they ended, what users did,
 * and which programs died. What the floor did by itself, such as a wake or a deadline, is left out: it follows from a
 * catalogue.
 */

import type { LoggedServerEvent, ServerEventOf } from "../../client/server-event.ts";
import { type Decision, isRequest } from "../../protocol/decision.ts";
import type { ErrorCode } from "../../protocol/errors.ts";
import type { Transition, WrittenState } from "../../protocol/event.ts";
import type { AgentId, MessageId, RequestId, RunId, SessionId } from "../../protocol/ids.ts";
import { isAudibleState, isContinued } from "../../protocol/written-state.ts";
import type { TurnPlan, TurnStep } from "../played-turns.ts";

/** A turn of a log, and what its agent did in it. */
export type RecordedTurn = TurnPlan & { readonly messageId: MessageId };

type Ask = Extract<TurnStep, { does: "ask" }>;

/** Something that was done to the floor. `index`: of its event in the log. */
export type RecordedInput = { readonly at: number; readonly index: number } & (
  | {
      does: "create";
      sessionId: SessionId;
      agentId: AgentId;
      workspaceId?: string | undefined;
      locale?: string | undefined;
      turn?: RecordedTurn | undefined;
      /** The session that it is a copy of, and which it replaced. */
      replaces?: SessionId | undefined;
      endsWithTurn?: true | undefined;
      /** Whether it asked for the floor. */
      asks: boolean;
      /** What the floor decided about that. */
      decision?: Decision | undefined;
      /** The request was refused, and made no session. */
      isRefused?: true | undefined;
      /** The session is older than the log. */
      isOlder?: true | undefined;
    }
  | { does: "request"; sessionId: SessionId; turn?: RecordedTurn | undefined; decision: Decision }
  | { does: "turn"; sessionId: SessionId; turn: RecordedTurn }
  | { does: "pause" | "archive" | "delete"; sessionId: SessionId }
  /** The session lost its place, because its program was not heard from. */
  | { does: "lapse"; sessionId: SessionId; agentId: AgentId }
  | { does: "abort"; sessionId: SessionId; runId?: RunId | undefined }
  | { does: "switch"; sessionId: SessionId; agentId: AgentId }
  | { does: "stop"; sessionIds: SessionId[] }
  | { does: "flags"; flags: Record<string, boolean> }
  | { does: "catalogue"; hash: string; former: string }
);
type InputOf<Does extends RecordedInput["does"]> = Extract<RecordedInput, { does: Does }>;

export interface OlderSession {
  readonly sessionId: SessionId;
  readonly agentId: AgentId;
  readonly state: WrittenState;
}

/** What a log says, in the order in which it happened. */
export interface Recording {
  readonly inputs: readonly RecordedInput[];
  /** Sessions that are older than the log, as they were when it begins. */
  readonly older: readonly OlderSession[];
  /** Older sessions whose agent the log does not name. They do not take part. */
  readonly unknown: readonly string[];
  /**
   * Sessions that were deleted, and what the log had of them with them. They come where something else in the log first
   * names them.
   */
  readonly erased: ReadonlySet<string>;
  /** Questions with a time limit: whose agent asked, and the limit in ms. */
  readonly questions: readonly { readonly agentId: AgentId; readonly limitMs: number }[];
}

/** @param events of one floor's log, the oldest first */
export function readRecording(events: readonly LoggedServerEvent[]): Recording {
  return new RecordingReader(events).read();
}

interface Life {
  agentId: AgentId | undefined;
  state: WrittenState;
  /** Since when, ms since 1970. */
  since: number;
  /** When it fell silent last. */
  silencedAt?: number;
  /** The turn under way. */
  turn?: OpenTurn | undefined;
}

interface OpenTurn {
  readonly runId: RunId;
  readonly steps: TurnStep[];
  workMs: number;
  /** Where the work and the steps were when the session was heard again last. */
  heardFrom: { readonly workMs: number; readonly index: number; readonly count: number };
  readonly actors: Set<string>;
  readonly asks: Map<string, Ask & { openedAt: number }>;
}

type Writable<T> = { -readonly [K in keyof T]: T[K] };

class RecordingReader {
  readonly #events: readonly LoggedServerEvent[];
  readonly #inputs: RecordedInput[] = [];
  readonly #lives = new Map<SessionId, Life>();
  /** The steps of each turn, also of one that has not begun. */
  readonly #steps = new Map<RunId, TurnStep[]>();
  readonly #unknown = new Set<string>();
  readonly #older: OlderSession[] = [];
  readonly #erased: ReadonlySet<string>;
  readonly #questions: { agentId: AgentId; limitMs: number }[] = [];
  readonly #created = new Map<SessionId, Writable<InputOf<"create">>>();
  #flags = "{}";
  #at = 0;
  #index = 0;

  constructor(events: readonly LoggedServerEvent[]) {
    this.#events = events;
    this.#erased = erasedIn(events);
  }

  read(): Recording {
    for (const [index, event] of this.#events.entries()) {
      this.#at = Date.parse(event.timestamp);
      this.#index = index;
      this.#take(event);
    }
    // Who was silent asks first, and who had the floor last.
    const older = this.#older.sort((one, other) => rankOf(one.state) - rankOf(other.state));
    const inputs = [...older.map((session, index) => this.#creationOf(session, index)), ...this.#inputs];
    return { inputs, older, unknown: [...this.#unknown], erased: this.#erased, questions: this.#questions };
  }

  #take(event: LoggedServerEvent): void {
    const sessionId = event.sessionId as SessionId | undefined;
    if (event.type === "floor_updated") return this.#takeFloor(event);
    if (event.type === "arbitration") return this.#takeDecision(event.data, sessionId);
    if (sessionId === undefined) return;
    switch (event.type) {
      case "session_created":
        return this.#takeCreation(event, sessionId);
      case "session_transition":
        return this.#takeTransition(event.data, sessionId);
      case "agent_switched":
        this.#life(sessionId).agentId = event.data.currentAgentId;
        return this.#add({ does: "switch", sessionId, agentId: event.data.currentAgentId });
      case "message":
        if (event.data.role === "user" && event.data.runId) this.#takeTurn(sessionId, event.data.id, event.data.runId);
        return;
      case "tool_call":
        return this.#takeAct(sessionId, event.data.agent.name);
      case "tool_confirmation_request":
      case "user_question_request":
        return this.#takeAsk(sessionId, event.requestId as RequestId, event.data.expiresAt);
      case "interaction_resolved":
        return this.#takeAnswer(sessionId, event.requestId as RequestId, event.data.by);
      case "complete":
        return this.#takeEnd(sessionId, event.data);
    }
  }

  #add(input: DistributiveOmit<RecordedInput, "at" | "index">): void {
    this.#inputs.push({ ...input, at: this.#at, index: this.#index } as RecordedInput);
  }

  #takeFloor({ data }: ServerEventOf<"floor_updated">): void {
    const flags = JSON.stringify(data.flags);
    if (flags !== this.#flags) this.#add({ does: "flags", flags: data.flags });
    this.#flags = flags;
    if (data.catalogue) this.#add({ does: "catalogue", ...data.catalogue });
  }

  #takeCreation({ data }: ServerEventOf<"session_created">, sessionId: SessionId): void {
    const { agentId, workspaceId, locale, origin, endsWithTurn } = data;
    this.#lives.set(sessionId, { agentId, state: "created", since: this.#at });
    const replaced = origin?.sessionId;
    const isReplaced =
      replaced !== undefined &&
      this.#events.slice(this.#index, this.#index + 20).some((event) => {
        if (event.type !== "session_transition" || event.sessionId !== replaced) return false;
        return event.data.reason === "superseded" && event.data.by?.sessionId === sessionId;
      });
    const input: Writable<InputOf<"create">> = {
      at: this.#at,
      index: this.#index,
      ...{ does: "create", asks: false, sessionId, agentId, workspaceId, locale, endsWithTurn },
      ...(isReplaced && { replaces: replaced }),
    };
    this.#created.set(sessionId, input);
    this.#inputs.push(input);
  }

  #takeDecision(decision: Decision, sessionId: SessionId | undefined): void {
    this.#meetOthers(decision);
    const { agentId } = decision.challenger;
    if (sessionId === undefined) {
      const id = `refused-${this.#index + 1}` as SessionId;
      return this.#add({ does: "create", sessionId: id, agentId, asks: true, decision, isRefused: true });
    }
    const life = this.#life(sessionId);
    life.agentId ??= agentId;
    if (decision.reason === "lease_expired") return this.#add({ does: "lapse", sessionId, agentId });
    if (!isRequest(decision)) return;
    const created = this.#created.get(sessionId);
    if (created && created.at === this.#at && !created.asks && life.state === "created") {
      created.asks = true;
      created.decision = decision;
    } else this.#add({ does: "request", sessionId, decision });
  }

  /** Sessions that a decision names, whose creation may be older than the log. */
  #meetOthers({ holder, effects = [] }: Decision): void {
    if (holder) this.#life(holder.sessionId).agentId ??= holder.agentId;
    for (const { sessionId, agentId } of effects) this.#life(sessionId).agentId ??= agentId;
  }

  #takeTurn(sessionId: SessionId, messageId: MessageId, runId: RunId): void {
    const steps: TurnStep[] = [];
    this.#steps.set(runId, steps);
    const turn = { sessionId, messageId, runId, steps };
    const asked = this.#inputs.findLast(
      (input) => input.at === this.#at && "sessionId" in input && input.sessionId === sessionId,
    );
    if (asked && (asked.does === "create" || asked.does === "request") && asked.decision && !asked.turn)
      (asked as Writable<InputOf<"request">>).turn = turn;
    else this.#add({ does: "turn", sessionId, turn });
  }

  #takeTransition(transition: Transition, sessionId: SessionId): void {
    const life = this.#life(sessionId);
    const { by } = transition;
    // What takes the place of a session may have a floor of its own.
    if (by && !isContinued(transition.reason)) this.#life(by.sessionId).agentId ??= by.agentId;
    this.#count(life);
    this.#follow(life, transition);
    const { agentId } = life;
    this.#addCause(transition, sessionId, agentId);
  }

  /** The session's state, and the turn that begins. */
  #follow(life: Life, { to, event, runId }: Transition): void {
    const [wasAudible, isAudible] = [isAudibleState(life.state), isAudibleState(to)];
    if (wasAudible && !isAudible) life.silencedAt = this.#at;
    else if (!wasAudible && isAudible && life.turn)
      life.turn.heardFrom = { workMs: life.turn.workMs, index: this.#index, count: life.turn.steps.length };
    life.state = to;
    if (event !== "turn" || runId === undefined || life.turn?.runId === runId) return;
    const steps = this.#steps.get(runId) ?? [];
    this.#steps.set(runId, steps);
    const heardFrom = { workMs: 0, index: 0, count: 0 };
    life.turn = { runId, steps, workMs: 0, heardFrom, actors: new Set(), asks: new Map() };
  }

  /** What was done to the session, if the transition shows it: the floor does the rest by itself. */
  #addCause(transition: Transition, sessionId: SessionId, agentId: AgentId | undefined): void {
    const { event, reason, runId } = transition;
    switch (event) {
      case "pause":
      case "delete":
        return this.#add({ does: event, sessionId });
      case "archive":
        return this.#takeArchive(sessionId, transition);
      case "abort":
        if (reason === undefined) this.#add({ does: "abort", sessionId, runId });
        return;
      case "yield":
        if (reason === "lease_expired" && agentId !== undefined) this.#add({ does: "lapse", sessionId, agentId });
    }
  }

  #takeArchive(sessionId: SessionId, { reason, by }: Transition): void {
    const isReplacedElsewhere = reason === "superseded" && by !== undefined && !this.#lives.has(by.sessionId);
    // One that moved away leaves this floor as one that its user ends.
    if (reason === undefined || reason === "moved" || isReplacedElsewhere)
      return this.#add({ does: "archive", sessionId });
    const last = this.#inputs.at(-1);
    if (reason !== "stop") return;
    if (last?.does === "stop" && last.at === this.#at) last.sessionIds.push(sessionId);
    else this.#add({ does: "stop", sessionIds: [sessionId] });
  }

  #takeAct(sessionId: SessionId, author: string): void {
    const { turn } = this.#life(sessionId);
    if (!turn || turn.actors.has(author)) return;
    turn.actors.add(author);
    turn.steps.push({ does: "act", author, ...this.#place(sessionId) });
  }

  #takeAsk(sessionId: SessionId, requestId: RequestId, expiresAt: number | undefined): void {
    const { turn, agentId } = this.#life(sessionId);
    if (agentId !== undefined && expiresAt !== undefined)
      this.#questions.push({ agentId, limitMs: expiresAt - this.#at });
    if (!turn) return;
    const ask: Ask & { openedAt: number } = { does: "ask", requestId, ...this.#place(sessionId), openedAt: this.#at };
    turn.asks.set(requestId, ask);
    turn.steps.push(ask);
  }

  #takeAnswer(sessionId: SessionId, requestId: RequestId, by: "client" | "timeout" | "abort" | "agent"): void {
    const ask = this.#life(sessionId).turn?.asks.get(requestId);
    // A question whose time is over ends by itself.
    if (!ask || by === "timeout") return;
    ask.openMs = this.#at - ask.openedAt;
    ask.endedBy = by === "client" ? "client" : "agent";
    ask.endIndex = this.#index;
  }

  /** `complete`, which the transition follows that says how the turn ended. */
  #takeEnd(sessionId: SessionId, { runId, withdrawn }: ServerEventOf<"complete">["data"]): void {
    const life = this.#life(sessionId);
    const { turn } = life;
    if (turn?.runId !== runId) {
      if (withdrawn) this.#add({ does: "abort", sessionId, runId });
      return;
    }
    const how = this.#howItEnds(sessionId);
    const where = this.#place(sessionId);
    life.turn = undefined;
    if (how?.event === "done") turn.steps.push({ does: "end", ...where });
    else if (how?.event === "fail" && how.reason !== "interaction_timeout") {
      const failure = (how.reason ?? "internal") as ErrorCode;
      if (failure === "run_lost" && life.silencedAt === this.#at) {
        // A pause ends a run that has acted since it was last heard, whenever it comes.
        const { count, ...from } = turn.heardFrom;
        turn.steps.splice(count, 0, { does: "act", ...from });
      } else turn.steps.push({ does: "end", failure, ...where });
    }
  }

  #howItEnds(sessionId: SessionId): Transition | undefined {
    for (const event of this.#events.slice(this.#index + 1, this.#index + 200)) {
      if (event.sessionId !== sessionId || event.type !== "session_transition") continue;
      return Date.parse(event.timestamp) === this.#at ? event.data : undefined;
    }
    return undefined;
  }

  /** Where in the turn's work this moment is. */
  #place(sessionId: SessionId): { workMs: number; at?: number; index: number } {
    const life = this.#life(sessionId);
    this.#count(life);
    return {
      workMs: life.turn?.workMs ?? 0,
      index: this.#index,
      ...(!isWorking(life.state) && { at: this.#at }),
    };
  }

  /** Add the time that has passed to the work of the turn under way. */
  #count(life: Life): void {
    if (life.turn && isWorking(life.state)) life.turn.workMs += this.#at - life.since;
    life.since = this.#at;
  }

  #life(sessionId: SessionId): Life {
    let life = this.#lives.get(sessionId);
    if (life) return life;
    const agentId = this.#agentOf(sessionId);
    const state = this.#stateBefore(sessionId);
    life = { agentId, state, since: this.#at };
    this.#lives.set(sessionId, life);
    if (agentId === undefined) this.#unknown.add(sessionId);
    else if (this.#erased.has(sessionId)) this.#addErased(sessionId, agentId);
    else this.#older.push({ sessionId, agentId, state });
    return life;
  }

  /** A session that something names here, and of which the log has nothing else: it asked before. */
  #addErased(sessionId: SessionId, agentId: AgentId): void {
    const at = this.#at;
    // Before the input that its event makes, also if that one was added first.
    this.#inputs.push({ does: "create", at, index: this.#index - 0.5, sessionId, agentId, asks: true });
  }

  /** A session that was there when the log begins. */
  #creationOf({ sessionId, agentId, state }: OlderSession, index: number): InputOf<"create"> {
    const at = Date.parse(this.#events[0]!.timestamp);
    return {
      does: "create",
      at,
      index: index - this.#older.length,
      sessionId,
      agentId,
      asks: state !== "created",
      isOlder: true,
    };
  }

  /** The state of an older session when the log begins: a session without a transition is named as the holder. */
  #stateBefore(sessionId: SessionId): WrittenState {
    for (const event of this.#events) {
      if (event.type === "session_transition" && event.sessionId === sessionId) return event.data.from;
    }
    return "active.idle";
  }

  /** The agent that later events name; undefined if none does. */
  #agentOf(sessionId: SessionId): AgentId | undefined {
    for (const event of this.#events) {
      if (event.type === "arbitration") {
        const { challenger, holder, effects = [] } = event.data;
        const found = [challenger, holder, ...effects].find((each) => each?.sessionId === sessionId);
        if (found) return found.agentId;
      } else if (event.type === "agent_switched" && event.sessionId === sessionId) return event.data.previousAgentId;
      else if (event.type === "session_transition" && event.data.by?.sessionId === sessionId)
        return event.data.by.agentId;
    }
    return undefined;
  }
}

type DistributiveOmit<T, K extends PropertyKey> = T extends unknown ? Omit<T, K> : never;

/** Deleted sessions whose creation the log does not have: a deletion takes a session's events with it. */
function erasedIn(events: readonly LoggedServerEvent[]): Set<string> {
  const erased = new Set<string>();
  for (const { type, sessionId, data } of events)
    if (type === "session_transition" && data.event === "delete") erased.add(sessionId!);
  for (const { type, sessionId } of events) if (type === "session_created") erased.delete(sessionId!);
  return erased;
}

/** Created, paused, beneath another session, in front. */
function rankOf(state: WrittenState): number {
  if (state === "created") return 0;
  return state === "paused" ? 1 : state.startsWith("ducked") ? 2 : 3;
}

const isWorking = (state: WrittenState): boolean => state === "active.running" || state === "ducked.running";
