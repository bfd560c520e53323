import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

/** A file below `src`, and a text in it that is there once, with what a fault has instead. */
export type Edit = readonly [file: string, text: string, instead: string];

export interface PlantedFault {
  readonly kind: "rule" | "invariant" | "claim" | "key" | "move" | "time";
  readonly name: string;
  readonly edits: readonly Edit[];
}

const RULES = "actors/floor/arbitration.ts";
const INVARIANTS = "policy/invariants.ts";
const CLAIMS = "policy/claims.ts";
const FIELDS = "policy/state-fields.ts";
const KEY = "policy/state-key.ts";
const ZONE = "policy/clock-zone.ts";
const HOURS = "config/catalog/hours.ts";

const TIES: Edit = [RULES, 'ties === "reject" && !givesWay', 'ties !== "reject" && !givesWay'];
const CUTS_OFF: Edit = [RULES, "if (!yieldsTo(contender, challenger)) return", "if (!challenger) return"];
const PAUSES_AGAIN: Edit = [
  "actors/session/floor-changes.ts",
  '  if (step.context.pausedBy === "preemption") stopCompeting(step);\n  step.context.pausedBy = "user";',
  '  step.context.pausedBy = "user";',
];

const rule = (name: string, ...edits: Edit[]): PlantedFault => ({ kind: "rule", name, edits });
const invariant = (name: string, ...edits: Edit[]): PlantedFault => ({ kind: "invariant", name, edits });
const claim = (name: string, ...edits: Edit[]): PlantedFault => ({ kind: "claim", name, edits });
const key = (name: string, ...edits: Edit[]): PlantedFault => ({ kind: "key", name, edits });
const move = (name: string, ...edits: Edit[]): PlantedFault => ({ kind: "move", name, edits });
const time = (name: string, ...edits: Edit[]): PlantedFault => ({ kind: "time", name, edits });

/** Each is planted alone, in the floor or in the prover; those of invariants with a fault that they then miss. */
export const PLANTED: readonly PlantedFault[] = [
  rule("ties are the other way round", TIES),
  rule("a session that is not interruptible is cut off", CUTS_OFF),
  rule("a threshold is 40 lower", [
    RULES,
    "challenger.priority >= contender.preemptionThreshold;",
    "challenger.priority >= contender.preemptionThreshold - 40;",
  ]),
  rule("a request under a restriction that stops is granted", [
    RULES,
    'if (restriction) return block(request, agent, "restricted"',
    'if (restriction && restriction.others !== "stop") return block(request, agent, "restricted"',
  ]),
  rule("a session of a disabled agent comes up", [
    "actors/floor/floor-state.ts",
    "rules.agents.get(contender.agentId)?.enabled === true && ",
    "",
  ]),
  rule("a session that is not critical replaces a critical one", [
    "actors/floor/floor-state.ts",
    "if (other.priority > priority || (other.critical && !critical)) return false;",
    "if (other.priority > priority + 100) return false;",
  ]),
  rule("the loudest level beneath counts", [
    "actors/floor/audible-together.ts",
    "if (each < level) level = each;",
    "if (each > level) level = each;",
  ]),
  rule("`all` is the agent itself too", [
    "actors/floor/audible-together.ts",
    'above.agentId === below.agentId ? undefined : levels.get("all")',
    'levels.get("all")',
  ]),
  rule("a paused session that its user pauses comes back", PAUSES_AGAIN),
  rule("a priority is not limited to 100", [
    "actors/floor/contender.ts",
    "Math.min(100, Math.max(0, value))",
    "Math.max(0, value)",
  ]),
  rule("a rule does not wait for its flag", [
    "actors/floor/contender.ts",
    "if (rule.when !== undefined && context.flags[rule.when] !== true) return false;",
    "",
  ]),
  invariant("rules 5 and 6 are not checked, and ties are the other way round", TIES, [
    INVARIANTS,
    "  checkRank(step, rules);\n",
    "",
  ]),
  invariant("2 is not checked, and a session is cut off", CUTS_OFF, [
    INVARIANTS,
    "  checkSilenced(step, rules);\n",
    "",
  ]),
  invariant("4 is not checked, and a session that its user paused comes back", PAUSES_AGAIN, [
    INVARIANTS,
    "  checkRisen(step, rules);\n",
    "",
  ]),
  invariant("18 is the other way round", [
    INVARIANTS,
    "other.askedAt > ended.askedAt",
    "other.askedAt < ended.askedAt",
  ]),
  claim("a silence counts only if the session stays paused", [
    CLAIMS,
    "if (!by || !silenced!",
    'if (step.after.session(sessionId)?.value.lifecycle !== "paused" || !by || !silenced!',
  ]),
  claim("only refusals by rule 5 count", [
    CLAIMS,
    'if (outcome !== "rejected" || !rejected',
    'if (outcome !== "rejected" || event.decision.rule !== 5 || !rejected',
  ]),
  claim("a session that ends is not missed", [
    CLAIMS,
    ' && to === "archived" && by !== undefined',
    ' && to === "archived"',
  ]),
  claim("what is owed is forgotten when another session asks", [
    CLAIMS,
    "([id]) => id !== step.subject && !risen.has(id))",
    "() => !step.isRequest)",
  ]),
  key("the priority with which a session competes", [
    FIELDS,
    '  agentId: "elsewhere",\n  priority: "kept",',
    '  agentId: "elsewhere",\n  priority: FOR_READERS,',
  ]),
  key(
    "whether a turn runs",
    [FIELDS, "  run: { nested: RUN_FIELDS },", "  run: OF_TURNS,"],
    [KEY, "const { lifecycle, activity } = value", "const { lifecycle, activity } = { ...value, activity: 0 }"],
  ),
  key("what claims expect", [KEY, "owed(session.id)", '""']),
  key("which flags are set", [KEY, "on.sort(), ", ""]),
  key("which agents are disabled", [KEY, " off, isCurrent", " isCurrent"]),
  key("which hours it is", [KEY, "isCurrent, inForce,", "isCurrent,"]),
  key("who asked first", [KEY, "asked.get(session.numbers.askedAt)", "0"], [KEY, "asked.get(askedAt)", "0"]),
  move("no turn ends", ["policy/moves.ts", '    if (run?.live) yield { does: "answers", sessionId };\n', ""]),
  move("no turn of a silent session ends", [
    "policy/moves.ts",
    '  if (run || turns.length > 0) yield { does: "cancels", sessionId };\n',
    "",
  ]),
  time("nothing happens between two deadlines", [
    ZONE,
    'add("anything", before(coming, true));',
    'add("anything", [...before(coming, true), { later: NOW, earlier: zone.values.length - 1, most: 0 }]);',
  ]),
  time("a deadline comes only if all others are later by a second", [
    ZONE,
    "others.map((other): Constraint => ({ later: NOW, earlier: other.moment, most: other.lengthMs, isStrict }));",
    "others.map((other): Constraint => ({ later: NOW, earlier: other.moment, most: other.lengthMs - 1_000, isStrict }));",
  ]),
  time("moments a second back are long ago", [
    ZONE,
    "longest.get(moment)!), 0]",
    "Math.min(1_000, longest.get(moment)!)), 0]",
  ]),
  time("zones are known if one of the same state was there", [
    ZONE,
    "known?.some((each) => includes(each, bounds))",
    "known !== undefined && known.length > 0",
  ]),
  time("hours include their end", [
    HOURS,
    "minute >= fromMinute && minute < toMinute",
    "minute >= fromMinute && minute <= toMinute",
  ]),
  time("hours over midnight belong to both days", [HOURS, "isOn(weekdayBefore(today))", "isOn(today)"]),
  time("clocks are never changed for summer", [
    "shared/wall-clock.ts",
    "    const parts = this.#format.formatToParts(minute * MINUTE_MS);",
    "    const winter = Date.UTC(2026, 0, 5, 12) / MINUTE_MS;\n    if (minute !== winter) return minute * MINUTE_MS + (this.#shownIn(winter) - winter * MINUTE_MS);\n    const parts = this.#format.formatToParts(minute * MINUTE_MS);",
  ]),
  time("only a week of January is explored", [
    "policy/hour-combinations.ts",
    "day < YEAR_DAYS; day++",
    "day < 1; day++",
  ]),
];

