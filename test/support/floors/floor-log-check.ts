import { type Audibility, depth } from "../../../src/actors/floor/audible-together.ts";
import { restrictionOn, rulesOf } from "../../../src/actors/floor/floor-state.ts";
import type { AgentEntry, Catalog } from "../../../src/config/catalog/catalog.ts";
import { must } from "../../../src/policy/arrangement-check.ts";
import type { Decision } from "../../../src/protocol/decision.ts";
import type { LogEntry, Transition, WrittenState } from "../../../src/protocol/event.ts";
import type { SessionId } from "../../../src/protocol/ids.ts";
import type { Session } from "../../../src/protocol/session.ts";

/** How far the clocks of nodes may be apart while they err, in ms. */
const APART_MS = 1_000;
/** Why a request is blocked, unless there is no room to wait. */
const BLOCKED: ReadonlySet<string> = new Set(["lower_priority", "equal_priority", "not_interruptible", "restricted"]);
/** How a turn ends. */
const ENDS_TURN: ReadonlySet<string> = new Set(["done", "fail", "abort"]);
/** Why a paused session no longer comes back by itself. */
const GIVES_UP: ReadonlySet<string | undefined> = new Set([
  "lease_expired",
  "resume_within",
  "queue_timeout",
  "after_turn",
]);

type Entry = Pick<LogEntry, "floorSeq" | "sessionId" | "type" | "at" | "json">;
type Effect = NonNullable<Decision["effects"]>[number];

/**
 * Checks a floor's log entry by entry against the invariants of docs/use/arbitration.md: 1, 2′, 3′, 4, 5, 6, 11, 12,
 * 13, 15, 16 and 17, and the rules A, W and Y. Throws `Broken`, which names the violated invariant or rule.
 */
export class FloorLogCheck {
  #catalog: Catalog;
  readonly #states = new Map<SessionId, WrittenState>();
  /** Each session's agent, as it was when it last answered: an agent that has left keeps its numbers. */
  readonly #agents = new Map<SessionId, AgentEntry>();
  /** The priorities with which sessions were granted or queued; unknown after a change of agents. */
  readonly #priorities = new Map<SessionId, number>();
  #flags: Readonly<Record<string, boolean>> = {};
  /** When the last entry happened. */
  #at = 0;
  /** The last decision, and its effects on other sessions that have not happened yet. */
  #decision: Decision | undefined;
  #due: Effect[] = [];
  /** A session changed its agent since the last decision, which alone may silence others. */
  #hasSwitched = false;
  #front: { sessionId: SessionId; floorSeq: number } | undefined;
  /** Sessions whose turn has just ended, and that have to give the floor back. */
  readonly #ended = new Set<SessionId>();
  /** Who went silent for a session that comes up beneath the holder and is heard next, with its id if it is named. */
  readonly #madeRoom = new Map<SessionId, string | undefined>();
  readonly #isWhole: boolean;
  /** Since when each session is heard. */
  readonly #heard = new Map<SessionId, number>();

  /** @param isWhole whether the catalogue has all agents, and none is defined in the database */
  constructor(catalog: Catalog, isWhole = true) {
    this.#catalog = catalog;
    this.#isWhole = isWhole;
  }

