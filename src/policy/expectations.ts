import type { Decision } from "../protocol/decision.ts";
import { type LocalText, textIn } from "../protocol/locale.ts";
import type { Routed } from "../protocol/routed.ts";
import type { PlayExpectation, Range, StepExpectation } from "./script.ts";
import { audibleMs, type Tally } from "./tally.ts";

/** What was expected, compared with what was there. */
export interface Comparison {
  /** What was expected, as a sentence. */
  readonly text: string;
  /** What was there instead; undefined: it holds. */
  readonly fault?: string | undefined;
}

/** An expectation of a script. */
export interface Check extends Comparison {
  readonly line: number;
}

/** What became of a step's own request. */
export interface StepAnswer {
  readonly decision?: Decision | undefined;
  /** Which agent hears the step's sentence. */
  readonly routed?: Routed | undefined;
}

/** A floor after a step, whose sessions have the names of their ids. */
export interface FloorFacts {
  readonly state: StepExpectation["floor"];
  /** How many sessions compete for it. */
  readonly sessions: number;
  /** The sessions that are heard, the front first. */
  readonly sounding: readonly { readonly name: string; readonly level?: number | undefined }[];
  /** The session of a name; undefined if it has ended, or never was. */
  readonly idOf: (name: string) => string | undefined;
  readonly stateOf: (id: string) => string | undefined;
}

/** Compare what a script's step expects of its own request. */
export function checkAnswer(expected: StepExpectation, answer: StepAnswer, locale: string | undefined): Comparison[] {
  const checks: Comparison[] = [];
  const check = comparing(checks);
  checkRouted(expected, answer.routed, check);
  checkDecision(expected, answer.decision, locale, check);
  return checks;
}

/** Compare what a script's step expects of the floor. */
export function checkFloor(expected: StepExpectation, facts: FloorFacts): Comparison[] {
  const checks: Comparison[] = [];
  const check = comparing(checks);
  const { sounding } = facts;
  const written = sounding.map(({ name, level }) => nameOf(name, level)).join(", ") || "no session";
  if (expected.heard) {
    const wanted = expected.heard.map((each) => ({ ...each, name: facts.idOf(each.name) ?? each.name }));
    const isSame =
      wanted.length === sounding.length &&
      wanted.every(({ name, level }, index) => {
        const other = sounding[index]!;
        return name === other.name && (level === undefined || level === (other.level ?? 0));
      });
    const list = expected.heard.map(({ name, level }) => nameOf(name, level)).join(", ") || "no session";
    check(`heard: ${list}`, isSame, () => `heard: ${written}`);
  }
  for (const name of expected.silent ?? []) {
    const id = facts.idOf(name);
    const isAudible = sounding.some((each) => each.name === id);
    check(`silent: ${name}`, id !== undefined && !isAudible, () => (isAudible ? `heard: ${written}` : "it has ended"));
  }
  for (const name of expected.ended ?? []) {
    const id = facts.idOf(name);
    check(`ended: ${name}`, id === undefined, () => `it is ${facts.stateOf(id!) ?? "there"}`);
  }
  if (expected.floor) {
    const { state, sessions } = facts;
    const found = () => `it is ${state}, with ${sessions} sessions`;
    check(`the floor is ${expected.floor}`, state === expected.floor, found);
  }
  return checks;
}

type Compare = (text: string, isMet: boolean, otherwise: () => string) => void;

const comparing =
  (checks: Comparison[]): Compare =>
  (text, isMet, otherwise) =>
    void checks.push({ text, ...(!isMet && { fault: otherwise() }) });

function checkRouted({ agent, ignored }: StepExpectation, routed: Routed | undefined, check: Compare): void {
  const row = routed?.row === undefined ? "" : `, by row ${routed.row}`;
  const found = () => (routed ? `${routed.agent ?? "nobody"} hears it${row}` : "there was no sentence");
  if (agent !== undefined) check(`${agent} hears it`, routed?.agent === agent, found);
  if (ignored !== undefined) check(`ignored: ${ignored}`, (routed?.ignored === true) === ignored, found);
}

function checkDecision(
  expected: StepExpectation,
  decision: Decision | undefined,
  locale: string | undefined,
  check: Compare,
): void {
  const said = decision ? `${decision.outcome}, ${decision.reason}: “${decision.say}”` : "there was no decision";
  const compare = (key: string, wanted: unknown, found: unknown, otherwise = said) => {
    if (wanted !== undefined) check(`${key}: ${wanted}`, found === wanted, () => otherwise);
  };
  const inLocale = (text: LocalText | undefined) => text && textIn(text, locale);
  compare("outcome", expected.outcome, decision?.outcome);
  compare("reason", expected.reason, decision?.reason);
  compare("rule", expected.rule, decision?.rule, `rule: ${decision?.rule}`);
  compare("would need", inLocale(expected.would_need), decision?.wouldNeed, `would need: ${decision?.wouldNeed}`);
  compare("said", inLocale(expected.say), decision?.say);
}

const nameOf = (name: string, level: number | undefined): string =>
  level === undefined ? name : `${name} at ${level}`;

/** Compare what a script expects of an agent in the whole play with what happened. */
export function checkPlay(expected: PlayExpectation, tally: Tally, line: number): Check[] {
  const { agent } = expected;
  const found = tally.of(agent);
  const times = (count: number) => (count === 1 ? "once" : `${count} times`);
  const rows: [what: string, range: Range | undefined, value: number, show: (value: number) => string][] = [
    ["granted", expected.granted, found.granted, times],
    ["rejected", expected.rejected, found.rejected, times],
    ["queued", expected.queued, found.queued, times],
    ["heard", expected.heard, audibleMs(found), durationText],
    ["silent", expected.silent, found.silentMs, durationText],
  ];
  return rows.flatMap(([what, range, value, show]) => {
    if (!range) return [];
    const { atLeast = 0, atMost = Number.POSITIVE_INFINITY } = range;
    const wanted =
      atLeast === atMost
        ? show(atLeast)
        : [
            range.atLeast !== undefined && `at least ${show(atLeast)}`,
            range.atMost !== undefined && `at most ${show(atMost)}`,
          ]
            .filter(Boolean)
            .join(" and ");
    const text = `${agent} is ${what} ${wanted}`;
    return [{ line, text, ...((value < atLeast || value > atMost) && { fault: `it was ${show(value)}` }) }];
  });
}

const UNITS = [
  ["d", 86_400_000],
  ["h", 3_600_000],
  ["min", 60_000],
  ["s", 1_000],
] as const;

/** A duration for people: `1 h 5 min`, `2.5 s`. */
export function durationText(ms: number): string {
  const parts: string[] = [];
  let rest = ms;
  for (const [unit, length] of UNITS) {
    const isLast = unit === "s";
    const count = isLast ? rest / length : Math.floor(rest / length);
    if (count > 0) parts.push(`${count} ${unit}`);
    rest -= isLast ? rest : count * length;
  }
  return parts.join(" ") || "0 s";
}
