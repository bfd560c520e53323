import type { BudgetRefusal, Fact, Given } from "../../../src/actors/facts.ts";
import type { CommandResult } from "../../../src/actors/host/floor-actors.ts";
import type { Catalog } from "../../../src/config/catalog/catalog.ts";
import type { RunId } from "../../../src/protocol/ids.ts";
import type { FloorTime } from "../../../src/shared/floor-time.ts";
import { FloorStage, type LooseCommand } from "../floors/floor-stage.ts";
import { type JudgedCatalog, lengthOf } from "./judged-catalog.ts";
import type { JudgedEvent } from "./log-judge.ts";
import { toCatalog } from "./random-catalog.ts";

type TurnEnd = NonNullable<Extract<LooseCommand, { type: "run.report" }>["outcome"]>;

const USED_UP: BudgetRefusal = {
  message: "the budget is used up",
  retryAfterMs: 1_000,
  spent: { per: "owner", runs: 1, withinMs: 1_000, freeAt: 0 },
};

/** What was done to a floor, and at which time of its wall clock. */
export type Done =
  | { readonly at: number; readonly command: LooseCommand }
  | { readonly at: number; readonly jumpMs: number }
  | { readonly at: number; readonly catalog: JudgedCatalog };

/**
 * The actors of a floor, with a wall clock that can be set, programs that send heartbeats, and readers who get each
 * commit. What is due happens when it is, or after the node was away.
 */
export class WalkedFloor extends FloorStage {
  /** Everything that was done to it, for another floor. */
  readonly done: Done[] = [];
  #jumpedMs = 0;
  readonly #onCommit: (events: readonly JudgedEvent[]) => void;
  #raw: JudgedCatalog;
  /** Turns that their budget refuses when they would begin. */
  readonly refused = new Map<RunId, BudgetRefusal>();
  /** By session whose program lives: when its next heartbeat comes, in the floor's time. */
  readonly #beats = new Map<string, number>();

  constructor(catalog: JudgedCatalog, now: number, onCommit: (events: readonly JudgedEvent[]) => void) {
    super(toCatalog(catalog));
    this.now = now;
    this.#raw = catalog;
    this.#onCommit = onCommit;
  }

  override given(stamp: number): Given {
    const { refused } = this;
    return { ...super.given(stamp), time: (this.now - this.#jumpedMs) as FloorTime, refused };
  }

  override get due(): number | undefined {
    const due = this.actors.nextDue(this.given(0));
    const all = [due === undefined ? undefined : due + this.#jumpedMs, this.actors.nextRing()];
    const known = all.filter((at) => at !== undefined);
    return known.length > 0 ? Math.min(...known) : undefined;
  }

  override deliver(command: LooseCommand): CommandResult {
    this.done.push({ at: this.now, command });
    const delivery = super.deliver(command);
    this.#onCommit(eventsOf(delivery.facts, this.now));
    for (const fact of delivery.facts) this.#work(fact);
    return delivery;
  }

  /** Workers claim runs, and confirm that attempts have ended, at once. */
  #work(fact: Fact): void {
    if (fact.type === "run_request.add" && fact.request.purpose === undefined) {
      const { sessionId, runId } = fact.request;
      if (this.contextOf(sessionId).run?.live !== true) this.claim(sessionId, runId, "worker", true);
    } else if (fact.type === "signal" && fact.signal.signal === "stop") {
      const { runId } = fact;
      const stopped = this.actors.sessionIds.map((id) => this.contextOf(id)).find((of) => of.stopping?.runId === runId);
      const { id, stopping } = stopped ?? {};
      if (id !== undefined) this.#report(id, runId, stopping!, { kind: "stopped" });
    }
  }

  #report(id: string, runId: string, of: { attempt: number; reported: number }, outcome: TurnEnd): void {
    this.report(id, runId, of.reported + 1, { attempt: of.attempt, outcome });
  }

  #newTurn(suffix = "") {
    const number = `${this.done.length}${suffix}`;
    return { messageId: `m${number}`, runId: `run-${number}`, content: "hello" };
  }

  /** A message: a turn of the session, or of a new one of the agent. Its budget may refuse it. */
  say(id: string, agent?: string, isRefused = false): void {
    const session = agent === undefined ? {} : { session: { sessionId: id, agentId: agent, userId: "ann" } };
    const turn = this.#newTurn();
    if (isRefused) this.refused.set(turn.runId as RunId, USED_UP);
    this.ask({ type: "session.chat", sessionId: id, turn, ...session });
    this.#live(id, agent ?? this.agentOf(id)!);
  }

