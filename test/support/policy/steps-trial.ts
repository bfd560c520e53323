import { explore } from "../../../src/policy/exploration.ts";
import type { SeenStep } from "../../../src/policy/seen-step.ts";
import { Chance } from "../runner/chance.ts";
import type { JudgedAgent, JudgedCatalog } from "./judged-catalog.ts";
import type { JudgedEvent } from "./log-judge.ts";
import { toCatalog } from "./random-catalog.ts";
import { WalkedFloor } from "./walked-floor.ts";

const WALKS = 300;
const STEPS = 10;
const SIZE = 2;
const NOON = Date.UTC(2026, 0, 5, 12);
/** Longer than the longest deadline, in ms. */
const LONG_MS = 7_000;
/** Steps of an exploration. A catalogue that needs more is not judged. */
const MOST_STEPS = 20_000;

/**
 * Two or three agents with many deadlines of the same length: which of them comes first follows from when each session
 * began alone, so only moments between deadlines bring them apart.
 */
function momentsCatalog(chance: Chance): JudgedCatalog {
  const lengths = chance.pick([["3s"], ["3s"], ["3s", "5s"]]);
  const length = () => (chance.percent(60) ? { length: chance.pick(lengths) } : {});
  const agents = [20, 50, 80].slice(0, chance.pick([2, 2, 3])).map((priority, index): JudgedAgent => {
    const [pause, hold, within, queue] = [length(), length(), length(), length()].map((each) => each.length);
    return {
      name: "abc"[index]!,
      priority: chance.pick([priority, 50]),
      when_blocked: chance.pick(["reject", "queue", "queue"]),
      resume: chance.pick(["auto", "auto", "manual"]),
      // Agents that nothing tells apart would count as one.
      preemption_threshold: 90 + index,
      ...(pause && { max_pause: pause }),
      ...(hold && { max_hold: hold }),
      ...(within && { resume_within: within }),
      ...(queue && { queue_timeout: queue }),
      adapter: { kind: "external" },
    } as JudgedAgent;
  });
  return {
    agents,
    policy: { ties: chance.pick(["reject", "newest"]), resume_delay: chance.pick(["0ms", "0ms", "1s"]) },
  };
}

/**
 * Agents to which it matters whether a turn runs, and how it ends: while its session is heard, beneath another one, or
 * silent.
 */
function turnsCatalog(chance: Chance): JudgedCatalog {
  const agents = [20, 50, 50].slice(0, chance.pick([2, 2, 3])).map((priority, index): JudgedAgent => {
    const whenPreempted = chance.pick(["pause", "pause", "duck"]);
    const keys = {
      name: "abc"[index]!,
      priority,
      when_preempted: whenPreempted,
      when_blocked: chance.pick(["reject", "queue"]),
      preemption_threshold: 90 + index,
    };
    if (index > 0 && chance.percent(40)) return { ...keys, adapter: { kind: "external" } };
    return {
      ...keys,
      ...chance.pick([
        { after_turn: "yield" },
        { after_turn: "archive" },
        { idle_yields: true },
        { idle_timeout: "3s" },
      ]),
      adapter: { kind: "scripted", yields: chance.pick(["hold", "abort"]) },
    } as unknown as JudgedAgent;
  });
  return { agents, policy: { ties: chance.pick(["reject", "newest"]) } };
}

/** The sessions that are there: their agents, and their states without what they are doing. */
type Present = ReadonlyMap<string, { readonly agent: string; readonly state: string }>;

/** Where it makes no difference how a turn ends, one way of it is explored. */
const END_OF_TURN = new Set(["done", "fail", "abort"]);

/** What a reader of the log sees of a step: who is there before it, and what becomes of whom. */
function tell(before: Present, agentOf: (id: string) => string, events: readonly JudgedEvent[]): string {
  const there = [...before.values()].map(({ agent, state }) => `${agent} ${state}`).sort();
  const told = events.map(({ type, sessionId, data }) => {
    const { outcome, reason, from, to, event, by, challenger } = data as Told;
    if (type === "arbitration") return `${challenger.agentId} is ${outcome} (${reason})`;
    const why = END_OF_TURN.has(event) ? "end" : [event, reason, by?.agentId].filter(Boolean).join(", ");
    return `${agentOf(sessionId!)}: ${restOf(from)} → ${restOf(to)} (${why})`;
  });
  return `${there.join(", ") || "nobody"}: ${told.join("; ")}`;
}

/** A session whose turn failed is idle like one whose turn is done. */
const restOf = (state: string): string => state.replace(".failed", ".idle");

type Told = Readonly<Record<"outcome" | "reason" | "from" | "to" | "event", string>> &
  Readonly<Record<"by" | "challenger", { agentId: string }>>;

