import { writtenState } from "../../actors/session/session-context.ts";
import type { LoggedServerEvent } from "../../client/server-event.ts";
import type { Catalog } from "../../config/catalog/catalog.ts";
import type { Decision } from "../../protocol/decision.ts";
import type { WrittenState } from "../../protocol/event.ts";
import { type AgentId, type FloorId, type SessionId, userOf } from "../../protocol/ids.ts";
import type { Command } from "../../protocol/internal/command.ts";
import type { Reply } from "../../protocol/internal/reply.ts";
import { type PlayedEvent, PlayedLog } from "../played-log.ts";
import { PlayedTurns, type TurnPlan, type Upcoming } from "../played-turns.ts";
import { SteppedFloor, type TimedFact } from "../stepped-floor.ts";
import { type OlderSession, type RecordedInput, readRecording } from "./recorded-inputs.ts";

export interface ReplayOptions {
  catalog: Catalog;
  /** Catalogues that were in force, by their hash: while the log names one, it decides in place of `catalog`. */
  former?: ReadonlyMap<string, Catalog> | undefined;
  /** How long a session that was refused is heard, if it is not refused now, in ms. */
  refusedLastMs: number;
}

/** A request of the log, and what became of it. */
export interface ReplayedRequest {
  readonly at: number;
  readonly agentId: string;
  readonly sessionId: SessionId;
  readonly before: Decision;
  /** Undefined: the request was not made, because its session does not exist or had ended. */
  readonly after: Decision | undefined;
  /** Why there was no decision: the code of the refusal, such as `agent_not_found`. */
  readonly refusal?: string | undefined;
}

export interface ReplayedFloor {
  readonly floorId: string;
  /** Ms since 1970. */
  readonly startedAt: number;
  readonly endedAt: number;
  /** What the log says, and what happens with the other catalogue; both the oldest first. */
  readonly before: readonly LoggedServerEvent[];
  readonly after: readonly PlayedEvent[];
  readonly requests: readonly ReplayedRequest[];
  /** Sessions that are older than the log, as they were at its beginning, and as they are in the replay. */
  readonly older: { readonly before: readonly OlderSession[]; readonly after: readonly OlderSession[] };
  /** Sessions that did not take part, because the log begins after they did and does not name their agent. */
  readonly unknown: readonly string[];
  /** Sessions that were deleted, of which the log has nothing else. */
  readonly erased: ReadonlySet<string>;
  /** The hashes of catalogues that came into force during the log. */
  readonly catalogues: readonly string[];
}

/**
 * Play what was done to a floor once more, with another catalogue: the same requests, turns, ends, flags and deaths, at
 * their times.
 * @param events of the floor's log, the oldest first; at least one
 */
export function replayFloor(
  floorId: string,
  events: readonly LoggedServerEvent[],
  options: ReplayOptions,
): ReplayedFloor {
  const replay = new Replay(floorId, events, options);
  for (const _ of replay.steps()) void _;
  return replay.result();
}

/**
 * How exactly the times of a log tell the time in which deadlines are measured, in ms: they are those of the wall
 * clock, and each process begins within a ms of it.
 */
export const CLOCKS_MS = 5;

const changesIn = (events: readonly LoggedServerEvent[]): number =>
  events.filter(({ type }) => type === "session_transition" || type === "arbitration").length;

type Death = { readonly at: number; readonly index: number; readonly does: "die"; readonly sessionId: SessionId };
type Input = RecordedInput | Death;

/**
 * With the lease that it had, a session lapses when the log says. With another one its program dies so that it would
 * have lapsed then: one and a half leases before. The log does not say when a program was last heard from.
 */
