import {
  isNamed,
  isPlain,
  type JudgedAgent,
  type JudgedCatalog,
  type JudgedClaim,
  lengthOf,
  levelUnder,
  priorityAt,
  restrictionsAt,
  subjectOf,
} from "./judged-catalog.ts";

export interface JudgedEvent {
  readonly type: string;
  readonly sessionId?: string | undefined;
  /** ms since 1970. */
  readonly at: number;
  readonly data: unknown;
}

interface Change {
  from: string;
  to: string;
  event: string;
  reason?: string;
  level?: number;
  by?: { sessionId: string; agentId: string };
}

interface Decided {
  outcome: string;
  reason: string;
  rule?: number;
  challenger: { sessionId?: string; agentId: string; priority: number };
}

interface Seen {
  readonly id: string;
  agent: JudgedAgent;
  state: string;
  level: number;
  /** With which it last asked and was not refused; undefined: unknown. */
  priority: number | undefined;
  /** The number of that request. */
  asked: number;
  heardSince: number;
  /** It was preempted, and may come back by itself. */
  isPreempted: boolean;
  isQueued: boolean;
  /** Its user paused it, it gave up or its lease ran out: only a request brings it back. */
  isLeft: boolean;
}

/** The floor makes these decisions by itself. */
const OWN = new Set(["resumed", "dequeued", "queue_timeout", "lease_expired"]);

const isFront = (state: string): boolean => state.startsWith("active");
/** Whether the session goes on in another one, because its user edits it or moves it to another floor. */
const isContinued = (reason: string | undefined): boolean => reason === "superseded" || reason === "moved";
const endsWithTurns = ({ agent }: Seen): boolean => agent.after_turn === "archive";
const hasEnded = (state: string): boolean => state === "archived" || state === "deleted";
const isHeard = (state: string): boolean => isFront(state) || state.startsWith("ducked");

/**
 * A second judge of claims and of the invariants of docs/use/arbitration.md: it reads the events of a floor's log, as
 * readers get them, and the catalogue's file, and nothing else. It shares no code with `interlock prove` and the floor,
 * so that they do not have the same fault. It decides every kind of claim, and of the invariants
 *
 * - 1, 3 to 6, 11 to 14 and 17 to 19, the priority of each request, and rule S: as the page has them;
 * - 2, 9, 10, 16 and 21 as far as a log tells priorities and order: 9 and 10 exactly for two sessions, of more sessions
 *   only what holds whatever the order of equals is;
 * - 15 while nobody sets the wall clock, which a log does not tell.
 *
 * A log cannot tell 7 (there is one floor), 8 (which commands were acknowledged) and 20 (there is one log), nor when a
 * lease is over: heartbeats are not logged.
 */
export class LogJudge {
  /** What the log breaks: names of claims, and numbers of invariants, each with its first instance. */
  readonly broken = new Map<string, string>();
  readonly #claims: readonly JudgedClaim[];
  #catalog: JudgedCatalog;
  #agents: ReadonlyMap<string, JudgedAgent>;
  #isPlain: boolean;
  readonly #sessions = new Map<string, Seen>();
  /** Per claim: sessions that should be heard again, and whether the time for that has come. */
  readonly #owed = new Map<JudgedClaim, Map<string, boolean>>();
  #flags: Readonly<Record<string, boolean>> = {};
  #isReserved = false;
  #requests = 0;
  #at = 0;
  /** Of the step that is read: the front before it, its request, whether the catalogue is new, and its rejection. */
  #frontBefore: Seen | undefined;
  #request: Decided | undefined;
  #isRenumbered = false;
  #rejected: Decided | undefined;
  #cutOff: { session: Seen; by: string | undefined; others: Set<string> }[] = [];
  #hasFrontLeft = false;
  #isClockSet = false;

  constructor(catalog: JudgedCatalog) {
    this.#catalog = catalog;
    this.#claims = catalog.claims ?? [];
    this.#agents = new Map(catalog.agents.map((agent) => [agent.name, agent]));
    this.#isPlain = isPlain(catalog);
  }