const MAIN = fileURLToPath(new URL("main.ts", import.meta.url));
const PLANT = fileURLToPath(new URL("../../support/policy/plant.ts", import.meta.url));

/** What looks for a fault: with these catalogues, one after the other, until one shows it. */
interface Judges {
  readonly words: readonly string[];
  readonly catalogues: number;
}

export const ALL_JUDGES: Judges = { words: ["--quick"], catalogues: 40 };
/** Only those of hours, of moments and of turns, with catalogues made for them. */
export const DIRECTED_JUDGES: Judges = { words: ["--directed"], catalogues: 6 };

/**
 * Try the prover with a fault in it, or in the floor, in a process of its own. Returns what finds it. Without a fault
 * nothing may be found, or what finds the others says nothing.
 */
export async function plantedWith({ edits }: Pick<PlantedFault, "edits">, judges: Judges): Promise<string | undefined> {
  const env = { ...process.env, PLANTED_EDITS: JSON.stringify(edits) };
  const seeds = Array.from({ length: judges.catalogues }, (_, index) => 1_000 + index);
  const words = ["--import", PLANT, MAIN, ...judges.words, "--seeds", seeds.join()];
  const child = spawn(process.execPath, words, { env, stdio: ["ignore", "pipe", "pipe"] });
  const ended = once(child, "exit");
  let errors = "";
  child.stderr.on("data", (piece: Buffer) => {
    errors += piece.toString();
  });
  for await (const text of createInterface({ input: child.stdout })) {
    const { seed, differences } = JSON.parse(text) as { seed: number; differences: string[] };
    if (differences.length === 0) continue;
    child.kill();
    await ended;
    return `catalogue ${seed}: ${differences[0]!.split("\n", 1)[0]}`;
  }
  const [code] = await ended;
  if (code === 0) return undefined;
  // What breaks outside the prover and the floor is a fault of this trial, and finds nothing.
  const [why] = /^\w*Error: .*$/m.exec(errors) ?? [];
  if (why === undefined || !/at .*\/src\/(policy|actors)\//.test(errors)) throw new Error(errors);
  return `the prover breaks: ${why}`;
}
