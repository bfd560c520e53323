import { arbiterStateOf, audible, everyone } from "../actors/floor/floor-state.ts";
import { isAudible, type Run } from "../actors/session/session-context.ts";
import { acceptsTurns, type Catalog } from "../config/catalog/catalog.ts";
import type { Decision } from "../protocol/decision.ts";
import { ERRORS } from "../protocol/errors.ts";
import type { AgentId, MessageId, RequestId, RunId, SessionId } from "../protocol/ids.ts";
import type { Command } from "../protocol/internal/command.ts";
import type { Reply } from "../protocol/internal/reply.ts";
import { textIn } from "../protocol/locale.ts";
import type { Routed } from "../protocol/routed.ts";
import type { Session } from "../protocol/session.ts";
import { type RouteAnswer, type RouteQuestion, route } from "../routing/route.ts";
import { WallClock } from "../shared/wall-clock.ts";
import { type Check, checkAnswer, checkFloor, checkPlay, type FloorFacts } from "./expectations.ts";
import { type PlayedEvent, PlayedLog } from "./played-log.ts";
import { type ClockInstant, type ReadScript, SESSION_ACTIONS, type Step } from "./script.ts";
import { endOf, SteppedFloor, type TimedFact } from "./stepped-floor.ts";
import { Tally } from "./tally.ts";

/** How long a turn takes if the script does not say. */
const TURN_MS = 2_000;
/** Steps after which a script is taken to be an accident. */
const MAX_SIMULATED_STEPS = 2_000_000;
/** Events that are kept; a script that causes more is stopped. */
const MAX_EVENTS = 1_000_000;

export interface Play {
  /** The floors on which something happened, the one without a zone first, each with its events. */
  readonly floors: readonly { readonly floorId: string; readonly events: readonly PlayedEvent[] }[];
  readonly startedAt: number;
  readonly endedAt: number;
  /** Of all floors, as they happened. */
  readonly events: readonly PlayedEvent[];
  readonly checks: readonly Check[];
}

/** The script asks for what is not possible. The message names the line. */
export class ScriptFault extends Error {
  constructor(line: number, message: string) {
    super(`line ${line}: ${message}`);
    this.name = "ScriptFault";
  }
}

export interface PlayOptions {
  catalog: Catalog;
  /** Reads the catalogue that a step puts in place. */
  load?: ((path: string) => Catalog) | undefined;
}

/**
 * Play a script on a virtual clock.
 * @throws ScriptFault
 */
export function play(read: ReadScript, options: PlayOptions): Play {
  return new Simulation(read, options).play();
}

interface Turn {
  readonly sessionId: SessionId;
  readonly runId: RunId;
  readonly fails: boolean;
  /** How long an attempt takes, in ms. */
  readonly forMs: number;
  /** When its attempt has ended, in the floor's time; undefined: no worker has it, or it waits for its user. */
  doneAt?: number | undefined;
}

/** Whom a message is for: a session that is known, or a new one. */
interface Addressee {
  readonly known: string | undefined;
  /** The name of a new session. */
  readonly called: string;
  readonly agentId: AgentId;
  readonly routed?: Routed | undefined;
}

/** What becomes of a session that asks at its time, and of those that its series makes. */
interface Plan {
  readonly name: string;
  readonly forMs: number | undefined;
  readonly hasTurn: boolean;
}

interface Ending {
  forMs: number;
  /** In the floor's time; undefined: the session was not audible yet. */
  at?: number | undefined;
}

class Simulation {
  readonly #read: ReadScript;
  readonly #options: PlayOptions;
  readonly #clock: WallClock;
  /** By zone. All have the same time and catalogue. */
  readonly #floors: ReadonlyMap<string | undefined, SteppedFloor>;
  /** That of the step. */
  #floor: SteppedFloor;
  readonly #startedAt: number;
  readonly #logs: ReadonlyMap<SteppedFloor, PlayedLog>;
  /** Of all floors. */
  readonly #events: PlayedEvent[] = [];
  readonly #checks: Check[] = [];
  readonly #tally = new Tally();
  /** The newest session of each name. */
  readonly #named = new Map<string, string>();
  /** By name: the line on which a session was refused that does not exist. */
  readonly #refusedOn = new Map<string, number>();
  readonly #counts = new Map<string, number>();
  readonly #turns = new Map<string, Turn>();
  readonly #endings = new Map<string, Ending>();
  readonly #plans = new Map<string, Plan>();
  /** By name: the series that makes its sessions. */
  readonly #series = new Map<string, string>();
  /** When each session was spoken to last, in the floor's time; the newest last. */
  readonly #spokenTo = new Map<SessionId, number>();
  /** Who hears the step's sentence. */
  #routed: Routed | undefined;
  #messages = 0;
  #questions = 0;
  #steps = 0;