  /** Another catalogue is in force from now on. */
  use(catalog: JudgedCatalog): void {
    this.#catalog = catalog;
    this.#agents = new Map(catalog.agents.map((agent) => [agent.name, agent]));
    this.#isPlain &&= isPlain(catalog);
    this.#isRenumbered = true;
    for (const session of this.#sessions.values()) {
      const agent = this.#agents.get(session.agent.name);
      if (agent && agent.enabled !== false) session.agent = agent;
      session.priority = undefined;
    }
    for (const [claim, ids] of this.#owed) {
      if (this.#agents.get(subjectOf(claim.always!.eventually))?.enabled === false) ids.clear();
    }
  }

  /** The wall clock was set: from now on it does not tell how long something took. */
  setClock(): void {
    this.#isClockSet = true;
  }

  /** The events of one commit. What happened at different moments of it happened in several steps. */
  take(events: readonly JudgedEvent[]): void {
    for (const [index, event] of events.entries()) {
      if (index > 0 && event.at !== events[index - 1]!.at) this.#endStep();
      this.#at = event.at;
      this.#read(event);
    }
    if (events.length > 0) this.#endStep();
  }

  /** Nothing happened up to this instant. */
  end(at: number): void {
    this.#at = at;
    for (const session of this.#heard()) this.#checkHold(session);
    this.#checkOwed();
  }

  #must(isMet: boolean, name: string, why: () => string): void {
    if (!isMet && !this.broken.has(name)) this.broken.set(name, why());
  }

  #heard(): Seen[] {
    return [...this.#sessions.values()].filter(({ state }) => isHeard(state));
  }

  #front(): Seen | undefined {
    return [...this.#sessions.values()].find(({ state }) => isFront(state));
  }

  #read({ type, sessionId = "", data }: JudgedEvent): void {
    if (type === "floor_updated") {
      const { flags, reserved } = data as { flags: Record<string, boolean>; reserved?: unknown };
      this.#flags = flags;
      this.#isReserved = reserved !== undefined;
    } else if (type === "session_created") {
      const agent = this.#agents.get((data as { agentId: string }).agentId)!;
      const rest = { priority: undefined, asked: 0, heardSince: 0, isPreempted: false, isQueued: false, isLeft: false };
      this.#sessions.set(sessionId, { id: sessionId, agent, state: "created", level: 0, ...rest });
    } else if (type === "arbitration") this.#decide(data as Decided);
    else if (type === "session_transition") this.#change(this.#sessions.get(sessionId)!, data as Change);
  }

