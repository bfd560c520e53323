import { isAudible } from "../actors/session/session-context.ts";
import { type AgentEntry, acceptsTurns } from "../config/catalog/catalog.ts";
import type { AgentId, SessionId } from "../protocol/ids.ts";
import type { HourCombinations } from "./hour-combinations.ts";
import { PlayedTurns } from "./played-turns.ts";
import { type SeenStep, seenEvent } from "./seen-step.ts";
import { withEnabled } from "./simulation.ts";
import type { SteppedFloor, TimedFact } from "./stepped-floor.ts";

/** What can happen to a floor next. */
export type ExploredMove =
  | { readonly does: "asks" | "disable" | "enable"; readonly agentId: string; readonly sessionId?: string }
  | { readonly does: "resumes" | "pauses" | "ends" | "dies"; readonly sessionId: string }
  /** A message: a turn of the session, or of a new one of the agent. */
  | { readonly does: "says"; readonly sessionId: string; readonly agentId?: string }
  /** Its turn ends, done or failed; or it is cancelled, or fails, while its session is silent. */
  | { readonly does: "answers" | "fails" | "cancels"; readonly sessionId: string }
  | { readonly does: "set" | "clear"; readonly flag: string }
  /** The wall clock is set to a time at which exactly these rules apply. */
  | { readonly does: "clock"; readonly inForce: string }
  | { readonly does: "wait" };

/** Which moves an exploration tries, beside requests, ends, pauses and deadlines. */
export interface Variations {
  readonly flags: readonly string[];
  /** The rules with hours that apply together at some time. */
  readonly hours: readonly string[];
  /** Agents that are disabled and enabled, one at a time. */
  readonly disables: readonly string[];
}

/** The agents whose sessions may be created; of agents that nothing tells apart only the first unused one. */
export type Newcomers = (floor: SteppedFloor) => readonly string[];

/** Everything that can happen next on the floor but for the passing of time, with at most this many sessions. */
export function* movesFrom(
  floor: SteppedFloor,
  size: number,
  newcomers: Newcomers,
  { flags, hours, disables }: Variations,
): Generator<ExploredMove> {
  const { sessions } = floor;
  const present = new Set<string>(sessions.map(({ context }) => context.numbers.agentId));
  const off = disables.find((id) => floor.catalog.agents.get(id as AgentId)?.enabled === false);
  if (off !== undefined) yield { does: "enable", agentId: off };
  // Only its own sessions and requests read that an agent is disabled. What can happen without them can happen as well
  // once it is enabled.
  if (off !== undefined && !present.has(off)) return;
  if (sessions.length < size) yield* beginningsOf(floor, newcomers);
  for (const session of sessions) {
    yield* movesOf(session);
    yield* turnsOf(session, floor.catalog.agents.get(session.context.numbers.agentId));
  }
  for (const flag of flags) yield { does: floor.context.flags[flag] ? "clear" : "set", flag };
  for (const inForce of hours) yield { does: "clock", inForce };
  const disabled = off === undefined ? disables.filter((id) => present.has(id)) : [];
  for (const agentId of disabled) yield { does: "disable", agentId };
}

function* beginningsOf(floor: SteppedFloor, newcomers: Newcomers): Generator<ExploredMove> {
  for (const agentId of newcomers(floor)) {
    const sessionId = newIdOf(floor, agentId);
    yield { does: "asks", agentId, sessionId };
    if (turnsMatter(floor.catalog.agents.get(agentId as AgentId))) yield { does: "says", agentId, sessionId };
  }
}

function* movesOf({ context }: SteppedFloor["sessions"][number]): Generator<ExploredMove> {
  const { id: sessionId } = context;
  yield { does: "ends", sessionId };
  // One that has the floor asks again too: a request renews its numbers.
  yield { does: "resumes", sessionId };
  if (isAudible(context) || context.pausedBy === "preemption") yield { does: "pauses", sessionId };
}

/**
 * Whether it makes a difference that a turn runs in a session of the agent. A turn keeps its session from being idle,
 * and `after_turn` follows its end: nothing else that decides who is heard reads whether a run is there. For all other
 * agents a message acts as the request that it makes.
 */
export const turnsMatter = (agent: AgentEntry | undefined): boolean =>
  agent !== undefined &&
  acceptsTurns(agent) &&
  (agent.idleTimeoutMs !== undefined || agent.idleYields || agent.afterTurn !== "keep");

/**
 * A turn begins wherever none runs or waits: another one would only keep the session busy for longer. One that fails
 * does what one that is done does, unless the agent's sessions end with a turn that is done. A turn of a silent session
 * ends too: its user cancels it, the time of its question is over, or its worker gives it up, which all do the same;
 * the end of a turn that is held may have been under way. One that its budget refuses when it would begin does what
 * one does that ends at once.
 */