function withDeaths(inputs: readonly RecordedInput[], { catalog, former }: ReplayOptions): Input[] {
  const leasesOf = (agentId: string): (number | undefined)[] =>
    [...(former?.values() ?? []), catalog].map((each) => each.agents.get(agentId)?.leaseMs);
  const firstAt = inputs[0]?.at ?? 0;
  let inForce = inputs.find((input) => input.does === "catalogue")?.former;
  const all = inputs.flatMap((input): Input[] => {
    if (input.does === "catalogue") inForce = input.hash;
    if (input.does !== "lapse") return [input];
    // The catalogue that was in force decides again.
    if (inForce !== undefined && former?.has(inForce)) return [input];
    const leases = leasesOf(input.agentId);
    const leaseMs = leases.find((each) => each !== undefined);
    if (leases.every((each) => each === leaseMs)) return [input];
    const at = Math.max(firstAt, input.at - 1.5 * (leaseMs ?? 0));
    return leaseMs === undefined ? [] : [{ at, index: input.index, does: "die", sessionId: input.sessionId }];
  });
  return all.sort((one, other) => one.at - other.at);
}

/** A replay in steps, so that a server can do other work between them. */
export class Replay {
  readonly #floorId: string;
  readonly #events: readonly LoggedServerEvent[];
  readonly #options: ReplayOptions;
  readonly #inputs: readonly Input[];
  readonly #unknown: readonly string[];
  readonly #erased: ReadonlySet<string>;
  readonly #older: readonly OlderSession[];
  #olderNow: OlderSession[] = [];
  readonly #floor: SteppedFloor;
  readonly #turns: PlayedTurns;
  #log = new PlayedLog();
  readonly #requests: ReplayedRequest[] = [];
  readonly #catalogues: string[] = [];
  readonly #startedAt: number;
  readonly #endedAt: number;
  /** Sessions whose programs died, with the index of the event that says so. */
  readonly #dying = new Map<SessionId, number>();
  /** Sessions that the log refused, and this replay did not: since when they are heard. */
  readonly #extra = new Map<SessionId, number | undefined>();

  constructor(floorId: string, events: readonly LoggedServerEvent[], options: ReplayOptions) {
    const { inputs, older, unknown, erased, questions } = readRecording(events);
    this.#erased = erased;
    this.#older = older;
    this.#floorId = floorId;
    this.#events = events;
    this.#options = options;
    this.#inputs = withDeaths(inputs, options);
    this.#unknown = unknown;
    this.#startedAt = Date.parse(events[0]!.timestamp);
    this.#endedAt = Date.parse(events.at(-1)!.timestamp);
    const firstReload = inputs.find((input) => input.does === "catalogue");
    const catalog = this.#catalogOf(firstReload?.former);
    this.#floor = new SteppedFloor({
      ...{ catalog, now: this.#startedAt, floorId: floorId as FloorId },
      // The node's own limit: that of an agent that has none.
      interactionTimeoutMs: questions.find(({ agentId }) => this.#hasNoLimit(agentId))?.limitMs,
    });
    this.#turns = new PlayedTurns(this.#floor, (command) => this.#send(command));
  }

