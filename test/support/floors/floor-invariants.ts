import { isDeepStrictEqual } from "node:util";
import type { Fact } from "../../../src/actors/facts.ts";
import { givesWayWhenIdle } from "../../../src/actors/floor/arbiter-step.ts";
import { type Contender, numbersOfAgent, withNumbers } from "../../../src/actors/floor/contender.ts";
import {
  audible,
  everyone,
  type FloorRules,
  replaces,
  restrictionOn,
  rulesOf,
} from "../../../src/actors/floor/floor-state.ts";
import type { CommandResult, FloorActors } from "../../../src/actors/host/floor-actors.ts";
import { isAudible, writtenState } from "../../../src/actors/session/session-context.ts";
import type { Catalog } from "../../../src/config/catalog/catalog.ts";
import { checkArrangement, hasCause, must as mustSay } from "../../../src/policy/arrangement-check.ts";
import type { Decision } from "../../../src/protocol/decision.ts";
import type { Transition } from "../../../src/protocol/event.ts";
import type { RequestId, SessionId } from "../../../src/protocol/ids.ts";
import type { Activity } from "../../../src/protocol/session.ts";
import { FloorLogCheck } from "./floor-log-check.ts";
import { decisionOf } from "./floor-stage.ts";

type FloorBefore = FloorActors["context"]["floor"];
type EventFact = Extract<Fact, { type: "event" }>;

/**
 * The invariants of a floor (docs/use/arbitration.md), checked from the events that a reader sees and from the
 * machines' snapshots. Throws an Error that names the violated invariant.
 */
export class FloorInvariants {
  readonly #states = new Map<SessionId, string>();
  /** Each session's activity, from its transitions: a paused session's change of activity is an event, too. */
  readonly #activities = new Map<SessionId, Activity>();
  readonly #openRuns = new Set<string>();
  readonly #endedRuns = new Set<string>();
  /** The questions and confirmations that readers show. */
  readonly #shown = new Set<RequestId>();
  readonly #runRequests = new Set<string>();
  /** Sessions whose lease lapsed and that have not requested the floor since. */
  readonly #lapsed = new Set<SessionId>();
  #catalog: Catalog;
  /** Since when each session is paused by preemption. */
  readonly #silent = new Map<SessionId, number>();
  readonly #log: FloorLogCheck;
  #floorSeq = 0;
  /** When the facts that follow happened. */
  #at = 0;

  constructor(catalog: Catalog) {
    this.#catalog = catalog;
    this.#log = new FloorLogCheck(catalog);
  }

  /** A new catalogue has come, which may end what is too long by its lengths. */
  reload(catalog: Catalog): void {
    this.#catalog = catalog;
    this.#silent.clear();
    this.#log.reload(catalog);
  }

  /**
   * @param asks the session that the command lets ask for the floor, if any
   * @param before the floor before the command
   */
  check(
    asks: string | undefined,
    before: FloorBefore,
    { facts, reply }: CommandResult,
    actors: FloorActors,
    at: number,
  ): void {
    this.#lapsed.delete(asks as SessionId);
    if (facts[0]?.type !== "at") this.#dateAt(at);
    for (const fact of facts) this.#follow(fact);
    const { floor, flags } = actors.context;
    const rules = rulesOf(this.#catalog, flags, at);
    checkArrangement(floor, rules);
    const decision = decisionOf(reply);
    if (decision && decision.outcome !== "granted") this.#isBlockedLawfully(decision, before, rules);
    this.#numbersAgree(floor);
    // A paused session that begins to wait for its request may be silent for as long as if it had been paused now.
    const isWaiting = before.paused.some(
      ({ sessionId, wants }) => wants && sessionId === decision?.challenger.sessionId,
    );
    if (decision?.outcome === "queued" && !isWaiting) this.#silent.delete(decision.challenger.sessionId!);
    this.#silenceEnds(actors, at);
    this.#lapsedAreSilent(floor);
    this.#replacedAreGone(before, floor, facts);
    this.#rejectionTouchesNobody(facts, reply);
    this.#machinesAgree(actors);
    this.#runRequestsAreWanted(actors);
    this.#questionsAreShown(actors);
  }

  /** Every accepted run has ended exactly once. */
  checkAllEnded(at: number): void {
    this.#log.end(at);
    must(this.#openRuns.size === 0, `runs without complete: ${[...this.#openRuns]}`);
  }

  /** A floor's log never goes back in time. */
  #dateAt(now: number): void {
    must(now >= this.#at, `what follows is dated ${this.#at - now} ms before what was`);
    this.#at = now;
  }

  #follow(fact: Fact): void {
    if (fact.type === "at") this.#dateAt(fact.now);
    if (fact.type === "run_request.add") this.#runRequests.add(fact.request.id);
    if (fact.type === "run_request.remove") this.#runRequests.delete(fact.id);
    if (fact.type === "message.add") this.#openRuns.add(fact.message.runId!);
    if (fact.type !== "event") return;
    const { event } = fact;
    const id = event.sessionId!;
    this.#log.take({
      floorSeq: ++this.#floorSeq,
      sessionId: event.sessionId,
      type: event.type,
      at: this.#at,
      json: JSON.stringify(event.data),
    });
    if (event.type === "session_created") {
      this.#states.set(id, "created");
      this.#activities.set(id, "idle");
    }
    if (event.type === "complete") {
      must(this.#openRuns.delete(event.data.runId), `run ${event.data.runId} ended without having begun, or twice`);
      must(!this.#endedRuns.has(event.data.runId), `run ${event.data.runId} ended twice`);
      this.#endedRuns.add(event.data.runId);
    }
    if (event.type === "user_question_request") this.#shown.add(event.requestId!);
    if (event.type === "interaction_resolved") this.#shown.delete(event.requestId!);
    if (event.type === "session_transition") this.#step(id, event.data);
    // A queued session has no transition; the decision reports the end of its wait.
    if (event.type === "arbitration" && event.data.reason === "lease_expired") this.#lapsed.add(id);
  }

  /** 14: a lapsed session is not heard and not queued, and no timer wakes it. */
  #lapsedAreSilent({ holder, ducked, queued }: FloorBefore): void {
    for (const { sessionId } of [...(holder ? [holder] : []), ...ducked, ...queued]) {
      must(!this.#lapsed.has(sessionId), `14: ${sessionId} has lapsed and is heard or queued`);
    }
  }

  /** 16: after a grant of the front, no session that the front replaces is on the floor. */
  #replacedAreGone(before: FloorBefore, floor: FloorBefore, facts: readonly Fact[]): void {
    const { holder } = floor;
    const hasSwitched = facts.some((fact) => fact.type === "event" && fact.event.type === "agent_switched");
    if (!holder || holder.sessionId === before.holder?.sessionId || hasSwitched) return;
    const replaced = this.#catalog.agents.get(holder.agentId)?.replaces ?? [];
    for (const { sessionId, agentId, priority, askedAt, critical } of everyone(floor)) {
      if (critical && !holder.critical) continue;
      const isReplaced = askedAt < holder.askedAt && replaced.includes(agentId) && priority <= holder.priority;
      must(!isReplaced, `16: ${holder.sessionId} replaces ${sessionId}, which stays`);
    }
  }