  #decide(decision: Decided): void {
    const { outcome, reason, challenger } = decision;
    const agent = this.#agents.get(challenger.agentId);
    const session = this.#sessions.get(challenger.sessionId ?? "");
    const describe = () => JSON.stringify(decision);
    const isKnown = agent !== undefined && agent.enabled !== false;
    if (outcome === "rejected") {
      const isRefused = reason !== "unknown_agent" && reason !== "agent_disabled";
      if (isRefused) this.#blame(challenger.agentId, "rejected", "while_heard", this.#agentsHeard());
    }
    if (OWN.has(reason)) {
      if (session && outcome !== "granted") session.isQueued = false;
      return;
    }
    // A scheduled session may ask in the same ms as another one.
    if (outcome === "granted" || this.#request?.outcome !== "granted") this.#request = decision;
    this.#requests += 1;
    if (outcome === "rejected") this.#rejected = decision;
    if (agent && isKnown) {
      this.#must(!agent.critical || outcome === "granted", "11", () => `a critical session is refused: ${describe()}`);
      const priority = priorityAt(this.#catalog, agent, this.#flags, this.#at);
      this.#must(challenger.priority === priority, "priority", () => `${describe()}: its priority is ${priority}`);
      const isNew = session === undefined || session.state === "created";
      const isAllowed = this.#restrictions().every(({ allow = [] }) => allow.includes(agent.name));
      const mayStart = agent.critical || !isNew || isAllowed;
      this.#must(outcome !== "granted" || mayStart, "13", () => `a restriction does not allow it: ${describe()}`);
    }
    this.#must(isKnown || outcome === "rejected", "17", () => `its agent does not answer: ${describe()}`);
    if (!session) return;
    for (const ids of this.#owed.values()) ids.delete(session.id);
    session.priority = outcome === "rejected" ? undefined : challenger.priority;
    if (outcome === "rejected") return;
    session.asked = this.#requests;
    session.isLeft = false;
    session.isQueued = outcome === "queued";
  }

  #change(session: Seen, change: Change): void {
    const { to, event, reason, by, level } = change;
    const { id, state, agent } = session;
    const describe = () => `${agent.name} (${id}): ${JSON.stringify(change)}`;
    const [was, is] = [isHeard(state), isHeard(to)];
    const { challenger } = this.#rejected ?? {};
    this.#must(
      challenger === undefined || challenger.sessionId === id || by?.sessionId !== challenger.sessionId,
      "6",
      () => `a refused session changes another: ${describe()}`,
    );
    this.#must(state !== "archived" || to === "deleted", "5", describe);
    this.#must(state !== "paused" || is || /^(paused|archived|deleted)$/.test(to), "4", describe);
    this.#must(agent.critical !== true || event !== "preempt", "11", () => `it is critical: ${describe()}`);
    this.#must(!this.#isPlain || !to.startsWith("ducked"), "12", describe);
    const hasCause = by !== undefined && !isContinued(reason);
    const isEnded = to === "archived" && hasCause && agent.critical === true;
    this.#must(!isEnded || this.#sessions.get(by!.sessionId)?.agent.critical === true, "11", describe);
    if (was && !is) this.#silence(session, change);
    if (event === "pause" || event === "yield" || event === "expire" || hasEnded(to)) {
      if (to !== "archived" || by === undefined) this.#leave(session, event, reason);
      if (this.#frontBefore === session) this.#hasFrontLeft = true;
    }
    if (hasEnded(to) && !hasEnded(state)) this.#end(session, reason, by?.sessionId);
    if (!was && is) this.#rise(session, describe);
    session.state = to;
    if (level !== undefined) session.level = level;
    if (is && !was) session.heardSince = this.#at;
    if (!is) return;
    for (const { others } of this.#cutOff) others.add(id);
    for (const ids of this.#owed.values()) ids.delete(id);
    const front = isFront(to) ? this.#heard().filter((each) => isFront(each.state)) : [];
    this.#must(front.length < 2, "1", () => `two sessions are active: ${describe()}`);
    for (const other of this.#heard()) {
      if (other === session || this.#isRenumbered) continue;
      const isTogether = levelUnder(agent, other.agent) ?? levelUnder(other.agent, agent);
      this.#must(isTogether !== undefined, "3", () => `${other.id} is heard too: ${describe()}`);
    }
  }

  /** A session falls silent. */
  #silence(session: Seen, { event, reason, by }: Change): void {
    const { agent } = session;
    this.#checkHold(session);
    if (by && !isContinued(reason)) this.#blame(agent.name, "silenced", "by", [by.agentId]);
    const heard = this.#heard().filter((each) => each !== session);
    this.#owe(session, [...heard.map((each) => each.agent.name), ...(by ? [by.agentId] : [])]);
    if (event !== "preempt") return;
    session.isPreempted = true;
    if (agent.interruptible !== false || agent.critical || reason === "restricted" || this.#isRenumbered) return;
    this.#cutOff.push({ session, by: by?.sessionId, others: new Set(heard.map((each) => each.id)) });
  }

  /** The session falls silent for these agents, or while they are heard. */
  #owe({ agent, id }: Seen, others: readonly string[]): void {
    for (const claim of this.#claims) {
      if (!claim.always || this.#isDisabled(agent)) continue;
      const [after, eventually] = [subjectOf(claim.always.after), subjectOf(claim.always.eventually)];
      if (eventually !== agent.name || !others.includes(after)) continue;
      const ids = this.#owed.get(claim) ?? new Map<string, boolean>();
      this.#owed.set(claim, ids.set(id, ids.get(id) ?? false));
    }
  }

  /** A session gives up its place, or its user or program takes it away. */
  #leave(session: Seen, event: string, reason: string | undefined): void {
    session.isPreempted = false;
    session.isQueued = false;
    session.isLeft = true;
    // Its limits do not touch what is owed to it.
    const isEnded = event === "delete" || (event === "archive" && (reason === undefined || reason === "stop"));
    const isOwn = event === "pause" || isEnded || reason === "lease_expired";
    if (isOwn) for (const ids of this.#owed.values()) ids.delete(session.id);
  }

  #end(session: Seen, reason: string | undefined, by: string | undefined): void {
    session.isPreempted = false;
    session.isQueued = false;
    const other = this.#sessions.get(by ?? "");
    // What is left of it is another session; or it was for one turn only, and its agent keeps others.
    const isOver = other !== undefined || isContinued(reason) || (reason === "after_turn" && !endsWithTurns(session));
    if (isOver) for (const ids of this.#owed.values()) ids.delete(session.id);
    const isLater = reason !== "replaced" || other === undefined || other.asked > session.asked;
    this.#must(isLater, "18", () => `${session.id} is replaced by ${by}, which asked earlier`);
    for (const [{ always }, ids] of this.#owed) {
      if (subjectOf(always!.after) === session.agent.name) for (const id of ids.keys()) ids.set(id, true);
    }
  }

  /** A silent session is heard. */
  #rise(session: Seen, describe: () => string): void {
    this.#must(!this.#isDisabled(session.agent), "17", describe);
    this.#must(!session.isLeft, "4 and 14", () => `nobody asked for it: ${describe()}`);
    session.isPreempted = false;
    session.isQueued = false;
  }

  #blame(agent: string, subject: "rejected" | "silenced", other: "while_heard" | "by", others: string[]): void {
    for (const { name, never } of this.#claims) {
      const [of, beside] = [never?.[subject], never?.[other]];
      if (of === undefined || !isNamed(of, agent)) continue;
      const isMet = beside === undefined || others.some((each) => isNamed(beside, each));
      this.#must(!isMet, name, () => `${agent} is ${subject} (${others})`);
    }
  }

  #isDisabled({ name }: JudgedAgent): boolean {
    return this.#agents.get(name)?.enabled === false;
  }

  #agentsHeard(): string[] {
    return this.#heard().map(({ agent }) => agent.name);
  }