  constructor(read: ReadScript, options: PlayOptions) {
    const { day, timezone, user, steps, zones } = read.script;
    this.#read = read;
    this.#options = options;
    this.#clock = new WallClock(timezone);
    const { msOfDay = 0, day: weekday } = steps[0]!.at ?? {};
    const midnight = this.#clock.instantOf(Date.parse(`${day}T00:00:00Z`));
    this.#startedAt = this.#clock.next(midnight, msOfDay, weekday);
    const { catalog } = options;
    const floors = [undefined, ...zones].map(
      (zone) => [zone, new SteppedFloor({ catalog, now: this.#startedAt, userId: user, zone })] as const,
    );
    this.#floors = new Map(floors);
    this.#floor = this.#floors.get(undefined)!;
    const keep = (event: PlayedEvent, at: number) => {
      this.#events.push(event);
      this.#tally.add(event, at);
    };
    this.#logs = new Map(floors.map(([, floor]) => [floor, new PlayedLog(keep)]));
  }

  play(): Play {
    const { script, lineOf } = this.#read;
    this.#run(script.steps, ["steps"]);
    this.#playOn(script.steps.at(-1)!);
    this.#tally.end(this.#floor.now);
    for (const [index, expected] of script.expect.entries()) {
      this.#checks.push(...checkPlay(expected, this.#tally, lineOf(["expect", index])));
    }
    const floors = [...this.#logs].map(([{ floorId }, { events }]) => ({ floorId, events }));
    return {
      floors: floors.filter(({ events }, index) => index === 0 || events.length > 0),
      startedAt: this.#startedAt,
      endedAt: this.#floor.now,
      events: this.#events,
      checks: this.#checks,
    };
  }

  #run(steps: readonly Step[], path: readonly PropertyKey[]): void {
    for (const [index, step] of steps.entries()) {
      const at = [...path, index];
      const line = this.#read.lineOf(at);
      this.#steps += 1;
      if (this.#steps > MAX_SIMULATED_STEPS) throw new ScriptFault(line, `more than ${MAX_SIMULATED_STEPS} steps`);
      if (step.repeat !== undefined) {
        for (let round = 0; round < step.repeat; round++) this.#run(step.steps!, [...at, "steps"]);
        continue;
      }
      this.#playStep(step, line);
    }
  }

  /** Play on until what the last step began has ended, if the step says how long it lasts. */
  #playOn(last: Step): void {
    const { as, asks, says } = last;
    const name = as ?? asks ?? says ?? this.#routed?.agent;
    const sessionId = name === undefined || last.for === undefined ? undefined : this.#idOf(name);
    if (sessionId === undefined) return;
    const lasts = () =>
      this.#endings.has(sessionId) || [...this.#turns.values()].some((turn) => turn.sessionId === sessionId);
    for (let next = this.#next(); next !== undefined && lasts(); next = this.#next()) {
      this.#passTo(this.#floor.now + (next.at - this.#floor.time));
    }
  }

  #playStep(step: Step, line: number): void {
    if (step.at !== undefined) this.#passTo(this.#clock.next(this.#floor.now, step.at.msOfDay, step.at.day));
    else if (step.after !== undefined) this.#passTo(this.#floor.now + step.after);
    this.#routed = undefined;
    this.#floor = this.#floorOfStep(step);
    const decision = this.#act(step, line);
    if (step.expect) {
      const answer = checkAnswer(step.expect, { decision, routed: this.#routed }, step.locale);
      const time = new Date(this.#clock.shownAt(this.#floor.now)).toISOString().slice(11, 19);
      for (const check of [...answer, ...checkFloor(step.expect, this.#floorFacts())])
        this.#checks.push({ ...check, line, text: `at ${time} ${check.text}` });
    }
    for (const floor of this.#floors.values()) floor.release();
  }

  #floorFacts(): FloorFacts {
    const { floor } = this.#floor.context;
    return {
      state: arbiterStateOf(floor),
      sessions: everyone(floor).length,
      sounding: audible(floor).map(({ sessionId: name, ...rest }) => ({ name, ...rest })),
      idOf: (name) => this.#idOf(name),
      stateOf: (id) => this.#floor.session(id)?.value.lifecycle,
    };
  }

  #floorOfStep(step: Step): SteppedFloor {
    const name = namedIn(step) ?? step.says;
    const id = name === undefined || step.moves !== undefined ? undefined : this.#idOf(name);
    return (step.zone === undefined && id !== undefined && this.#homeOf(id)) || this.#floors.get(step.zone)!;
  }

  /** The floor that the session is on. */
  #homeOf(id: string): SteppedFloor | undefined {
    return [...this.#floors.values()].find((floor) => floor.session(id) !== undefined);
  }

  #session(id: string) {
    return this.#homeOf(id)?.session(id);
  }

  /** Let the wall clock run to this instant. */
  #passTo(now: number): void {
    const until = this.#floor.time + (now - this.#floor.now);
    for (let next = this.#next(); next !== undefined && next.at <= until; next = this.#next()) {
      this.#letPass(next.at);
      next.act?.();
    }
    this.#letPass(until);
  }

  #letPass(until: number): void {
    for (const floor of this.#floors.values()) this.#record(floor.passTo(until), floor);
  }

  /** The next thing that happens by itself: a deadline, or the end of a turn or of a session. */
  #next(): { at: number; act?: () => void } | undefined {
    const due = [...this.#floors.values()].flatMap((floor) => floor.nextDue() ?? []);
    let next: { at: number; act?: () => void } | undefined = due.length > 0 ? { at: Math.min(...due) } : undefined;
    for (const turn of this.#turns.values()) {
      const { doneAt: at } = turn;
      if (at === undefined || this.#session(turn.sessionId)?.context.run?.held) continue;
      if (!next || at < next.at) next = { at, act: () => this.#endTurn(turn) };
    }
    for (const [id, { at }] of this.#endings) {
      if (at !== undefined && (!next || at < next.at)) next = { at, act: () => this.#archive(id) };
    }
    return next && { ...next, at: Math.max(next.at, this.#floor.time) };
  }

  #act(step: Step, line: number): Decision | undefined {
    const decision = this.#carryOut(step, line);
    const name = step.as ?? step.asks ?? step.says;
    if (name !== undefined && decision?.outcome === "rejected") this.#refusedOn.set(name, line);
    return decision;
  }

  #carryOut(step: Step, line: number): Decision | undefined {
    if (step.asks !== undefined) return this.#request(step, step.asks);
    if (step.says !== undefined) return this.#says(step, step.says, line);
    if (step.hears !== undefined) return this.#hears(step, textIn(step.hears, step.locale));
    if (step.what_if !== undefined) return this.#decide(step.what_if, step.locale);
    if (step.schedules !== undefined) return this.#schedule(step, step.schedules, line);
    const name = namedIn(step);
    if (name === undefined) return this.#actOnFloor(step, line);
    const sessionId = this.#idOf(name) as SessionId | undefined;
    if (sessionId === undefined) throw new ScriptFault(line, this.#whyAbsent(name));
    const home = this.#homeOf(sessionId)!;
    if (step.moves !== undefined) return this.#move(step.moves, sessionId, home, line);
    if (home !== this.#floor) throw new ScriptFault(line, `${name} is on another floor`);
    return this.#actOnSession(step, sessionId, line);
  }

  #whyAbsent(name: string): string {
    if (this.#named.has(name)) return `there is no session ${name}: it has ended`;
    const refusedOn = this.#refusedOn.get(name);
    if (refusedOn !== undefined) return `there is no session ${name}: it was refused on line ${refusedOn}`;
    return `there is no session ${name} yet: no earlier step begins one of this name`;
  }

  #actOnSession(step: Step, sessionId: SessionId, line: number): Decision | undefined {
    if (step.inquires !== undefined) return this.#inquires(step.inquires, sessionId, line);
    if (step.answers !== undefined) return this.#answers(step, sessionId, line);
    if (step.cancels !== undefined) return this.#cancels(step.cancels, sessionId, line);
    if (step.pauses !== undefined) return this.#send({ type: "session.pause", sessionId });
    if (step.ends !== undefined) return this.#archive(sessionId);
    if (step.switches !== undefined) return this.#send({ type: "session.switch_agent", sessionId, agentId: step.to! });
    if (step.dies !== undefined) {
      this.#record(this.#floor.die(sessionId));
      return undefined;
    }
    this.#floor.revive(sessionId);
    if (step.returns !== undefined) return undefined;
    const isNew = this.#floor.session(sessionId)!.value.lifecycle === "created";
    return this.#send({ type: isNew ? "session.activate" : "session.resume", sessionId });
  }

  #actOnFloor(step: Step, line: number): Decision | undefined {
    const { set, clear, stop, clock, catalogue, disable, enable } = step;
    if (set !== undefined) return this.#send({ type: "floor.patch_flags", flags: { [set]: true } });
    if (clear !== undefined) return this.#send({ type: "floor.patch_flags", flags: { [clear]: false } });
    if (stop !== undefined) return this.#send({ type: stop === "all" ? "floor.stop_all" : "floor.stop" });
    if (clock !== undefined) this.#setClock(clock, line);
    if (catalogue !== undefined) this.#use(() => this.#load(catalogue, line));
    if (disable !== undefined) this.#use((catalog) => withEnabled(catalog, disable, false));
    if (enable !== undefined) this.#use((catalog) => withEnabled(catalog, enable, true));
    return undefined;
  }

  #schedule(step: Step, agentId: string, line: number): undefined {
    const name = step.as ?? agentId;
    const sessionId = this.#newId(name);
    const { every, in: inMs, due, turn } = step;
    const { timezone } = this.#read.script;
    const schedule = {
      ...(inMs !== undefined && { inMs }),
      ...(due !== undefined && { at: this.#instantOf(due) }),
      ...(every !== undefined && { every, timezone }),
      ...(turn && { content: "…" }),
    };
    const { reply, facts } = this.#floor.schedule(sessionId, agentId, schedule);
    if (!reply.ok) throw new ScriptFault(line, whyRefused(reply));
    this.#keepId(name, sessionId);
    if (every !== undefined) this.#series.set(name, sessionId);
    this.#plan(sessionId, { name, forMs: step.for, hasTurn: turn === true });
    this.#record(facts);
  }

  #plan(id: string, plan: Plan): void {
    this.#plans.set(id, plan);
    if (!plan.hasTurn && plan.forMs !== undefined) this.#endings.set(id, { forMs: plan.forMs });
  }

  /** The session goes on on the floor of the step, unless that refuses it. */
  #move(name: string, id: SessionId, home: SteppedFloor, line: number): Decision | undefined {
    const target = this.#floor;
    if (home === target) throw new ScriptFault(line, `${name} is on this floor already`);
    const { schedule, run, turns } = home.session(id)!.context;
    if (schedule)
      throw new ScriptFault(line, `${name} waits for its time: end it, and schedule one on the other floor`);
    const sessionId = this.#newId(name);
    const going = [...(run ? [run] : []), ...turns].map((turn) => {
      this.#messages += 1;
      const was = this.#turns.get("id" in turn ? turn.id : turn.runId);
      const runId = `run-${this.#messages}` as RunId;
      return { input: { messageId: turn.messageId, runId, content: "…" }, turn: { ...was, sessionId, runId } };
    });
    for (const { turn } of going) {
      const { fails = false, forMs = TURN_MS, runId } = turn;
      this.#turns.set(runId, { sessionId: sessionId as SessionId, runId, fails, forMs });
    }
    const moved = target.moveHere(
      home,
      id,
      sessionId,
      going.map(({ input }) => input),
    );
    const ending = this.#endings.get(id);
    if (moved.reply.ok) {
      this.#keepId(name, sessionId);
      if (ending) this.#endings.set(sessionId, ending);
    }
    this.#record(moved.here, target);
    this.#record(moved.there, home);
    return decisionOf(moved.reply);
  }

  #request(step: Step, agentId: string): Decision | undefined {
    const name = step.as ?? agentId;
    const sessionId = this.#newId(name);
    const { reply, facts } = this.#floor.create(sessionId, agentId, step.locale);
    if (reply.ok) {
      this.#keepId(name, sessionId);
      if (step.for !== undefined) this.#endings.set(sessionId, { forMs: step.for });
    }
    this.#record(facts);
    return decisionOf(reply);
  }

  /** What a request of this agent would get. */
  #decide(agentId: string, locale: string | undefined): Decision | undefined {
    return decisionOf(this.#floor.copy().create("what-if", agentId, locale).reply);
  }

  #says(step: Step, name: string, line: number): Decision | undefined {
    const known = step.as === undefined ? this.#idOf(name) : undefined;
    if (known && !this.#floor.session(known)) throw new ScriptFault(line, `${name} is on another floor`);
    const agent = this.#floor.catalog.agents.get(known ? this.#floor.session(known)!.context.numbers.agentId : name);
    if (!agent) throw new ScriptFault(line, `there is neither a session nor an agent ${name}`);
    if (!acceptsTurns(agent)) throw new ScriptFault(line, `${agent.id} is external and takes no turns: use asks`);
    return this.#talk(step, { known, called: step.as ?? name, agentId: agent.id });
  }

  /** A sentence: the first row of `routing` that fits says who hears it. */
  #hears(step: Step, sentence: string): Decision | undefined {
    const { catalog } = this.#floor;
    const steps = route(catalog, sentence, { isOperator: true });
    let asked = steps.next();
    while (!asked.done) asked = steps.next(this.#answer(asked.value, step));
    const { routed: choice, sessionId: continued } = asked.value;
    const known = continued ?? [...this.#spokenTo.keys()].findLast((id) => this.#isHeardBy(id, choice.agent));
    const routed = { ...choice, took: 0 };
    this.#routed = routed;
    if (choice.agent === undefined) return this.#send({ type: "floor.ignore", routed });
    return this.#talk(step, { known, called: step.as ?? choice.agent, agentId: choice.agent, routed });
  }

  /** Whether the agent is heard in this session, so that what it is told goes on there. */
  #isHeardBy(id: SessionId, agentId: AgentId | undefined): boolean {
    return this.#isAudible(id) && this.#floor.session(id)!.context.numbers.agentId === agentId;
  }

  /** Replies have no words here, so only a session that was spoken to goes on. */
  #answer(asked: RouteQuestion, { router }: Step): RouteAnswer {
    if (asked.kind === "ask") return router === undefined ? { why: "late" } : { named: router };
    const last = [...this.#spokenTo].findLast(([id]) => this.#floor.session(id) && !this.#isOver(id));
    if (!last || this.#floor.time - last[1] > asked.withinMs) return undefined;
    return { sessionId: last[0], agentId: this.#session(last[0])!.context.numbers.agentId };
  }

  #talk(step: Step, { known, called, agentId, routed }: Addressee): Decision | undefined {
    this.#messages += 1;
    const sessionId = (known ?? this.#newId(called)) as SessionId;
    const runId = `run-${this.#messages}` as RunId;
    this.#turns.set(runId, { sessionId, runId, fails: step.fails ?? false, forMs: step.for ?? TURN_MS });
    const turn = { messageId: `message-${this.#messages}` as MessageId, runId, content: "…" };
    const { locale } = step;
    const session = { sessionId, agentId, ...this.#floor.owner, ...(locale !== undefined && { locale }) };
    this.#floor.revive(sessionId);
    const command: Command = { type: "session.chat", sessionId, turn, ...(known === undefined && { session }), routed };
    const { reply, facts } = this.#floor.send(command);
    if (reply.ok) {
      this.#keepId(called, sessionId);
      this.#spokenTo.delete(sessionId);
      this.#spokenTo.set(sessionId, this.#floor.time);
    } else this.#turns.delete(runId);
    this.#record(facts);
    return decisionOf(reply);
  }

  /** The session's turn waits for its user until it is answered, cancelled, or has waited for too long. */
  #inquires(name: string, sessionId: SessionId, line: number): undefined {
    const { turn } = this.#runningTurn(name, sessionId, line);
    turn.doneAt = undefined;
    this.#questions += 1;
    const requestId = `request-${this.#questions}` as RequestId;
    const interaction = { kind: "question" as const, requestId, question: "…", options: [] };
    const parts = [{ kind: "ask" as const, interaction }];
    this.#send(this.#floor.reportOf(sessionId, turn.runId, { parts })!);
  }

  #runningTurn(name: string, sessionId: SessionId, line: number): { turn: Turn; run: Run } {
    const { run } = this.#floor.session(sessionId)!.context;
    const turn = run && this.#turns.get(run.id);
    if (!turn || !run.live) throw new ScriptFault(line, `no turn runs in ${name}`);
    return { turn, run };
  }

  /** The session's turn ends before its time. */
  #answers({ answers, fails }: Step, sessionId: SessionId, line: number): undefined {
    const { turn, run } = this.#runningTurn(answers!, sessionId, line);
    for (const { interaction } of run.interactions) {
      const { requestId } = interaction;
      this.#send({
        type: "session.answer",
        sessionId,
        requestId,
        answer: { kind: "question", requestId, selected: [] },
      });
    }
    this.#endTurn({ ...turn, fails: fails ?? turn.fails });
  }

  #cancels(name: string, sessionId: SessionId, line: number): undefined {
    const { run, turns } = this.#floor.session(sessionId)!.context;
    if (!run && turns.length === 0) throw new ScriptFault(line, `no turn runs or waits in ${name}`);
    this.#record(this.#floor.cancelTurn(sessionId));
  }

  #endTurn({ sessionId, runId, fails }: Turn): void {
    this.#turns.delete(runId);
    const home = this.#homeOf(sessionId);
    const report = home?.reportOf(sessionId, runId, { outcome: endOf(fails) });
    if (report) this.#send(report, home);
  }

  #archive(id: string): undefined {
    this.#endings.delete(id);
    this.#send({ type: "session.archive", sessionId: id as SessionId }, this.#homeOf(id));
  }

  #send(command: Command, floor = this.#floor): Decision | undefined {
    const { reply, facts } = floor.send(command);
    this.#record(facts, floor);
    return decisionOf(reply);
  }

  #use(change: (catalog: Catalog) => Catalog): void {
    const catalog = change(this.#floor.catalog);
    for (const floor of this.#floors.values()) this.#record(floor.use(catalog), floor);
  }

  #load(path: string, line: number): Catalog {
    if (!this.#options.load) throw new ScriptFault(line, "no other catalogue can be read here");
    return this.#options.load(path);
  }

  #instantOf(clock: ClockInstant): number {
    if ("shown" in clock) return this.#clock.instantOf(clock.shown);
    return this.#clock.next(this.#floor.now, clock.msOfDay, clock.day);
  }

  #setClock(clock: ClockInstant, line: number): void {
    const before = this.#floor.now;
    const now = this.#instantOf(clock);
    if (now < before)
      throw new ScriptFault(line, "the clock is later already, and the time of a floor never goes back");
    this.#tally.jump(now - before);
    for (const floor of this.#floors.values()) this.#record(floor.setClock(now), floor);
  }

  #newId(name: string): string {
    const count = (this.#counts.get(name) ?? 0) + 1;
    return count === 1 ? name : `${name}-${count}`;
  }

  /** The session exists: from now on the name means it. A refused one leaves its id for the next. */
  #keepId(name: string, id: string): void {
    if (this.#named.get(name) === id) return;
    this.#counts.set(name, (this.#counts.get(name) ?? 0) + 1);
    this.#named.set(name, id);
  }

  /** The session of this name that is there; the newest, if several had it. */
  #idOf(name: string): string | undefined {
    const id = this.#named.get(name) ?? name;
    const series = this.#series.get(name);
    return [id, ...(series === undefined ? [] : [series])].find((each) => !this.#isOver(each));
  }

  /** Log what happened, and play the workers: runs are claimed, and stopped attempts end, at once. */
  #record(facts: readonly TimedFact[], floor = this.#floor): void {
    this.#logs.get(floor)!.add(facts);
    if (this.#events.length > MAX_EVENTS) throw new ScriptFault(1, `the play has more than ${MAX_EVENTS} events`);
    for (const { fact } of facts) {
      if (fact.type === "event" && fact.event.type === "session_created")
        this.#takeOccurrence(fact.event.data as Session);
      else if (fact.type === "run_request.add" && !fact.request.purpose) this.#claim(fact.request, floor);
      else if (fact.type === "signal" && fact.signal.signal === "stop") this.#confirmStop(fact.runId);
    }
    this.#follow();
  }

  /** A session that a series has made: the name of the series means it, as long as it is there. */
  #takeOccurrence({ id, series }: Session): void {
    const plan = series === undefined ? undefined : this.#plans.get(series);
    if (!plan) return;
    this.#plan(id, plan);
    this.#named.set(plan.name, id);
  }

