import { audible, everyone } from "../actors/floor/floor-state.ts";
import type { Decision } from "../protocol/decision.ts";
import type { Routed } from "../protocol/routed.ts";
import type { PlayExpectation, Range, StepExpectation } from "./script.ts";
import type { SteppedFloor } from "./stepped-floor.ts";
import { audibleMs, type Tally } from "./tally.ts";

/** An expectation of a script. */
export interface Check {
  readonly line: number;
  /** What was expected, as a sentence. */
  readonly text: string;
  /** What was there instead; undefined: it holds. */
  readonly fault?: string | undefined;
}

/** What the expectations of a step are compared with. */
export interface StepFacts {
  readonly floor: SteppedFloor;
  /** Of the step's own request. */
  readonly decision: Decision | undefined;
  /** Which agent hears the step's sentence. */
  readonly routed: Routed | undefined;
  /** The session of a name; undefined if it has ended, or never was. */
  readonly idOf: (name: string) => string | undefined;
}

/** Compare the expectations of a script's step with the floor. */
export function checkStep(
  expected: StepExpectation,
  facts: StepFacts,
  { line, time }: { line: number; time: string },
): Check[] {
  const checks: Check[] = [];
  const check: Compare = (text, isMet, otherwise) =>
    void checks.push({ line, text: `at ${time} ${text}`, ...(!isMet && { fault: otherwise() }) });
  const { floor } = facts.floor.context;

  checkRouted(expected, facts.routed, check);
  checkDecision(expected, facts.decision, check);

  const sounding = audible(floor).map((contender) => ({
    name: contender.sessionId as string,
    level: "level" in contender ? (contender.level as number) : undefined,
  }));
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
    const state = () => facts.floor.session(id!)?.value.lifecycle ?? "there";
    check(`ended: ${name}`, id === undefined, () => `it is ${state()}`);
  }
  if (expected.floor) {
    const state = floor.holder ? "held" : floor.reserved ? "reserved" : "free";
    const others = everyone(floor).length;
    check(`the floor is ${expected.floor}`, state === expected.floor, () => `it is ${state}, with ${others} sessions`);
  }
  return checks;
}

type Compare = (text: string, isMet: boolean, otherwise: () => string) => void;

function checkRouted({ agent, ignored }: StepExpectation, routed: Routed | undefined, check: Compare): void {
  const row = routed?.row === undefined ? "" : `, by row ${routed.row}`;
  const found = () => (routed ? `${routed.agent ?? "nobody"} hears it${row}` : "there was no sentence");
  if (agent !== undefined) check(`${agent} hears it`, routed?.agent === agent, found);
  if (ignored !== undefined) check(`ignored: ${ignored}`, (routed?.ignored === true) === ignored, found);
}

function checkDecision(expected: StepExpectation, decision: Decision | undefined, check: Compare): void {
  const said = decision ? `${decision.outcome}, ${decision.reason}: “${decision.say}”` : "there was no decision";
  const compare = (key: string, wanted: unknown, found: unknown, otherwise = said) => {
    if (wanted !== undefined) check(`${key}: ${wanted}`, found === wanted, () => otherwise);
  };
  compare("outcome", expected.outcome, decision?.outcome);
  compare("reason", expected.reason, decision?.reason);
  compare("rule", expected.rule, decision?.rule, `rule: ${decision?.rule}`);
  compare("would need", expected.would_need, decision?.wouldNeed, `would need: ${decision?.wouldNeed}`);
  compare("said", expected.say, decision?.say);
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