  #restrictions() {
    return restrictionsAt(this.#catalog, this.#flags, this.#at);
  }

  #checkHold({ agent, id, heardSince }: Seen): void {
    if (agent.max_hold === undefined || this.#isClockSet || this.#isRenumbered) return;
    const ms = this.#at - heardSince;
    this.#must(ms <= lengthOf(agent.max_hold), "15", () => `${id} is heard for ${ms} ms`);
  }

  #endStep(): void {
    const front = this.#front();
    const restrictions = this.#restrictions();
    const isAllowed = ({ agent }: Seen) =>
      agent.critical === true || restrictions.every(({ allow = [] }) => allow.includes(agent.name));
    const isEligible = (each: Seen) => !this.#isDisabled(each.agent) && isAllowed(each);
    for (const cut of this.#cutOff) this.#checkCutOff(cut);
    this.#checkHeard(front);
    const silent = [...this.#sessions.values()].filter(({ state }) => state === "paused" || state === "created");
    for (const { id, agent, state } of silent) {
      const isOver = state === "paused" && agent.max_pause !== undefined && lengthOf(agent.max_pause) === 0;
      this.#must(!isOver, "19", () => `${id} stays paused`);
    }
    const waiting = silent.filter((each) => {
      const comes = each.isQueued || (each.isPreempted && each.agent.resume !== "manual");
      return comes && isEligible(each);
    });
    if (!front && !this.#isReserved) {
      this.#must(waiting.length === 0, "0", () => `${waiting[0]!.id} waits for a free floor`);
    }
    this.#checkOwed();
    if (front && this.#heard().length === 1) {
      const missing = waiting.find((each) => this.#isBeneath(front, each));
      this.#must(missing === undefined, "10", () => `${missing!.id} is silent beneath ${front.id} without a cause`);
    }
    const givesWay = front?.agent.idle_yields === true && front.state === "active.idle";
    const asking = silent.find((each) => each.isQueued && isEligible(each));
    this.#must(!givesWay || asking === undefined, "21", () => `${front!.id} is idle, and ${asking!.id} waits`);
    this.#checkFront(front);
    if (front) this.#checkReplaced(front);
    this.#frontBefore = front;
    this.#request = undefined;
    this.#rejected = undefined;
    this.#isRenumbered = false;
    this.#hasFrontLeft = false;
    this.#cutOff = [];
  }

  #isBeneath(front: Seen, { agent, state, priority }: Seen): boolean {
    if (levelUnder(front.agent, agent) === undefined) return false;
    if (state === "paused") return priority !== undefined;
    return agent.critical === true || isNamed(agent.when_blocked ?? [], "duck");
  }

  /** What is owed comes once nothing is in its way: a session, a reservation or a restriction. */
  #checkOwed(): void {
    if (this.#isReserved || this.#heard().length > 0 || this.#restrictions().length > 0) return;
    for (const [claim, ids] of this.#owed) {
      const due = [...ids].find(([, isDue]) => isDue);
      this.#must(due === undefined, claim.name, () => `${due![0]} is not heard again`);
    }
  }

  /** 9, 11, 13 and the lengths of 15. */
  #checkHeard(front: Seen | undefined): void {
    const heard = this.#heard();
    const silencing = this.#restrictions().filter(({ others }) => others !== "finish");
    for (const session of heard) {
      const { agent, id, level } = session;
      this.#checkHold(session);
      const stops = silencing.find(({ allow = [] }) => !allow.includes(agent.name));
      this.#must(agent.critical === true || stops === undefined, "13", () => `${id} is heard, not by ${stops!.name}`);
      if (session === front || !front) continue;
      this.#must(agent.critical !== true || level === 0, "11", () => `${id} is critical and at level ${level}`);
      const own = levelUnder(front.agent, agent);
      const levels = heard.flatMap((other) => levelUnder(other.agent, agent) ?? []);
      const isRight = own !== undefined && level <= own && [0, own, ...levels].includes(level);
      this.#must(isRight && (heard.length > 2 || level === own), "9", () => `${id} is at ${level}, not ${own}`);
    }
  }