  /** Play the log; it yields after each input. */
  *steps(): Generator<void> {
    const count = this.#older.length;
    for (const input of this.#inputs.slice(0, count)) this.#take(input);
    this.#olderNow = this.#older.map((session) => ({ ...session, state: this.#stateOf(session) }));
    this.#log = new PlayedLog();
    for (const input of this.#inputs.slice(count)) {
      // What else is due when a session lapses is carried out with it.
      if (input.does === "lapse") this.#passTo(input.at - 1, Number.POSITIVE_INFINITY);
      else this.#passTo(input.at, input.index);
      this.#take(input);
      this.#floor.release();
      yield;
    }
    this.#passTo(this.#endedAt, Number.POSITIVE_INFINITY);
    // A deadline with which the log ends.
    if (changesIn(this.#log.events) < changesIn(this.#events))
      this.#passTo(this.#endedAt + CLOCKS_MS, Number.POSITIVE_INFINITY);
  }

  result(): ReplayedFloor {
    return {
      floorId: this.#floorId,
      startedAt: this.#startedAt,
      endedAt: this.#endedAt,
      before: this.#events,
      after: this.#log.events,
      requests: this.#requests,
      older: { before: this.#older, after: this.#olderNow },
      unknown: this.#unknown,
      erased: this.#erased,
      catalogues: this.#catalogues,
    };
  }

  #stateOf({ sessionId }: OlderSession): WrittenState {
    const session = this.#floor.session(sessionId);
    return session ? writtenState(session.value) : "archived";
  }

  /** Let time pass until this moment, and in its ms do what is before this index of the log. */
  #passTo(time: number, index: number): void {
    for (let next = this.#next(); next !== undefined; next = this.#next()) {
      if (next.at > time || (next.at === time && next.index >= index)) break;
      this.#record(this.#floor.passTo(Math.max(next.at, this.#floor.time)));
      next.act();
    }
    this.#record(this.#floor.passTo(Math.max(time, this.#floor.time)));
  }

  #next(): Upcoming | undefined {
    let next = this.#turns.next();
    const due = this.#floor.nextDue();
    // What is due happens before everything else of its moment.
    if (due !== undefined && (!next || due <= next.at)) next = { at: due, index: -1, act: () => undefined };
    for (const [id, since] of this.#extra) {
      const at = since === undefined ? undefined : since + this.#options.refusedLastMs;
      if (at !== undefined && (!next || at < next.at)) next = { at, index: 0, act: () => this.#endExtra(id) };
    }
    return next;
  }

  #endExtra(sessionId: SessionId): void {
    this.#extra.delete(sessionId);
    this.#send({ type: "session.archive", sessionId });
  }

  #take(input: Input): void {
    if (input.does === "create") return this.#create(input);
    if (input.does === "flags") return void this.#send({ type: "floor.flags", flags: input.flags });
    if (input.does === "catalogue") return this.#useFormer(input.hash);
    if (input.does === "stop") return this.#stop(input.sessionIds);
    const { sessionId } = input;
    if (input.does === "request") return this.#request(input);
    if (!this.#floor.session(sessionId)) return;
    if (input.does === "die" || input.does === "lapse") return this.#die(input);
    this.#reviveFor(input);
    switch (input.does) {
      case "turn":
        return void this.#chat(input.turn);
      case "switch":
        return void this.#send({ type: "session.switch_agent", sessionId, agentId: input.agentId });
      case "abort":
        return void this.#send({ type: "session.abort", sessionId, ...(input.runId && { runId: input.runId }) });
      default:
        return void this.#send({ type: `session.${input.does}`, sessionId });
    }
  }

  #create(input: Extract<RecordedInput, { does: "create" }>): void {
    const { sessionId, agentId, workspaceId, locale, turn, replaces, endsWithTurn, asks, decision } = input;
    const session = {
      sessionId,
      agentId,
      ...this.#owner(),
      ...(workspaceId !== undefined && { workspaceId }),
      ...(locale !== undefined && { locale }),
      ...(endsWithTurn && { endsWithTurn }),
    };
    if (turn) this.#turns.add(turn);
    const wanted = turn && { messageId: turn.messageId, runId: turn.runId, content: "…" };
    const command =
      replaces !== undefined && this.#floor.session(replaces)
        ? { type: "session.copy" as const, history: { messageCount: 0, origin: { by: "fork" as const } }, replaces }
        : turn
          ? { type: "session.chat" as const }
          : { type: "session.create" as const };
    const { reply } = this.#apply({ ...command, sessionId, session, activate: asks, turn: wanted } as Command);
    if (!reply.ok && turn) this.#turns.forget(turn.runId);
    if (input.isRefused && reply.ok) this.#extra.set(sessionId, undefined);
    if (decision) this.#note(input, agentId, decision, reply);
    this.#followExtra();
  }

  #owner(): { userId?: string } {
    const userId = userOf(this.#floorId as FloorId);
    return userId === undefined ? {} : { userId };
  }

