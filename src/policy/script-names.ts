import { acceptsTurns, type Catalog } from "../config/catalog/catalog.ts";
import { type Fault, sortFaults } from "../config/fault.ts";
import { suggest } from "../config/nearest.ts";
import { agentsThatHear } from "../routing/route.ts";
import {
  type PlayExpectation,
  type Range,
  type ReadScript,
  type Script,
  SESSION_ACTIONS,
  type Step,
  type StepExpectation,
} from "./script.ts";

type Path = readonly (string | number)[];

const OF_AGENT = ["asks", "schedules", "router", "to", "what_if", "disable", "enable"] as const;
const OF_FLAG = ["set", "clear"] as const;

/** The catalogues that the steps of a script put in place. */
export function cataloguesIn(steps: readonly Step[]): string[] {
  return steps.flatMap(({ catalogue, steps: inner = [] }) => [
    ...(catalogue === undefined ? [] : [catalogue]),
    ...cataloguesIn(inner),
  ]);
}

/**
 * Look up every name of a script, before it is played: a misspelt one would be a refusal that the script expects, or an
 * expectation that always holds. Expectations that cannot fail are faults too.
 *
 * @param catalogs the one that it begins with, and those that its steps put in place
 */
export function findScriptFaults(read: ReadScript, catalogs: readonly Catalog[]): Fault[] {
  return sortFaults(new NameCheck(read, catalogs).faults());
}

class NameCheck {
  readonly #script: Script;
  readonly #faultAt: ReadScript["faultAt"];
  readonly #agents: ReadonlySet<string>;
  /** Agents that take turns, in one of the catalogues. */
  readonly #talking: ReadonlySet<string>;
  readonly #flags: ReadonlySet<string>;
  /** Agents that a sentence may reach, in one of the catalogues. */
  readonly #hearing: ReadonlySet<string>;
  /** The sessions that steps have begun so far, with how many of each name. */
  readonly #begun = new Map<string, number>();
  /** Agents of sessions. */
  readonly #used = new Set<string>();
  readonly #faults: Fault[] = [];

  constructor({ script, faultAt }: ReadScript, catalogs: readonly Catalog[]) {
    this.#script = script;
    this.#faultAt = faultAt;
    const entries = catalogs.flatMap(({ agents }) => [...agents.values()]);
    this.#agents = new Set(entries.map(({ id }) => id));
    this.#talking = new Set(entries.filter(acceptsTurns).map(({ id }) => id));
    this.#hearing = new Set(catalogs.flatMap(agentsThatHear));
    const rules = catalogs.flatMap(({ priorityRules, restrictions }) => [...priorityRules, ...restrictions]);
    this.#flags = new Set(rules.flatMap(({ when }) => when ?? []));
  }

  faults(): Fault[] {
    this.#checkSteps(this.#script.steps, ["steps"], 1);
    for (const [index, expected] of this.#script.expect.entries()) this.#checkPlay(expected, ["expect", index]);
    return this.#faults;
  }

  #blame(path: Path, message: string): void {
    this.#faults.push(this.#faultAt(path, message));
  }

