import type { ServerEventOf } from "../../src/client/server-event.ts";
import type { Decision } from "../../src/protocol/decision.ts";
import type { Transition } from "../../src/protocol/event.ts";
import { countLeading } from "../log/count-leading.ts";
import { type LogEvent, timeOf } from "../log/log-event.ts";
import { LogIndex } from "../log/log-index.ts";

/** A sender or receiver: `session` and `run` belong to a session. */
export interface Party {
  role: "client" | "arbiter" | "session" | "run";
  sessionId?: string | undefined;
}

/** A message between two parties, from the log. */
export interface Exchange {
  event: LogEvent;
  /** The number of the log's events before its event. */
  index: number;
  at: number;
  from: Party;
  to: Party;
  /** A decision is two messages: the request and the answer. */
  part: "asked" | "told";
}

export interface Exchanges {
  all: Exchange[];
  /** Users' messages so far: later events of the same message only change its status. */
  said: Set<string>;
  /** Sessions so far. */
  known: Set<string>;
}

const CLIENT: Party = { role: "client" };
const ARBITER: Party = { role: "arbiter" };
const sessionOf = (sessionId: string | undefined): Party => ({ role: "session", sessionId });
const runOf = (sessionId: string | undefined): Party => ({ role: "run", sessionId });

export const exchangeIndex = () => new LogIndex<Exchanges>(() => ({ all: [], said: new Set(), known: new Set() }), add);

function add(exchanges: Exchanges, event: LogEvent, index: number): void {
  const { all, known } = exchanges;
  const at = timeOf(event);
  const add = (from: Party, to: Party, part: Exchange["part"] = "told") =>
    void all.push({ event, index, at, from, to, part });
  const { sessionId } = event;
  const session = sessionOf(sessionId);
  const run = runOf(sessionId);
  switch (event.type) {
    case "session_created":
      known.add(event.data.id);
      return add(CLIENT, sessionOf(event.data.id));
    case "arbitration": {
      const requester = requesterOf(event.data, known);
      add(requester, ARBITER, "asked");
      return add(ARBITER, requester);
    }
    case "session_transition":
      if (sessionId !== undefined) known.add(sessionId);
      return add(...waysOf(event.data, session, run));
    case "agent_switched":
      return add(CLIENT, session);
    case "routed":
      return add(CLIENT, sessionId === undefined ? ARBITER : session);
    case "session_updated":
      return event.data.title === undefined ? undefined : add(session, CLIENT);
    case "message":
      if (!isNewMessage(event.data, exchanges.said)) return;
      return event.data.role === "user" ? add(CLIENT, session) : add(run, CLIENT);
    case "tool_call":
    case "tool_result":
      return add(run, run);
    case "tool_confirmation_request":
    case "user_question_request":
    case "data":
      return add(run, CLIENT);
    case "interaction_resolved":
      if (event.data.by === "agent") return add(run, CLIENT);
      return event.data.by === "client" ? add(CLIENT, run) : add(session, run);
    case "error":
    case "complete":
      return add(run, session);
    case "floor_updated":
      return add(ARBITER, CLIENT);
    case "usage":
      return;
    default:
      event satisfies never;
  }
}

/** A refused session may not exist: then only the client gets the answer. */
function requesterOf({ challenger, outcome }: Decision, known: ReadonlySet<string>): Party {
  const { sessionId } = challenger;
  const isKnown = sessionId !== undefined && (outcome !== "rejected" || known.has(sessionId));
  return isKnown ? sessionOf(sessionId) : CLIENT;
}

/** Whether the event is a user's message that is not among those so far, or a whole reply. */
function isNewMessage({ id, role, streaming }: ServerEventOf<"message">["data"], said: Set<string>): boolean {
  if (role !== "user") return !streaming;
  const isNew = !said.has(id);
  said.add(id);
  return isNew;
}

/** The cause of a transition: the arbiter, the session's run, the session itself or a client. */
function waysOf({ event, by, reason }: Transition, session: Party, run: Party): [Party, Party] {
  switch (event) {
    case "activate":
    case "resume":
    case "preempt":
    case "duck":
      return [ARBITER, session];
    case "turn":
    case "answer":
    case "abort":
      return [session, run];
    case "ask":
    case "done":
    case "fail":
      return [run, session];
    case "yield":
    case "expire":
      return [session, ARBITER];
    case "archive":
      if (by || reason === "stop" || reason === "restricted") return [ARBITER, session];
      return reason === undefined ? [CLIENT, session] : [session, ARBITER];
    case "pause":
    case "delete":
      return [CLIENT, session];
  }
}

/** The first index whose exchange is not before the bound; the exchanges are in order. */
export function firstFrom(all: readonly Exchange[], key: "index" | "at", bound: number): number {
  return countLeading(all.length, (index) => all[index]![key] < bound);
}

/** A lifeline of the diagram. Undefined: all sessions without a column. */
export type Column = Party | undefined;

/** The number of exchanges that are searched for the sessions with columns. */
const MAX_SEARCHED = 5_000;

/** A part of a list: from an index up to, but not including, another. */
export interface ExchangePart {
  first: number;
  end: number;
}

/**
 * The client, the arbiter, and the sessions of the newest exchanges with their runs; the other sessions share a column.
 */
export function columnsOf(
  all: readonly Exchange[],
  { first, end }: ExchangePart,
  maxSessions: number,
  chosen: string | undefined,
): Column[] {
  const start = Math.max(first, end - MAX_SEARCHED);
  const runs = new Set<string>();
  /** The first exchange of each session; the most recent session comes first here. */
  const appeared = new Map<string, number>();
  for (let index = end - 1; index >= start; index -= 1) {
    const { from, to } = all[index]!;
    for (const { role, sessionId } of [from, to]) {
      if (sessionId === undefined) continue;
      appeared.set(sessionId, index);
      if (role === "run") runs.add(sessionId);
    }
  }
  const known = [...appeared.keys()];
  const isChosen = chosen !== undefined && appeared.has(chosen);
  const newest = isChosen ? [chosen, ...known.filter((id) => id !== chosen)] : known;
  const shown = newest
    .slice(0, maxSessions)
    // In the order of their first exchange, so that columns do not move as the log grows.
    .sort((one, other) => appeared.get(one)! - appeared.get(other)!);
  return [
    CLIENT,
    ARBITER,
    ...shown.flatMap((id) => (runs.has(id) ? [sessionOf(id), runOf(id)] : [sessionOf(id)])),
    ...(newest.length > maxSessions || start > first ? [undefined] : []),
  ];
}

/** The column of a party; the last column has the parties without one. */
export function columnOf(columns: readonly Column[], { role, sessionId }: Party): number {
  const found = columns.findIndex((column) => column?.role === role && column.sessionId === sessionId);
  return found < 0 ? columns.length - 1 : found;
}