  #step(id: SessionId, transition: Transition): void {
    const { to, event, activity, reason } = transition;
    if (reason === "lease_expired") this.#lapsed.add(id);
    if (activity) {
      must(to === "paused", `the transition of ${id} to ${to} names its activity twice`);
      const { from: was, to: is } = activity;
      must(was === this.#activities.get(id) && was !== is, `${id} goes from ${was} to ${is} while paused`);
    }
    // Within one step a session may start beneath and fall silent again.
    const wasHeard = /^(active|ducked)/.test(this.#states.get(id) ?? "");
    this.#states.set(id, to);
    const written = activity?.to ?? (to.split(".")[1] as Activity | undefined);
    if (written) this.#activities.set(id, written);
    if (event === "preempt") must(wasHeard, `${id} was preempted and was not heard`);
  }

  /**
   * B: a blocked session that may start beneath the holder finds no rank there. A new agent of the session, or another
   * decision before this one, changes what is asked for.
   */
  #isBlockedLawfully({ challenger, rule }: Decision, before: FloorBefore, rules: FloorRules): void {
    const agent = this.#catalog.agents.get(challenger.agentId);
    if (!agent || rule === undefined || rule < 5 || before.reserved) return;
    const numbers = numbersOfAgent(agent, { value: challenger.priority, explained: [] });
    const sessionId = challenger.sessionId ?? ("" as SessionId);
    const contender = { ...numbers, sessionId, askedAt: 0 };
    const { holder } = before;
    const isHeard = audible(before).some((each) => each.sessionId === sessionId);
    if (agent.whenBlocked[0] !== "duck" || !holder || isHeard || restrictionOn(contender, rules)) return;
    const stays = (each: Contender) => each.sessionId !== sessionId && !replaces(contender, each, rules);
    const ducked = before.ducked.filter(stays);
    const { maxPaused } = rules.policy;
    const isFull = ducked.length >= maxPaused || before.paused.filter(stays).length + ducked.length > maxPaused;
    const isLawful = isFull || hasCause({ ...before, ducked }, holder, contender);
    mustSay(isLawful, () => `B: ${agent.id} is blocked without a cause`);
  }