function* turnsOf(
  { context }: SteppedFloor["sessions"][number],
  agent: AgentEntry | undefined,
): Generator<ExploredMove> {
  if (!turnsMatter(agent)) return;
  const { id: sessionId, run, turns } = context;
  if (!run && turns.length === 0) yield { does: "says", sessionId };
  const endsWithTurn = agent!.afterTurn === "archive";
  if (isAudible(context)) {
    if (run?.live) yield { does: "answers", sessionId };
    if (run?.live && endsWithTurn) yield { does: "fails", sessionId };
    return;
  }
  if (run || turns.length > 0) yield { does: "cancels", sessionId };
  if (run?.live && endsWithTurn) yield { does: "answers", sessionId };
}

/** No id is used twice, as in the script that tells the moves. */
function newIdOf(floor: SteppedFloor, agentId: string): string {
  const count = floor.countOf(agentId) + 1;
  if (count === 1) return agentId;
  const id = `${agentId}-${count}`;
  // The first session of an agent that is called so has this id.
  return floor.catalog.agents.has(id as AgentId) ? `${agentId}--${count}` : id;
}

/** The session whose user or program makes the move. */
const actedOn = (move: ExploredMove): string | undefined => ("sessionId" in move ? move.sessionId : undefined);

/** The session whose lease the move renews: a worker's report renews none. */
export const leaseRenewedBy = (move: ExploredMove): string | undefined =>
  move.does === "dies" || move.does === "answers" || move.does === "fails" ? undefined : actedOn(move);

export function makeMove(before: SteppedFloor, move: ExploredMove, hours: HourCombinations): SeenStep {
  const after = move.does === "clock" ? before.withoutPast() : before.copy();
  const facts = withWorkers(after, carryOut(after, move, hours));
  const events = facts.flatMap(({ fact }) => (fact.type === "event" ? seenEvent(fact.event) : []));
  return {
    before,
    after,
    events,
    transitions: events.flatMap((event) => (event.type === "transition" ? event.transition : [])),
    decisions: events.flatMap((event) => (event.type === "decision" ? event.decision : [])),
    subject: isTurnInPlace(before, move) ? undefined : actedOn(move),
    isRequest: isRequest(before, move),
    isRenumbered: move.does === "disable" || move.does === "enable",
  };
}

/** Whether the move is about a turn of a session that need not ask for the floor, and whose place is what it was. */
const isTurnInPlace = (before: SteppedFloor, move: ExploredMove): boolean =>
  move.does === "answers" ||
  move.does === "fails" ||
  move.does === "cancels" ||
  (move.does === "says" && before.session(move.sessionId)?.value.lifecycle === "active");

const isRequest = (before: SteppedFloor, move: ExploredMove): boolean =>
  move.does === "asks" || move.does === "resumes" || (move.does === "says" && !isTurnInPlace(before, move));

/** The facts, and those of the workers, which claim runs and confirm the end of attempts at once. */
function withWorkers(floor: SteppedFloor, facts: readonly TimedFact[]): readonly TimedFact[] {
  const all = [...facts];
  const workers = new PlayedTurns(floor, (command) => {
    const { facts: more } = floor.send(command);
    all.push(...more);
    workers.serve(more);
  });
  workers.serve(facts);
  return all;
}

function carryOut(floor: SteppedFloor, move: ExploredMove, hours: HourCombinations): TimedFact[] {
  switch (move.does) {
    case "asks":
      return floor.create(move.sessionId!, move.agentId).facts;
    case "resumes": {
      floor.revive(move.sessionId);
      const isNew = floor.session(move.sessionId)?.value.lifecycle === "created";
      const sessionId = move.sessionId as SessionId;
      return floor.send({ type: isNew ? "session.activate" : "session.resume", sessionId }).facts;
    }
    case "says":
      floor.revive(move.sessionId);
      return floor.say(move.sessionId, move.agentId).facts;
    case "answers":
    case "fails":
      return floor.endTurn(move.sessionId, move.does === "fails");
    case "cancels":
      return floor.cancelTurn(move.sessionId);
    case "pauses":
      return floor.send({ type: "session.pause", sessionId: move.sessionId as SessionId }).facts;
    case "ends":
      return floor.send({ type: "session.archive", sessionId: move.sessionId as SessionId }).facts;
    case "dies":
      return floor.lapse(move.sessionId, floor.time);
    case "set":
    case "clear":
      return floor.send({ type: "floor.patch_flags", flags: { [move.flag]: move.does === "set" } }).facts;
    case "clock":
      return floor.setClock(hours.next(move.inForce, 0));
    case "disable":
    case "enable":
      return floor.use(withEnabled(floor.catalog, move.agentId, move.does === "enable"));
    case "wait":
      return floor.passTo(floor.nextDue()!);
  }
}