  /** @param times how often these steps are played */
  #checkSteps(steps: readonly Step[], path: Path, times: number): void {
    for (const [index, step] of steps.entries()) {
      const at = [...path, index];
      if (step.steps) {
        // What one round begins, the next one finds.
        if (step.repeat! > 1) this.#begin(step.steps, times);
        this.#checkSteps(step.steps, [...at, "steps"], times * step.repeat!);
      } else this.#checkStep(step, at, times);
    }
  }

  #checkStep(step: Step, at: Path, times: number): void {
    for (const key of OF_AGENT) this.#mustBeAgent(step[key], [...at, key]);
    for (const key of OF_FLAG) this.#mustBeFlag(step[key], [...at, key]);
    for (const key of SESSION_ACTIONS) this.#mustHaveBegun(step[key], [...at, key]);
    this.#mustBeZone(step.zone, [...at, "zone"]);
    if (step.says !== undefined) this.#checkSays(step, step.says, [...at, "says"]);
    this.#begin([step], times);
    if (step.expect) this.#checkExpectation(step.expect, [...at, "expect"]);
  }

  #checkSays(step: Step, says: string, path: Path): void {
    if (step.as === undefined && this.#hasBegun(says)) return;
    if (this.#talking.has(says)) return;
    if (this.#agents.has(says)) return this.#blame(path, `${says} is external and takes no turns: use asks`);
    const known = step.as === undefined ? [...this.#begun.keys(), ...this.#agents] : [...this.#agents];
    const what = step.as === undefined ? "neither a session nor an agent" : "no agent";
    this.#blame(path, `there is ${what} ${says}${suggest(says, known)}`);
  }

  /** Note the sessions that steps begin. */
  #begin(steps: readonly Step[], times: number): void {
    for (const step of steps) {
      const { as, to, repeat = 1, steps: inner } = step;
      if (inner) this.#begin(inner, times * repeat);
      if (to !== undefined) this.#used.add(to);
      for (const agent of this.#agentsOf(step)) this.#note(agent, as ?? agent, times);
      // It goes on in a further session of its name.
      if (step.moves !== undefined) this.#begun.set(step.moves, (this.#begun.get(step.moves) ?? 0) + times);
    }
  }

  /** The agents of the sessions that a step may begin. */
  #agentsOf({ asks, schedules, says, hears, as }: Step): readonly string[] {
    if (hears !== undefined) return [...this.#hearing];
    const agent = asks ?? schedules;
    if (agent !== undefined) return [agent];
    return says !== undefined && (as !== undefined || this.#agents.has(says)) ? [says] : [];
  }

  #note(agent: string, name: string, times: number): void {
    this.#used.add(agent);
    this.#begun.set(name, (this.#begun.get(name) ?? 0) + times);
  }

  #checkExpectation(expected: StepExpectation, path: Path): void {
    const { heard = [], silent, ended, ...rest } = expected;
    this.#mustBeAgent(expected.agent, [...path, "agent"]);
    for (const [index, { name }] of heard.entries()) this.#mustHaveBegun(name, [...path, "heard", index]);
    for (const [index, name] of (silent ?? []).entries()) this.#mustHaveBegun(name, [...path, "silent", index]);
    for (const [index, name] of (ended ?? []).entries()) this.#mustHaveBegun(name, [...path, "ended", index]);
    const isEmpty = (list: readonly unknown[] | undefined) => list === undefined || list.length === 0;
    for (const [key, list] of Object.entries({ silent, ended })) {
      if (list && isEmpty(list)) this.#blame([...path, key], "names no session, so it cannot fail");
    }
    const isSaid = expected.heard !== undefined || Object.values(rest).some((value) => value !== undefined);
    if (!isSaid && silent === undefined && ended === undefined) this.#blame(path, "expects nothing");
  }

  #checkPlay({ agent, shows: _, ...expected }: PlayExpectation, path: Path): void {
    if (!this.#mustBeAgent(agent, [...path, "agent"])) return;
    const ranges = Object.entries(expected).filter((entry): entry is [string, Range] => entry[1] !== undefined);
    if (ranges.length === 0) this.#blame(path, `expects nothing of ${agent}`);
    else if (!this.#used.has(agent)) {
      this.#blame([...path, "agent"], `no step begins a session of ${agent}: what is expected of it says nothing`);
    }
    for (const [key, { atLeast = 0, atMost }] of ranges) {
      if (atLeast === 0 && atMost === undefined) this.#blame([...path, key], "allows any value, so it cannot fail");
    }
  }

  #mustBeAgent(name: string | undefined, path: Path): boolean {
    if (name === undefined || this.#agents.has(name)) return true;
    this.#blame(path, `there is no agent ${name}${suggest(name, [...this.#agents])}`);
    return false;
  }

  #mustBeZone(name: string | undefined, path: Path): void {
    const { zones } = this.#script;
    if (name === undefined || zones.includes(name)) return;
    this.#blame(path, `zones of the script names no zone ${name}${suggest(name, zones)}`);
  }

  #mustBeFlag(name: string | undefined, path: Path): void {
    if (name === undefined || this.#flags.has(name)) return;
    this.#blame(path, `the catalogue names no flag ${name}${suggest(name, [...this.#flags])}`);
  }

  #mustHaveBegun(name: string | undefined, path: Path): void {
    if (name === undefined || this.#hasBegun(name)) return;
    this.#blame(path, `no step up to here begins a session ${name}${suggest(name, [...this.#begun.keys()])}`);
  }

  /** The id of the second session of a name is `name-2`, and so on. */
  #hasBegun(name: string): boolean {
    if (this.#begun.has(name)) return true;
    const [, first = "", number = ""] = /^(.+)-([1-9]\d*)$/.exec(name) ?? [];
    return Number(number) > 1 && Number(number) <= (this.#begun.get(first) ?? 0);
  }
}
