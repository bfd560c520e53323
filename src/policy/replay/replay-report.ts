import type { LoggedServerEvent } from "../../client/server-event.ts";
import { type Decision, isRequest } from "../../protocol/decision.ts";
import type { AgentTally } from "../../protocol/replay.ts";
import { isContinued } from "../../protocol/written-state.ts";
import { Tally } from "../tally.ts";
import type { OlderSession } from "./recorded-inputs.ts";
import { CLOCKS_MS, type ReplayedFloor, type ReplayedRequest } from "./replay.ts";

/** Something that is otherwise with the other catalogue. */
export interface Difference {
  readonly floorId: string;
  /** Ms since 1970. */
  readonly at: number;
  readonly agentId: string;
  readonly sessionId: string;
  /** What the log says, and what happens now: a decision, or what becomes of the session. */
  readonly before: string;
  readonly after: string;
}

/** Differences of one kind: of the same agent, and from the same to the same. */
export interface DifferenceKind {
  readonly agentId: string;
  readonly before: string;
  readonly after: string;
  readonly count: number;
  readonly first: Difference;
}

export interface AgentBeforeAfter {
  readonly agentId: string;
  readonly before: AgentTally;
  readonly after: AgentTally;
}

export interface ReplayReport {
  readonly floors: number;
  /** From the first event to the last, ms since 1970. */
  readonly from: number;
  readonly to: number;
  /** How many requests the logs have. */
  readonly requests: number;
  /** Requests that are decided otherwise, then what else becomes otherwise; the most frequent first. */
  readonly kinds: readonly DifferenceKind[];
  readonly agents: readonly AgentBeforeAfter[];
  /** Sessions that did not take part, because the log does not name their agent. */
  readonly unknown: number;
  /** How often other catalogues came into force during the logs. */
  readonly reloads: number;
}

/** Adds up replayed floors, one by one, and keeps none of them. */
export class ReplaySummary {
  readonly #kinds = new Map<string, { -readonly [K in keyof DifferenceKind]: DifferenceKind[K] }>();
  readonly #before = new Tally();
  readonly #after = new Tally();
  #floors = 0;
  #from = Number.POSITIVE_INFINITY;
  #to = 0;
  #requests = 0;
  #unknown = 0;
  #reloads = 0;