  /** 2: a session that is not interruptible is cut off. */
  #checkCutOff({ session, by, others }: { session: Seen; by: string | undefined; others: Set<string> }): void {
    if (this.#isRenumbered) return;
    const causes = by === undefined ? [...others] : [by];
    const may = causes.some((id) => {
      const { agent, priority = 100 } = this.#sessions.get(id)!;
      const { preemption_threshold: threshold, yields_to: yieldsTo = [] } = session.agent;
      if (agent.critical || (threshold !== undefined && priority >= threshold)) return true;
      return yieldsTo.includes(agent.name) && priority >= (session.priority ?? 0);
    });
    this.#must(may, "2", () => `${session.id} is not interruptible, and ${causes} cuts it off`);
  }

  /** Rules 5 and 6, 11 and S: who takes the front from another that has not left it. */
  #checkFront(front: Seen | undefined): void {
    const before = this.#frontBefore;
    if (!before || this.#isRenumbered || this.#hasFrontLeft || front === before) return;
    const isRestricted = before.state === "paused" && this.#restrictions().length > 0;
    if (isRestricted || hasEnded(before.state)) return;
    const { outcome, challenger } = this.#request ?? {};
    const taker = outcome === "granted" ? this.#sessions.get(challenger!.sessionId!) : undefined;
    this.#must(taker !== undefined, "S", () => `${before.id} loses the front without a request`);
    // A limit of 0 ms ends its place in the same step.
    if (!taker || taker.agent.critical || (front && front !== taker)) return;
    this.#must(before.agent.critical !== true, "11", () => `${taker.id} takes the front from a critical session`);
    const [own, other] = [taker.priority, before.priority];
    if (own === undefined || other === undefined) return;
    const { agent } = taker;
    const { yields_to: yieldsTo = [], name } = before.agent;
    const isNewest = this.#catalog.policy?.ties === "newest";
    const mayTie = isNewest || agent.replaces?.includes(name) === true || yieldsTo.includes(agent.name);
    const isAbove = own > other || (own === other && mayTie);
    this.#must(isAbove, "rules 5 and 6", () => `${taker.id} (${own}) takes the front from ${before.id} (${other})`);
  }

  /** 16: what the new holder replaces has ended. */
  #checkReplaced(front: Seen): void {
    const isNew = this.#request?.challenger.sessionId === front.id && this.#frontBefore !== front;
    if (!isNew || this.#isRenumbered || this.#request?.outcome !== "granted") return;
    const stays = [...this.#sessions.values()].find(
      (each) =>
        each !== front &&
        each.asked < front.asked &&
        (isHeard(each.state) || each.isPreempted || each.isQueued) &&
        front.agent.replaces?.includes(each.agent.name) &&
        (front.agent.critical || !each.agent.critical) &&
        each.priority !== undefined &&
        each.priority <= front.priority!,
    );
    this.#must(stays === undefined, "16", () => `${front.id} replaces ${stays!.id}, which stays`);
  }
}