  /** A new session of the agent takes a turn, and ends with it. */
  sayOnce(id: string, agentId: string): void {
    const session = { sessionId: id, agentId, userId: "ann", endsWithTurn: true } as const;
    this.ask({ type: "session.chat", sessionId: id, turn: this.#newTurn(), session });
    this.#live(id, agentId);
  }

  /** A session of the agent asks for the floor later. */
  schedule(id: string, agentId: string, inMs: number): void {
    const session = { sessionId: id, agentId, userId: "ann" };
    this.ask({ type: "session.create", sessionId: id, session, activate: false, schedule: { inMs } });
    this.#live(id, agentId);
  }

  /** A session of another floor goes on here, perhaps with turns that have not ended. */
  arrive(id: string, agentId: string, turnCount: number): void {
    const session = { sessionId: id, agentId, userId: "ann" };
    const history = { messageCount: 0, origin: { by: "move", sessionId: `${id}-there` } };
    const from = { sessionId: `${id}-there`, floorId: "u:bob", seq: 0 };
    const turns = Array.from({ length: turnCount }, (_, n) => this.#newTurn(`-${n}`));
    this.ask({ type: "session.move", sessionId: id, session, history, from, turns } as unknown as LooseCommand);
    this.#live(id, agentId);
  }

  /** The session goes on on another floor. */
  leave(id: string): void {
    const by = { sessionId: `${id}-there`, agentId: this.agentOf(id)! };
    this.ask({ type: "session.replace", sessionId: id, by, movedTo: "u:bob" });
  }

  /** The session's user edits it: a copy takes its place. */
  edit(id: string, copyId: string): void {
    const agentId = this.agentOf(id)!;
    const session = { sessionId: copyId, agentId, userId: "ann" };
    const history = { messageCount: 0, origin: { by: "fork" } };
    const edit = { type: "session.copy", sessionId: copyId, session, history, activate: true, replaces: id };
    this.ask(edit as unknown as LooseCommand);
    this.#live(copyId, agentId);
  }

  #live(id: string, agentId: string): void {
    const lease = this.#raw.agents.find(({ name }) => name === agentId)?.lease;
    if (lease !== undefined) this.#beats.set(id, this.now - this.#jumpedMs + lengthOf(lease) / 2);
  }

  agentOf(id: string): string | undefined {
    return this.actors.machineState(id as never)?.context.numbers.agentId;
  }

  /** Whether a turn runs in the session, and may end: also while it is held, if its end was under way then. */
  isAnswering(id: string): boolean {
    return this.contextOf(id).run?.live === true;
  }

  /** The turn of the session that runs, or the first that waits. */
  #turnOf(id: string): string | undefined {
    const { run, turns } = this.contextOf(id);
    return run?.id ?? turns[0]?.runId;
  }

  /** The session's user cancels its turn. @returns whether there was one */
  cancel(id: string): boolean {
    const runId = this.#turnOf(id);
    if (runId !== undefined) this.ask({ type: "session.abort", sessionId: id, runId });
    return runId !== undefined;
  }

  /** The session's turn ends. */
  answer(id: string, isFailed: boolean): void {
    const run = this.contextOf(id).run!;
    const failed = { kind: "failed", code: "provider_unreachable", message: "the turn failed" } as const;
    this.#report(id, run.id, run, isFailed ? failed : { kind: "done" });
  }

  /** The sessions that have not ended. */
  get living(): { id: string; state: string }[] {
    const all = this.actors.sessionIds.map((id) => ({ id: id as string, state: this.state(id)! }));
    return all.filter(({ state }) => state !== "archived" && state !== "deleted");
  }

  /** A session of the agent asks for the floor; its program lives. */
  start(id: string, agent: string): void {
    this.create(agent, { id });
    this.#live(id, agent);
  }

  /** The session's user asks for it again. */
  wake(id: string): void {
    this.on(id, this.state(id) === "created" ? "activate" : "resume");
    this.#live(id, this.agentOf(id)!);
  }

  /** The program gives a last sign of life. */
  die(id: string): void {
    if (!this.#beats.delete(id)) return;
    this.beat(id);
  }

  isDead(id: string): boolean {
    return !this.#beats.has(id);
  }

  /** Let time pass, with heartbeats. */
  live(ms: number): void {
    const until = this.now + ms;
    for (;;) {
      const ids = new Set(this.living.map(({ id }) => id));
      for (const id of this.#beats.keys()) if (!ids.has(id)) this.#beats.delete(id);
      const [next] = [...this.#beats].sort(([, one], [, other]) => one - other);
      const at = next ? next[1] + this.#jumpedMs : Number.POSITIVE_INFINITY;
      if (!next || at > until) break;
      this.pass(at - this.now);
      this.beat(next[0]);
      this.#beats.set(next[0], next[1] + this.#halfLease(next[0]));
    }
    this.pass(until - this.now);
  }

  #halfLease(id: string): number {
    return (this.actors.machineState(id as never)?.context.lease?.lengthMs ?? 1_000) / 2;
  }

  /** Set the wall clock, and let the floor settle by it. No time passes. */
  setClock(now: number): void {
    const jumpMs = now - this.now;
    this.done.push({ at: this.now, jumpMs });
    this.now = now;
    this.#jumpedMs += jumpMs;
    this.ask({ type: "alarm" });
  }

  /** Put another catalogue in place. */
  use(raw: JudgedCatalog): void {
    this.done.push({ at: this.now, catalog: raw });
    this.#raw = raw;
    this.catalog = toCatalog(raw) satisfies Catalog;
    this.ask({ type: "alarm" });
  }
}

/** The events of a commit, each with its own moment. */
function eventsOf(facts: readonly Fact[], now: number): JudgedEvent[] {
  const events: JudgedEvent[] = [];
  let at = now;
  for (const fact of facts) {
    if (fact.type === "at") at = fact.now;
    // Readers get the data as JSON.
    else if (fact.type === "event") {
      const { type, sessionId, data } = fact.event;
      events.push({ type, sessionId, at, data: JSON.parse(JSON.stringify(data)) });
    }
  }
  return events;
}