  /** A new catalogue has come. */
  reload(catalog: Catalog): void {
    this.#catalog = catalog;
    this.#priorities.clear();
    this.#hasSwitched = true;
    for (const [id, { id: agentId }] of this.#agents) {
      const agent = catalog.agents.get(agentId);
      if (agent?.enabled) this.#agents.set(id, agent);
    }
    // A new `max_hold` may be over already.
    for (const id of this.#heard.keys()) this.#heard.set(id, Number.POSITIVE_INFINITY);
  }

  stateOf(id: SessionId): WrittenState | undefined {
    return this.#states.get(id);
  }

  get active(): SessionId[] {
    return this.#idsIn("active");
  }

  get ducked(): SessionId[] {
    return this.#idsIn("ducked");
  }

  /** The place in the log at which the holder came to the front. */
  get front(): { sessionId: SessionId; floorSeq: number } | undefined {
    return this.#front;
  }

  /** Entries are missing before the next one, because a deleted session's entries are gone. */
  skip(): void {
    this.#decision = undefined;
    this.#due = [];
    this.#hasSwitched = true;
    this.#ended.clear();
    this.#madeRoom.clear();
  }

  forget(id: SessionId): void {
    this.#states.delete(id);
    this.#agents.delete(id);
    this.#heard.delete(id);
    this.#ended.delete(id);
    this.#madeRoom.delete(id);
    if (this.#front?.sessionId === id) this.#front = undefined;
  }

  take(entry: Entry): void {
    const { sessionId, type, json, at } = entry;
    this.#at = at;
    if (type === "floor_updated") this.#flags = (JSON.parse(json) as { flags: Record<string, boolean> }).flags;
    else if (type === "arbitration") this.#decide(JSON.parse(json) as Decision, sessionId);
    else if (sessionId === undefined) return;
    else if (type === "session_created") {
      this.#states.set(sessionId, "created");
      this.#becomes(sessionId, (JSON.parse(json) as Session).agentId);
    } else if (type === "agent_switched") {
      this.#becomes(sessionId, (JSON.parse(json) as { currentAgentId: string }).currentAgentId);
      this.#priorities.delete(sessionId);
      this.#hasSwitched = true;
      if (this.#heard.has(sessionId)) this.#heard.set(sessionId, at);
    } else if (type === "session_transition") this.#step(sessionId, JSON.parse(json) as Transition, entry);
  }

  /** The decision has no further effects. */
  end(at: number): void {
    must(this.#due.length === 0, () => `a decision did not do what it says: ${JSON.stringify(this.#due)}`);
    must(this.#madeRoom.size === 0, () => `2′: ${[...this.#madeRoom.keys()]} were preempted, and no session came back`);
    must(this.#ended.size === 0, () => `A: ${[...this.#ended]} keep the floor after a turn`);
    for (const id of this.#heard.keys()) this.#isHeardInTime(id, at);
  }

  /** 16: the agents that the holder's agent replaces, unless a session of theirs is above it. */
  isReplacedBy(front: SessionId, other: SessionId): boolean {
    const agent = this.#agents.get(other);
    const [own, others] = [this.#priorities.get(front), this.#priorities.get(other)];
    if (!agent || own === undefined || others === undefined || others > own) return false;
    const by = this.#agents.get(front);
    return by?.replaces.includes(agent.id) === true && (by.critical || !agent.critical);
  }

  #idsIn(state: "active" | "ducked"): SessionId[] {
    return [...this.#states].filter(([, each]) => each.startsWith(state)).map(([id]) => id);
  }

  #becomes(id: SessionId, agentId: string): void {
    const agent = this.#catalog.agents.get(agentId);
    if (agent) this.#agents.set(id, agent);
    else this.#agents.delete(id);
  }

  #decide(decision: Decision, loggedIn: SessionId | undefined): void {
    const describe = () => JSON.stringify(decision);
    this.end(Number.NEGATIVE_INFINITY);
    this.#decision = decision;
    this.#due = [...(decision.effects ?? [])];
    this.#hasSwitched = false;
    const { outcome, reason, rule, challenger, holder, level } = decision;
    const agent = this.#catalog.agents.get(challenger.agentId);
    const { sessionId: id, priority } = challenger;
    if (id !== undefined && outcome !== "rejected") this.#priorities.set(id, priority);
    // A refused session has the numbers of this request, unless they would change who is audible.
    else if (id !== undefined && this.#priorities.get(id) !== priority) this.#priorities.delete(id);
    must(
      outcome !== "rejected" || loggedIn === undefined || loggedIn !== holder?.sessionId,
      () => `6: the holder's log tells of a rejection: ${describe()}`,
    );
    this.#isBlockedLawfully(decision);
    if (!this.#catalog.isShared) {
      must(
        this.#hasLeft() || (!decision.effects && level === undefined && (rule ?? 0) <= 8),
        () => `12: a decision by new keys: ${describe()}`,
      );
      return;
    }
    const isKnown = reason !== "unknown_agent" && reason !== "agent_disabled";
    must(
      !agent?.critical || !agent.enabled || outcome === "granted" || !isKnown,
      () => `11: a critical session is refused: ${describe()}`,
    );
    must((reason === "beneath") === (level !== undefined), () => `a level without a place beneath: ${describe()}`);
    if (!agent) return;
    const own = { agentId: agent.id, ...criticalOf(agent) };
    const isRestricted = restrictionOn(own, this.#rules) !== undefined;
    // A session of an agent that has left keeps its numbers, and so stays heard where it was critical.
    const isSilenced = agent.enabled && restrictionOn(own, this.#silencing) !== undefined;
    must(!isSilenced || outcome !== "granted", () => `13: a restricted session is granted: ${describe()}`);
    must(isRestricted || reason !== "restricted", () => `13: nothing restricts it: ${describe()}`);
  }

  /** W and Y: who is blocked waits if it may, and by no session that gives way to it. */
  #isBlockedLawfully(decision: Decision): void {
    const { outcome, reason, challenger, holder } = decision;
    if (outcome === "granted" || !BLOCKED.has(reason)) return;
    const { sessionId, agentId, priority } = challenger;
    const state = sessionId && this.#states.get(sessionId);
    const waits = this.#catalog.agents.get(agentId)?.whenBlocked.includes("queue");
    const agent = this.#catalog.agents.get(agentId);
    const ends = agent && restrictionOn({ agentId, ...criticalOf(agent) }, this.#ending) !== undefined;
    const mayWait = waits && !ends && !(state && isHeard(state));
    must(outcome === "queued" || !mayWait, () => `W: it does not wait: ${JSON.stringify(decision)}`);
    const other = holder && this.#catalog.agents.get(holder.agentId);
    const givesWay = other?.enabled && other.yieldsTo.includes(agentId) && priority >= holder!.priority;
    const isByRank = reason === "equal_priority" || reason === "not_interruptible";
    must(!isByRank || !givesWay, () => `Y: the other gives way: ${JSON.stringify(decision)}`);
  }

  #step(id: SessionId, transition: Transition, { at, floorSeq }: Entry): void {
    const { from, to, event, activity, reason } = transition;
    const state = this.#states.get(id);
    must(state === undefined || from === state, () => `${id} goes from ${from}, but was ${state}`);
    const changesActivity = activity !== undefined && activity.from !== activity.to;
    const givesUp = event === "pause" || (event === "yield" && GIVES_UP.has(reason));
    const staysPaused = to === "paused" && (changesActivity || givesUp);
    must(
      from !== "paused" || /^(active|ducked|archived|deleted)/.test(to) || staysPaused,
      () => `4: paused ${id} became ${to}`,
    );
    must(from !== "archived" || to === "deleted", () => `5: archived ${id} became ${to}`);
    this.#isDue(id, transition);
    if (to === "archived" && transition.by && reason !== "superseded" && reason !== "moved")
      this.#endIsLawful(id, transition);
    if (event === "preempt") this.#preemptionIsLawful(id, transition);
    if (to === "deleted") return this.forget(id);
    // Room was made for a session that leaves before the floor is its own.
    if (to === "archived" && isHeard(from) && !isFront(from) && !this.#front) this.#madeRoom.clear();
    this.#states.set(id, to);
    const agent = this.#catalog.agents.get(this.#agents.get(id)?.id ?? "");
    const comesUp = isHeard(to) && !isHeard(from);
    must(
      !comesUp || (agent ? agent.enabled : !this.#isWhole),
      () => `17: ${id} comes up, and its agent does not answer`,
    );
    const givesBack = agent !== undefined && agent.afterTurn !== "keep";
    if (givesBack && isHeard(to) && ENDS_TURN.has(event)) this.#ended.add(id);
    else this.#ended.delete(id);
    if (isFront(from) && !isFront(to)) this.#front = undefined;
    else if (!isFront(from) && isFront(to)) this.#front = { sessionId: id, floorSeq };
    if (!isHeard(to)) {
      this.#isHeardInTime(id, at);
      this.#heard.delete(id);
    } else if (!this.#heard.has(id)) this.#heard.set(id, at);
    if (isHeard(to)) this.#isHeardLawfully(id, transition, floorSeq);
    if (comesUp && agent) this.#takeRoom(id, agent);
  }

  /** The decision's effects on other sessions happen, in the same order. */
  #isDue(id: SessionId, { to, event, by, level }: Transition): void {
    const { challenger, outcome } = this.#decision ?? {};
    if (!challenger || by === undefined || by.sessionId !== challenger.sessionId) return;
    // What waits changes nobody. In the same step it may begin beneath, and silence others then.
    if (outcome === "queued" && this.#due.length === 0) return;
    if (!this.#catalog.isShared || !["preempt", "duck", "archive", "resume", "activate"].includes(event)) return;
    const next = this.#due.shift();
    const isSo = next?.sessionId === id && to.startsWith(next.becomes) && next.level === level;
    must(isSo, () => `${id} became ${to} at ${level} by a decision that says ${JSON.stringify(next)}`);
  }

  /** 11: only a critical session ends a critical one. */
  #endIsLawful(id: SessionId, { by }: Transition): void {
    const isCritical = by !== undefined && this.#agents.get(by.sessionId as SessionId)?.critical === true;
    must(isCritical || !this.#agents.get(id)?.critical, () => `11: ${id} is critical, and ${by?.sessionId} ends it`);
  }

  /** Whether a session's agent has left: it keeps the keys that it had. */
  #hasLeft(): boolean {
    return [...this.#agents.values()].some(({ id }) => !this.#catalog.agents.get(id)?.enabled);
  }

  /** 1, 3′, 11, 13, and 16 for the sessions that are heard. */
  #isHeardLawfully(id: SessionId, { to, level }: Transition, floorSeq: number): void {
    const { active } = this;
    must(active.length <= 1, () => `1: two are active at one instant: ${active}`);
    must(this.#catalog.isShared || this.#hasLeft() || !to.startsWith("ducked"), () => `12: ${id} is ducked`);
    const agent = this.#agents.get(id);
    if (!agent) return;
    must(!agent.critical || level === undefined || level === 0, () => `11: ${id} is critical and at level ${level}`);
    const own = hearingOf(agent);
    must(restrictionOn(own, this.#silencing) === undefined, () => `13: ${id} is heard and not allowed`);
    for (const other of [...active, ...this.ducked]) {
      const theirs = this.#agents.get(other);
      if (other === id || !theirs) continue;
      const areTogether = depth(own, hearingOf(theirs)) !== undefined || depth(hearingOf(theirs), own) !== undefined;
      must(areTogether, () => `3′: ${id} and ${other} are heard at once`);
      // A wake, which no rule decides, ends only sessions that asked earlier.
      const isAsked = this.#decision?.rule !== undefined;
      const comesToFront = this.#front?.floorSeq === floorSeq && !this.#hasSwitched && isAsked;
      must(!comesToFront || !this.isReplacedBy(id, other), () => `16: ${id} replaces ${other}, which is heard`);
    }
  }

  /** 2′: only a decision that says so and may do so, a restriction, or a change of agents silences a session. */
  #preemptionIsLawful(id: SessionId, { reason, by }: Transition): void {
    const decision = this.#decision;
    const describe = () => `2′: ${id} was preempted (${reason}) by ${by?.sessionId}: ${JSON.stringify(decision)}`;
    const agent = this.#agents.get(id);
    if (reason === "restricted") {
      return must(agent === undefined || restrictionOn(hearingOf(agent), this.#silencing) !== undefined, describe);
    }
    must(agent?.critical !== true, () => `11: ${describe()}`);
    if (this.#hasSwitched) return;
    const isGranted = decision?.outcome === "granted" && decision.challenger.sessionId === by?.sessionId;
    if (reason === "resumed" && !isGranted) return void this.#madeRoom.set(id, by?.sessionId);
    must(decision?.outcome === "granted" && decision.challenger.sessionId === by?.sessionId, describe);
    const { challenger, holder } = decision;
    if (!this.#catalog.isShared && !this.#hasLeft()) {
      must(decision.reason === "preempted" && holder?.sessionId === id, describe);
      must(challenger.priority >= holder!.priority, describe);
    }
    if (!agent || this.#catalog.agents.get(challenger.agentId)?.critical) return;
    const isOutranked = challenger.priority >= (agent.preemptionThreshold ?? Number.POSITIVE_INFINITY);
    must(agent.interruptible || isOutranked || agent.yieldsTo.includes(challenger.agentId), describe);
  }

  /** 2′: a session comes back beneath the holder, and silences only sessions that yield to it. */
  #takeRoom(comer: SessionId, agent: AgentEntry): void {
    const own = hearingOf(agent);
    for (const [id, by] of this.#madeRoom) {
      if (by !== undefined && by !== comer) continue;
      const other = this.#agents.get(id);
      must(by === undefined || !other || depth(own, hearingOf(other)) === undefined, () => `2′: ${by} silences ${id}`);
      if (other && depth(own, hearingOf(other)) !== undefined) continue;
      this.#madeRoom.delete(id);
      if (!other || agent.critical) continue;
      const isOutranked = agent.priority >= (other.preemptionThreshold ?? Number.POSITIVE_INFINITY);
      const yields = other.interruptible || isOutranked || other.yieldsTo.includes(agent.id);
      must(yields, () => `2′: ${id} was silenced by a session of ${agent.id} that comes back`);
    }
  }

  /** 15: no session is heard longer than its `max_hold`. */
  #isHeardInTime(id: SessionId, at: number): void {
    const since = this.#heard.get(id);
    const maxHoldMs = this.#agents.get(id)?.maxHoldMs;
    if (since === undefined || maxHoldMs === undefined) return;
    must(at - since <= maxHoldMs + APART_MS, () => `15: ${id} was heard for ${at - since} ms`);
  }

  /** The restrictions that end what they forbid. */
  get #ending() {
    return { restrictions: this.#rules.restrictions.filter(({ others }) => others === "stop") };
  }

  /** With `others: finish` the sessions that are heard go on. */
  get #silencing() {
    return { restrictions: this.#rules.restrictions.filter(({ others }) => others !== "finish") };
  }

  get #rules() {
    return rulesOf(this.#catalog, this.#flags, this.#at);
  }
}

const isFront = (state: WrittenState): boolean => state.startsWith("active");
const isHeard = (state: WrittenState): boolean => isFront(state) || state.startsWith("ducked");
const criticalOf = ({ critical }: AgentEntry) => (critical ? { critical: true as const } : {});

/** The level at which an agent's sessions are heard with another. */
const hearingOf = (agent: AgentEntry): Audibility => ({
  agentId: agent.id,
  priority: agent.priority,
  beneath: agent.beneath.length > 0 ? agent.beneath : undefined,
  ...(agent.whenPreempted === "duck" && { ducks: true as const }),
  ...criticalOf(agent),
});