  #request(input: Extract<RecordedInput, { does: "request" }>): void {
    const { sessionId, turn, decision } = input;
    const session = this.#floor.session(sessionId);
    this.#reviveFor(input);
    const { agentId } = decision.challenger;
    if (!session)
      return void this.#requests.push({ at: input.at, agentId, sessionId, before: decision, after: undefined });
    const isNew = session.value.lifecycle === "created";
    const reply = turn
      ? this.#chat(turn)
      : this.#send({ type: isNew ? "session.activate" : "session.resume", sessionId });
    this.#note(input, agentId, decision, reply);
  }

  #chat(turn: TurnPlan & { readonly messageId: string }): Reply {
    const { sessionId, runId, messageId } = turn;
    this.#turns.add(turn);
    const input = { messageId, runId, content: "…" };
    const reply = this.#send({ type: "session.chat", sessionId, turn: input } as Command);
    if (!reply.ok) this.#turns.forget(runId);
    return reply;
  }

  #note(input: RecordedInput & { sessionId: SessionId }, agentId: string, before: Decision, reply: Reply): void {
    const after = reply.ok ? reply.decision : (reply.facts?.["decision"] as Decision | undefined);
    const refusal = reply.ok || after ? {} : { refusal: reply.code };
    this.#requests.push({ at: input.at, agentId, sessionId: input.sessionId, before, after, ...refusal });
  }

  /** One session is stopped, or all that competed. */
  #stop(sessionIds: readonly SessionId[]): void {
    const front = this.#floor.context.floor.holder ?? this.#floor.context.floor.reserved;
    const isAll = sessionIds.length > 1 || front?.sessionId !== sessionIds[0];
    this.#send({ type: isAll ? "floor.stop_all" : "floor.stop" });
  }

  #die({ does, sessionId, index, at }: Death | Extract<RecordedInput, { does: "lapse" }>): void {
    this.#dying.set(sessionId, index);
    this.#record(does === "die" ? this.#floor.die(sessionId) : this.#floor.lapse(sessionId, at));
  }

  /** What comes after a session's lapse shows that its program is there again. What came before was no sign in time. */
  #reviveFor({ sessionId, index }: { sessionId: SessionId; index: number }): void {
    const lapsesAt = this.#dying.get(sessionId);
    if (lapsesAt === undefined || index < lapsesAt) return;
    this.#dying.delete(sessionId);
    this.#floor.revive(sessionId);
  }

  #useFormer(hash: string): void {
    this.#catalogues.push(hash);
    // What was due under the former one happened before.
    this.#send({ type: "alarm" });
    this.#record(this.#floor.use(this.#catalogOf(hash)));
  }

  #catalogOf(hash: string | undefined): Catalog {
    return (hash === undefined ? undefined : this.#options.former?.get(hash)) ?? this.#options.catalog;
  }

  /** Whether the agent's questions have the node's limit, in every catalogue. */
  #hasNoLimit(agentId: AgentId): boolean {
    const { catalog, former } = this.#options;
    return [catalog, ...(former?.values() ?? [])].every(
      (each) => each.agents.get(agentId)?.answerWithinMs === undefined,
    );
  }

  #send(command: Command): Reply {
    return this.#apply(command).reply;
  }

  #apply(command: Command): { reply: Reply } {
    const { reply, facts } = this.#floor.send(command);
    this.#record(facts);
    return { reply: asLogged(reply, facts) };
  }

  #record(facts: readonly TimedFact[]): void {
    this.#log.add(facts);
    this.#turns.serve(facts);
    this.#followExtra();
  }

  /** Sessions that the log refused end a while after they are first heard. */
  #followExtra(): void {
    for (const [id, since] of this.#extra) {
      const session = this.#floor.session(id);
      if (!session || session.value.lifecycle === "archived") this.#extra.delete(id);
      else if (since === undefined && /^(?:active|ducked)$/.test(session.value.lifecycle))
        this.#extra.set(id, this.#floor.time);
    }
  }
}

/** The reply with the decision of the log: that of a request that waited for no time says `queued` first. */
function asLogged(reply: Reply, facts: readonly TimedFact[]): Reply {
  if (!reply.ok || !reply.decision) return reply;
  const { sessionId } = reply.decision.challenger;
  const [queued] = facts.flatMap(({ fact }) => {
    if (fact.type !== "event" || fact.event.type !== "arbitration" || fact.event.sessionId !== sessionId) return [];
    return fact.event.data.outcome === "queued" ? [fact.event.data] : [];
  });
  return queued ? { ...reply, decision: queued } : reply;
}