  /** N: every session of an agent that answers has the numbers of the present catalogue. */
  #numbersAgree(floor: FloorBefore): void {
    for (const contender of everyone(floor)) {
      const agent = this.#catalog.agents.get(contender.agentId);
      if (!agent?.enabled) continue;
      const numbers = numbersOfAgent(agent, { value: agent.priority, explained: [...contender.explained] });
      const agrees = isDeepStrictEqual(plainly(withNumbers(contender, numbers)), plainly(contender));
      must(agrees, `N: ${contender.sessionId} has other numbers than its agent`);
    }
  }

  /** H: no session is paused by preemption for longer than `resume_within`. */
  #silenceEnds(actors: FloorActors, at: number): void {
    for (const id of actors.sessionIds) {
      const { value, context } = actors.machineState(id)!;
      if (value.lifecycle !== "paused" || context.pausedBy !== "preemption") {
        this.#silent.delete(id);
        continue;
      }
      const since = this.#silent.get(id) ?? at;
      this.#silent.set(id, since);
      const { resumeWithinMs } = this.#catalog.agents.get(context.numbers.agentId) ?? {};
      must(resumeWithinMs === undefined || at - since <= resumeWithinMs, `H: ${id} is silent for ${at - since} ms`);
    }
  }

  #rejectionTouchesNobody(facts: CommandResult["facts"], reply: CommandResult["reply"]): void {
    if (reply.ok || reply.code !== "rejected") return;
    const decision = (reply.facts as { decision: Decision }).decision;
    for (const fact of facts) {
      const isOwn = fact.type === "event" && fact.event.type === "arbitration";
      must(isOwn, `a rejection did ${fact.type}`);
      const { sessionId } = (fact as EventFact).event;
      must(!decision.holder || sessionId !== decision.holder.sessionId, "a rejection is in the holder's log");
    }
  }

  #machinesAgree(actors: FloorActors): void {
    const { holder, ducked, paused, queued } = actors.context.floor;
    const states = actors.sessionIds.map((id) => actors.machineState(id)!);
    const agree = (
      what: string,
      contenders: readonly { sessionId: SessionId }[],
      which: (state: (typeof states)[number]) => boolean,
    ) => {
      const ids = states.filter(which).map(({ context }) => context.id);
      must(
        isDeepStrictEqual(ids.sort(), contenders.map(({ sessionId }) => sessionId).sort()),
        `${what} and sessions differ`,
      );
    };
    agree("the holder", holder ? [holder] : [], ({ value }) => value.lifecycle === "active");
    agree("the ducked", ducked, ({ value }) => value.lifecycle === "ducked");
    agree("the queue", queued, ({ context }) => context.queuedAt !== undefined);
    agree(
      "the paused",
      paused,
      ({ value, context }) => value.lifecycle === "paused" && context.pausedBy === "preemption",
    );
    const idle = states.find(({ context }) => context.id === holder?.sessionId && context.idleSince !== undefined);
    must(!idle || !givesWayWhenIdle(actors.context, this.#catalog), `21: ${idle?.context.id} keeps the floor`);
    for (const { sessionId, level } of ducked) {
      const own = actors.machineState(sessionId)!.context.level;
      must(own === level, `${sessionId} is at level ${own}, and on the floor at ${level}`);
    }
    for (const { context, value } of states) {
      const isHeard = value.lifecycle === "active" || value.lifecycle === "ducked";
      must(isAudible(context) === isHeard, `${context.id} is ${value.lifecycle}, heard since ${context.audibleSince}`);
      const maxPauseMs = this.#catalog.agents.get(context.numbers.agentId)?.maxPauseMs;
      must(value.lifecycle !== "paused" || maxPauseMs !== 0, `19: ${context.id} is paused, and its max_pause is 0`);
      const isBusy = value.activity === "running" || value.activity === "waiting";
      must(isBusy === (context.run !== undefined), `${context.id} is ${value.activity} with run ${context.run?.id}`);
      must(
        (value.activity === "waiting") === Boolean(context.run?.interactions.length),
        `${context.id} is ${value.activity} with ${context.run?.interactions.length} questions`,
      );
      const known = this.#states.get(context.id);
      must(
        known === undefined || known === writtenState(value),
        `${context.id} is ${writtenState(value)}, told ${known}`,
      );
      must(
        known !== "paused" || this.#activities.get(context.id) === value.activity,
        `paused ${context.id} is ${value.activity}, told ${this.#activities.get(context.id)}`,
      );
    }
  }

  /** Readers show the questions that wait, and no other. */
  #questionsAreShown(actors: FloorActors): void {
    const waiting = [...actors.sessionIds].flatMap((id) => actors.machineState(id)!.context.run?.interactions ?? []);
    const ids = waiting.map(({ interaction }) => interaction.requestId);
    must(isDeepStrictEqual(new Set(ids), this.#shown), `waiting: ${ids}; shown: ${[...this.#shown]}`);
  }

  /** Every pending run request is referenced by a machine, and every referenced run request was requested. */
  #runRequestsAreWanted(actors: FloorActors): void {
    const named = new Set<string>();
    const name = (id: string | undefined) => id !== undefined && named.add(id);
    for (const id of actors.sessionIds) {
      const { context } = actors.machineState(id)!;
      name(context.run?.effectId);
      name(context.run?.nudgeId);
    }
    const lost = [...named].filter((id) => !this.#runRequests.has(id));
    const leaked = [...this.#runRequests].filter((id) => !named.has(id));
    must(lost.length === 0, `named but not asked for: ${lost}`);
    must(leaked.length === 0, `asked for but named by nobody: ${leaked}`);
  }
}

const plainly = (value: unknown): unknown => JSON.parse(JSON.stringify(value));
const must = (holds: boolean, otherwise: string): void => mustSay(holds, () => otherwise);