/** Every step that `interlock prove` visits with so many sessions; undefined if it does not come to an end. */
function visitedSteps(catalog: JudgedCatalog): Set<string> | undefined {
  const visited = new Set<string>();
  const onStep = ({ before, after, events }: SeenStep) => {
    const agentOf = (id: string) => (after.session(id) ?? before.session(id))!.context.numbers.agentId as string;
    const there = before.sessions.map(({ context: { id }, value }) => [
      id as string,
      { agent: agentOf(id), state: value.lifecycle as string },
    ]);
    const read = events.map((event): JudgedEvent => {
      if (event.type === "decision") return { type: "arbitration", at: 0, data: event.decision };
      const { sessionId, ...data } = event.transition;
      return { type: "session_transition", sessionId, at: 0, data };
    });
    if (read.length > 0) visited.add(tell(new Map(there as never), agentOf, read));
  };
  const { isComplete } = explore({
    catalog: toCatalog(catalog),
    size: SIZE,
    variations: { flags: [], hours: [], disables: [] },
    claims: [],
    maxSteps: MOST_STEPS,
    onStep,
  });
  return isComplete ? visited : undefined;
}

/**
 * Walk at random on a floor whose sessions begin between two deadlines, and compare each step with those that
 * `interlock prove` visits: a step that happens and is not visited is a false proof of whatever it breaks. Returns the
 * steps that are missing.
 */
export function tryMoments(seed: number, walks = WALKS): string[] {
  const chance = new Chance(seed);
  return missingSteps(momentsCatalog(chance), walks, chance, ask);
}

/** The same on a floor whose sessions take turns, which end in every way and in every state. */
export function tryTurns(seed: number, walks = WALKS): string[] {
  const chance = new Chance(seed);
  return missingSteps(turnsCatalog(chance), walks, chance, talk);
}

type Act = (floor: WalkedFloor, id: string, catalog: JudgedCatalog, chance: Chance) => void;

function missingSteps(catalog: JudgedCatalog, walks: number, chance: Chance, act: Act): string[] {
  const visited = visitedSteps(catalog);
  if (!visited) return [];
  const missing = new Set<string>();
  for (let index = 0; index < walks; index++) {
    const present = new Map<string, { agent: string; state: string }>();
    const agents = new Map<string, string>();
    const floor = new WalkedFloor(catalog, NOON, (events) => {
      for (const { type, sessionId = "", data } of events)
        if (type === "session_created") agents.set(sessionId, (data as { agentId: string }).agentId);
      const read = events.filter(({ type }) => type === "arbitration" || type === "session_transition");
      const step = tell(present, (id) => agents.get(id)!, read);
      if (read.length > 0 && !visited.has(step)) missing.add(step);
      for (const { type, sessionId = "", data } of read) {
        if (type === "arbitration") continue;
        const [state] = (data as Told).to.split(".") as [string];
        if (state === "archived") present.delete(sessionId);
        else present.set(sessionId, { agent: agents.get(sessionId)!, state });
      }
      for (const { type, sessionId = "" } of events)
        if (type === "session_created" && !present.has(sessionId) && floor.state(sessionId) === "created")
          present.set(sessionId, { agent: agents.get(sessionId)!, state: "created" });
    });
    for (let step = 0; step < STEPS; step++) {
      // No two moments are apart by a whole number of seconds but by chance.
      if (chance.percent(70)) floor.pass(chance.below(chance.pick([1_000, 3_000, LONG_MS])));
      act(floor, `s${step}`, catalog, chance);
    }
    floor.pass(LONG_MS);
  }
  return [...missing].map((step) => `a step is never visited: ${step}`);
}

function ask(floor: WalkedFloor, id: string, { agents }: JudgedCatalog, chance: Chance): void {
  const { living } = floor;
  if (living.length < SIZE && chance.percent(60)) return floor.start(id, chance.pick(agents).name);
  if (living.length === 0) return;
  const { id: other, state } = chance.pick(living);
  const does = chance.pick(["wake", "wake", "pause", "end"]);
  if (does === "end") floor.on(other, "archive");
  else if (does === "pause" && state !== "created") floor.on(other, "pause");
  else if (does === "wake" && !state.startsWith("active")) floor.wake(other);
}

function talk(floor: WalkedFloor, id: string, catalog: JudgedCatalog, chance: Chance): void {
  const { living } = floor;
  const talks = (name: string) => catalog.agents.find((agent) => agent.name === name)!.adapter!.kind !== "external";
  if (living.length < SIZE && chance.percent(50)) {
    const { name } = chance.pick(catalog.agents);
    return talks(name) && chance.percent(70) ? floor.say(id, name) : floor.start(id, name);
  }
  const other = living.length > 0 ? chance.pick(living).id : undefined;
  if (other === undefined || chance.percent(30)) return ask(floor, id, catalog, chance);
  const does = chance.pick(["say", "answer", "fail", "cancel", "cancel"]);
  const { run, turns } = floor.contextOf(other);
  if (does === "cancel") floor.cancel(other);
  else if (does !== "say") {
    if (floor.isAnswering(other)) floor.answer(other, does === "fail");
  } else if (talks(floor.agentOf(other)!) && !run && turns.length === 0) floor.say(other);
}