  /** @returns the differences of this floor, in the order in which they happened, and the first ones of their kinds */
  add(floor: ReplayedFloor): { differences: Difference[]; firsts: Difference[] } {
    this.#floors += 1;
    this.#from = Math.min(this.#from, floor.startedAt);
    this.#to = Math.max(this.#to, floor.endedAt);
    this.#requests += floor.requests.length;
    this.#unknown += floor.unknown.length;
    this.#reloads += floor.catalogues.length;
    count(this.#before, floor, floor.before, floor.older.before);
    count(this.#after, floor, floor.after, floor.older.after);
    const differences = differencesOf(floor);
    return { differences, firsts: differences.filter((difference) => this.#isFirst(difference)) };
  }

  report(): ReplayReport {
    const agentIds = [...new Set([...this.#before.agentIds, ...this.#after.agentIds])].sort();
    return {
      floors: this.#floors,
      from: this.#from,
      to: this.#to,
      requests: this.#requests,
      kinds: [...this.#kinds.values()].sort((one, other) => other.count - one.count),
      agents: agentIds.map((agentId) => ({
        agentId,
        before: this.#before.of(agentId),
        after: this.#after.of(agentId),
      })),
      unknown: this.#unknown,
      reloads: this.#reloads,
    };
  }

  /** What the replay counts for each agent. */
  get after(): Tally {
    return this.#after;
  }

  /** Count a difference. @returns whether it is the first of its kind */
  #isFirst(difference: Difference): boolean {
    const { agentId, before, after } = difference;
    const key = JSON.stringify([agentId, before, after]);
    const known = this.#kinds.get(key);
    if (known) known.count += 1;
    else this.#kinds.set(key, { agentId, before, after, count: 1, first: difference });
    return known === undefined;
  }
}

function count(
  tally: Tally,
  { floorId, startedAt, endedAt }: ReplayedFloor,
  events: readonly LoggedServerEvent[],
  older: readonly OlderSession[],
): void {
  // Sessions of two floors may have the same id.
  const idOf = (sessionId: string) => `${floorId} ${sessionId}`;
  for (const { sessionId, agentId, state } of older)
    tally.meet(idOf(sessionId), agentId, state, state === "created" ? undefined : startedAt);
  for (const event of events) {
    const named = event.sessionId === undefined ? event : { ...event, sessionId: idOf(event.sessionId) };
    tally.add(named, Date.parse(event.timestamp));
  }
  tally.end(endedAt);
  tally.forget();
}

/** Requests that are decided otherwise, and for each session the first thing that the floor does otherwise with it. */
function differencesOf(floor: ReplayedFloor): Difference[] {
  const found = floor.requests.flatMap((request) => differenceOfRequest(floor.floorId, request) ?? []);
  const changed = new Set(found.map(({ sessionId }) => sessionId));
  const before = movesOf(floor.before);
  const after = movesOf(floor.after);
  for (const sessionId of new Set([...before.keys(), ...after.keys()])) {
    // The log has lost what became of a deleted session.
    if (changed.has(sessionId) || floor.erased.has(sessionId)) continue;
    const difference = firstDifference(before.get(sessionId) ?? [], after.get(sessionId) ?? []);
    const agentId = agentOf(sessionId, floor);
    if (difference && agentId !== undefined) found.push({ floorId: floor.floorId, sessionId, agentId, ...difference });
  }
  return found.sort((one, other) => one.at - other.at);
}

function differenceOfRequest(floorId: string, request: ReplayedRequest): Difference | undefined {
  const { at, agentId, sessionId, before, after, refusal } = request;
  const was = describe(before);
  const is = after ? describe(after) : (refusal ?? "not asked: its session is not there");
  return was === is ? undefined : { floorId, at, agentId, sessionId, before: was, after: is };
}

const describe = ({ outcome, reason }: Decision): string => `${outcome} (${reason})`;

interface Move {
  readonly at: number;
  readonly text: string;
}

/** What the floor does with each session by itself, in order. */
function movesOf(events: readonly LoggedServerEvent[]): Map<string, Move[]> {
  const all = new Map<string, Move[]>();
  const levels = new Map<string, number | undefined>();
  for (const event of events) {
    if (event.sessionId === undefined) continue;
    const text = moveText(event, levels.get(event.sessionId));
    if (event.type === "session_transition") levels.set(event.sessionId, event.data.level);
    if (text === undefined) continue;
    const moves = all.get(event.sessionId) ?? [];
    moves.push({ at: Date.parse(event.timestamp), text });
    all.set(event.sessionId, moves);
  }
  return all;
}

function moveText(event: LoggedServerEvent, levelBefore: number | undefined): string | undefined {
  if (event.type === "arbitration") return isRequest(event.data) ? undefined : describe(event.data);
  if (event.type !== "session_transition") return undefined;
  const { event: verb, to, from, by, reason, level } = event.data;
  const [was] = from.split(".");
  const [state] = to.split(".");
  if (was === state && level === levelBefore && verb !== "yield") return undefined;
  // What replaces a session, or where it moved, may be on a floor whose log is another.
  const goesElsewhere = isContinued(reason);
  const other = by && !goesElsewhere ? ` for ${by.agentId}` : "";
  const why = !by && !goesElsewhere && reason !== undefined ? ` (${reason})` : "";
  const quieter = level === undefined ? "" : ` ${level} dB`;
  return `${state}${quieter}${other}${why}`;
}

function firstDifference(
  before: readonly Move[],
  after: readonly Move[],
): Pick<Difference, "at" | "before" | "after"> | undefined {
  const length = Math.max(before.length, after.length);
  for (let index = 0; index < length; index++) {
    const [one, other] = [before[index], after[index]];
    if (one && other && one.text === other.text && Math.abs(one.at - other.at) <= CLOCKS_MS) continue;
    const at = Math.min(one?.at ?? Number.POSITIVE_INFINITY, other?.at ?? Number.POSITIVE_INFINITY);
    if (one?.text === other?.text) {
      const isLater = other!.at > one!.at;
      return { at, before: one!.text, after: isLater ? "the same, later" : "the same, earlier" };
    }
    return { at, before: textAt(one, at), after: textAt(other, at) };
  }
  return undefined;
}

/** Undefined, or later than the other: the session stays as it is. */
const textAt = (move: Move | undefined, at: number): string => (move?.at === at ? move.text : "stays as it is");

function agentOf(sessionId: string, { before, after, older }: ReplayedFloor): string | undefined {
  const created = [...before, ...after].find(
    (event) => event.type === "session_created" && event.sessionId === sessionId,
  );
  if (created?.type === "session_created") return created.data.agentId;
  return older.before.find((each) => each.sessionId === sessionId)?.agentId;
}
