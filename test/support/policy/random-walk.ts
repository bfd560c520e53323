import type { Chance } from "../runner/chance.ts";
import type { JudgedCatalog } from "./judged-catalog.ts";
import { LogJudge } from "./log-judge.ts";
import { FLAGS, withAgent } from "./random-catalog.ts";
import { type Done, WalkedFloor } from "./walked-floor.ts";

const STEPS = 16;
/** Around the lengths of random catalogues, and whole numbers of them. */
const PAUSES = [0, 0, 0, 1, 900, 1_999, 2_000, 2_001, 2_500, 3_000, 4_000, 5_500];
const MONDAY_NOON = Date.UTC(2026, 0, 5, 12);
const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;
/** Minutes of a day around which the hours of random catalogues begin and end, in their zones. */
const MINUTES = [0, 15, 30, 285, 299, 300, 360, 555, 585, 600, 615, 630, 705, 720, 725, 750, 1_260, 1_290, 1_320];

export interface Walk {
  readonly judge: LogJudge;
  readonly steps: number;
  /** What was done to the floor. */
  readonly done: readonly Done[];
}

/** What `interlock prove` explores together: it says so itself. */
type Scope = "plain" | "flags" | "disables";

/**
 * Sessions do something at random, after random pauses, at random times of a year, on a floor that restarts now and
 * then, with at most this many sessions at a time.
 */
export function walk(catalog: JudgedCatalog, size: number, chance: Chance): Walk {
  const scope = scopeOf(catalog, chance);
  const start = scope === "flags" ? randomInstant(MONDAY_NOON, chance) : MONDAY_NOON;
  const judge = new LogJudge(catalog);
  const floor = new WalkedFloor(catalog, start, (events) => judge.take(events));
  for (let step = 0; step < STEPS; step++) {
    pause(floor, chance);
    if (chance.percent(6)) floor.restart();
    if (scope === "flags" && chance.percent(30)) change(floor, judge, catalog, chance);
    else if (scope === "disables" && chance.percent(25)) toggle(floor, judge, catalog, chance);
    else act(floor, catalog, size, `s${step}`, chance);
  }
  floor.live(chance.pick([0, 6_000]));
  judge.end(floor.now);
  return { judge, steps: STEPS, done: floor.done };
}

function scopeOf({ priority_rules = [], restrictions = [] }: JudgedCatalog, chance: Chance): Scope {
  const all = [...priority_rules, ...restrictions];
  if (all.length > 0 && chance.percent(80)) return "flags";
  const hasHours = all.some(({ between, days }) => between !== undefined || ("days" in { days } && days !== undefined));
  return !hasHours && chance.percent(40) ? "disables" : "plain";
}

const randomInstant = (from: number, chance: Chance): number =>
  from -
  (from % DAY_MS) +
  (1 + chance.below(366)) * DAY_MS +
  chance.pick(MINUTES) * MINUTE_MS -
  chance.pick([0, 0, 2_000]);

function pause(floor: WalkedFloor, chance: Chance): void {
  const { due } = floor;
  const before = due === undefined ? 0 : due - floor.now;
  const ms = chance.percent(25) ? Math.max(0, before + chance.pick([-1, 0, 0, 1])) : chance.pick(PAUSES);
  if (chance.percent(5)) floor.pass(ms, ms);
  else floor.live(Math.min(ms, 10_000));
}

function change(floor: WalkedFloor, judge: LogJudge, catalog: JudgedCatalog, chance: Chance): void {
  const { priority_rules = [], restrictions = [] } = catalog;
  const timed = [...priority_rules, ...restrictions];
  const flag = chance.pick(FLAGS);
  if (timed.some(({ when }) => when === flag) && chance.percent(60)) {
    const isOn = (name: string) => floor.actors.context.flags[name] === true;
    // One flag, or all of them at once.
    const flags = chance.percent(80)
      ? { [flag]: !isOn(flag) }
      : Object.fromEntries(FLAGS.map((name) => [name, !isOn(name)]));
    floor.ask({ type: "floor.patch_flags", flags });
  } else {
    judge.setClock();
    floor.setClock(randomInstant(floor.now, chance));
  }
}

function toggle(floor: WalkedFloor, judge: LogJudge, catalog: JudgedCatalog, chance: Chance): void {
  const isWhole = [...floor.catalog.agents.values()].every(({ enabled }) => enabled);
  const { name, critical } = chance.pick(catalog.agents);
  if (isWhole && critical) return;
  const next = isWhole ? withAgent(catalog, name, false) : catalog;
  judge.use(next);
  floor.use(next);
}

function act(floor: WalkedFloor, catalog: JudgedCatalog, size: number, id: string, chance: Chance): void {
  const { living } = floor;
  const does = chance.pick([
    "start",
    "start",
    "wake",
    "pause",
    "end",
    "die",
    "wait",
    "greet",
    "say",
    "answer",
    "fail",
    "cancel",
    "edit",
    "move",
    "stop",
    "delete",
    "prepare",
    "schedule",
    "once",
  ]);
  const talking = (name: string) => catalog.agents.find((agent) => agent.name === name)?.adapter?.kind !== "external";
  const isNew = ["start", "greet", "prepare", "schedule", "once"].includes(does);
  if (isNew && living.length < size) {
    const { name } = chance.pick(catalog.agents);
    const isTalk = does === "greet" && talking(name);
    if (isTalk && chance.percent(15)) floor.arrive(id, name, chance.pick([0, 1, 2]));
    else if (isTalk) floor.say(id, name, chance.percent(15));
    else if (does === "once" && talking(name)) floor.sayOnce(id, name);
    else if (does === "prepare") floor.create(name, { id, activate: false });
    else if (does === "schedule") floor.schedule(id, name, chance.pick([1_000, 2_000, 3_000]));
    else floor.start(id, name);
  }
  if (isNew || does === "wait" || living.length === 0) return;
  const { id: other, state } = chance.pick(living);
  if (does === "answer" || does === "fail") {
    if (floor.isAnswering(other)) floor.answer(other, does === "fail");
  } else if (does === "cancel") floor.cancel(other);
  else if (does === "say") {
    if (talking(floor.agentOf(other)!)) floor.say(other, undefined, chance.percent(15));
  } else if (does === "end") floor.on(other, "archive");
  else if (does === "die") floor.die(other);
  else if (does === "edit") floor.edit(other, id);
  else if (does === "move") floor.leave(other);
  else if (does === "stop") floor.ask({ type: chance.pick(["floor.stop", "floor.stop_all"]) });
  else if (does === "pause" && state !== "created") floor.on(other, "pause");
  else if (does === "wake") floor.wake(other);
}