  #claim({ sessionId, runId }: { sessionId: SessionId; runId: RunId }, floor: SteppedFloor): void {
    const claim = floor.claimOf({ sessionId, runId });
    if (!claim) return;
    let turn = this.#turns.get(runId);
    const plan = this.#plans.get(sessionId);
    // The turn of a session whose time has come.
    if (!turn && plan) turn = { sessionId, runId, fails: false, forMs: plan.forMs ?? TURN_MS };
    if (turn) this.#turns.set(runId, turn);
    // An attempt that a pause has ended begins from its beginning.
    if (turn) turn.doneAt = floor.time + turn.forMs;
    this.#send(claim, floor);
  }

  #confirmStop(runId: RunId): void {
    const turn = this.#turns.get(runId);
    if (!turn) return;
    turn.doneAt = undefined;
    const home = this.#homeOf(turn.sessionId);
    const report = home?.stopReportOf(runId);
    if (report) this.#send(report, home);
  }

  /** Turns go with their runs; sessions end a while after they first became audible. */
  #follow(): void {
    for (const { sessionId, runId } of this.#turns.values()) {
      const { run, turns = [] } = this.#session(sessionId)?.context ?? {};
      const isThere = run?.id === runId || turns.some((waiting) => waiting.runId === runId);
      if (!isThere) this.#turns.delete(runId);
    }
    for (const [id, ending] of this.#endings) {
      if (this.#isOver(id)) this.#endings.delete(id);
      else if (this.#isAudible(id)) ending.at ??= this.#homeOf(id)!.time + ending.forMs;
    }
  }

  #isAudible(id: string): boolean {
    const session = this.#session(id);
    return session !== undefined && isAudible(session.context);
  }

  /** Whether the session has ended, or never was. */
  #isOver(id: string): boolean {
    const lifecycle = this.#session(id)?.value.lifecycle;
    return lifecycle === undefined || lifecycle === "archived" || lifecycle === "deleted";
  }
}

/** The session that the step's action names. */
const namedIn = (step: Step) => SESSION_ACTIONS.map((each) => step[each]).find((each) => each !== undefined);

function whyRefused({ message, code, facts }: Extract<Reply, { ok: false }>): string {
  const [issue] = (facts?.["issues"] as { message: string }[] | undefined) ?? [];
  return issue?.message ?? message ?? ERRORS[code].text;
}

function decisionOf(reply: Reply): Decision | undefined {
  return reply.ok ? reply.decision : (reply.facts?.["decision"] as Decision | undefined);
}

/** The catalogue with one agent enabled or disabled. */
export function withEnabled(catalog: Catalog, agentId: string, enabled: boolean): Catalog {
  const agents = [...catalog.agents.values()].map((agent) => (agent.id === agentId ? { ...agent, enabled } : agent));
  const off = agents.filter((agent) => !agent.enabled).map(({ id }) => id);
  const [base] = catalog.hash.split("-");
  return {
    ...catalog,
    agents: new Map(agents.map((agent) => [agent.id, agent])),
    hash: off.length > 0 ? `${base}-${off.join()}` : base!,
  };
}
